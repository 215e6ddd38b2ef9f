"""Requests that two readers could understand differently: refused and closed, or read in the one safe way.

The corpus of docs/spec/security.md S14 and S5. Behind every hostile request stands another one, for
`/smuggled`: it must never be seen. Each is sent whole and byte by byte.
"""

import pytest

from support.http_app import get, post, serving
from support.raw_client import RawClient

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKS = b"5\r\nhello\r\n0\r\n\r\n"


def head(*fields: bytes, line: bytes = b"POST /echo HTTP/1.1", host: bool = True) -> bytes:
    return b"\r\n".join([line, *([b"Host: a"] if host else []), *fields, b"", b""])


def framed(*fields: bytes, body: bytes = b"hello") -> bytes:
    return head(*fields) + body


HOSTILE = {
    # The length of the body, said twice or not clearly.
    "CL and TE": framed(b"Content-Length: 5", b"Transfer-Encoding: chunked", body=CHUNKS),
    "TE and CL": framed(b"Transfer-Encoding: chunked", b"Content-Length: 5", body=CHUNKS),
    "TE and CL 0": framed(b"Transfer-Encoding: chunked", b"Content-Length: 0", body=CHUNKS),
    "CL twice, the same": framed(b"Content-Length: 5", b"Content-Length: 5"),
    "CL twice, different": framed(b"Content-Length: 5", b"Content-Length: 0"),
    "CL twice, in another case": framed(b"Content-Length: 5", b"content-LENGTH: 5"),
    "CL listed": framed(b"Content-Length: 5, 5"),
    "CL with plus": framed(b"Content-Length: +5"),
    "CL with minus": framed(b"Content-Length: -5"),
    "CL hexadecimal": framed(b"Content-Length: 0x5"),
    "CL with a digit group": framed(b"Content-Length: 1_0"),
    "CL with a fraction": framed(b"Content-Length: 5.0"),
    "CL with an exponent": framed(b"Content-Length: 5e0"),
    "CL in two words": framed(b"Content-Length: 5 5"),
    "CL empty": framed(b"Content-Length:"),
    "CL blank": framed(b"Content-Length:  "),
    "CL quoted": framed(b'Content-Length: "5"'),
    "CL of other digits": framed(b"Content-Length: \xb2"),
    "CL overflowing": framed(b"Content-Length: 18446744073709551621"),
    "CL with NUL": framed(b"Content-Length: 5\x00"),
    "CL with vertical tab": framed(b"Content-Length: \x0b5"),
    # Transfer codings that are not exactly one.
    "TE chunked, identity": framed(b"Transfer-Encoding: chunked, identity", body=CHUNKS),
    "TE identity, chunked": framed(b"Transfer-Encoding: identity, chunked", body=CHUNKS),
    "TE gzip, chunked": framed(b"Transfer-Encoding: gzip, chunked", body=CHUNKS),
    "TE chunked, chunked": framed(b"Transfer-Encoding: chunked, chunked", body=CHUNKS),
    "TE twice": framed(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=CHUNKS),
    "TE twice, different": framed(b"Transfer-Encoding: chunked", b"Transfer-Encoding: x", body=CHUNKS),
    "TE identity": framed(b"Transfer-Encoding: identity", body=CHUNKS),
    "TE identity and CL": framed(b"Transfer-Encoding: identity", b"Content-Length: 5"),
    "TE xchunked": framed(b"Transfer-Encoding: xchunked", body=CHUNKS),
    "TE chunkedx": framed(b"Transfer-Encoding: chunkedx", body=CHUNKS),
    "TE quoted": framed(b'Transfer-Encoding: "chunked"', body=CHUNKS),
    "TE with parameter": framed(b"Transfer-Encoding: chunked;q=1", body=CHUNKS),
    "TE with trailing comma": framed(b"Transfer-Encoding: chunked,", body=CHUNKS),
    "TE with leading comma": framed(b"Transfer-Encoding: ,chunked", body=CHUNKS),
    "TE with blanks behind": framed(b"Transfer-Encoding: chunked \t", body=CHUNKS),
    "TE empty": framed(b"Transfer-Encoding:", body=CHUNKS),
    "TE with vertical tab": framed(b"Transfer-Encoding: \x0bchunked", body=CHUNKS),
    "TE with form feed": framed(b"Transfer-Encoding: chunked\x0c", body=CHUNKS),
    "TE with NUL": framed(b"Transfer-Encoding: chunked\x00", body=CHUNKS),
    "TE in HTTP/1.0": head(b"Transfer-Encoding: chunked", line=b"POST /echo HTTP/1.0") + CHUNKS,
    # Field names and line ends.
    "blank before colon": framed(b"Content-Length : 5"),
    "tab before colon": framed(b"Content-Length\t: 5"),
    "blank before colon of TE": framed(b"Transfer-Encoding : chunked", body=CHUNKS),
    "blank before a name": framed(b" Content-Length: 5"),
    "control before a name": framed(b"\x01Content-Length: 5"),
    "NUL within a name": framed(b"Content\x00-Length: 5"),
    "no name": framed(b": 5"),
    "no colon": framed(b"Content-Length 5"),
    "a name beyond ASCII": framed(b"X\xe9: 5"),
    "folded": framed(b"X: a\r\n b"),
    "folded with a tab": framed(b"X: a\r\n\tContent-Length: 5"),
    "folded framing": framed(b"Transfer-Encoding:\r\n chunked", body=CHUNKS),
    "LF ends a field": framed(b"X: a\nContent-Length: 5"),
    "LF ends the framing field": framed(b"Content-Length: 5\nX: a"),
    "LF ends every line": b"POST /echo HTTP/1.1\nHost: a\nContent-Length: 5\n\nhello",
    "LF ends the request line": b"POST /echo HTTP/1.1\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "LF ends the head": b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\nhello",
    "CR ends a field": framed(b"X: a\rContent-Length: 5"),
    "CR within a value": framed(b"X: a\rb"),
    "CR before CRLF": framed(b"X: a\r"),
    "CR CR LF ends the head": b"POST /echo HTTP/1.1\r\nHost: a\r\n\r\r\n",
    "NUL within a value": framed(b"X: a\x00b"),
    "DEL within a value": framed(b"X: a\x7fb"),
    "escape within a value": framed(b"X: \x1b[31m"),
    # The request line.
    "two spaces": get("/echo").replace(b"GET /", b"GET  /"),
    "tab after the method": get("/echo").replace(b"GET /", b"GET\t/"),
    "blank after the version": get("/echo").replace(b"1.1", b"1.1 "),
    "blank within the target": get("/a b"),
    "small method": get("/echo").replace(b"GET", b"get"),
    "unknown method": get("/echo").replace(b"GET", b"SMUGGLE"),
    "blank before the method": b" " + get("/echo"),
    "LF before the method": b"\n" + get("/echo"),
    "small version": get("/echo").replace(b"HTTP", b"http"),
    "no version": b"GET /echo\r\n\r\n",
    "version 0.9": get("/echo").replace(b"1.1", b"0.9"),
    "version 1.2": get("/echo").replace(b"1.1", b"1.2"),
    "version 2.0": get("/echo").replace(b"1.1", b"2.0"),
    "version 1.10": get("/echo").replace(b"1.1", b"1.10"),
    "version 01.1": get("/echo").replace(b"1.1", b"01.1"),
    "version 1,1": get("/echo").replace(b"1.1", b"1,1"),
    "RTSP": b"OPTIONS /echo RTSP/1.0\r\nHost: a\r\n\r\n",
    "ICE": b"SOURCE /echo ICE/1.0\r\nHost: a\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "absolute form with a user": get("http://u@a/echo"),
    "absolute form with a user and a password": get("http://u:p@a/echo"),
    "absolute form of no host": get("http:///echo"),
    "absolute form of a broken host": get("http://a:b/echo"),
    "absolute form of a host beyond ASCII": get("http://caf\xe9/echo"),
    "absolute form of another scheme": get("ftp://a/echo"),
    "absolute form without a scheme": get("//a/echo").replace(b" //", b" ://"),
    "absolute form with a backslash": get("http://a\\echo"),
    "absolute form with a fragment": get("http://a/echo#x"),
    "absolute form without a host field": get("http://a/echo").replace(b"host: a\r\n", b""),
    "absolute form with a broken host field": get("http://a/echo").replace(b"host: a", b"host: a/b"),
    "absolute form with two host fields": get("http://a/echo", "host: a"),
    "opaque target": get("http:a/echo"),
    "asterisk form": get("*").replace(b"GET", b"OPTIONS"),
    "authority form": get("a:80").replace(b"GET", b"CONNECT"),
    "CONNECT with a path": get("/echo").replace(b"GET", b"CONNECT").replace(b" /echo", b" echo"),
    "no slash": get("echo"),
    "at sign": get("@evil/echo"),
    "fragment": get("/echo#x"),
    "fragment in the query": get("/echo?a#x"),
    "path beyond ASCII": get("/caf\xe9"),
    "query beyond ASCII": get("/echo?\xe9"),
    "control in the path": get("/a\x01b"),
    "DEL in the path": get("/a\x7fb"),
    "NUL in the path": get("/a\x00b"),
    "encoded NUL": get("/a%00b"),
    "encoded CR": get("/a%0Db"),
    "encoded LF": get("/a%0ab"),
    "idempotency key twice": framed(b"Idempotency-Key: a", b"Idempotency-Key: b", b"Content-Length: 5"),
    "idempotency key twice, the same": framed(b"Idempotency-Key: a", b"idempotency-key: a", b"Content-Length: 5"),
    # Who is meant.
    "no host": head(line=b"GET /echo HTTP/1.1", host=False),
    "host twice": head(b"Host: a", line=b"GET /echo HTTP/1.1"),
    "host twice in 1.0": head(b"Host: b", line=b"GET /echo HTTP/1.0"),
    **{
        f"host {host!r}": head(b"Host: " + host, line=b"GET /echo HTTP/1.1", host=False)
        for host in (
            *(b"", b"a/?x", b"a/", b"x#", b"a?b", b"u@a", b"a b", b"a,b", b"a\\b", b"a:b", b"a:80:80", b"a:123456"),
            *(b"[::1", b"::1", b"[::1]x", b"a%2fb", b"caf\xe9", b"<a>", b'"a"', b"http://a"),
        )
    },
    # Chunks: the rest of them is in test_http_body.
    "chunk size with blank": framed(b"Transfer-Encoding: chunked", body=b"5 \r\nhello\r\n0\r\n\r\n"),
    "chunk size with plus": framed(b"Transfer-Encoding: chunked", body=b"+5\r\nhello\r\n0\r\n\r\n"),
    "chunk size prefixed": framed(b"Transfer-Encoding: chunked", body=b"0x5\r\nhello\r\n0\r\n\r\n"),
    "chunk size overflowing": framed(b"Transfer-Encoding: chunked", body=b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    "chunk extension with CR": framed(b"Transfer-Encoding: chunked", body=b"5;\rx\r\nhello\r\n0\r\n\r\n"),
    "chunk extension with LF": framed(b"Transfer-Encoding: chunked", body=b"5;\nhello\r\n0\r\n\r\n"),
    "chunk longer than said": framed(b"Transfer-Encoding: chunked", body=b"4\r\nhello\r\n0\r\n\r\n"),
    "chunk ended by LF": framed(b"Transfer-Encoding: chunked", body=b"5\r\nhello\n0\r\n\r\n"),
    "trailer of framing": framed(b"Transfer-Encoding: chunked", body=b"0\r\nContent-Length: 5\r\n\r\n"),
    "trailer of a key": framed(b"Transfer-Encoding: chunked", body=b"0\r\nAuthorization: Bearer x\r\n\r\n"),
    "trailer folded": framed(b"Transfer-Encoding: chunked", body=b"0\r\nX: a\r\n b\r\n\r\n"),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile(name: str) -> None:
    data = HOSTILE[name] + SMUGGLED
    async with serving() as at:
        for size in (len(data), 1):
            async with await RawClient.open(at.address) as client:
                for cut in range(0, len(data), size):
                    try:
                        await client.send(data[cut : cut + size])
                    except ConnectionError:
                        break  # it was refused long ago
                reply = await client.response()
                assert (reply.status, reply.body, reply.header("connection")) == (400, b"invalid_value", "close")
                assert await client.is_closed()
        assert [request.path for request in at.app.served] == []
        assert all(b"smuggled" not in request.path.encode() for request in at.app.begun)
        assert all("hello" not in error.message for _, error in at.app.refused)


READ_SAFELY = {
    "CL with blanks around": (framed(b"Content-Length: \t 5 \t"), b"hello"),
    "CL with zeros": (framed(b"Content-Length: 005"), b"hello"),
    "TE in capitals": (framed(b"Transfer-Encoding: CHUNKED", body=CHUNKS), b"hello"),
    "TE with blanks before": (framed(b"Transfer-Encoding: \t Chunked", body=CHUNKS), b"hello"),
    "chunk extension": (framed(b"Transfer-Encoding: chunked", body=b"5;a=b\r\nhello\r\n0\r\n\r\n"), b"hello"),
    "trailer": (framed(b"Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\nX-A: b\r\n\r\n"), b"hello"),
    "GET with a body": (get("/echo", "content-length: 5") + b"hello", b"hello"),
    "similar names": (framed(b"Content-Length: 5", b"Content_Length: 9", b"X-Transfer-Encoding: chunked"), b"hello"),
    "an offer of h2c": (framed(b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 5"), b"hello"),
    "no body": (framed(body=b""), b""),
    "absolute form": (get("http://a/echo"), b""),
    "absolute form of another": (post("HTTPS://evil:80/echo", b"hello"), b"hello"),
}


async def test_what_follows_an_offer_of_websocket_is_not_read() -> None:
    """It may be frames of that protocol."""
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/echo", "connection: upgrade", "upgrade: websocket") + get("/next"))
        assert (await client.response()).header("connection") == "close"
        assert await client.is_closed()
        assert [request.path for request in at.app.served] == ["/echo"]


@pytest.mark.parametrize("name", READ_SAFELY)
async def test_read_safely(name: str) -> None:
    """And what follows is the next request, no byte more or less."""
    data, body = READ_SAFELY[name]
    async with serving() as at:
        for size in (len(data), 1):
            async with await RawClient.open(at.address) as client:
                for cut in range(0, len(data), size):
                    await client.send(data[cut : cut + size])
                await client.send(get("/next"))
                assert (await client.response()).body == body
                assert (await client.response()).status == 200
                assert [request.path for request in at.app.served] == ["/echo", "/next"]
                assert "x-a" not in at.app.served[0].headers
                at.app.forget()
