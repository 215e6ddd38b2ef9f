"""Every recorded answer of the Responses API as that of an upstream: what its last frame says, and passed to the byte.

A recording's own last frame says what the answer was: text, calls, reasoning, usage and status; where it has no
`output`, the ends of its items do. It is read with the standard json module. To callers of the same API the recording
goes on as it came. `make test` takes every eighth recording, `make soak` all.
"""

import json
from typing import Any

import pytest

from streamweir.core.completion import Accumulator, Completion
from streamweir.frontends.base import Reply
from streamweir.frontends.responses.frontend import RESPONSES
from streamweir.pipeline.exchange import Exchange
from streamweir.pipeline.intake import Intake
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.registry import provider_named
from support.corpus import PARTS, WHY_MISSING, Recording, recordings
from support.event_rules import assert_valid_events
from support.provider_cost import frames_without_cost
from support.soak import part_of
from support.sse_reading import DONE, documents_of

FAMILY = "openai-responses"
RECORDINGS = part_of([each for each in recordings() if each.family == FAMILY], PARTS)
if not RECORDINGS:
    pytest.skip(WHY_MISSING, allow_module_level=True)

REPLY = Reply(id="resp_1", now=lambda: 0, model="asked", request_id="req_1", include_usage=True)
STRAY = (b"event: data", b"data: [DONE]")
"""Not of this wire; some proxies end a stream with it."""
FINISHES = {"max_output_tokens": "length", "content_filter": "content_filter"}


def named(recording: Recording) -> str:
    return recording.name


def documents(recording: Recording) -> list[dict[str, Any]]:
    return [document for document, _ in documents_of(recording.body()) if document is not DONE]


def completion_of(recording: Recording) -> Completion:
    intake, fold = Intake(provider_named(FAMILY)), Accumulator()
    events = intake.feed(recording.body()) + intake.finish()
    assert_valid_events(events)
    for event in events:
        fold.feed(event)
    return fold.fold()


def contradicts_itself(sent: list[dict[str, Any]]) -> bool:
    """Its deltas are not the beginning of what they are said to be at their end."""
    texts: dict[Any, str] = {}
    for each in sent:
        at = (each.get("output_index"), each.get("content_index"))
        if each["type"] == "response.output_text.delta":
            texts[at] = texts.get(at, "") + each["delta"]
        elif each["type"] == "response.output_text.done" and not each["text"].startswith(texts.get(at, "")):
            return True
    return False


@pytest.mark.parametrize("recording", RECORDINGS, ids=named)
def test_an_answer_is_what_its_last_frame_says(recording: Recording) -> None:
    sent = documents(recording)
    made = completion_of(recording)
    ends = [each for each in sent if each["type"] in ("response.completed", "response.incomplete")]
    if not ends:
        assert made.error is not None
        return
    if contradicts_itself(sent):
        return
    response = ends[-1]["response"]
    done = [each["item"] for each in sent if each["type"] == "response.output_item.done"]
    output = response["output"] or done
    tools = response.get("tools") or []
    said = [part for item in output if item["type"] == "message" for part in item["content"]]
    thought = [
        "".join(part["text"] for part in item.get("content") or [])
        or "\n\n".join(part["text"] for part in item["summary"])
        for item in output
        if item["type"] == "reasoning"
    ]
    calls = [
        (item["call_id"], item["name"], item.get("arguments", item.get("input")))
        for item in output
        if item["type"] == "function_call" or (item["type"] == "custom_tool_call" and not tools)
    ]
    (choice,) = made.choices
    assert (choice.text or "") == "".join(part.get("text", "") for part in said)
    assert (choice.refusal or "") == "".join(part.get("refusal", "") for part in said)
    assert (choice.reasoning or "") == "".join(thought)
    assert [(call.id, call.name, call.arguments) for call in choice.calls] == calls
    details = response.get("incomplete_details") or {}
    assert choice.reason == FINISHES.get(str(details.get("reason")), "tool_calls" if calls else "stop")
    # In the last frame they are encrypted anew.
    sealed = [item["encrypted_content"] for item in done if item.get("encrypted_content")]
    assert [entry["data"] for entry in choice.reasoning_details if "data" in entry] == sealed
    usage = made.usage
    assert usage is not None
    assert usage.prompt_tokens == response["usage"]["input_tokens"]
    assert usage.completion_tokens == response["usage"]["output_tokens"]


def streamed(recording: Recording, mode: Mode) -> tuple[bytes, Meter]:
    meter = Meter()
    exchange = Exchange(provider_named(FAMILY), RESPONSES, REPLY, mode, meter)
    return exchange.feed(recording.body()) + exchange.finish(), meter


@pytest.mark.parametrize("recording", RECORDINGS, ids=named)
def test_a_recording_passes_to_the_byte_with_the_same_facts(recording: Recording) -> None:
    body = recording.body()
    out, passed = streamed(recording, Mode.PASS)
    _, translated = streamed(recording, Mode.TRANSLATE)
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
    assert passed.record.delivered.getvalue() == translated.record.delivered.getvalue()
    assert passed.record.reasoning_text.getvalue() == translated.record.reasoning_text.getvalue()


@pytest.mark.parametrize("recording", RECORDINGS, ids=named)
def test_what_a_recording_says_can_be_read_again(recording: Recording) -> None:
    """Its documents, each as a frame without an `event` line, are the same answer."""
    frames = [b"data: %b\n\n" % json.dumps(each).encode() for each in documents(recording)]
    intake, fold = Intake(provider_named(FAMILY)), Accumulator()
    for event in [*intake.feed(b"".join(frames)), *intake.finish()]:
        fold.feed(event)
    assert fold.fold() == completion_of(recording)
