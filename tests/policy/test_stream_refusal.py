"""A refusal of `stream_options` is distinguished from any other, by the texts of the providers."""

import json
from typing import Any

import pytest

from streamweir.core.errors import CallerError, UpstreamError
from streamweir.policy.routing.health import TargetId
from streamweir.policy.routing.stream_refusal import is_refusal_of_stream_options
from streamweir.policy.routing.target_memory import TargetMemory
from streamweir.providers.failure import read_error

EXTRA = {"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}
INNER = {**EXTRA, "loc": ["body", "stream_options", "include_usage"]}


def openai(message: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, openai("Unknown parameter: 'stream_options'.", "stream_options")),  # OpenAI, Azure
        (400, openai("Unknown parameter: 'stream_options.include_usage'.", "stream_options.include_usage")),
        (400, openai("Unrecognized request argument supplied: stream_options")),  # older versions of Azure's
        (400, openai("stream_options is not supported with this model")),
        (400, openai("This model does not support stream_options.")),
        (400, openai("The 'stream_options' parameter is only allowed when 'stream' is enabled.")),
        (400, openai("Additional properties are not allowed ('stream_options' was unexpected)")),
        (422, {"detail": [EXTRA]}),  # any server built on pydantic
        (422, {"object": "error", "message": {"detail": [INNER]}, "type": "invalid_request_error", "param": None}),
        (422, {"object": "Error", "message": [EXTRA], "detail": [EXTRA], "code": 3001}),  # Mistral, then and now
        (422, {"message": json.dumps({"detail": [EXTRA]})}),
        (400, {"object": "error", "message": f"[{EXTRA!s}]", "code": 400}),  # vLLM
        (400, {"detail": "Unsupported parameter: stream_options"}),
        (422, {"error": "unknown field `stream_options`, expected one of `model`, `messages`", "error_type": "v"}),
        (400, {"message": 'json: unknown field "stream_options"'}),
        (400, {"error": {"code": 400, "message": 'Invalid JSON payload received. Unknown name "stream_options"'}}),
    ],
    ids=str,
)
def test_a_refusal(status: int, body: dict[str, Any]) -> None:
    assert is_refusal_of_stream_options(read_error(status, {}, json.dumps(body).encode()))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, openai("Unknown parameter: 'top_k'.", "top_k")),
        (400, openai("Invalid 'tools[0].function.name': 'stream_options' is not allowed", "tools[0].function.name")),
        (400, openai("Your prompt says stream_options 3 times.")),
        (400, openai("my_stream_options_2 is not allowed")),
        (422, {"detail": [{**EXTRA, "loc": ["body", "top_k"]}]}),
        (400, openai("maximum context length exceeded by stream_options", "messages")),
        (401, openai("stream_options is not allowed for this key")),
        (500, openai("stream_options is not supported")),
        (400, {}),
    ],
    ids=str,
)
def test_any_other_error(status: int, body: dict[str, Any]) -> None:
    assert not is_refusal_of_stream_options(read_error(status, {}, json.dumps(body).encode()))


def test_only_a_refused_request_counts() -> None:
    assert is_refusal_of_stream_options(CallerError("invalid_value", "m", param="stream_options"))
    assert not is_refusal_of_stream_options(CallerError("invalid_type", "m", param="stream_options"))
    assert not is_refusal_of_stream_options(UpstreamError("upstream_server_error", "stream_options is not supported"))


def test_targets_are_remembered_and_the_oldest_forgotten() -> None:
    a, b, c = (TargetId("p", name) for name in "abc")
    refusals = TargetMemory(max_targets=2)
    assert a not in refusals
    refusals.note(a)
    refusals.note(a)
    refusals.note(b)
    assert a in refusals
    refusals.note(c)  # b was of use least recently
    assert [target in refusals for target in (a, b, c)] == [True, False, True]


def test_one_request_can_know_more_than_the_others() -> None:
    a, b, c = (TargetId("p", name) for name in "abc")
    refusals = TargetMemory()
    own = refusals.including(a).including(b)
    assert ([target in own for target in (a, b, c)], a in refusals) == ([True, True, False], False)
    own.note(c)
    assert ([target in own for target in (a, b, c)], c in refusals) == ([True, True, True], True)
