"""The events in bytes that are sent to a caller: each dispatched event of a server-sent stream as one piece.

Unlike `wire.sse`, which reads a body in any pieces, this is given whole events: the bytes that one write of an answer
has. So it keeps no state. An event is a block with a `data` field, as a client dispatches it (also `[DONE]`). Comments,
blank lines and blocks without data are no events, and are left out; a comment inside of an event stays in it.
"""

import re

_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_CONTENT = re.compile(rb"[^\r\n]")
_DATA = re.compile(rb"(?:\A|[\r\n])data(?:[:\r\n]|\Z)")


def is_one_event(data: bytes) -> bool:
    """Whether it is certainly one event, in the format that nearly every piece has. Called for every piece."""
    if data[-2:] != b"\n\n" or b"\n\n" in data[:-2] or b"\r" in data:
        return False
    return data[:5] == b"data:" or b"\ndata:" in data


def event_blocks(data: bytes) -> list[bytes]:
    """Each event, with the blank line that ends it. What follows the last blank line is left out."""
    found: list[bytes] = []
    at = 0
    while (content := _CONTENT.search(data, at)) is not None:
        start = content.start()
        blank = _BLANK_LINE.search(data, start)
        if blank is None:
            break
        at = blank.end()
        block = data[start:at]
        if _DATA.search(block) is not None:
            found.append(block)
    return found


def with_id(event: bytes, number: int) -> bytes:
    """The event with the line `id: N`, behind its own lines: of several ids of an event the last one counts."""
    end = -2 if event.endswith(b"\r\n") else -1
    return b"%bid: %d\n%b" % (event[:end], number, event[end:])
