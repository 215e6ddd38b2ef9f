"""The most tokens of a prompt: whatever is written in a request counts, and what is not in it counts in full."""

from typing import Any

import pytest

from streamweir.core.request import read_request
from streamweir.frontends.carried import carry
from streamweir.frontends.messages.frontend import MESSAGES
from streamweir.frontends.responses.frontend import RESPONSES
from streamweir.frontends.responses.request import read_responses_request
from streamweir.pipeline.prompt_bound import IMAGE_TOKENS, bound_of, own_text_of, predicted_tokens, text_of
from streamweir.wire import jsonio

WINDOW = 1_000_000
BIG = "lorem ipsum " * 1000
ASK = {"role": "user", "content": "hi"}


def parts(*content: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}]}


def bound(members: dict[str, Any], **how: Any) -> int:
    body = {"model": "m", "messages": [ASK], **members}
    return bound_of(read_request(body), len(jsonio.encode(body)), **how).by_bytes(WINDOW)


WRITTEN: dict[str, dict[str, Any]] = {
    "content": {"messages": [{"role": "user", "content": BIG}]},
    "a schema": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"description": BIG}}}
    },
    "reasoning": {"messages": [{"role": "assistant", "content": "x", "reasoning_content": BIG}, ASK]},
    "a legacy call": {
        "messages": [{"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": BIG}}, ASK]
    },
    "the input of a custom tool": {
        "messages": [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "f", "input": BIG}}],
            },
            ASK,
        ]
    },
    "a prediction": {"prediction": {"type": "content", "content": BIG}},
    "the name of a message": {"messages": [{"role": "user", "name": BIG, "content": "x"}]},
    "tools": {"tools": [{"type": "function", "function": {"name": "f", "description": BIG}}]},
    "a member that nobody knows": {"chat_template_kwargs": {"note": BIG}},
    "a file of text": parts({"type": "file", "file": {"file_data": f"data:text/plain;base64,{BIG}"}}),
}


@pytest.mark.parametrize("members", WRITTEN.values(), ids=WRITTEN)
def test_any_text_counts_one_token_per_byte(members: dict[str, Any]) -> None:
    assert len(BIG) < bound(members) < len(BIG) + 2048


REMOTE: dict[str, dict[str, Any]] = {
    "stored content": {"cached_content": "cachedContents/1"},
    "servers of tools": {"mcp_servers": [{"url": "https://example.test"}]},
    "a tool of the provider": {"tools": [{"type": "web_search"}]},
    "the id of a file": parts({"type": "file", "file": {"file_id": "file-1"}}),
    "a document": parts({"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}}),
    "a part of another type": parts({"type": "video_url", "video_url": {"url": "https://example.test/v"}}),
    "a link that may be anything": parts({"type": "image_url", "image_url": {"url": "https://example.test/a.mp4"}}),
    "a recording in another form": parts({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "flac"}}),
    "an earlier recording": {"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}, ASK]},
}


@pytest.mark.parametrize("members", REMOTE.values(), ids=REMOTE)
def test_what_is_not_in_the_request_counts_as_the_whole_context_window(members: dict[str, Any]) -> None:
    assert bound(members) == WINDOW


SEARCH_OF_MESSAGES = {"type": "web_search_20250305", "name": "web_search"}
OWN_TOOL = {"name": "f", "input_schema": {"type": "object"}}
MESSAGES_TOOLS: dict[str, tuple[dict[str, Any], bool]] = {
    "a search": ({"tools": [SEARCH_OF_MESSAGES]}, True),
    "a search beside own tools": ({"tools": [OWN_TOOL, SEARCH_OF_MESSAGES]}, True),
    "pages": ({"tools": [OWN_TOOL, {"type": "web_fetch_20250910", "name": "web_fetch"}]}, True),
    "servers of tools": ({"mcp_servers": [{"type": "url", "url": "https://example.test", "name": "a"}]}, True),
    "own tools": ({"tools": [OWN_TOOL, {"type": "custom", **OWN_TOOL, "name": "g"}]}, False),
    "tools that the caller runs": ({"tools": [OWN_TOOL, {"type": "bash_20250124", "name": "bash"}]}, False),
}
RESPONSES_TOOLS: dict[str, tuple[dict[str, Any], bool]] = {
    "a search": ({"tools": [{"type": "web_search"}]}, True),
    "a program": ({"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}, True),
    "a server of tools": ({"tools": [{"type": "mcp", "server_label": "a", "server_url": "https://a.test"}]}, True),
    "own tools": ({"tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "g"}]}, False),
    "tools that the caller runs": ({"tools": [{"type": "local_shell"}, {"type": "apply_patch"}]}, False),
}


@pytest.mark.parametrize(("members", "is_remote"), MESSAGES_TOOLS.values(), ids=MESSAGES_TOOLS)
def test_tools_of_messages_that_the_provider_runs_read_what_is_not_in_it(
    members: dict[str, Any], is_remote: bool
) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [ASK], **members}
    found = bound_of(MESSAGES.parse(body, {}), len(jsonio.encode(body))).by_bytes(WINDOW)
    assert (found == WINDOW) is is_remote


@pytest.mark.parametrize(("members", "is_remote"), RESPONSES_TOOLS.values(), ids=RESPONSES_TOOLS)
def test_so_do_those_of_responses(members: dict[str, Any], is_remote: bool) -> None:
    body = {"model": "m", "input": "hi", **members}
    found = bound_of(RESPONSES.parse(body, {}), len(jsonio.encode(body))).by_bytes(WINDOW)
    assert (found == WINDOW) is is_remote


def test_pictures_and_recordings_count_by_what_is_documented_not_by_their_bytes() -> None:
    data = "A" * 1_000_000
    picture = parts({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}})
    assert IMAGE_TOKENS < bound(picture) < IMAGE_TOKENS + 1024
    linked = parts({"type": "image_url", "image_url": {"url": "https://example.test/picture"}})
    assert bound(linked) == WINDOW
    assert IMAGE_TOKENS < bound(linked, links_are_images=True) < IMAGE_TOKENS + 1024
    recording = parts({"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}})
    assert len(data) // 8 < bound(recording) < len(data) // 8 + 1024


def test_a_count_of_a_tokenizer_is_a_better_bound_and_covers_the_same() -> None:
    for members in WRITTEN.values():
        body = {"model": "m", "messages": [ASK], **members}
        chat = read_request(body)
        found = bound_of(chat, len(jsonio.encode(body)))
        is_file = members is WRITTEN["a file of text"]
        assert (BIG in text_of(chat)) != is_file
        assert found.by_count(100, WINDOW) < (found.by_bytes(WINDOW) if not is_file else len(BIG) + 1024)
        assert found.by_count(10**9, WINDOW) == found.by_bytes(WINDOW)


def test_what_another_api_can_say_and_chat_completions_cannot_is_counted_too() -> None:
    ask = {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;AAAA"}]}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    found = {"type": "function_call_output", "call_id": "c", "output": ask["content"]}
    unknown = {"type": "mcp_call", "name": "f", "arguments": "{}", "output": BIG}
    chat = read_responses_request({"model": "m", "input": [ask, call, found, unknown]})
    assert BIG not in text_of(chat)
    assert BIG in own_text_of(chat)
    assert "AAAA" not in own_text_of(chat)
    assert not own_text_of(read_request({"model": "m", "messages": [ASK]}))


def test_reasoning_that_came_compressed_counts_as_it_is_sent() -> None:
    envelope = carry("m", [], BIG)
    assert len(envelope) < 1000
    thought = {"type": "reasoning", "summary": [], "encrypted_content": envelope}
    thinking = {"type": "thinking", "thinking": "", "signature": envelope}
    said = {"role": "assistant", "content": "x"}
    response = {"model": "m", "input": [ASK, thought, said, ASK]}
    blocks = {"role": "assistant", "content": [thinking, {"type": "text", "text": "x"}]}
    message = {"model": "m", "max_tokens": 9, "messages": [ASK, blocks, ASK]}
    for request, body in ((RESPONSES.parse(response, {}), response), (MESSAGES.parse(message, {}), message)):
        assert BIG in text_of(request)
        assert bound_of(request, len(jsonio.encode(body))).by_bytes(WINDOW) > len(BIG)


def test_a_prediction_is_billed_as_output_too() -> None:
    chat = read_request({"model": "m", "messages": [ASK], "prediction": {"type": "content", "content": BIG}})
    assert predicted_tokens(chat) > len(BIG)
