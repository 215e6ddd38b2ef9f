"""Who a request is for: what each API says about it, what a header changes, and what may be kept of it."""

from typing import Any

import pytest

from streamweir.config.model import Config, Store
from streamweir.frontends.table import FRONTENDS
from streamweir.policy.attribution import MAX_TAGS, NOTHING, Attribution, Recorder, read_attribution
from streamweir.policy.end_user import ANONYMOUS, EndUserRule, digest_of_user, hash_of_sent, hashed, recorded_user
from streamweir.server.request.attribution import recorder_of

SAID: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
FIRST: dict[str, dict[str, Any]] = {
    "messages": {"max_tokens": 9, **SAID},
    "responses": {"input": "Hi"},
    "completions": {"prompt": "Hi"},
    "embeddings": {"input": "Hi"},
}
CLAUDE = "user_5f0c_account_0a1b_session_e1d2"
CLAUDE_JSON = '{"device_id":"d1","account_uuid":"%s","session_id":"s1"}'


def attribution(api: str, members: dict[str, Any], headers: dict[str, str] | None = None) -> Attribution:
    frontend = FRONTENDS.by_name[api]
    request = frontend.parse({"model": "m", **FIRST.get(api, SAID), **members}, headers or {})
    return read_attribution(request, frontend, headers or {})


@pytest.mark.parametrize(
    ("api", "members", "expected"),
    [
        ("openai", {}, NOTHING),
        ("openai", {"user": "ann"}, Attribution("ann")),
        ("openai", {"user": "old", "safety_identifier": "new"}, Attribution("new")),
        ("openai", {"metadata": {"team": "a", "job": "7"}}, Attribution(tags=("team=a", "job=7"))),
        ("openai", {"metadata": {"user_id": "ann", "session_id": "s", "x": ""}}, Attribution("ann", "s", ("x",))),
        ("openai", {"metadata": {"user_id": "ann"}, "user": "bob"}, Attribution("bob")),
        ("opentoken", {"user": "ann"}, Attribution("ann")),
        ("responses", {"safety_identifier": "ann", "metadata": {"a": "b"}}, Attribution("ann", tags=("a=b",))),
        ("completions", {"user": "ann"}, Attribution("ann")),
        ("embeddings", {"user": "ann"}, Attribution("ann")),
        ("messages", {"metadata": {"user_id": "ann"}}, Attribution("ann")),
        ("messages", {"metadata": {"user_id": CLAUDE}}, Attribution("user_5f0c_account_0a1b", "e1d2")),
        ("messages", {"metadata": {"user_id": CLAUDE_JSON % "a1"}}, Attribution("a1", "s1")),
        ("messages", {"metadata": {"user_id": CLAUDE_JSON % ""}}, Attribution("d1", "s1")),
        ("messages", {"metadata": {"user_id": '{"session_id":"s1"}'}}, Attribution(None, "s1")),
        ("messages", {"metadata": {"user_id": "{no json"}}, Attribution("{no json")),
        ("messages", {"metadata": {"user_id": '{"name":"x"}'}}, Attribution('{"name":"x"}')),
        ("messages", {"metadata": {"user_id": None}}, NOTHING),
    ],
)
def test_each_api_has_its_own_members(api: str, members: dict[str, Any], expected: Attribution) -> None:
    assert attribution(api, members) == expected


def test_headers_count_before_the_body() -> None:
    headers = {"x-streamweir-user": "h", "x-streamweir-session": "t", "x-streamweir-tags": "a=1, b = 2 ,c,,=d"}
    sent = {"user": "b", "metadata": {"a": "0", "z": "9", "user_id": "u"}}
    assert attribution("openai", sent, headers) == Attribution("h", "t", ("a=1", "b=2", "c", "z=9"))
    assert attribution("messages", {"metadata": {"user_id": CLAUDE}}, headers).session == "t"


@pytest.mark.parametrize(
    ("api", "header"),
    [("messages", "x-claude-code-session-id"), ("responses", "session-id"), ("openai", "x-session-id")],
)
def test_a_session_is_what_the_client_names(api: str, header: str) -> None:
    assert attribution(api, {}, {header: "s"}) == Attribution(session="s")


def test_what_is_too_much_is_left_out() -> None:
    many = ",".join(f"t{number}={number}" for number in range(100))
    tags = attribution("openai", {"metadata": {"other": "1"}}, {"x-streamweir-tags": many}).tags
    assert tags == tuple(f"t{number}={number}" for number in range(MAX_TAGS))


def recorded(rule: Any, members: dict[str, Any], headers: dict[str, str] | None = None) -> Attribution:
    config = Config(store=Store(end_user=rule, redact=(r"\d{4}-\d{4}",)))
    frontend = FRONTENDS.by_name["openai"]
    request = frontend.parse({"model": "m", **SAID, **members}, headers or {})
    return recorder_of(config).read(request, frontend, headers or {})


def test_what_is_kept_has_no_secret_no_control_character_and_a_bounded_length() -> None:
    key = "sk-" + "a1b2c3d4" * 4
    long = "x" * 5000
    found = recorded("plain", {"user": "ann", "metadata": {"k": key, "card": "1234-5678", "n": "a\x00\x1b[1mb"}})
    assert found == Attribution("ann", tags=("k=***", "card=***", "n=ab"))
    found = recorded("plain", {}, {"x-streamweir-session": long, "x-streamweir-tags": f"a={long}"})
    assert found.session is not None
    assert [len(each) for each in (found.session, *found.tags)] == [256, 256]


def test_end_users_whose_names_cannot_be_kept_are_still_told_apart() -> None:
    """They have a budget each."""
    key = "sk-" + "a1b2c3d4" * 4
    names = (key, key + "e5f6", f"ann {key}", f"bob {key}", "1234-5678", "1234-5679", "x" * 300, "x" * 301, "a\x00")
    found = [recorded("plain", {"user": name}).end_user for name in names]
    assert found == [hashed(name) for name in names]
    assert len(set(found)) == len(names)
    assert recorded("plain", {"user": " ann "}).end_user == "ann"
    assert recorded("plain", {"user": "\x00 "}).end_user is None


def test_a_digest_that_a_caller_sends_is_an_id_and_kept() -> None:
    """OpenAI asks its customers to send a hash of the user's name."""
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    assert recorded("plain", {"safety_identifier": digest}).end_user == digest


def test_the_operators_rule_says_what_is_kept_of_an_end_user() -> None:
    assert recorded("none", {"user": "ann", "metadata": {"a": "b"}}) == Attribution(tags=("a=b",))
    found = recorded("hash", {"user": "ann"}).end_user
    assert found == hashed("ann") == recorded_user("ann", "hash") != hashed("bob")
    assert found.startswith("sha256:")
    assert recorded("none", {"user": found}).end_user is None


@pytest.mark.parametrize("rule", ["plain", "hash"])
def test_a_name_like_the_digest_of_another_end_user_is_a_name(rule: EndUserRule) -> None:
    """Else it would spend the other one's budget."""
    names = ("ann", hashed("ann"), hashed(hash_of_sent(hashed("ann"))), hashed("ann").upper(), f" {hashed('ann')} ")
    found = [recorded(rule, {"user": name}).end_user for name in names]
    assert len({digest_of_user(name) for name in found}) == len(names)


def test_accounts_know_an_end_user_by_whichever_text_is_kept() -> None:
    assert digest_of_user("ann") == digest_of_user(hashed("ann")) != digest_of_user("bob")
    assert digest_of_user(None) == digest_of_user("") == ANONYMOUS
    assert recorded_user("ann", "plain") == "ann"


def test_the_memory_for_texts_is_bounded() -> None:
    recorder = Recorder("plain", str.strip)
    frontend = FRONTENDS.by_name["openai"]
    for number in range(5000):
        request = frontend.parse({"model": "m", **SAID, "user": f"u{number}"}, {})
        assert recorder.read(request, frontend, {}).end_user == f"u{number}"
    assert len(recorder._known) <= 4096
