"""Variables for `${NAME}` from a file: `streamweir serve --env-file FILE`.

The environment of a running process cannot be changed from outside, but this file can: it is read again at each reload.
Its variables come before those of the environment; else a variable that is in both could not be changed by a reload.
They are used for the configuration only, and no child process inherits them.

The syntax is what the files of systemd and of containers have in common: one `NAME=value` per line; blank lines are
skipped, and those that begin with `#` or `;`, and the word `export` before a name. A value in single quotes is taken as
it is; in double quotes a backslash quotes itself, `"`, `$` and the backtick. Nothing is expanded. If a name is there
twice, the last one counts. An unquoted value with ` #` in it is refused, because some programs read a comment there and
others do not. No message contains a value.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from streamweir.config.error import ConfigError, ConfigProblem, raise_all
from streamweir.config.file.text_file import UnreadableFile, read_text

_MAX_BYTES = 1_048_576
_LINE = re.compile(r"(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(?P<value>.*)", re.DOTALL)
_SINGLE = re.compile(r"'(?P<inside>[^']*)'(?P<rest>.*)", re.DOTALL)
_DOUBLE = re.compile(r'"(?P<inside>(?:[^"\\]|\\.)*)"(?P<rest>.*)', re.DOTALL)
_REST = re.compile(r"(?:[ \t]+#.*)?", re.DOTALL)
_QUOTED = re.compile(r'\\(["\\$`])')
_COMMENT = re.compile(r"[ \t]#")


def with_variables(environ: Mapping[str, str], file: Path | None) -> Mapping[str, str]:
    """The environment, and over it the variables of the file. Raises `ConfigError`."""
    if file is None:
        return environ
    try:
        text = read_text(str(file), _MAX_BYTES)
    except UnreadableFile as reason:
        raise ConfigError("", str(reason), file=str(file)) from None
    return {**environ, **parse_variables(text, str(file))}


def parse_variables(text: str, file: str = "") -> dict[str, str]:
    """Raises `ConfigError` with every line that cannot be read."""
    found: dict[str, str] = {}
    problems = list(_parse(text, found))
    raise_all(problems, file)
    return found


def _parse(text: str, found: dict[str, str]) -> Iterator[ConfigProblem]:
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        stripped = line.strip(" \t")
        if not stripped or stripped[0] in "#;":
            continue
        matched = _LINE.fullmatch(stripped)
        if matched is None:
            yield ConfigProblem(f"line {number}", "expected NAME=value, and only letters, digits and _ in NAME")
            continue
        name, written = matched.groups()
        value = _value_of(written)
        if value is None:
            yield ConfigProblem(f"line {number}", "the quotes around the value are not closed, or text follows them")
        elif value is written and _COMMENT.search(value):
            yield ConfigProblem(f"line {number}", "quote the value: it is not clear whether # begins a comment in it")
        else:
            found[name] = value


def _value_of(text: str) -> str | None:
    """Without its quotes. None: they are not closed, or something other than a comment follows."""
    if not text.startswith(("'", '"')):
        return text
    matched = (_SINGLE if text[0] == "'" else _DOUBLE).fullmatch(text)
    if matched is None or not _REST.fullmatch(matched["rest"]):
        return None
    return matched["inside"] if text[0] == "'" else _QUOTED.sub(r"\1", matched["inside"])
