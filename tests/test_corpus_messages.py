"""Every recorded answer of the corpus through the Messages API: the same facts as through chat completions.

Text, reasoning, calls, the reason of the stop and the usage are read from both outputs with the standard json module,
and compared; so are the two ways of this API, streamed and buffered. Every recording of Anthropic's is also passed on,
and comes out as it went in, to the byte. Recordings that were edited by hand only have to come out in good order.
`make test` takes every eighth recording, `make soak` all.
"""

import json
from typing import Any

import pytest

from streamweir.cli.commands.replay import replay
from streamweir.frontends.base import Reply
from streamweir.frontends.messages.frontend import MESSAGES
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.registry import provider_named
from support.corpus import PARTS, WHY_MISSING, Recording, recordings
from support.messages import documents_of, read_documents
from support.provider_cost import frames_without_cost
from support.soak import part_of

RECORDINGS = part_of(recordings(), PARTS)
if not RECORDINGS:
    pytest.skip(WHY_MISSING, allow_module_level=True)

KINDS = {
    "openai-chat": "openai",
    "anthropic-messages": "anthropic",
    "gemini": "gemini",
    "openai-responses": "openai-responses",
}
WORDS = {
    "stop": {"end_turn", "stop_sequence", "pause_turn", "compaction"},
    "length": {"max_tokens", "model_context_window_exceeded"},
    "tool_calls": {"tool_use"},
    "function_call": {"tool_use"},
    "content_filter": {"refusal"},
}
REPLY = Reply(id="msg_1", now=lambda: 0, model="asked", request_id="req_1", choices=None, include_usage=True)
STRAY = (b"event: data", b"data: [DONE]")
"""Not of this wire; some proxies end a stream with it."""
STREAMS = [recording for recording in RECORDINGS if not recording.is_whole]


def named(recording: Recording) -> str:
    return recording.name


def streamed(recording: Recording, mode: Mode = Mode.TRANSLATE) -> tuple[bytes, Meter]:
    meter = Meter()
    exchange = Exchange(provider_named(KINDS[recording.family]), MESSAGES, REPLY, mode, meter)
    out = exchange.feed(recording.body()) + exchange.finish()
    if exchange.failure is not None:
        assert not out
        out = MESSAGES.write_error(exchange.failure).body
        out = b"event: error\ndata: %b\n\n" % out
    return out, meter


def buffered(recording: Recording) -> dict[str, Any]:
    exchange = WholeExchange(provider_named(KINDS[recording.family]), MESSAGES, REPLY, Mode.TRANSLATE, Meter())
    out = exchange.feed(recording.body()) + exchange.finish()
    message: dict[str, Any] = json.loads(out or MESSAGES.write_error(exchange.failure).body)  # type: ignore[arg-type]
    return message


def facts_of(message: dict[str, Any]) -> dict[str, Any]:
    """Of a message of this API."""
    if "error" in message:
        return {"failed": True}
    blocks, usage = message["content"], message["usage"]
    return {
        "failed": False,
        "text": "".join(block["text"] for block in blocks if block["type"] == "text"),
        "reasoning": "".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        "calls": [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"],
        "prompt": usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"],
        "cached": usage["cache_read_input_tokens"],
        "output": usage["output_tokens"],
    }


def chat_facts(recording: Recording) -> tuple[dict[str, Any], str]:
    """Of the same recording through chat completions, and the reason of its finish."""
    out, completed = replay(
        recording.body(), source=KINDS[recording.family], target="openai", usage=True, buffered=True, id="chatcmpl-1"
    )
    if not completed:
        return {"failed": True}, ""
    document = json.loads(out)
    (choice,) = [choice for choice in document["choices"] if choice["index"] == 0]
    message, usage = choice["message"], document["usage"]
    calls = [call.get("function") or in_object(call["custom"]) for call in message.get("tool_calls", [])]
    calls += [message["function_call"]] if "function_call" in message else []
    details = usage.get("prompt_tokens_details") or {}
    facts = {
        "failed": False,
        "refused": bool(message.get("refusal")),
        "text": (message["content"] or "") + (message.get("refusal") or ""),
        "reasoning": message.get("reasoning_content", ""),
        "calls": [(call["name"], arguments_in(call["arguments"])) for call in calls],
        "prompt": usage["prompt_tokens"],
        "cached": details.get("cached_tokens") or 0,
        "output": usage["completion_tokens"],
    }
    return facts, choice["finish_reason"]


def in_object(custom: dict[str, str]) -> dict[str, str]:
    """A free-form call, as this API has it."""
    return {"name": custom["name"], "arguments": json.dumps({"input": custom["input"]})}


def arguments_in(text: str) -> Any:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"INVALID_JSON": text}


@pytest.mark.parametrize("recording", RECORDINGS, ids=named)
def test_the_facts_are_those_of_chat_completions(recording: Recording) -> None:
    out, _ = streamed(recording)
    message, whole = read_documents(documents_of(out)), buffered(recording)
    if "error" in whole:
        assert "error" in message
    else:
        # By how long a cache holds what was written is told at the start, where this may not be known yet.
        for told in (message["usage"], whole["usage"]):
            told.pop("cache_creation", None)
        assert message == whole, "the joined stream is the buffered body"
    if recording.is_edited:
        return
    facts, finish = chat_facts(recording)
    assert {**facts, **facts_of(whole)} == facts
    if not facts["failed"]:
        words = set(WORDS[finish])
        if finish == "stop":
            words |= {"tool_use"} if facts["calls"] else {"refusal"} if facts["refused"] else set()
        assert whole["stop_reason"] in words


@pytest.mark.parametrize("recording", [r for r in STREAMS if KINDS[r.family] == "anthropic"], ids=named)
def test_a_recording_of_anthropics_passes_to_the_byte_with_the_same_facts(recording: Recording) -> None:
    body = recording.body()
    out, passed = streamed(recording, Mode.PASS)
    _, translated = streamed(recording)
    assert passed.record.completed == translated.record.completed
    if passed.record.completed:
        whole = body if body.endswith(b"\n\n") else body.rstrip(b"\n") + b"\n\n"
        if b"cost" in whole:  # what a provider charges for it is left out
            sent = frames_without_cost(out)
            assert frames_without_cost(whole)[: len(sent)] == sent
            whole = out
        assert whole.startswith(out)
        rest = [line for line in whole[len(out) :].split(b"\n") if line]
        assert all(line.startswith(b":") or line in STRAY for line in rest), "nothing of the answer is left out"
    ours, theirs = passed.settle(), translated.settle()
    assert (ours.usage, ours.finishes, ours.verdict, ours.model) == (
        theirs.usage,
        theirs.finishes,
        theirs.verdict,
        theirs.model,
    )
    said = [meter.record.delivered.getvalue().replace("{}", "") for meter in (passed, translated)]
    assert said[0] == said[1], "all but the empty arguments of a call that has none"
    assert passed.record.reasoning_text.getvalue() == translated.record.reasoning_text.getvalue()
