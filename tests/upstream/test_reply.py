"""Responses read without a socket: every cut gives the same facts, and nothing lenient gets through."""

import gc
import weakref
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.upstream.reply import MAX_HEAD_BYTES, MAX_HEAD_FIELDS, Reply

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"

# Each with what it is: status, body, whole, the connection may be kept, the body ends with the connection.
Facts = tuple[int, bytes, bool, bool, bool]
GOOD: dict[str, tuple[bytes, Facts]] = {
    "length": (OK + b"Content-Length: 5\r\n\r\nhello", (200, b"hello", True, True, False)),
    "length_zero": (OK + b"content-length: 0\r\n\r\n", (200, b"", True, True, False)),
    "length_and_close": (
        OK + b"content-length: 2\r\nconnection: close\r\n\r\nhi",
        (200, b"hi", True, False, False),
    ),
    "chunked": (CHUNKED + b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", (200, b"hello world", True, True, False)),
    "chunk_extensions": (
        CHUNKED + b'5;a=b;c="d"\r\nhello\r\n1;x\r\n!\r\n0;end\r\n\r\n',
        (200, b"hello!", True, True, False),
    ),
    "trailers": (
        CHUNKED + b"2\r\nhi\r\n0\r\nx-sum: 1\r\nstatus: late\r\n\r\n",
        (200, b"hi", True, True, False),
    ),
    "chunked_in_capitals": (
        OK + b"Transfer-Encoding: Chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        (200, b"x", True, True, False),
    ),
    "until_the_close": (OK + b"content-type: text/plain\r\n\r\nhello", (200, b"hello", False, False, True)),
    "http_1_0": (b"HTTP/1.0 200 OK\r\n\r\nhello", (200, b"hello", False, False, True)),
    "http_1_0_kept": (
        b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\nx",
        (200, b"x", True, True, False),
    ),
    "no_content": (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"", True, True, False)),
    "not_modified": (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", (304, b"", True, True, False)),
    "no_reason": (b"HTTP/1.1 429\r\ncontent-length: 0\r\n\r\n", (429, b"", True, True, False)),
    "interim": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\nlink: y\r\n\r\n"
        + OK
        + b"content-length: 2\r\n\r\nhi",
        (200, b"hi", True, True, False),
    ),
    "behind_the_end_is_a_response": (
        OK + b"content-length: 2\r\n\r\nhi" + OK + b"content-length: 4\r\n\r\nevil",
        (200, b"hi", True, False, False),
    ),
    "behind_the_end_is_junk": (CHUNKED + b"2\r\nhi\r\n0\r\n\r\njunk", (200, b"hi", True, False, False)),
    "behind_no_content": (b"HTTP/1.1 204 No\r\ncontent-length: 4\r\n\r\nevil", (204, b"", True, False, False)),
    "behind_a_close": (
        OK + b"content-length: 2\r\nconnection: close\r\n\r\nhievil",
        (200, b"hi", True, False, False),
    ),
}


def read(pieces: Iterable[bytes]) -> tuple[Facts, dict[str, str], Reply]:
    """As a connection would, which stops at the end or a fault."""
    reply = Reply()
    headers: dict[str, str] = {}
    body = b""
    for piece in pieces:
        reply.feed(piece)
        headers |= reply.take_head() or {}
        body += reply.take()
    return (reply.status, body, reply.is_whole, reply.may_keep, reply.ends_by_close), headers, reply


@pytest.mark.parametrize("name", GOOD)
def test_whole_and_cut_at_every_byte(name: str) -> None:
    data, facts = GOOD[name]
    _, whole_headers, _ = read([data])
    for pieces in [[data], [data[at : at + 1] for at in range(len(data))]] + [
        [data[:at], data[at:]] for at in range(1, len(data))
    ]:
        seen, headers, reply = read(pieces)
        assert (seen, headers, reply.fault) == (facts, whole_headers, None)


@given(st.sampled_from(sorted(GOOD)), st.lists(st.integers(0, 200), max_size=8))
def test_cut_at_random(name: str, cuts: list[int]) -> None:
    data, facts = GOOD[name]
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert read([data[a:b] for a, b in pairwise(edges)])[0] == facts


@given(
    st.sampled_from(sorted(GOOD)),
    st.lists(st.tuples(st.integers(0, 200), st.binary(max_size=3)), max_size=3),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_damaged_and_cut_at_random(name: str, damage: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = GOOD[name][0]
    for at, junk in damage:
        data = data[:at] + junk + data[at + 1 :]
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    whole, headers, reply = read([data])
    cut, cut_headers, cut_reply = read([data[a:b] for a, b in pairwise(edges)])
    assert (cut, cut_headers, cut_reply.fault) == (whole, headers, reply.fault)


@pytest.mark.parametrize("name", [name for name in GOOD if GOOD[name][1][2]])
def test_no_beginning_of_a_response_is_whole(name: str) -> None:
    data, _ = GOOD[name]
    end = next(at for at in range(len(data) + 1) if read([data[:at]])[2].is_whole)
    assert name.startswith("behind") or end == len(data)
    for at in range(end):
        (_, _, is_whole, _, _), _, reply = read([data[:at]])
        assert not is_whole
        assert reply.fault is None


def test_headers() -> None:
    _, headers, reply = read([OK + b"X-One:  a \t\r\nx-two: b\r\nX-ONE: \xe4\r\nempty:\r\ncontent-length: 0\r\n\r\n"])
    assert headers == {"x-one": "a, ä", "x-two": "b", "empty": "", "content-length": "0"}
    assert reply.take_head() is None


def test_interim_headers_and_trailers_are_not_shown() -> None:
    assert read([GOOD["interim"][0]])[1] == {"content-length": "2"}
    assert read([GOOD["trailers"][0]])[1] == {"transfer-encoding": "chunked"}


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (b"SSH-2.0-OpenSSH\r\n", b""),
        (b"\x16\x03\x01\x00", b""),
        (b"<html>", b""),
        (b"HTTP/2 200\r\n\r\n", b""),
        (b"HTTP/2.0 200 OK\r\ncontent-length: 2\r\n\r\nhi", b""),
        (b"HTTP/1.1 99 x\r\n\r\n", b""),
        (b"HTTP/1.1 000 x\r\ncontent-length: 2\r\n\r\nhi", b""),
        (b"HTTP/1.1 600 x\r\ncontent-length: 2\r\n\r\nhi", b""),
        (b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nhi", b""),
        (b"HTTP/1.1 101 Switching\r\n\r\nhi", b""),
        (OK + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", b""),
        (OK + b"transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\nhi\r\n0\r\n\r\n", b""),
        (OK + b"content-length: 2\r\ncontent-length: 2\r\n\r\nhi", b""),
        (OK + b"content-length: +2\r\n\r\nhi", b""),
        (OK + b"content-length: 0x2\r\n\r\nhi", b""),
        (OK + b"content-length: 99999999999999999999\r\n\r\nhi", b""),
        (OK + b"content-length: \r\n\r\nhi", b""),
        (OK + b"transfer-encoding: gzip\r\n\r\nhi", b""),
        (OK + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", b""),
        (OK + b"transfer-encoding: chunked, identity\r\n\r\n2\r\nhi\r\n0\r\n\r\n", b""),
        (OK + b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\nhi", b""),
        (OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", b""),
        (OK + b"x : y\r\n\r\n", b""),
        (OK + b"x: y\x00\r\n\r\n", b""),
        (OK + b"x: y\r\n folded\r\n\r\n", b""),
        (OK + b"x: y\ncontent-length: 2\n\nhi", b""),
        (b"HTTP/1.1 200 OK\rx\r\n\r\n", b""),
        (CHUNKED + b"zz\r\n", b""),
        (CHUNKED + b"-1\r\n", b""),
        (CHUNKED + b"FFFFFFFFFFFFFFFFFF\r\n", b""),
        (CHUNKED + b"2\nhi\n0\n\n", b""),
        (CHUNKED + b"2 \r\nhi\r\n", b""),
        (CHUNKED + b"2\r\nhiXX", b"hi"),
        (CHUNKED + b"2\r\nhi\r\n5\r\nthere\r\nzz\r\n", b"hithere"),
        (CHUNKED + b"2\r\nhi\r\n0\r\nx : y\r\n\r\n", b"hi"),
    ],
)
def test_faults_at_every_cut(data: bytes, body: bytes) -> None:
    for at in range(len(data)):
        (_, seen, is_whole, _, _), _, reply = read([data[:at], data[at:]])
        assert (seen, is_whole) == (body, False)
        assert reply.fault is not None
        assert reply.fault.code == "upstream_bad_response"


@pytest.mark.parametrize(
    "head",
    [
        b"".join(b"x-%d: y\r\n" % n for n in range(MAX_HEAD_FIELDS)),
        b"x: " + b"y" * (MAX_HEAD_BYTES - 100) + b"\r\n",
    ],
    ids=["fields", "bytes"],
)
def test_the_largest_head(head: bytes) -> None:
    reply = Reply()
    reply.feed(b"HTTP/1.1 204 No\r\n" + head + b"\r\n")
    assert (reply.is_whole, reply.fault) == (True, None)


TOO_LARGE = {
    "fields": OK + b"".join(b"x-%d: y\r\n" % n for n in range(MAX_HEAD_FIELDS + 1)) + b"\r\n",
    "bytes": OK + b"".join(b"x-%d: %b\r\n" % (n, b"y" * 1000) for n in range(40)) + b"\r\n",
    "one_field": OK + b"x: " + b"y" * MAX_HEAD_BYTES + b"\r\n\r\n",
    "trailers": CHUNKED + b"0\r\n" + b"".join(b"x-%d: y\r\n" % n for n in range(MAX_HEAD_FIELDS)) + b"\r\n",
    "interim_heads": b"HTTP/1.1 100 Continue\r\n\r\n" * (MAX_HEAD_FIELDS + 1) + OK + b"content-length: 0\r\n\r\n",
    "interim_fields": b"HTTP/1.1 103 Hints\r\nlink: x\r\n\r\n" * 60 + OK + b"content-length: 0\r\n\r\n",
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_too_large_a_head(name: str) -> None:
    _, _, reply = read([TOO_LARGE[name]])
    assert not reply.is_whole
    assert reply.fault is not None
    assert reply.fault.code == "upstream_bad_response"


def test_a_large_head_after_the_end_only_closes_the_connection() -> None:
    (_, body, is_whole, may_keep, _), _, reply = read([OK + b"content-length: 2\r\n\r\nhi" + TOO_LARGE["fields"]])
    assert (body, is_whole, may_keep, reply.fault) == (b"hi", True, False, None)


def test_a_closed_reply_is_freed_without_the_garbage_collector() -> None:
    class Watched(Reply):
        __slots__ = ("__weakref__",)

    gc.disable()
    try:
        reply = Watched()
        reply.feed(OK)
        reply.close()
        reply.feed(b"content-length: 0\r\n\r\n")
        assert not reply.is_whole
        watch = weakref.ref(reply)
        del reply
        assert watch() is None
    finally:
        gc.enable()
