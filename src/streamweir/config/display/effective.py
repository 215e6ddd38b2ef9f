"""The configuration in use as TOML, line by line, with the origin of each value and without its secrets.

    Config, Origins -> Section -> Line: `idle_s = 20.0`, from `streamweir.toml:12`

All lines together are the text of a file with the same settings, but for secrets. A setting or a table that is not set
is a comment. A line is left out of a text without defaults if nothing but the default is there. Pure.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import UNSET, Struct, structs

from streamweir.config.display.mask import Masks
from streamweir.config.display.origin import Kind, Origins
from streamweir.config.display.setting import Keys, Setting, Table, walk
from streamweir.config.model import Config
from streamweir.config.toml import key_text

_MAX_COLUMN = 60
"""The origins begin there, or before."""


class Line(Struct, frozen=True, kw_only=True):
    path: str
    """Of the setting or the table, as in messages: `server.timeouts.idle_s`."""
    text: str
    """TOML."""
    value: Any = None
    """As JSON. Null: a table, or it has no value."""
    origin: Kind | None = None
    """Null: a table."""
    about: str = ""
    """The origin in words: the file and the line, and what the line refers to."""
    is_default: bool
    """Nothing else than defaults."""


class Section(Struct, frozen=True, kw_only=True):
    """A table of the file, or an entry of a list of tables."""

    name: str
    """`server`, `providers.openai`."""
    lines: list[Line]


def sections_of(config: Config, origins: Origins) -> list[Section]:
    masks = Masks(config)
    found: list[Section] = []
    for part in walk(config, masks.text):
        if isinstance(part, Table):
            if _begins_section(part.keys):
                found.append(Section(name=part.path, lines=[]))
            found[-1].lines.append(_heading(part))
        else:
            found[-1].lines.append(_line(part, masks, origins))
    return [structs.replace(section, lines=list(_with_headings(section.lines))) for section in found]


def toml_of(sections: Sequence[Section], *, has_defaults: bool = False) -> str:
    """With the origins as comments."""
    parts: list[str] = []
    for section in sections:
        lines = [line for line in section.lines if has_defaults or not line.is_default]
        column = min(max((len(line.text) for line in lines if line.about), default=0), _MAX_COLUMN)
        for line in lines:
            if line.origin is None and parts:
                parts.append("")
            parts.append(f"{line.text:<{column}}  # {line.about}" if line.about else line.text)
    return "\n".join([*parts, ""])


def _begins_section(keys: Keys) -> bool:
    return len(keys) == 1 or (len(keys) == 2 and isinstance(keys[1], int))


def _heading(table: Table) -> Line:
    name = ".".join(key_text(key) for key in table.keys if isinstance(key, str))
    text = f"[[{name}]]" if table.is_entry else f"[{name}]"
    if not table.is_there:
        return Line(path=table.path, text=f"# {text} is not set", is_default=True)
    is_needed = table.is_entry or table.is_optional
    return Line(path=table.path, text=text, is_default=not is_needed)


def _with_headings(lines: Sequence[Line]) -> Iterator[Line]:
    """A heading is needed where one of its own settings is."""
    for index, line in enumerate(lines):
        if line.origin is None and line.is_default and not line.text.startswith("#"):
            own = _own_lines(lines[index + 1 :])
            yield structs.replace(line, is_default=all(each.is_default for each in own))
        else:
            yield line


def _own_lines(lines: Sequence[Line]) -> Iterator[Line]:
    for line in lines:
        if line.origin is None:
            return
        yield line


def _line(setting: Setting, masks: Masks, origins: Origins) -> Line:
    origin = origins.of(setting)
    shown = masks.shown(setting, origins.written(setting) if setting.is_secret else UNSET)
    last = str(setting.keys[-1])
    name = key_text(masks.text(last) if setting.is_free else last)
    text = f"{name} = {shown.toml}" if shown.toml else f"# {name} is not set"
    if setting.is_secret and origin.kind == "secret_file" and origin.line is None:
        text, shown = f"# {name} is read from a file of its own", structs.replace(shown, value=None)
    return Line(
        path=setting.path,
        text=text,
        value=shown.value,
        origin=origin.kind,
        about="" if origin.kind == "default" and not shown.toml else _visible(origin.about),
        is_default=origin.kind == "default",
    )


def _visible(text: str) -> str:
    """A comment ends with its line."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)
