"""The event-stream rules once more: slow, byte by byte, and plain enough to be checked by reading.

Tests hold `wire/sse` to it. It takes a whole body, knows nothing of pieces and limits, and
follows the WHATWG text in its order: decode the mark, split the lines, process each line.
"""

from typing import NamedTuple

CR, LF = b"\r", b"\n"


class Block(NamedTuple):
    """The lines between two blank lines."""

    raw: bytes
    data: bytes | None
    event: bytes
    terminated: bool
    last_event_id: bytes
    retry_ms: int | None

    @property
    def is_plain(self) -> bool:
        return self.data is not None and self.raw == b"data: " + self.data + b"\n\n"


class Line(NamedTuple):
    text: bytes
    end: bytes
    """CRLF, LF, CR, or nothing for a last line that the end of the body cut off."""


def split(body: bytes) -> list[Block]:
    blocks: list[Block] = []
    held: list[Line] = []
    last_event_id = b""
    retry_ms: int | None = None
    lines = lines_of(body.removeprefix(b"\xef\xbb\xbf"))
    for line in [*lines, None]:
        if line is not None and line.text:
            held.append(line)
            continue
        if held:
            fields = [field_of(each.text) for each in held if not each.text.startswith(b":")]
            data = [value for name, value in fields if name == b"data"]
            events = [value for name, value in fields if name == b"event"]
            ids = [value for name, value in fields if name == b"id" and b"\0" not in value]
            retries = [value for name, value in fields if name == b"retry" and consists_of_digits(value)]
            last_event_id = ids[-1] if ids else last_event_id
            retry_ms = int(retries[-1]) if retries else retry_ms
            blocks.append(
                Block(
                    raw=b"".join(each.text + each.end for each in held) + (line.end if line else b""),
                    data=LF.join(data) if data else None,
                    event=events[-1] if events else b"",
                    terminated=line is not None,
                    last_event_id=last_event_id,
                    retry_ms=retry_ms,
                )
            )
        held = []
    return blocks


def lines_of(body: bytes) -> list[Line]:
    lines: list[Line] = []
    text = b""
    at = 0
    while at < len(body):
        byte = body[at : at + 1]
        if byte == CR and body[at + 1 : at + 2] == LF:
            end = CR + LF
        elif byte in (CR, LF):
            end = byte
        else:
            text += byte
            at += 1
            continue
        lines.append(Line(text, end))
        text = b""
        at += len(end)
    return [*lines, Line(text, b"")] if text else lines


def field_of(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name, value.removeprefix(b" ")


def consists_of_digits(value: bytes) -> bool:
    return value != b"" and all(byte in b"0123456789" for byte in value)
