"""The short way of a whole answer: the same bytes, the same record and the same settlement as the long one."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.frontends.base import Reply
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline import canonical
from streamweir.pipeline.exchange import WholeExchange
from streamweir.pipeline.meter import Meter, Record
from streamweir.pipeline.plan import Mode
from streamweir.pipeline.plausibility import UsageBounds
from streamweir.pipeline.settlement import Settlement
from streamweir.providers.registry import provider_named
from support.answers import openai_whole
from support.corpus import WHY_MISSING, recordings

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures").glob("*/*/response.json"))
SHORT_FIXTURES = {"openai/whole_text", "openai/whole_tool_calls"}
RECORDED = [recording for recording in recordings() if recording.is_whole and recording.family == "openai-chat"]
SCOPE = UsageBounds(request_bytes=1_000_000)

Told = tuple[bytes, dict[str, Any], Settlement, StreamweirError | None]


def reported(body: bytes, mode: Mode, bounds: UsageBounds = SCOPE, parts: Sequence[bytes] = ()) -> Told:
    """All that is known of an answer when it is over."""
    meter = Meter(3, bounds=bounds)
    reply = Reply(id="chatcmpl-ours", now=lambda: 7, model="m", target_model="t")
    exchange = WholeExchange(provider_named("openai"), FRONTENDS.by_name["openai"], reply, mode, meter)
    out = b"".join([exchange.feed(part) for part in parts or (body,)]) + exchange.finish()
    assert exchange.ended
    record = {name: getattr(meter.record, name) for name in Record.__struct_fields__}
    record["delivered"], record["reasoning_text"] = (
        meter.record.delivered.getvalue(),
        meter.record.reasoning_text.getvalue(),
    )
    return out, record, meter.settle(), exchange.failure


def is_short(body: bytes, bounds: UsageBounds = SCOPE) -> bool:
    return canonical.take_canonical(body, Record(bounds=bounds)) is not None


def assert_same(body: bytes, bounds: UsageBounds = SCOPE) -> None:
    assert reported(body, Mode.FILTER, bounds) == reported(body, Mode.TRANSLATE, bounds)


def written(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}")
def test_a_fixture_comes_out_the_same(path: Path) -> None:
    body, name = path.read_bytes(), f"{path.parent.parent.name}/{path.parent.name}"
    assert is_short(body) is (name in SHORT_FIXTURES)
    assert_same(body)


@pytest.mark.skipif(not RECORDED, reason=WHY_MISSING)
def test_a_recording_comes_out_the_same() -> None:
    for recording in RECORDED:
        assert_same(recording.body())
    of_openai = [recording for recording in RECORDED if recording.provider == "openai" and not recording.is_error]
    short = [recording for recording in of_openai if is_short(recording.body())]
    assert len(short) > len(of_openai) / 2, "the short way is the usual one"


def document(**changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(openai_whole())
    return body | changes


def message(**changes: Any) -> dict[str, Any]:
    body = document()
    body["choices"][0]["message"] |= changes
    return body


def choice(**changes: Any) -> dict[str, Any]:
    body = document()
    body["choices"][0] |= changes
    return body


def usage(**changes: Any) -> dict[str, Any]:
    body = document()
    body["usage"] |= changes
    return body


def without(body: dict[str, Any], *path: str | int) -> dict[str, Any]:
    *way, last = path
    holder: Any = body
    for step in way:
        holder = holder[step]
    del holder[last]
    return body


def call(id: str = "call_1", name: str = "f", arguments: str = '{"x":1}') -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


DETAILS = {"cached_tokens": 3, "audio_tokens": 0}

SHORT = {
    "text": document(),
    "no_labels": without(without(document(), "service_tier"), "system_fingerprint"),
    "null_labels": document(service_tier=None, system_fingerprint=None),
    "no_logprobs": without(document(), "choices", 0, "logprobs"),
    "no_refusal": without(document(), "choices", 0, "message", "refusal"),
    "annotations": message(annotations=[]),
    "empty": message(content=""),
    "emoji": message(content='"Grüße" \\ \n\u2028 🦆 </script>\x7f'),
    "call": message(content=None, tool_calls=[call()]),
    "calls_beside_text": message(tool_calls=[call(), call("call_2", "g", "")]),
    "tool_calls": choice(
        finish_reason="tool_calls", message=message(content=None, tool_calls=[call()])["choices"][0]["message"]
    ),
    "length": choice(finish_reason="length"),
    "filter": choice(finish_reason="content_filter"),
    "choices": document(choices=[choice()["choices"][0], choice(index=1, finish_reason="length")["choices"][0]]),
    "details": usage(prompt_tokens_details=DETAILS, completion_tokens_details={"reasoning_tokens": 2, "x": None}),
    "details_beyond_their_whole": usage(prompt_tokens_details={"cached_tokens": 0, "audio_tokens": 900.0}),
}

LONG = {
    "cached_beside_the_prompt": usage(prompt_tokens_details={"cached_tokens": 900, "audio_tokens": 1.0}),
    "id": document(id="gen-1"),
    "empty_id": document(id=""),
    "no_id": without(document(), "id"),
    "object": document(object="chat.completion.chunk"),
    "created": document(created=0),
    "no_created": without(document(), "created"),
    "model": document(model=""),
    "null_model": document(model=None),
    "extra": document(citations=["x"]),
    "unknown": document(provider="x"),
    "error": document(error={"message": "no"}),
    "tier": document(service_tier=1),
    "no_choices": document(choices=[]),
    "too_many_choices": document(choices=[choice(index=index)["choices"][0] for index in range(129)]),
    "index": choice(index=1),
    "one_index_twice": document(choices=[choice()["choices"][0]] * 2),
    "order": document(choices=[choice(index=index)["choices"][0] for index in (1, 0)]),
    "logprobs": choice(logprobs={"content": [], "refusal": None}),
    "filter_results": choice(content_filter_results={"hate": {}}),
    "word": choice(finish_reason="eos"),
    "other": choice(finish_reason="other"),
    "null_finish": choice(finish_reason=None),
    "failure": choice(finish_reason="error"),
    "role": message(role="model"),
    "no_role": without(document(), "choices", 0, "message", "role"),
    "null_content": message(content=None),
    "parts": message(content=[{"type": "text", "text": "x"}]),
    "refusal": message(content=None, refusal="no"),
    "reasoning": message(reasoning_content="hm"),
    "annotated": message(annotations=[{"type": "url_citation"}]),
    "audio": message(audio={"id": "a", "data": "AA"}),
    "function_call": message(content=None, function_call={"name": "f", "arguments": "{}"}),
    "no_calls": message(tool_calls=[]),
    "empty_text_beside_calls": message(content="", tool_calls=[call()]),
    "call_without_id": message(content=None, tool_calls=[call(id="")]),
    "call_without_name": message(content=None, tool_calls=[call(name="")]),
    "calls_of_one_id": message(content=None, tool_calls=[call(), call(name="g")]),
    "custom_call": message(content=None, tool_calls=[{"id": "c", "type": "custom", "custom": {"name": "f"}}]),
    "arguments": message(content=None, tool_calls=[call() | {"function": {"name": "f", "arguments": {}}}]),
    "no_usage": without(document(), "usage"),
    "null_usage": document(usage=None),
    "partial_usage": without(document(), "usage", "completion_tokens"),
    "total": usage(total_tokens=99),
    "no_total": without(document(), "usage", "total_tokens"),
    "negative": usage(prompt_tokens=-5, total_tokens=0),
    "absurd": usage(prompt_tokens=10**18, total_tokens=10**18 + 5),
    "cost": usage(cost=0.1),
    "counts_as_floats": usage(prompt_tokens=7.0),
    "no_details": usage(prompt_tokens_details={}),
    "null_details": usage(prompt_tokens_details=None),
    "deep_details": usage(prompt_tokens_details={"x": [[]]}),
}


@pytest.mark.parametrize("name", SHORT)
def test_what_takes_the_short_way_comes_out_the_same(name: str) -> None:
    body = written(SHORT[name])
    assert is_short(body)
    assert_same(body)


@pytest.mark.parametrize("name", LONG)
def test_what_takes_the_long_way_leaves_no_trace_of_the_short_one(name: str) -> None:
    body = written(LONG[name])
    assert not is_short(body)
    assert_same(body)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: body + b"}",
        lambda body: body[:-1],
        lambda body: body.replace(b"Hello", b"\\ud83d"),
        lambda body: body.replace(b"Hello", b"\xff"),
        lambda body: body.replace(b"Hello", b"a\nb"),
        lambda body: body.replace(b'"created":1744220042', b'"created":1e400'),
        lambda body: body.replace(b'"created":1744220042', b'"created":NaN'),
        lambda body: body.replace(b'"refusal":null', b'"refusal":' + b"[" * 2000 + b"]" * 2000),
    ],
)
def test_what_cannot_be_read_takes_the_long_way(spoil: Callable[[bytes], bytes]) -> None:
    body = spoil(openai_whole())
    assert not is_short(body)
    assert_same(body)


def test_how_a_body_is_spaced_cut_and_ordered_changes_nothing() -> None:
    plain = openai_whole()
    expected = reported(plain, Mode.TRANSLATE)
    turned = written(dict(reversed(json.loads(plain).items())))
    for body in (turned, json.dumps(json.loads(plain), indent=2).encode() + b"\n", b"\xef\xbb\xbf\r\n " + plain):
        assert reported(body, Mode.FILTER) == expected
        assert reported(body, Mode.FILTER, parts=[body[at : at + 1] for at in range(len(body))]) == expected


def test_a_report_that_cannot_be_true_is_flagged() -> None:
    bounds = UsageBounds(request_bytes=100, max_output=10)
    body = openai_whole(usage=(7, 100_000))
    assert not is_short(body, bounds)
    assert_same(body, bounds)
    assert reported(body, Mode.FILTER, bounds)[2].flags == ("usage_anomaly",)


def test_it_ends_once() -> None:
    meter = Meter(3)
    reply = Reply(id="chatcmpl-ours", now=lambda: 7)
    exchange = WholeExchange(provider_named("openai"), FRONTENDS.by_name["openai"], reply, Mode.FILTER, meter)
    out = exchange.feed(openai_whole()) + exchange.finish()
    assert out
    settled = meter.settle()
    assert exchange.finish() == exchange.fail(UpstreamError("upstream_stream_reset", "reset")) == b""
    assert (exchange.failure, meter.record.error, meter.settle()) == (None, None, settled)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from(sorted(SHORT)), st.data())
def test_any_value_instead_of_a_member(name: str, data: st.DataObject) -> None:
    body = json.loads(json.dumps(SHORT[name]))
    holder: Any = body
    while True:
        index = data.draw(st.sampled_from(list(holder) if isinstance(holder, dict) else list(range(len(holder)))))
        inner = holder[index]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        holder = inner
    if data.draw(st.booleans()):
        holder[index] = data.draw(JSON)
    elif isinstance(holder, dict):
        holder[data.draw(st.text(max_size=3))] = data.draw(JSON)
    else:
        holder.append(data.draw(JSON))
    assert_same(written(body))
