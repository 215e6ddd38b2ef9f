"""What an endpoint cannot do is no finding: the rules that would need it are skipped, and say why."""

from collections.abc import Callable

import pytest

from streamweir.conformance.rule import Outcome
from support.broken_endpoint import KEY, MODEL, BrokenEndpoint, Defect, ReceivedRequest, ScriptedResponse, answer
from support.conformance_check import checked, found
from support.dialect_rules import OPENAI

EQUAL = ("buffered.text", "buffered.finish", "buffered.usage")


def without(*members: str) -> Defect:
    """It takes no notice of these members."""

    def ignore(request: ReceivedRequest, response: ScriptedResponse) -> None:
        if response.status == 200 and any(name in request.body for name in members):
            body = {name: value for name, value in request.body.items() if name not in members}
            other = answer(request.with_body(body), OPENAI)
            response.frames, response.document = other.frames, other.document

    return ignore


def asks_nobody(request: ReceivedRequest, response: ScriptedResponse) -> None:
    if response.status == 401:
        other = answer(request.with_key(KEY), OPENAI)
        response.status, response.frames, response.document = other.status, other.frames, other.document
        response.fields = {**other.fields, "x-request-id": response.fields["x-request-id"]}


def never_says_the_same(request: ReceivedRequest, response: ScriptedResponse) -> None:
    if response.status == 200:
        word = b'" today %d"' % request.number
        response.pieces = [piece.replace(b'" today"', word) for piece in response.written()]


def refuses(status: int, holds: Callable[[ReceivedRequest], bool]) -> Defect:
    def refuse(request: ReceivedRequest, response: ScriptedResponse) -> None:
        if holds(request):
            error = {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}
            response.status, response.frames, response.document = status, [], {"error": error}
            response.fields["content-type"] = "application/json"

    return refuse


def says_little(request: ReceivedRequest, response: ScriptedResponse) -> None:
    """Three words, which no limit cuts."""
    if response.status == 200 and "tools" not in request.body:
        few = answer(request.with_body({**request.body, "max_tokens": 3}), OPENAI)
        response.frames, response.document = few.frames, few.document


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        pytest.param(
            asks_nobody,
            dict.fromkeys(("refused.wrong-key", "refused.no-key"), "the endpoint asks nobody for a key"),
            id="no keys",
        ),
        pytest.param(
            never_says_the_same,
            dict.fromkeys(EQUAL, "the model does not say the same twice"),
            id="not deterministic",
        ),
        pytest.param(
            without("tools", "tool_choice"),
            dict.fromkeys(("asked.tool", "asked.parallel-tools"), "the model called no tool"),
            id="no tools",
        ),
        pytest.param(
            refuses(400, lambda request: "n" in request.body),
            {"asked.choices": "choices was answered with status 400"},
            id="choices refused",
        ),
        pytest.param(
            refuses(429, lambda request: "no-such" in str(request.body.get("model"))),
            {
                "refused.unknown-model": "unknown-model was answered with status 429",
                "refused.before-stream": "unknown-model-streamed was answered with status 429",
                "refused.same-when-streamed": "unknown-model was answered with status 429",
            },
            id="too often",
        ),
        pytest.param(
            refuses(503, lambda request: request.body.get("max_tokens") == 4),
            {
                "asked.limit": "limited was answered with status 503",
                "asked.limit-finish": "limited was answered with status 503",
            },
            id="away for a moment",
        ),
        pytest.param(says_little, {"asked.limit-finish": "the answer is shorter than the limit anyway"}, id="short"),
    ],
)
async def test_what_it_cannot_do(change: Defect, reasons: dict[str, str]) -> None:
    async with BrokenEndpoint(OPENAI, change) as endpoint:
        report = await checked(endpoint.base_url, "openai", MODEL, KEY)
    assert not found(report), found(report)
    skipped = {verdict.rule.id: verdict.reason for verdict in report.with_outcome(Outcome.SKIPPED)}
    assert reasons.items() <= skipped.items(), skipped


async def test_without_a_key_where_none_is_needed() -> None:
    async with BrokenEndpoint(OPENAI, asks_nobody) as endpoint:
        report = await checked(endpoint.base_url, "openai", MODEL, None)
    assert not found(report), found(report)
