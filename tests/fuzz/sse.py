"""The splitter against the reference: random bodies, random cuts, random limits.

`make fuzz` runs a million inputs, `make test` a seeded part of it. A difference is shrunk
to a few bytes and printed with the seed that found it; it then becomes a row in
`wire/test_sse.py`.
"""

import random
import re
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from fuzz.search import Search
from streamweir.wire.sse import DEFAULT_LIMIT, EventTooLarge, Frame, Splitter
from support.sse_reference import Block, split

LINE_ENDS = (b"\n", b"\n", b"\n\n", b"\r", b"\r\r", b"\r\n", b"\r\n\r\n", b"\n\r", b"\r\n\n")
WORDS = (
    *(b"data", b"data:", b"data: ", b"data:  ", b"data: x", b"data: {}", b"data: [DONE]", b"DATA: x", b"data :"),
    *(b"event", b"event: e", b"event:e", b"id", b"id: 1", b"id:\0", b"retry: 12", b"retry: 1x", b"retry:", b"foo: y"),
    *(b":", b": comment", b" ", b"x", b"\0", b"\xef\xbb\xbf", b"\xef", b"\xbb\xbf", b"\xe2\x80\xa8", b"\xc2\x85"),
    *(b"\x0b", b"\x0c", b"\x1c", b"\xff"),
)
BLANK_LINES = re.compile(rb"\n\n|\r\r|\r\n\r\n")
LIMITS = (DEFAULT_LIMIT, DEFAULT_LIMIT, DEFAULT_LIMIT, 8, 16, 24)


class Case(NamedTuple):
    body: bytes
    cuts: tuple[int, ...]
    limit: int = DEFAULT_LIMIT

    @property
    def pieces(self) -> list[bytes]:
        places = [0, *self.cuts, len(self.body)]
        return [self.body[a:b] for a, b in pairwise(places)]


def random_case(rng: random.Random) -> Case:
    words = rng.choices(WORDS, k=rng.randrange(12))
    body = b"".join(word + (rng.choice(LINE_ENDS) if rng.random() < 0.8 else b"") for word in words)
    if rng.random() < 0.1:
        body = b"\xef\xbb\xbf" + body
    if rng.random() < 0.1 and body:
        at = rng.randrange(len(body))
        body = body[:at] + rng.randbytes(2) + body[at:]
    cuts: Sequence[int] = range(1, len(body))
    way = rng.random()
    if way < 0.3:  # as most servers write: one event, one read
        cuts = [blank_line.end() for blank_line in BLANK_LINES.finditer(body)]
    elif way < 0.7:
        cuts = sorted(rng.randint(0, len(body)) for _ in range(rng.randrange(6)))
    return Case(body, tuple(cuts), rng.choice(LIMITS))


def difference(case: Case) -> str | None:
    """What the splitter does otherwise than the reference, or None."""
    expected = split(case.body)
    too_large = next((i for i, block in enumerate(expected) if len(block.raw) > case.limit), None)
    splitter = Splitter(case.limit)
    before_end: list[Frame] = []
    at_end: list[Frame] = []
    failed = False
    for piece in case.pieces:
        try:
            before_end += splitter.feed(piece)
        except EventTooLarge as error:
            before_end += error.frames
            failed = True
    at_end = splitter.finish()
    if failed != (too_large is not None):
        return f"EventTooLarge {'came' if failed else 'did not come'} at a limit of {case.limit}"
    if too_large is not None:
        expected = expected[:too_large]
    given = [told(frame) for frame in before_end + at_end]
    if given != [told(block) for block in expected]:
        return f"expected {[told(block) for block in expected]}\n  given    {given}"
    late = [frame for frame in at_end if frame.terminated]
    if late and not case.body.endswith(b"\r"):
        return f"a block that had ended was held back until the end of the body: {late}"
    if not failed and expected:
        newest = expected[-1]
        if (splitter.last_event_id, splitter.retry_ms) != (newest.last_event_id, newest.retry_ms):
            return f"last_event_id {splitter.last_event_id!r}, retry_ms {splitter.retry_ms}; expected {newest}"
    return None


def told(frame: Frame | Block) -> tuple[bytes, bytes | None, bytes, bool, bool]:
    return frame.raw, frame.data, frame.event, frame.terminated, frame.is_plain


def shrunk(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The same failure with as few bytes and cuts as removing pieces of it leads to."""
    size = max(len(case.body) // 2, 1)
    while size:
        at = 0
        while at < len(case.body):
            body = case.body[:at] + case.body[at + size :]
            cuts = tuple(sorted({min(cut if cut <= at else max(at, cut - size), len(body)) for cut in case.cuts}))
            smaller = case._replace(body=body, cuts=cuts)
            if fails(smaller):
                case = smaller
            else:
                at += size
        size //= 2
    for cut in case.cuts:
        fewer = case._replace(cuts=tuple(other for other in case.cuts if other != cut))
        if fails(fewer):
            case = fewer
    return case


SEARCH = Search(random_case, difference, shrunk)

if __name__ == "__main__":
    sys.exit(SEARCH.run("Fuzz the splitter against its reference."))
