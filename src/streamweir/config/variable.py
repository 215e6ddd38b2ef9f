"""`${NAME}` and `${NAME:-default}` in a text of the file, out of the environment.

`$$` is a dollar sign; any other dollar sign stands for itself. The default is taken where the
variable is absent or empty, as a shell does. A text that holds something out of the environment
is an `Expanded`: it remembers how it is written in the file, for that is what a message may show.
"""

import re
from collections.abc import Mapping

_DOLLAR = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<odd>\{))")


class Expanded(str):
    __slots__ = ("is_whole", "written")
    written: str
    is_whole: bool
    """The text is one variable and nothing else."""


class BadVariable(Exception):
    """The reason, in words."""


def expand(text: str, environ: Mapping[str, str]) -> str:
    found = list(_DOLLAR.finditer(text))
    if not found:
        return text
    parts, at = [], 0
    for match in found:
        parts += [text[at : match.start()], _value_of(match, environ)]
        at = match.end()
    joined = "".join(parts) + text[at:]
    if all(match["name"] is None for match in found):
        return joined
    expanded = Expanded(joined)
    expanded.written = text
    expanded.is_whole = found[0].span() == (0, len(text))
    return expanded


def _value_of(match: re.Match[str], environ: Mapping[str, str]) -> str:
    if match["dollar"] is not None:
        return "$"
    name, default = match["name"], match["default"]
    if name is None:
        raise BadVariable("a variable is written ${NAME} or ${NAME:-default}, and a plain ${ is written $${")
    value = environ.get(name)
    if default is not None:
        return value or default
    if value is None:
        raise BadVariable(f"the environment variable {name} is not set")
    return value
