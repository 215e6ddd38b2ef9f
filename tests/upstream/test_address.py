"""What a base URL and a proxy's URL may hold, and what is refused at the start."""

import pytest

from streamweir.upstream.address import Address, Proxy, read_base_url, read_proxy


@pytest.mark.parametrize(
    ("text", "address", "authority"),
    [
        ("http://example.com", Address(host="example.com", port=80), "example.com"),
        ("http://example.com/", Address(host="example.com", port=80), "example.com"),
        ("http://example.com:8080/v1", Address(host="example.com", port=8080, prefix="/v1"), "example.com:8080"),
        ("https://example.com/a/b/", Address(host="example.com", port=443, is_tls=True, prefix="/a/b"), "example.com"),
        ("https://example.com:80", Address(host="example.com", port=80, is_tls=True), "example.com:80"),
        ("http://example.com:443", Address(host="example.com", port=443), "example.com:443"),
        ("https://example.com:443", Address(host="example.com", port=443, is_tls=True), "example.com"),
        ("HTTP://Example.COM", Address(host="example.com", port=80), "example.com"),
        ("http://my_service.local.:1", Address(host="my_service.local.", port=1), "my_service.local.:1"),
        ("http://127.0.0.1:9", Address(host="127.0.0.1", port=9), "127.0.0.1:9"),
        ("http://[::1]", Address(host="::1", port=80), "[::1]"),
        ("http://[::1]:8080/v1", Address(host="::1", port=8080, prefix="/v1"), "[::1]:8080"),
        ("https://[2001:DB8::0:1]", Address(host="2001:db8::1", port=443, is_tls=True), "[2001:db8::1]"),
    ],
)
def test_base_url(text: str, address: Address, authority: str) -> None:
    assert read_base_url(text) == address
    assert address.authority == authority


def test_full_authority_has_the_port_always() -> None:
    assert read_base_url("https://example.com").full_authority == "example.com:443"
    assert read_base_url("https://[::1]").full_authority == "[::1]:443"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com",
        "example.com:80",
        "//example.com",
        "ftp://example.com",
        "unix:/run/x",
        "http://",
        "http:///v1",
        "http://:80",
        "http://user@example.com",
        "http://user:hunter2@example.com",
        "http://@example.com",
        "http://example.com?x=1",
        "http://example.com/?",
        "http://example.com#x",
        "http://example.com/#",
        "http://example.com:0",
        "http://example.com:65536",
        "http://example.com:http",
        "http://example.com:-1",
        "http://example.com/a b",
        "http://exam\nple.com",
        "http://example.com/\r\nx: y",
        " http://example.com",
        "http://example.com\\@evil",
        "http://[::1",
        "http://::1",
        "http://[::1%25lo]",
        "http://[127.0.0.1]",
        "http://[v1.x]",
        "http://[]",
        "http://[::1]x:80",
        "http://a[::1]:80",
        "http://[::1]80",
        "http://example.com:",
        "http://example.com:80:80",
        "http://example.com:8_0",
        "http://bücher.example",
        "http://-example.com",
        "http://example..com",
        "http://exam%70le.com",
        "http://" + "a" * 64 + ".com",
        "http://" + "a.bcdefgh" * 40,
    ],
)
def test_base_url_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the base URL") as raised:
        read_base_url(text)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "proxy"),
    [
        ("http://proxy:3128", Proxy(host="proxy", port=3128)),
        ("http://proxy", Proxy(host="proxy", port=80)),
        ("http://[::1]:3128/", Proxy(host="::1", port=3128)),
        ("http://u:p@proxy:1", Proxy(host="proxy", port=1, authorization="Basic dTpw")),
        ("http://u@proxy:1", Proxy(host="proxy", port=1, authorization="Basic dTo=")),
        ("http://u%40x:p%3A%2F%C3%BC@proxy:1", Proxy(host="proxy", port=1, authorization="Basic dUB4OnA6L8O8")),
    ],
)
def test_proxy(text: str, proxy: Proxy) -> None:
    assert read_proxy(text) == proxy


@pytest.mark.parametrize(
    "text",
    [
        "",
        "proxy:3128",
        "https://proxy:3128",
        "socks5://proxy:1080",
        "http://proxy:3128/path",
        "http://proxy:3128?x",
        "http://proxy:3128#x",
        "http://u:hunter2@",
        "http://u:hunter2@proxy:99999",
        "http://u:hunter 2@proxy:1",
    ],
)
def test_proxy_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the proxy's URL") as raised:
        read_proxy(text)
    assert "hunter" not in str(raised.value)
