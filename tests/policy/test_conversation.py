"""What makes two requests one conversation: the caller's word, the client's session, or the beginning of the prompt."""

from typing import Any

import pytest

from streamweir.frontends.base import Frontend
from streamweir.frontends.table import FRONTENDS
from streamweir.policy.routing.conversation import DIGEST_BYTES, conversation_of

CHAT = FRONTENDS.by_name["openai"]
MESSAGES = FRONTENDS.by_name["messages"]
RESPONSES = FRONTENDS.by_name["responses"]
COMPLETIONS = FRONTENDS.by_name["completions"]
EMBEDDINGS = FRONTENDS.by_name["embeddings"]


def conversation(
    frontend: Frontend, body: dict[str, Any], headers: dict[str, str] | None = None, *, key: str = "k", model: str = "m"
) -> bytes | None:
    headers = headers or {}
    return conversation_of(key, model, frontend.parse({"model": model, **body}, headers), frontend, headers)


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def chat(*messages: dict[str, Any], headers: dict[str, str] | None = None, **members: Any) -> bytes | None:
    return conversation(CHAT, {"messages": messages, **members}, headers)


def messages(*turns: dict[str, Any], headers: dict[str, str] | None = None, **members: Any) -> bytes | None:
    return conversation(MESSAGES, {"max_tokens": 9, "messages": turns or [said("user", "Hi")], **members}, headers)


def responses(items: Any, headers: dict[str, str] | None = None, **members: Any) -> bytes | None:
    return conversation(RESPONSES, {"input": items, **members}, headers)


SYSTEM, FIRST, ANSWER, NEXT = (
    said("system", "Be brief."),
    said("user", "What is a weir?"),
    said("assistant", "A low dam."),
    said("user", "Why?"),
)


# Without a name: by the beginning of the prompt.


def test_later_turns_are_the_same_conversation() -> None:
    first = chat(SYSTEM, FIRST)
    assert first is not None
    assert len(first) == DIGEST_BYTES
    assert chat(SYSTEM, FIRST, ANSWER, NEXT) == first
    assert messages(FIRST, system="Be brief.") == messages(FIRST, ANSWER, NEXT, system="Be brief.")
    assert responses("What is a weir?") == responses([FIRST, ANSWER, NEXT])


@pytest.mark.parametrize(
    "other",
    [(FIRST,), (said("system", "Be long."), FIRST), (SYSTEM, NEXT), (SYSTEM, SYSTEM, FIRST), (FIRST, SYSTEM)],
    ids=["no system prompt", "another", "another first message", "two", "another order"],
)
def test_another_beginning_is_another_conversation(other: tuple[dict[str, Any], ...]) -> None:
    assert chat(*other) != chat(SYSTEM, FIRST)


def test_neither_parameters_nor_marks_nor_tools_make_another_conversation() -> None:
    parts = [{"type": "text", "text": "What is a weir?", "cache_control": {"type": "ephemeral"}}]
    tool = {"type": "function", "function": {"name": "f"}}
    assert chat(SYSTEM, said("user", parts), temperature=1, stream=True, tools=[tool]) == chat(SYSTEM, FIRST)


def test_another_image_is_another_conversation() -> None:
    def shown(url: str) -> bytes | None:
        return chat(said("user", [{"type": "image_url", "image_url": {"url": url}}]))

    assert shown("https://a.example/1") == shown("https://a.example/1") != shown("https://a.example/2")


def test_of_a_long_text_both_ends_count() -> None:
    filler = "x" * 100_000
    assert chat(said("user", f"a{filler}a")) != chat(said("user", f"b{filler}a"))
    assert chat(said("user", f"a{filler}a")) != chat(said("user", f"a{filler}b"))
    assert chat(said("user", f"a{filler}a")) == chat(said("user", f"a{filler}xa"))


def test_of_a_long_name_both_ends_count() -> None:
    """What is read of a request is bounded, whatever its caller sends."""
    begin, end = "b" * 4096, "e" * 4096
    named = chat(SYSTEM, FIRST, prompt_cache_key=begin + "x" * 10 + end)
    assert named == chat(SYSTEM, FIRST, prompt_cache_key=begin + "y" * 1000 + end)
    assert named != chat(SYSTEM, FIRST, prompt_cache_key=begin + "x" * 10 + end + "f")


def test_a_text_that_grows_is_one_conversation_from_the_length_on_that_providers_cache() -> None:
    def completion(prompt: Any) -> bytes | None:
        return conversation(COMPLETIONS, {"prompt": prompt})

    assert completion("x" * 5000) == completion("x" * 5000 + "more")
    assert completion("a") != completion("b")
    assert completion(["a", "b"]) == completion("a")
    assert completion([1, 2, 3]) is None


def test_embeddings_have_no_conversation() -> None:
    assert conversation(EMBEDDINGS, {"input": "Hi"}, {"x-session-id": "s"}) is None


def test_a_lone_surrogate_is_a_character_like_others() -> None:
    assert chat(said("user", "\ud83d")) not in (None, chat(said("user", "?")))


# With a name.


def test_a_name_in_the_body_comes_before_the_session_and_that_before_the_prompt() -> None:
    named = chat(FIRST, prompt_cache_key="c", headers={"x-session-id": "s"})
    assert named == chat(NEXT, prompt_cache_key="c", headers={"x-session-id": "t"})
    in_session = chat(FIRST, headers={"x-session-id": "s"})
    assert in_session == chat(NEXT, headers={"x-session-id": "s"})
    assert len({named, in_session, chat(FIRST), chat(FIRST, headers={"x-session-id": "t"})}) == 4


@pytest.mark.parametrize(
    ("frontend", "header"),
    [
        (CHAT, "x-session-affinity"),
        (CHAT, "x-session-id"),
        (MESSAGES, "x-claude-code-session-id"),
        (MESSAGES, "x-session-affinity"),
        (RESPONSES, "session-id"),
        (RESPONSES, "session_id"),
        (RESPONSES, "x-session-id"),
        (COMPLETIONS, "x-session-id"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_clients_name_their_session_in_a_header(frontend: Frontend, header: str) -> None:
    bodies: list[dict[str, Any]] = [{"messages": [said("user", text)], "max_tokens": 9} for text in "ab"]
    if frontend in (RESPONSES, COMPLETIONS):
        bodies = [{"input" if frontend is RESPONSES else "prompt": text} for text in "ab"]
    one, same = (conversation(frontend, body, {header: "s"}) for body in bodies)
    assert one == same
    assert conversation(frontend, bodies[0], {header: "t"}) not in (one, None)
    assert conversation(frontend, bodies[0], {header: ""}) == conversation(frontend, bodies[0])


@pytest.mark.parametrize(
    "user_id",
    [
        "user_0a1b_account__session_SESSION",
        '{"device_id":"d","account_uuid":"","session_id":"SESSION"}',
    ],
    ids=["before 2.1.78", "since 2.1.78"],
)
def test_claude_code_names_its_session_in_the_user_id_too(user_id: str) -> None:
    def asked(session: str, text: str) -> bytes | None:
        return messages(said("user", text), metadata={"user_id": user_id.replace("SESSION", session)})

    assert asked("s", "a") == asked("s", "b") != asked("t", "a")
    assert asked("s", "a") == messages(headers={"x-claude-code-session-id": "s"})


@pytest.mark.parametrize(
    "user_id",
    [
        "u-1",
        "my_session_1",
        "{",
        "{\ud83d",
        "[]",
        "{}",
        '{"session_id":7}',
        '{"session_id":""}',
        "user_1_session_",
        None,
    ],
)
def test_another_user_id_names_a_user_who_has_many_conversations(user_id: Any) -> None:
    assert messages(metadata={"user_id": user_id}) == messages()
    assert messages(NEXT, metadata={"user_id": user_id}) != messages(FIRST, metadata={"user_id": user_id})


# Whose it is.


@pytest.mark.parametrize("named", [{}, {"prompt_cache_key": "c"}], ids=["by its prompt", "by its name"])
def test_keys_share_no_conversation_and_models_share_none(named: dict[str, str]) -> None:
    body = {"messages": [FIRST], **named}
    found = {conversation(CHAT, body, key=key, model=model) for key in ("k", "l") for model in ("m", "n")}
    assert len(found) == 4


def test_key_and_model_are_not_joined_without_a_boundary() -> None:
    assert (
        len(
            {
                conversation(CHAT, {"messages": [FIRST]}, key=key, model=model)
                for key, model in [("ab", "c"), ("a", "bc")]
            }
        )
        == 2
    )
    assert chat(said("user", "session"), said("user", "s")) != chat(FIRST, prompt_cache_key="s")
