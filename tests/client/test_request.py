"""What is asked, and of whom."""

import json

import pytest

from streamweir.client.request import build_body, build_headers, endpoint_url, shown_url


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/chat/completions"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1/chat/completions"),
        ("https://example.com/v1", "https://example.com/v1/chat/completions"),
        ("https://example.com/opentoken/v1/", "https://example.com/opentoken/v1/chat/completions"),
        ("https://example.com/v1/chat/completions", "https://example.com/v1/chat/completions"),
        ("https://example.com/v1?version=2", "https://example.com/v1/chat/completions?version=2"),
    ],
)
def test_the_address(base_url: str, url: str) -> None:
    assert endpoint_url(base_url, "/chat/completions") == url


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "example.com/v1",
        "ftp://example.com",
        "http://",
        "file:///v1",
        "http://a:b",
        "http://a:99999",
        "http://a:0",
        "http://a..b/v1",
        "http://a\x00b/v1",
        "http://" + "a" * 64,
    ],
)
def test_what_is_no_address(base_url: str) -> None:
    with pytest.raises(ValueError, match="base_url must be an address"):
        endpoint_url(base_url, "/chat/completions")


def test_an_address_is_shown_without_what_is_secret_in_it() -> None:
    assert shown_url("https://user:password@example.com:8443/v1?key=secret") == "https://example.com:8443/v1"


def test_the_headers() -> None:
    headers = build_headers("sk-key", {"X-Own": "1", "User-Agent": "mine"}, stream=True)
    assert headers["authorization"] == "Bearer sk-key"
    assert (headers["accept"], headers["user-agent"], headers["x-own"]) == ("text/event-stream", "mine", "1")
    plain = build_headers("", {}, stream=False)
    assert "authorization" not in plain
    assert plain["accept"] == "application/json"


@pytest.mark.parametrize("value", ["secret\r\nx: y", "secret\x00", "secr\u00e9t"])
def test_a_header_that_cannot_be_sent_is_refused_unseen(value: str) -> None:
    with pytest.raises(ValueError, match=r"^the header 'x-api-key' holds signs that no header can carry$"):
        build_headers("", {"X-Api-Key": value}, stream=True)


def test_the_body_is_the_callers_with_the_wish_for_usage() -> None:
    body = json.loads(build_body("m", [{"role": "user", "content": "Hi"}], {"temperature": 0}, stream=True))
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_text_is_a_users_message_and_the_wish_can_be_taken_back() -> None:
    assert json.loads(build_body(None, "Hi", {}, stream=False)) == {
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": False,
    }
    assert "stream_options" not in json.loads(build_body("m", "Hi", {}, stream=True, include_usage=False))
    own = json.loads(build_body("m", "Hi", {"stream_options": {}}, stream=True))
    assert own["stream_options"] == {}


def test_the_method_says_whether_it_streams() -> None:
    with pytest.raises(ValueError, match="'stream' is set by the method"):
        build_body("m", "Hi", {"stream": True}, stream=False)
