"""The head of a request: what is read from it, however it is cut, and what is refused."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.errors import CallerError
from streamweir.server.http.head import Head, HeadReader

MOST_BYTES, MOST_FIELDS = 32768, 100
PLAIN = (
    b"POST /v1/chat/completions?a=1&b=%20 HTTP/1.1\r\nHost: localhost:8080\r\nX-Empty:\r\n"
    b"Accept: a\r\nContent-Length: 12 \r\naccept: b\t\r\nX-Text: caf\xe9\r\nExpect: 100-Continue\r\n\r\n"
)


def read(data: bytes, size: int | None = None) -> tuple[Head | None, int]:
    """Fed in pieces of that size; how many bytes were taken."""
    reader = HeadReader(MOST_BYTES, MOST_FIELDS)
    at = 0
    while at < len(data) and reader.head is None:
        at += reader.feed(data[at : at + (size or len(data))])
    return reader.head, at


def refusal(data: bytes, size: int | None = None) -> str:
    with pytest.raises(CallerError) as caught:
        assert read(data, size)[0] is None
    return caught.value.code


@pytest.mark.parametrize("size", [None, 1, 2, 3, 5, 64])
def test_a_head_is_read_however_it_is_cut(size: int | None) -> None:
    head, used = read(PLAIN + b"the body", size)
    assert used == len(PLAIN)
    assert head == Head(
        method="POST",
        path="/v1/chat/completions",
        query="a=1&b=%20",
        headers={
            "host": "localhost:8080",
            "x-empty": "",
            "accept": "a, b",
            "content-length": "12",
            "x-text": "caf\xe9",
            "expect": "100-Continue",
        },
        is_1_1=True,
        length=12,
        is_chunked=False,
        keeps_alive=True,
        expects_continue=True,
    )


def test_random_cuts_change_nothing() -> None:
    whole, _ = read(PLAIN)
    for seed in range(200):
        chance = random.Random(seed)
        reader = HeadReader(MOST_BYTES, MOST_FIELDS)
        at = 0
        while reader.head is None:
            at += reader.feed(PLAIN[at : at + chance.randrange(1, 40)])
        assert (reader.head, at) == (whole, len(PLAIN))


@pytest.mark.parametrize(
    ("fields", "keeps_alive"),
    [
        (b"GET / HTTP/1.1\r\nhost: a", True),
        (b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close", False),
        (b"GET / HTTP/1.1\r\nhost: a\r\nconnection: Keep-Alive, Close", False),
        (b"GET / HTTP/1.1\r\nhost: a\r\nconnection: x-close", True),
        (b"GET / HTTP/1.0", False),
        (b"GET / HTTP/1.0\r\nconnection: keep-alive", False),
    ],
)
def test_keeping_alive(fields: bytes, keeps_alive: bool) -> None:
    head, _ = read(fields + b"\r\n\r\n")
    assert head is not None
    assert head.keeps_alive is keeps_alive


def test_an_offer_to_switch_is_ignored() -> None:
    data = b"POST / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 3\r\n\r\n"
    head, used = read(data + b"abc")
    assert used == len(data)
    assert head is not None
    assert head.length == 3
    assert head.keeps_alive


@pytest.mark.parametrize(
    "host", ["a", "a:80", "a.b-c_d.example:8080", "127.0.0.1", "[::1]", "[::ffff:1.2.3.4]:80", "a:"]
)
def test_a_host_that_is_one(host: str) -> None:
    head, _ = read(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert head is not None
    assert head.headers["host"] == host


@pytest.mark.parametrize("path", ["/", "//x", "/a/../b", "/%2e%2e/", "/a%20b", '/"<>\\^`{|}', "/@evil", "/:80"])
def test_a_path_is_taken_as_sent(path: str) -> None:
    head, _ = read(f"GET {path}?q?r HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert head is not None
    assert (head.path, head.query) == (path, "q?r")


@pytest.mark.parametrize(
    ("target", "host", "path", "query"),
    [
        ("http://b/c?d", "b", "/c", "d"),
        ("HTTPS://b:8080/", "b:8080", "/", ""),
        ("http://[::1]:80//c/@d", "[::1]:80", "//c/@d", ""),
        ("http://b", "b", "/", ""),
        ("http://b?c", "b", "/", "c"),
    ],
)
@pytest.mark.parametrize("version", [0, 1])
def test_an_absolute_target_names_the_host(target: str, host: str, path: str, query: str, version: int) -> None:
    head, _ = read(f"GET {target} HTTP/1.{version}\r\nHost: a\r\n\r\n".encode())
    assert head is not None
    assert (head.headers, head.path, head.query) == ({"host": host}, path, query)


def test_the_limit_of_bytes_counts_all_of_the_head() -> None:
    def head_of(size: int) -> bytes:
        start = b"GET / HTTP/1.1\r\nhost: a\r\nx: "
        return start + b"a" * (size - len(start) - 4) + b"\r\n\r\n"

    assert read(head_of(MOST_BYTES))[1] == MOST_BYTES
    for size in (None, 1000, MOST_BYTES):
        assert refusal(head_of(MOST_BYTES + 1), size) == "headers_too_large"
    assert refusal(b"GET /" + b"a" * MOST_BYTES) == "headers_too_large"
    assert refusal(b"GET / HTTP/1.1\r\nhost: a\r\n" + b"a: b\r\n" * 10000, 1000) == "headers_too_large"


@pytest.mark.parametrize("size", [None, 7])
def test_the_limit_of_fields(size: int | None) -> None:
    fields = [b"x%d: y" % number for number in range(MOST_FIELDS)]
    assert read(b"\r\n".join([b"GET / HTTP/1.0", *fields, b"", b""]), size)[0] is not None
    assert refusal(b"\r\n".join([b"GET / HTTP/1.0", *fields, b"z: y", b"", b""]), size) == "headers_too_large"


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02", b"GET / HTTP/1.1\n", b"GET / HTTP/1.1\r\nhost : a\r\n", b" "])
def test_what_cannot_become_a_head_is_refused_before_its_end(data: bytes) -> None:
    assert refusal(data, 1) == "invalid_value"


JUNK = st.sampled_from(
    [b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\x00", b"chunked", b"Host: b\r\n", b"\xff", b"HTTP/1.1", b",", b""]
)


@given(st.lists(st.tuples(st.integers(0, len(PLAIN)), st.integers(0, 4), JUNK), max_size=4), st.integers(1, 80))
def test_damage_is_detected_in_the_same_way_for_any_cut(damage: list[tuple[int, int, bytes]], size: int) -> None:
    data = PLAIN
    for at, length, junk in damage:
        data = data[:at] + junk + data[at + length :]

    def outcome(size: int | None) -> tuple[Head | None, int] | str:
        try:
            return read(data, size)
        except CallerError as error:
            return error.code

    assert outcome(size) == outcome(None)
