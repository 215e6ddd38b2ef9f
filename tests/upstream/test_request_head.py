"""The bytes of a request's head, and what can never get into it."""

import pytest
from msgspec import structs

from streamweir import __version__
from streamweir.core.errors import GatewayFault
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.address import read_base_url, read_proxy
from streamweir.upstream.head import RequestHead

ADDRESS = read_base_url("https://example.com/v1")
FIXED = (
    f"host: example.com\r\nuser-agent: streamweir/{__version__}\r\n"
    "accept-encoding: identity\r\nconnection: keep-alive\r\n"
).encode()


def request(path: str = "/chat", headers: tuple[tuple[str, str], ...] = (), body: bytes = b"{}") -> UpstreamRequest:
    return UpstreamRequest(path=path, headers=headers, body=body)


def fields(head: bytes) -> dict[str, str]:
    _, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        assert name not in found
        found[name] = value
    return found


def test_the_whole_head() -> None:
    head = RequestHead(ADDRESS, (("x-team", "ä"),)).encode(request("/chat?v=1", (("Authorization", "Bearer k"),)))
    assert head == (
        b"POST /v1/chat?v=1 HTTP/1.1\r\n"
        + FIXED.replace(b"accept-encoding", b"x-team: \xe4\r\naccept-encoding")
        + b"Authorization: Bearer k\r\ncontent-length: 2\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("method", "body", "end"),
    [("GET", b"", b""), ("PUT", b"", b"content-length: 0\r\n"), ("GET", b"{}", b"content-length: 2\r\n")],
)
def test_other_methods(method: str, body: bytes, end: bytes) -> None:
    sent = RequestHead(ADDRESS).encode(UpstreamRequest(path="/a", headers=(), body=body, method=method))
    assert sent == method.encode() + b" /v1/a HTTP/1.1\r\n" + FIXED + end + b"\r\n"


@pytest.mark.parametrize("method", ["", "get", "GET /x HTTP/1.1\r\nx: y\r\n\r\nGET"])
def test_a_method_that_cannot_be_sent(method: str) -> None:
    with pytest.raises(GatewayFault):
        RequestHead(ADDRESS).encode(UpstreamRequest(path="/a", headers=(), body=b"", method=method))


def test_requests_with_different_headers_follow_each_other() -> None:
    head = RequestHead(ADDRESS)
    for key in ("one", "one", "two", "one"):
        assert fields(head.encode(request(headers=(("authorization", key),))))["authorization"] == key
    assert "authorization" not in fields(head.encode(request()))


def test_the_operators_headers_override() -> None:
    operators = (("Authorization", "theirs"), ("User-Agent", "them/1"), ("Host", "other.example"))
    given = fields(RequestHead(ADDRESS, operators).encode(request(headers=(("authorization", "ours"), ("x-a", "b")))))
    assert given["authorization"] == "theirs"
    assert given["user-agent"] == "them/1"
    assert given["host"] == "other.example"
    assert given["x-a"] == "b"


def test_a_request_does_not_change_what_is_fixed() -> None:
    given = fields(RequestHead(ADDRESS).encode(request(headers=(("Host", "evil"), ("USER-AGENT", "x")))))
    assert (given["host"], given["user-agent"]) == ("example.com", f"streamweir/{__version__}")


def test_plain_requests_through_a_proxy_name_their_target() -> None:
    address, proxy = read_base_url("http://example.com:8080/v1"), read_proxy("http://u:p@proxy:3128")
    head = RequestHead(address, proxy=proxy).encode(request())
    assert head.startswith(b"POST http://example.com:8080/v1/chat HTTP/1.1\r\nhost: example.com:8080\r\n")
    assert fields(head)["proxy-authorization"] == "Basic dTpw"


BAD_FIELDS = [
    ("x-a", "b\r\nx-c: d"),
    ("x-a", "b\nc"),
    ("x-a", "b\rc"),
    ("x-a", "b\x00c"),
    ("x-a", "b\x7fc"),
    ("x-a", "€"),
    ("x-a\r\n", "b"),
    ("x a", "b"),
    ("x:a", "b"),
    ("ä", "b"),
    ("", "b"),
    ("Content-Length", "0"),
    ("transfer-encoding", "chunked"),
    ("connection", "close"),
    ("accept-encoding", "gzip"),
    ("proxy-authorization", "x"),
]


@pytest.mark.parametrize("field", BAD_FIELDS)
def test_a_bad_header_of_the_operator_is_refused_at_the_start(field: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="header"):
        RequestHead(ADDRESS, (("x-good", "y"), field))


@pytest.mark.parametrize("field", BAD_FIELDS)
def test_a_bad_header_of_a_request_is_our_fault(field: tuple[str, str]) -> None:
    head = RequestHead(ADDRESS)
    for _ in range(2):
        with pytest.raises(GatewayFault) as raised:
            head.encode(request(headers=(field,)))
        assert raised.value.code == "internal_error"


@pytest.mark.parametrize("path", ["", "chat", "/a b", "/a\r\nx: y", "/a\x00", "/ä", "/a#b", '/a"b', "http://evil/"])
def test_a_bad_path_is_our_fault(path: str) -> None:
    with pytest.raises(GatewayFault) as raised:
        RequestHead(ADDRESS).encode(request(path))
    assert raised.value.code == "internal_error"


def test_lines_about_the_trace_follow_the_headers_of_each_request() -> None:
    head = RequestHead(ADDRESS)
    for number in (1, 2):
        lines = f"traceparent: {number}\r\ntracestate: a={number}\r\n".encode()
        traced = structs.replace(request(headers=(("authorization", "one"),)), trace_headers=lines)
        found = fields(head.encode(traced))
        assert (found["traceparent"], found["tracestate"], found["authorization"]) == (
            str(number),
            f"a={number}",
            "one",
        )
    assert "traceparent" not in fields(head.encode(request(headers=(("authorization", "one"),))))


def test_an_operator_who_sets_a_trace_context_replaces_that_of_the_request() -> None:
    head = RequestHead(ADDRESS, (("TraceParent", "own"),))
    found = fields(head.encode(structs.replace(request(), trace_headers=b"traceparent: 1\r\n")))
    assert found["traceparent"] == "own"
