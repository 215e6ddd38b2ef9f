"""Events as text, one line each, for `events.txt` files and for readable failures of tests.

`EventName field=JSON ...` in the order of the fields; a field that has its default value is
left out. A member that the wire did not have is `unset`, an error is its `code`, `message`
and, where there is one, `param`.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from streamweir.core.errors import StreamweirError
from streamweir.core.events import Event
from streamweir.wire import jsonio


def format_events(events: Sequence[Event]) -> str:
    return "".join(f"{_line(event)}\n" for event in events)


def _line(event: Event) -> str:
    words = [type(event).__name__]
    for name, value in _told(event).items():
        if isinstance(value, StreamweirError):
            words.append(f"code={value.code} message={_json(value.message)}")
            if value.param is not None:
                words.append(f"param={_json(value.param)}")
        else:
            words.append(f"{name}={_json(value)}")
    return " ".join(words)


def _told(value: msgspec.Struct) -> dict[str, Any]:
    """The fields that do not have their default value."""
    return {
        field.name: getattr(value, field.name)
        for field in msgspec.structs.fields(value)
        if getattr(value, field.name) != field.default
    }


def _json(value: Any) -> str:
    if value is UNSET:
        return "unset"
    return jsonio.encode(_told(value) if isinstance(value, msgspec.Struct) else value).decode("utf-8", "replace")
