"""Expands `${NAME}` and `${NAME:-default}` in texts of the file from the environment.

`$$` is a dollar sign; any other dollar sign is unchanged. The default is used if the variable is absent or empty, as in
a shell. A text with a variable becomes an `Expanded`, which keeps the text of the file for messages.
"""

import re
from collections.abc import Mapping

_DOLLAR = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<odd>\{))")


class Expanded(str):
    __slots__ = ("is_whole", "written")
    written: str
    is_whole: bool
    """The text is exactly one variable."""


class BadVariable(Exception):
    """The text is the reason."""


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


def variables_in(text: str) -> list[str]:
    """The names in the text of a file."""
    return [match["name"] for match in _DOLLAR.finditer(text) if match["name"] is not None]


def is_variable(text: str) -> bool:
    """The text of a file is exactly one variable, without a default."""
    match = _DOLLAR.fullmatch(text)
    return match is not None and match["name"] is not None and match["default"] is None


def quoted(text: str) -> str:
    """As it is written in a file, where nothing of it is a variable."""
    return text.replace("$", "$$") if "$$" in text or "${" in text else text


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
