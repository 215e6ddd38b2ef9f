"""An interview's answers as rules see them: by name, with a reason where there is none, and whatever they hold."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamweir.conformance.evaluate_session import evaluate_session, nearest_dialect
from streamweir.conformance.parsed_answer import parse_answer
from streamweir.conformance.plan import ProbeRequest, RequestOptions, plan
from streamweir.conformance.probe_session import AnswerContent, ObservedExchange, ProbeSession, content_of
from streamweir.conformance.recording import Piece, Recording, RequestInfo
from support import valid_answers as right

ASKS = plan(RequestOptions(model="vendor/model"))


def answer(name: str, body: bytes, status: int = 200, **members: Any) -> ObservedExchange:
    recording = Recording(body=body, name=name, status=status, headers=(), **members)
    return ObservedExchange(name=name, probe_request=ProbeRequest(name=name), recording=recording)


def test_reasons() -> None:
    session = ProbeSession(
        [
            answer("streamed", b"{}", 503),
            answer("plain", b"", was_cut=True),
            ObservedExchange(
                name="buffered", probe_request=ProbeRequest(name="buffered"), recording=None, failure="it is away"
            ),
        ],
        {"long": "only 3 requests were allowed"},
    )
    assert session.why_missing("streamed", "plain") is None
    assert session.why_unanswered("streamed") == "streamed was answered with status 503"
    assert session.why_unanswered("plain") == "plain was not read to its end: it was left"
    assert session.why_missing("streamed", "buffered") == "buffered got no answer: it is away"
    assert session.why_unanswered("long") == "only 3 requests were allowed"
    assert session.why_missing("never") == "never was not asked"


def test_a_stream_and_a_body_say_the_same() -> None:
    streamed = content_of(parse_answer(right.stream(right.tool())))
    assert [name for name, _ in streamed.calls[0]] == ["get_weather"]
    assert streamed.finish_reasons == {0: "tool_calls"}
    assert streamed.usage is not None
    whole = content_of(parse_answer(right.whole(right.whole_document("openai"))))
    assert whole.calls == streamed.calls
    assert whole.finish_reasons == {0: "tool_calls"}
    assert whole.prompt_tokens is not None


def test_values_of_the_wrong_type_are_left_out() -> None:
    wrong: dict[str, Any] = {"id": 7, "usage": [], "choices": ["x", {"index": "0", "message": {}}, {"index": 0}]}
    assert content_of(parse_answer(Recording(body=json.dumps(wrong).encode()))) == AnswerContent()
    assert content_of(parse_answer(Recording(body=b"[1]"))) == AnswerContent()
    assert AnswerContent(usage={"prompt_tokens": True, "completion_tokens": -1}).prompt_tokens is None
    calls = {"choices": [{"index": 0, "message": {"tool_calls": [1, {}, {"function": {"name": 1}}]}}]}
    assert content_of(parse_answer(Recording(body=json.dumps(calls).encode()))).calls == {0: [("", "")]}


_BODIES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            b'{"error":{"message":"no","type":"invalid_request_error"}}',
            b'{"error":"no"}',
            b'{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}',
            right.stream(right.text()).body,
            right.stream(right.tool()).body,
            right.stream(right.failed("openai")).body,
        ]
    ),
)


@st.composite
def sessions(draw: st.DrawFn) -> ProbeSession:
    heard = []
    for ask in ASKS:
        if draw(st.integers(0, 9)) == 0:
            continue
        recording = None
        if draw(st.integers(0, 9)):
            body = draw(_BODIES)
            recording = Recording(
                body=body,
                name=ask.name,
                request=RequestInfo(stream=ask.is_streamed, include_usage=ask.includes_usage),
                status=draw(st.sampled_from([200, 200, 200, 400, 401, 404, 405, 429, 500])),
                headers=draw(st.sampled_from([(), (("content-type", "text/event-stream"), ("x-request-id", "a"))])),
                pieces=draw(st.sampled_from([(), (Piece(0, 0.5),), (Piece(0, 0.1), Piece(len(body), 9.0))])),
                was_cut=draw(st.booleans()),
            )
        connection = draw(st.one_of(st.none(), st.integers(0, 2)))
        heard.append(ObservedExchange(name=ask.name, probe_request=ask, recording=recording, connection=connection))
    return ProbeSession(heard)


@given(sessions())
def test_no_interview_is_too_odd_to_be_judged(session: ProbeSession) -> None:
    nearest = nearest_dialect(session)
    assert nearest.distance <= nearest.runner_up_distance
    assert evaluate_session(session, nearest.dialect).dialect is nearest.dialect
