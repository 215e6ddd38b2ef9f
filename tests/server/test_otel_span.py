"""Spans and metrics are written so that the official library reads what the record says, whatever is in it."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import ScopeMetrics
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span, Status
from opentelemetry.semconv import attributes as stable
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from streamweir.config.check import kinds
from streamweir.config.model import Config, Provider
from streamweir.core.call_trace import CallTrace
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from streamweir.policy.attribution import Attribution
from streamweir.policy.redact import Redactor
from streamweir.policy.trace_context import RequestTrace
from streamweir.server.telemetry.otel.content import content_attributes
from streamweir.server.telemetry.otel.exporter import resource_of
from streamweir.server.telemetry.otel.measurement import DURATION_S, MAX_SERIES, Measurement
from streamweir.server.telemetry.otel.operation import Destinations, provider_name
from streamweir.server.telemetry.otel.protobuf import IntField, TextField, Value, attribute
from streamweir.server.telemetry.otel.span import SpanWriter
from streamweir.server.telemetry.record import AttemptRecord, RequestRecord
from streamweir.store.requests.content import Content
from support.collector import attributes_of, value_of

PAGE = (Path(__file__).parents[2] / "docs" / "tracing.md").read_text()
CONFIG = Config(providers=(Provider(name="openai", kind="openai"),))
TRACE = RequestTrace(bytes(range(16)), 5, True, options=(1, 1.0, 40, 7, -3, 0.5, 0.25, 2))
texts = st.text(max_size=40)
numbers = st.integers(0, 2**53)


def record(**members: Any) -> RequestRecord:
    basis: dict[str, Any] = {
        "id": "req_1",
        "method": "POST",
        "path": "/v1/chat/completions",
        "dialect": "openai",
        "model": "fast",
        "key": "ci",
        "key_id": "key_1",
        "workspace_id": "default",
        "attempts": [AttemptRecord(target="openai/gpt-4o", duration_s=0.25)],
        "status": 200,
        "verdict": Verdict.COMPLETED,
        "at_ms": 1_700_000_000_000,
        "duration_s": 0.5,
    }
    return RequestRecord(**{**basis, **members})


def written(record: RequestRecord, *, shows_costs: bool = False, content: bytes = b"") -> list[Span]:
    spans, count = SpanWriter(Destinations(CONFIG), shows_costs=shows_costs).write(record, TRACE, content)
    read = list(ScopeSpans.FromString(spans).spans)
    assert len(read) == count
    return read


def everything() -> RequestRecord:
    """A record in which each member has a value."""
    failed = AttemptRecord(
        target="openai/gpt-4o",
        credential="eu",
        error="upstream_rate_limited",
        status=429,
        provider_code="rate_limit_exceeded",
        provider_type="tokens",
        provider_param="n",
        provider_message="Slow down.",
        advice="Wait.",
        resends=1,
        trace=CallTrace(address="[::1]:443", via_proxy=True),
    )
    answered = AttemptRecord(
        target="openai/gpt-4o",
        start_s=0.1,
        duration_s=0.4,
        status=200,
        provider_request_id="req_of_theirs",
        model="gpt-4o-2024-08-06",
        trace=CallTrace(address="10.0.0.1:443", is_reused=True),
    )
    return record(
        attempts=[failed, answered],
        client="curl/8",
        peer="192.0.2.1",
        attribution=Attribution(session="s-1", tags=("team=a",)),
        stream=True,
        completion_id="chatcmpl-1",
        ttft_s=0.2,
        usage=Usage(input_uncached=3, cache_read=4, cache_write_5m=5, output=6, reasoning=7),
        usage_source=UsageSource.PROVIDER,
        flags=("fallback",),
        cost=1_000_000,
        price=2_000_000,
        service_tier="flex",
        finish="stop",
        status=502,
        error="upstream_stream_reset",
        verdict=Verdict.TRUNCATED,
    )


def names_of(spans: list[Span]) -> set[str]:
    return {each.key for span in spans for each in span.attributes}


def listed(heading: str) -> set[str]:
    """The first column of a table of the page."""
    rows = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return {name for row in re.findall(r"^\| (`.*?) \|", rows, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)}


def test_the_page_lists_the_attributes_of_the_spans() -> None:
    stored = Content(
        request_id="req_1",
        workspace_id="w",
        key_id="k",
        at_ms=1,
        prompt='{"model": "m", "messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]}',
        answer="c",
        upstream_frames=(),
        caller_frames=(),
    )
    content = content_attributes(
        stored, RequestRecord(id="req_1", method="POST", path="/", dialect="openai"), Redactor()
    )
    request, failed, answered = written(everything(), shows_costs=True, content=content)
    assert names_of([request]) == listed("The span of a request")
    assert names_of([failed, answered]) == listed("The span of an attempt")
    assert {event.name for span in (request, answered) for event in span.events} == listed("Events")


def test_the_page_lists_the_metrics() -> None:
    assert {each.name for each in Measurement(lambda: 0).instruments} == listed("Metrics")


def test_the_page_lists_the_attributes_of_the_resource() -> None:
    resource = Resource.FromString(resource_of(CONFIG))
    assert set(attributes_of(resource.attributes)) == listed("The resource")


def test_names_are_those_of_the_conventions() -> None:
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    for module in ("client", "error", "http", "network", "server", "url", "user_agent"):
        found = __import__(f"{stable.__name__}.{module}_attributes", fromlist=["*"])
        known |= {value for name, value in vars(found).items() if name.isupper()}
    used = listed("The span of a request") | listed("The span of an attempt")
    assert {name for name in used if not name.startswith("streamweir.")} - known == set()
    metrics = {value for name, value in vars(gen_ai_metrics).items() if name.startswith("GEN_AI_")}
    assert listed("Metrics") - metrics == set()


def test_kinds_of_providers_have_the_names_of_the_conventions() -> None:
    known = {each.value for each in gen_ai_attributes.GenAiProviderNameValues}
    assert {kind for kind in kinds() if provider_name(kind) in known} == {
        "anthropic",
        "azure",
        "bedrock",
        "bedrock-mantle",
        "cohere",
        "deepseek",
        "gemini",
        "groq",
        "mistral",
        "openai",
        "perplexity",
        "vertex",
        "xai",
    }


def test_everything_that_is_known_of_an_attempt() -> None:
    _, failed, answered = written(everything())
    assert failed.status == Status(code=Status.STATUS_CODE_ERROR, message="upstream_rate_limited")
    first, second = attributes_of(failed.attributes), attributes_of(answered.attributes)
    assert (first["network.peer.address"], first["network.peer.port"]) == ("::1", 443)
    assert (first["streamweir.provider.message"], first["streamweir.advice"]) == ("Slow down.", "Wait.")
    assert {name: value for name, value in second.items() if name.startswith("gen_ai.usage")} == {
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_creation.input_tokens": 5,
        "gen_ai.usage.output_tokens": 13,
        "gen_ai.usage.reasoning.output_tokens": 7,
    }
    assert {name: value for name, value in second.items() if name.startswith("gen_ai.request.")} == {
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.top_k": 40.0,
        "gen_ai.request.max_tokens": 7,
        "gen_ai.request.seed": -3,
        "gen_ai.request.frequency_penalty": 0.5,
        "gen_ai.request.presence_penalty": 0.25,
        "gen_ai.request.choice.count": 2,
    }
    assert [type(second[f"gen_ai.request.{name}"]) for name in ("temperature", "max_tokens")] == [float, int]
    assert (second["server.address"], second["server.port"]) == ("api.openai.com", 443)


def test_a_caller_that_has_gone_is_no_error() -> None:
    request, _ = written(record(status=499, verdict=Verdict.CLIENT_GONE))
    assert request.status.code == Status.STATUS_CODE_UNSET
    assert "error.type" not in names_of([request])


def test_secrets_in_names_that_callers_choose_are_masked() -> None:
    spans = written(record(model="sk-live-8d1f0a93c57b28e4aa", client="curl sk-live-8d1f0a93c57b28e4aa"))
    assert not any(b"8d1f0a93c57b28e4" in span.SerializeToString() for span in spans)


@given(
    members=st.fixed_dictionaries(
        {},
        optional={
            "id": texts,
            "model": texts | st.none(),
            "client": texts | st.none(),
            "key": texts | st.none(),
            "peer": texts,
            "completion_id": texts | st.none(),
            "finish": texts | st.none(),
            "status": st.sampled_from([0, 200, 404, 499, 503]),
            "verdict": st.sampled_from(Verdict) | st.none(),
            "error": st.none() | st.just("upstream_timeout"),
            "duration_s": st.floats(0, 1e6),
            "ttft_s": st.none() | st.floats(0, 1e6),
            "stream": st.booleans(),
            "bytes_out": numbers,
            "usage": st.none()
            | st.builds(Usage, input_uncached=numbers, output=numbers, cache_read=st.none() | numbers),
            "attempts": st.lists(
                st.builds(
                    AttemptRecord,
                    target=st.just("openai/gpt-4o") | texts,
                    error=st.none() | texts,
                    provider_request_id=st.none() | texts,
                    provider_message=st.none() | texts,
                    start_s=st.floats(0, 1e5),
                    duration_s=st.floats(0, 1e5),
                ),
                max_size=3,
            ),
        },
    )
)
def test_whatever_a_record_says_can_be_read(members: dict[str, Any]) -> None:
    made = record(**members)
    spans = written(made, shows_costs=True)
    assert [span.kind for span in spans] == [Span.SPAN_KIND_SERVER] + [Span.SPAN_KIND_CLIENT] * len(made.attempts)
    for number, span in enumerate(spans):
        attributes_of(span.attributes)
        assert (span.trace_id, int.from_bytes(span.span_id, "big")) == (TRACE.trace_id, 5 + number)
        assert span.end_time_unix_nano >= span.start_time_unix_nano >= 1_700_000_000_000_000_000
        assert span.name
    measurement = measuring()
    measurement.count(made)
    ScopeMetrics.FromString(measurement.encode()[0])


@given(st.text(), st.one_of(texts, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)))
def test_any_attribute_is_what_the_official_library_reads(name: str, value: Value) -> None:
    (read,) = Span.FromString(attribute(name, value)).attributes
    assert (read.key, value_of(read.value)) == (name, value)


@given(texts, st.integers(0, 2**63 - 1) | st.integers(0, 5000))
def test_an_attribute_that_varies_is_written_like_any_other(text: str, number: int) -> None:
    assert TextField("name").encode(text) == attribute("name", text)
    assert IntField("name").encode(number) == attribute("name", number)


def measuring() -> Measurement:
    moments = iter(range(1, 1000))
    measurement = Measurement(lambda: next(moments))
    measurement.use(Destinations(CONFIG), ["fast"], ["openai/gpt-4o"])
    return measurement


def test_the_series_of_a_metric_are_bounded_and_the_rest_is_marked() -> None:
    measurement = measuring()
    for number in range(MAX_SERIES + 50):
        measurement.count(record(attempts=[], error=f"code_{number}", verdict=Verdict.REJECTED, status=400))
    (metric,) = ScopeMetrics.FromString(measurement.encode()[0]).metrics
    points = metric.histogram.data_points
    assert len(points) == MAX_SERIES + 1
    (rest,) = [each for each in points if "otel.metric.overflow" in attributes_of(each.attributes)]
    assert rest.count == 50


def test_names_that_callers_make_up_are_one_series() -> None:
    measurement = measuring()
    for number in range(20):
        measurement.count(record(model=f"made-up-{number}", attempts=[], error="model_not_found", status=404))
    (metric,) = ScopeMetrics.FromString(measurement.encode()[0]).metrics
    (point,) = metric.histogram.data_points
    assert attributes_of(point.attributes)["gen_ai.request.model"] == "other"


def test_a_histogram_is_cumulative_since_the_start() -> None:
    measurement = measuring()
    for duration_s in (0.01, 0.011, 1000.0):
        measurement.count(record(duration_s=duration_s))
    measurement.encode()
    metrics = {each.name: each for each in ScopeMetrics.FromString(measurement.encode()[0]).metrics}
    histogram = metrics["gen_ai.server.request.duration"].histogram
    (point,) = histogram.data_points
    assert histogram.aggregation_temporality == 2
    assert (point.start_time_unix_nano, point.time_unix_nano) == (1, 3)
    assert tuple(point.explicit_bounds) == DURATION_S
    assert list(point.bucket_counts) == [1, 1, *[0] * (len(DURATION_S) - 2), 1]
    assert point.count == 3
    assert point.sum == pytest.approx(1000.021)


def test_whole_answers_and_streams_of_one_model_are_counted_apart() -> None:
    measurement = measuring()
    measurement.count(record())
    measurement.count(record(ttft_s=0.1, stream=True, usage=Usage(output=5)))
    metrics = {each.name: each for each in ScopeMetrics.FromString(measurement.encode()[0]).metrics}
    assert metrics["gen_ai.server.time_to_first_token"].histogram.data_points[0].count == 1
    assert metrics["gen_ai.server.time_per_output_token"].histogram.data_points[0].sum == pytest.approx(0.1)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/key", "/api/keys"])
def test_a_request_for_no_model_is_an_http_request_like_any_other(path: str) -> None:
    made = record(path=path, method="GET", model=None, attempts=[], status=403, verdict=Verdict.REJECTED)
    (span,) = written(made)
    assert span.name == "GET"
    assert not any(name.startswith("gen_ai") for name in names_of([span]))
    measurement = measuring()
    measurement.count(made)
    assert measurement.encode() == (b"", 0)
