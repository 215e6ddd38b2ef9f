"""The array splitter: every cut gives the same frames, and a slow reference agrees."""

import random
import time

import pytest

from streamweir.wire.array import ArraySplitter
from streamweir.wire.sse import EventTooLarge, Frame

Seen = list[tuple[bytes, bool]]


def run(body: bytes, cuts: list[int], limit: int = 1 << 20) -> Seen:
    splitter = ArraySplitter(limit)
    frames: list[Frame] = []
    last = 0
    for cut in [*cuts, len(body)]:
        frames += splitter.feed(body[last:cut])
        last = cut
    frames += splitter.finish()
    assert splitter.finish() == []
    assert splitter.feed(b"[{}]") == []
    assert all(frame.raw == frame.data and frame.event == b"" for frame in frames)
    return [(frame.raw, frame.terminated) for frame in frames]


def reference(body: bytes) -> Seen:
    """Byte by byte, with nothing kept but an index."""
    if body and b"\xef\xbb\xbf".startswith(body[:3]) and len(body) < 3:
        return [(body, False)]
    body = body.removeprefix(b"\xef\xbb\xbf")
    at = 0
    while body[at : at + 1] and body[at] in b" \t\r\n":
        at += 1
    in_array = body[at : at + 1] == b"["
    if in_array:
        at += 1
    seen: Seen = []
    while True:
        while in_array and body[at : at + 1] and body[at] in b" \t\r\n,":
            at += 1
        first = body[at : at + 1]
        if not first:
            return [*seen, (b"", False)]
        if first == b"]" and in_array:
            return seen
        if first != b"{":
            return [*seen, (first, True)]
        start, depth, in_string, escaped = at, 0, False, False
        while at < len(body):
            byte = body[at]
            at += 1
            if escaped:
                escaped = False
            elif in_string:
                escaped = byte == 0x5C
                in_string = byte != 0x22
            elif byte == 0x22:
                in_string = True
            elif byte in b"{[":
                depth += 1
            elif byte in b"}]":
                depth -= 1
                if not depth:
                    break
        if depth:
            return [*seen, (body[start:], False)]
        seen.append((body[start:at], True))
        if not in_array:
            return seen


CASES: dict[str, tuple[bytes, Seen]] = {
    "as Gemini writes it": (b'[{"a": 1}\n,\r\n{"b": [2]}\n]\n', [(b'{"a": 1}', True), (b'{"b": [2]}', True)]),
    "nothing in it": (b"[]", []),
    "white space and a byte order mark first": (b"\xef\xbb\xbf \r\n[{}]", [(b"{}", True)]),
    "brackets in strings": (b'[{"a":"}]{[\\"]}"},{}]', [(b'{"a":"}]{[\\"]}"}', True), (b"{}", True)]),
    "escapes": (b'[{"\\\\":"\\\\\\"","b":"\\u005d"}]', [(b'{"\\\\":"\\\\\\"","b":"\\u005d"}', True)]),
    "a newline in a string": (b'[{"a":"\n\\\n"}]', [(b'{"a":"\n\\\n"}', True)]),
    "bytes after the array": (b'[{}] \r\n{"x":1}]', [(b"{}", True)]),
    "not closed": (b"[{}", [(b"{}", True), (b"", False)]),
    "not closed after a comma": (b"[{},", [(b"{}", True), (b"", False)]),
    "cut in an element": (b'[{},{"a":[1', [(b"{}", True), (b'{"a":[1', False)]),
    "cut in a string": (b'[{"a":"}]', [(b'{"a":"}]', False)]),
    "no bytes": (b"", [(b"", False)]),
    "white space alone": (b" \n", [(b"", False)]),
    "a bare object": (b'{"error":{"code":500}}\n[', [(b'{"error":{"code":500}}', True)]),
    "a bare object, cut": (b'{"error":{', [(b'{"error":{', False)]),
    "not JSON at all": (b"<html>[{}]", [(b"<", True)]),
    "a comma first": (b",[{}]", [(b",", True)]),
    "a closing bracket first": (b"]", [(b"]", True)]),
    "a number as an element": (b"[{},12,{}]", [(b"{}", True), (b"1", True)]),
    "an array in the array": (b"[[{}]]", [(b"[", True)]),
    "brackets that do not fit": (b"[{]}]", [(b"{]", True), (b"}", True)]),
    "half a byte order mark": (b"\xef\xbb", [(b"\xef\xbb", False)]),
    "a byte order mark twice": (b"\xef\xbb\xbf\xef\xbb\xbf[]", [(b"\xef", True)]),
}


@pytest.mark.parametrize("name", CASES)
def test_every_cut_gives_the_same_frames(name: str) -> None:
    body, expected = CASES[name]
    assert reference(body) == expected
    assert run(body, []) == expected
    assert run(body, list(range(len(body)))) == expected
    for first in range(len(body) + 1):
        for second in range(first, len(body) + 1):
            assert run(body, [first, second]) == expected


TOKENS = [b"[", b"]", b"{", b"}", b'"', b'"', b"\\", b'\\"', b"\\\\", b",", b":", b" ", b"\r\n", b"a", b"1"]
TOKENS += [b'{"a":"b"}', b'{"t":"}\\"{"}', b"[{", b"}]", b"},{", b"\xef\xbb\xbf", "é".encode()]


def test_random_bodies_and_cuts_agree_with_the_reference() -> None:
    chance = random.Random(11)
    for _ in range(20_000):
        body = (b"[" if chance.random() < 0.8 else b"") + b"".join(chance.choices(TOKENS, k=chance.randint(0, 12)))
        cuts = sorted(chance.randint(0, len(body)) for _ in range(chance.randint(0, 6)))
        assert run(body, cuts) == reference(body), (body, cuts)


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_an_element_beyond_the_limit_is_refused_after_the_frames_before_it(step: int) -> None:
    body = b'[{"a":1},{"b":"' + b"x" * 30 + b'"},{}]'
    splitter = ArraySplitter(limit=20)
    frames: list[Frame] = []

    def feed_all() -> None:
        for at in range(0, len(body), step):
            frames.extend(splitter.feed(body[at : at + step]))

    with pytest.raises(EventTooLarge) as refusal:
        feed_all()
    frames += refusal.value.frames
    assert [frame.raw for frame in frames] == [b'{"a":1}']
    assert splitter.feed(b"{}]") == []
    assert splitter.finish() == []


def test_the_limit_is_of_one_element_and_inclusive() -> None:
    assert run(b"[" + b'{"a":"12"} , \n' * 40 + b"]", [5, 17], limit=10) == [(b'{"a":"12"}', True)] * 40
    assert run(b"[" + b" " * 100 + b"{}]", [3, 60], limit=10) == [(b"{}", True)]
    with pytest.raises(EventTooLarge):
        run(b'[{"a":"123"}]', [], limit=10)


@pytest.mark.soak
@pytest.mark.alone  # a clock is involved
def test_work_per_byte_does_not_grow_with_the_pieces() -> None:
    """A long string, byte by byte: a search that began anew each time would take minutes."""
    body = b'[{"a":"' + b"x\\\\" * 100_000 + b'"}]'
    begun = time.process_time()
    assert len(run(body, list(range(len(body))))) == 1
    assert time.process_time() - begun < 10
