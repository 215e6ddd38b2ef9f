"""Every recorded answer of the corpus through the Responses API: the same facts as through chat completions.

Text, reasoning, calls, the reason of the end and the usage are read from both outputs with the standard json module,
and compared; so are the two ways of this API, streamed and buffered. Recordings that were edited by hand only have to
come out in good order. `make test` takes every eighth recording, `make soak` all.
"""

import json
from typing import Any

import pytest

from streamweir.cli.commands.replay import replay
from streamweir.frontends.base import Reply
from streamweir.frontends.responses.frontend import RESPONSES
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.registry import provider_named
from support.corpus import PARTS, WHY_MISSING, Recording, recordings
from support.responses import documents_of, read_documents
from support.soak import part_of

KINDS = {"openai-chat": "openai", "anthropic-messages": "anthropic", "gemini": "gemini"}
RECORDINGS = part_of([each for each in recordings() if each.family in KINDS], PARTS)
if not RECORDINGS:
    pytest.skip(WHY_MISSING, allow_module_level=True)

REPLY = Reply(
    id="resp_1", now=lambda: 0, model="asked", choices=None, include_usage=True, shows_logprobs=True, echoed={}
)
INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def named(recording: Recording) -> str:
    return recording.name


def streamed(recording: Recording) -> dict[str, Any] | None:
    """None: it failed before anything could be written."""
    exchange = Exchange(provider_named(KINDS[recording.family]), RESPONSES, REPLY, Mode.TRANSLATE, Meter())
    out = exchange.feed(recording.body()) + exchange.finish()
    if exchange.failure is not None:
        assert not out
        return None
    return read_documents(documents_of(out))


def buffered(recording: Recording) -> dict[str, Any] | None:
    exchange = WholeExchange(provider_named(KINDS[recording.family]), RESPONSES, REPLY, Mode.TRANSLATE, Meter())
    out = exchange.feed(recording.body()) + exchange.finish()
    return json.loads(out) if out else None


def texts(parts: list[dict[str, Any]], *names: str) -> str:
    return "".join(part.get(name, "") for part in parts for name in names)


def facts_of(response: dict[str, Any]) -> dict[str, Any]:
    items, usage = response["output"], response["usage"]
    messages = [part for item in items if item["type"] == "message" for part in item["content"]]
    thoughts = [part for item in items if item["type"] == "reasoning" for part in item.get("content", [])]
    return {
        "text": texts(messages, "text", "refusal"),
        "reasoning": texts(thoughts, "text"),
        "calls": [
            (item["name"], item["arguments"] if item["type"] == "function_call" else item["input"])
            for item in items
            if item["type"].endswith("_call")
        ],
        "prompt": usage["input_tokens"],
        "cached": usage["input_tokens_details"]["cached_tokens"],
        "output": usage["output_tokens"],
    }


def chat_facts(recording: Recording) -> tuple[dict[str, Any], str] | None:
    """Of the same recording through chat completions, and the reason of its finish. None: it failed."""
    out, completed = replay(
        recording.body(), source=KINDS[recording.family], target="openai", usage=True, buffered=True, id="chatcmpl-1"
    )
    if not completed:
        return None
    document = json.loads(out)
    (choice,) = [choice for choice in document["choices"] if choice["index"] == 0]
    message, usage = choice["message"], document["usage"]
    calls = [call.get("function") or call["custom"] for call in message.get("tool_calls", [])]
    calls += [message["function_call"]] if "function_call" in message else []
    facts = {
        "text": (message["content"] or "") + (message.get("refusal") or ""),
        "reasoning": message.get("reasoning_content", ""),
        "calls": [(call["name"], call["arguments"] if "arguments" in call else call["input"]) for call in calls],
        "prompt": usage["prompt_tokens"],
        "cached": (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
        "output": usage["completion_tokens"],
    }
    return facts, choice["finish_reason"]


@pytest.mark.parametrize("recording", RECORDINGS, ids=named)
def test_the_facts_are_those_of_chat_completions(recording: Recording) -> None:
    response, whole = streamed(recording), buffered(recording)
    if whole is None:
        assert response is None or response["status"] == "failed"
    else:
        assert response == whole, "the last frame of the stream is the buffered body"
    if recording.is_edited:
        return
    facts = chat_facts(recording)
    if whole is None or facts is None:
        assert whole is None
        assert facts is None
        return
    assert facts_of(whole) == facts[0]
    reason = INCOMPLETE.get(facts[1])
    assert whole["status"] == ("completed" if reason is None else "incomplete")
    assert whole["incomplete_details"] == (None if reason is None else {"reason": reason})
