"""What is counted, under which labels, and the sum over several workers."""

import ast
import asyncio
import re
import time
from collections import Counter
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

import streamweir
from streamweir import __version__
from streamweir.core.errors import UpstreamError
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from streamweir.policy.routing.health import MAX_FAILURES, Candidate, TargetId
from streamweir.policy.routing.router import TARGET_STATES
from streamweir.server.http.pressure import LagProbe
from streamweir.server.telemetry.key_metrics import MAX_KEYS, MAX_WORKSPACES
from streamweir.server.telemetry.metric_families import Histogram
from streamweir.server.telemetry.metric_labels import MAX_NAMES
from streamweir.server.telemetry.metrics import CHUNK_GAP_S, MAX_HISTOGRAMS, Metrics
from streamweir.server.telemetry.metrics_merge import merge, merge_gone
from streamweir.server.telemetry.money_metrics import MONEY, NAMES_OF_KEYS, without_money
from streamweir.server.telemetry.record import AttemptRecord, RequestRecord
from support.all_metrics import OF_THE_SUPERVISOR, accounting_of, every_metric, full_metrics, router_of

Readings = dict[tuple[str, ...], float]


def read(text: bytes) -> Readings:
    """`(name, label value, label value ...)` with the labels in the order of their names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def request(**members: Any) -> RequestRecord:
    basis: dict[str, Any] = {
        "id": "req_1",
        "method": "POST",
        "path": "/v1/chat/completions",
        "dialect": "openai",
        "model": "fast",
        "attempts": [AttemptRecord(target="openai/gpt-4o")],
        "status": 200,
        "verdict": Verdict.COMPLETED,
    }
    return RequestRecord(**{**basis, **members})


def test_requests_by_dialect_model_target_and_verdict() -> None:
    metrics = Metrics()
    metrics.set_names(["fast"], ["openai/gpt-4o"])
    metrics.request_ended(request())
    metrics.request_ended(request())
    metrics.request_ended(request(verdict=Verdict.TRUNCATED, error="upstream_stream_truncated"))
    readings = read(metrics.text())
    assert readings["streamweir_requests_total", "openai", "fast", "openai/gpt-4o", "completed"] == 2
    assert readings["streamweir_requests_total", "openai", "fast", "openai/gpt-4o", "truncated"] == 1
    assert readings["streamweir_requests_admitted_total",] == 3


def test_what_was_refused_is_counted_by_its_code() -> None:
    metrics = Metrics()
    for code in ("invalid_api_key", "rate_limit_exceeded", "invalid_api_key"):
        metrics.request_ended(request(model=None, attempts=[], verdict=Verdict.REJECTED, error=code, status=401))
    readings = read(metrics.text())
    assert readings["streamweir_requests_rejected_total", "invalid_api_key"] == 2
    assert readings["streamweir_requests_rejected_total", "rate_limit_exceeded"] == 1
    assert readings["streamweir_requests_admitted_total",] == 0
    assert readings["streamweir_requests_total", "openai", "", "", "rejected"] == 3


def test_open_streams_rise_and_fall() -> None:
    metrics = Metrics()
    metrics.stream_opened()
    metrics.stream_opened()
    metrics.stream_closed()
    assert read(metrics.text())["streamweir_open_streams",] == 1


def test_time_to_first_token_and_duration_by_target() -> None:
    metrics = Metrics()
    metrics.request_ended(request(ttft_s=0.4, duration_s=3.0))
    metrics.request_ended(request(ttft_s=None, duration_s=700.0))
    readings = read(metrics.text())
    target = "openai/gpt-4o"
    assert readings["streamweir_time_to_first_token_seconds_bucket", "0.3", target] == 0
    assert readings["streamweir_time_to_first_token_seconds_bucket", "0.5", target] == 1
    assert readings["streamweir_time_to_first_token_seconds_sum", target] == 0.4
    assert readings["streamweir_request_duration_seconds_bucket", "600.0", target] == 1
    assert readings["streamweir_request_duration_seconds_bucket", "+Inf", target] == 2
    assert readings["streamweir_request_duration_seconds_count", target] == 2


def test_tokens_are_counted_in_kinds_that_do_not_overlap() -> None:
    metrics = Metrics()
    usage = Usage(
        input_uncached=100,
        cache_read=20,
        cache_write_5m=5,
        cache_write_1h=6,
        audio_input=3,
        image_input=2,
        output=30,
        reasoning=7,
        audio_output=4,
        image_output=1,
    )
    for source in (UsageSource.PROVIDER, UsageSource.PROVIDER, UsageSource.ESTIMATE):
        metrics.request_ended(request(usage=usage, usage_source=source))
    readings = read(metrics.text())
    name = "streamweir_tokens_total"
    assert {key: value for key, value in readings.items() if key[0] == name and key[3] == "provider"} == {
        (name, "input_uncached", "fast", "provider"): 200,
        (name, "cache_read", "fast", "provider"): 40,
        (name, "cache_write", "fast", "provider"): 22,
        (name, "audio_input", "fast", "provider"): 6,
        (name, "image_input", "fast", "provider"): 4,
        (name, "output", "fast", "provider"): 60,
        (name, "reasoning", "fast", "provider"): 14,
        (name, "audio_output", "fast", "provider"): 8,
        (name, "image_output", "fast", "provider"): 2,
    }
    assert sum(value for key, value in readings.items() if key[0] == name) == 3 * usage.total_tokens
    assert readings[name, "input_uncached", "fast", "estimate"] == 100


def test_money_by_model_and_target_for_the_operator_alone() -> None:
    metrics = Metrics()
    booked = {"price_version": "v", "usage": Usage(input_uncached=1, output=1)}
    for price, cost in ((2_500_000_000, 1_000_000_000), (500_000_000, None), (None, 3), (0, 0)):
        metrics.request_ended(request(price=price, cost=cost, **booked))
    metrics.request_ended(request(attempts=[], verdict=Verdict.REJECTED, error="model_not_found"))
    labels = ("fast", "openai/gpt-4o")
    found = {key: value for key, value in read(metrics.text()).items() if key[1:] == labels}
    assert {name: found[name, *labels] for name, *_ in found if "usd" in name or "ed_requests" in name} == {
        "streamweir_price_usd_total": 3.0,
        "streamweir_cost_usd_total": 1.000000003,
        "streamweir_unpriced_requests_total": 1,
        "streamweir_uncosted_requests_total": 1,
    }
    shown = without_money(metrics.text())
    assert [name for name in (b"_usd", b"uncosted", b"unpriced") if name in shown] == []
    assert [line for line in metrics.text().splitlines() if b"streamweir_tokens" in line] == [
        line for line in shown.splitlines() if b"streamweir_tokens" in line
    ]


def test_money_by_workspace_and_key_for_the_operator_alone() -> None:
    metrics = Metrics()
    metrics.keys.workspace_name = {"ws_1": "acme"}.__getitem__
    one = {"key": "ci", "key_id": "key_1", "workspace_id": "ws_1", "price_version": "v"}
    metrics.request_ended(request(price=2_500_000_000, cost=1_000_000_000, **one))
    metrics.request_ended(request(price=500_000_000, **one))
    metrics.request_ended(request(price=1_000_000_000, **{**one, "key_id": "key_2"}))  # the next one of this name
    metrics.request_ended(request(attempts=[], verdict=Verdict.REJECTED, error="invalid_api_key"))
    found = {key: value for key, value in read(metrics.text()).items() if key[0].startswith("streamweir_key_")}
    assert found == {
        ("streamweir_key_requests_total", "ci", "acme"): 3,
        ("streamweir_key_price_usd_total", "ci", "acme"): 4.0,
        ("streamweir_key_cost_usd_total", "ci", "acme"): 1.0,
    }
    everything = full_metrics().text()
    shown = without_money(everything)
    operators = {name.removeprefix("streamweir_").encode() for name in NAMES_OF_KEYS}
    assert [name for name in (*operators, b"_usd", b"workspace") if name not in everything] == []
    assert [name for name in (*operators, b"_usd", b"workspace") if name in shown] == []


def test_everything_with_names_of_keys_is_for_the_operator_alone() -> None:
    named = {name for name, (_, labels) in every_metric().items() if labels & {"key", "workspace"}}
    assert named == {f"streamweir_{name.removesuffix('_total')}" for name in NAMES_OF_KEYS}


def test_the_number_of_keys_is_bounded_and_sums_of_workspaces_are_right() -> None:
    metrics = Metrics()
    metrics.set_names([], [], ["file:ci"])
    for number in range(MAX_KEYS + 50):
        for workspace in ("noisy", "quiet"):
            key = f"{workspace}-{number}"
            metrics.request_ended(request(key=key, key_id=key, workspace_id=workspace))
    metrics.request_ended(request(key="ci", key_id="file:ci", workspace_id="default"))
    name = "streamweir_key_requests_total"
    found = {key[1:]: value for key, value in read(metrics.text()).items() if key[0] == name}
    assert len(found) == MAX_KEYS + 3
    assert found["ci", "default"] == 1, "a key of the file has always a label"
    sums = Counter[str]()
    for (_, workspace), count in found.items():
        sums[workspace] += int(count)
    assert sums == {"noisy": MAX_KEYS + 50, "quiet": MAX_KEYS + 50, "default": 1}


def test_the_number_of_workspaces_is_bounded() -> None:
    metrics = Metrics()
    for number in range(MAX_KEYS + MAX_WORKSPACES + 50):
        metrics.request_ended(request(key="ci", key_id=f"key-{number}", workspace_id=f"workspace-{number}"))
    workspaces = labels_of(metrics, "streamweir_key_requests_total", 2)
    assert len(workspaces) == MAX_KEYS + MAX_WORKSPACES + 1
    assert read(metrics.text())["streamweir_key_requests_total", "other", "other"] == 50


def test_the_state_of_a_target_is_one_of_four() -> None:
    router = router_of(*(TargetId(provider, "m") for provider in ("well", "failing", "limited")))
    now = time.monotonic()
    for _ in range(MAX_FAILURES):
        router.failed(Candidate(TargetId("failing", "m")), now, UpstreamError("upstream_server_error", "m"))
    limit = UpstreamError("upstream_rate_limited", "m", retry_after_s=100.0)
    router.failed(Candidate(TargetId("limited", "m")), now, limit)
    name = "streamweir_target_state"
    found = {key: value for key, value in read(Metrics(router=lambda: router).text()).items() if key[0] == name}
    assert {key[1:] for key, value in found.items() if value} == {
        ("well", "available", "well/m"),
        ("failing", "ejected", "failing/m"),
        ("limited", "paused", "limited/m"),
    }
    assert {key[2] for key in found} == set(TARGET_STATES)
    assert len(found) == 12


def test_attempts_and_ejections_by_target() -> None:
    metrics = Metrics()
    metrics.set_names([], ["openai/gpt-4o"])
    metrics.attempt_ended("openai/gpt-4o", None)
    metrics.attempt_ended("openai/gpt-4o", "upstream_overloaded")
    metrics.attempt_ended("openai/gpt-4o", "upstream_overloaded")
    metrics.ejected("openai/gpt-4o")
    readings = read(metrics.text())
    assert readings["streamweir_upstream_attempts_total", "ok", "openai/gpt-4o"] == 1
    assert readings["streamweir_upstream_attempts_total", "upstream_overloaded", "openai/gpt-4o"] == 2
    assert readings["streamweir_ejections_total", "openai/gpt-4o"] == 1


def test_connections_and_dropped_lines_are_asked_for_when_read() -> None:
    metrics = Metrics(connections=lambda: [("openai", 3, 4), ("azure-eu", 0, 1)], lines_dropped=lambda: 9)
    readings = read(metrics.text())
    assert readings["streamweir_upstream_connections", "openai", "in_use"] == 3
    assert readings["streamweir_upstream_connections", "openai", "idle"] == 4
    assert readings["streamweir_upstream_connections", "azure-eu", "idle"] == 1
    assert readings["streamweir_log_lines_dropped_total",] == 9


def test_the_build_and_the_process_are_there() -> None:
    readings = read(Metrics().text())
    assert next(key for key in readings if key[0] == "streamweir_build_info")[2] == __version__
    assert readings["process_resident_memory_bytes",] > 0
    assert not [key for key in readings if key[0].endswith("_created")]


def labels_of(metrics: Metrics, name: str, place: int) -> set[str]:
    return {key[place] for key in read(metrics.text()) if key[0] == name}


def test_a_model_without_an_answer_is_no_label() -> None:
    metrics = Metrics()
    for number in range(10):
        refused = request(model=f"made-up-{number}", attempts=[], verdict=Verdict.REJECTED, error="model_not_found")
        metrics.request_ended(refused)
        failed = [AttemptRecord(target=f"openai/made-up-{number}", error="upstream_model_not_found")]
        metrics.request_ended(
            request(model=f"openai/made-up-{number}", attempts=failed, verdict=Verdict.UPSTREAM_ERROR)
        )
        metrics.attempt_ended(f"openai/made-up-{number}", "upstream_model_not_found")
    assert labels_of(metrics, "streamweir_requests_total", 2) == {"other"}
    assert labels_of(metrics, "streamweir_requests_total", 3) == {"", "openai/other"}
    assert labels_of(metrics, "streamweir_upstream_attempts_total", 2) == {"openai/other"}


@pytest.mark.parametrize(
    "members",
    [
        {"verdict": Verdict.COMPLETED},
        {"verdict": Verdict.CLIENT_GONE, "ttft_s": 0.1},
        {"verdict": Verdict.TRUNCATED, "ttft_s": 0.1},
    ],
)
def test_a_model_that_a_provider_answered_for_is_a_label(members: dict[str, Any]) -> None:
    metrics = Metrics()
    record = request(model="openai/o9", attempts=[AttemptRecord(target="openai/o9")], **members)
    metrics.request_ended(record)
    assert labels_of(metrics, "streamweir_requests_total", 2) == {"openai/o9"}
    metrics.ejected("openai/o9")
    assert labels_of(metrics, "streamweir_ejections_total", 1) == {"openai/o9"}


def test_the_number_of_labels_is_bounded() -> None:
    metrics = Metrics()
    metrics.set_names(["fast"], [])
    for number in range(MAX_NAMES + 50):
        name = f"sim/any-{number}"
        metrics.request_ended(request(model=name, attempts=[AttemptRecord(target=name)], ttft_s=0.1))
    metrics.request_ended(request(model="fast"))
    models = labels_of(metrics, "streamweir_requests_total", 2)
    assert len(models) == MAX_NAMES + 2
    assert {"other", "fast"} < models
    assert len(labels_of(metrics, "streamweir_requests_total", 3)) == MAX_NAMES + 2
    targets = labels_of(metrics, "streamweir_time_to_first_token_seconds_count", 1)
    assert len(targets) == MAX_HISTOGRAMS + 1
    assert (
        read(metrics.text())["streamweir_time_to_first_token_seconds_count", "other"] == MAX_NAMES + 50 - MAX_HISTOGRAMS
    )


def test_labels_follow_the_names_that_are_known() -> None:
    """Also for requests of which there were some before."""
    metrics = Metrics()
    failed = request(
        attempts=[AttemptRecord(target="openai/o9", error="upstream_error")], verdict=Verdict.UPSTREAM_ERROR
    )
    counted: list[tuple[str, ...]] = []
    for models, targets in ([], []), (["fast"], ["openai/o9"]), ([], ["openai/o9"]):
        metrics.set_names(models, targets)
        metrics.request_ended(failed)
        metrics.request_ended(failed)
        rows = {key[2:4]: count for key, count in read(metrics.text()).items() if key[0] == "streamweir_requests_total"}
        assert set(rows.values()) == {2}
        counted.append(list(rows)[-1])
    assert counted == [("other", "openai/other"), ("fast", "openai/o9"), ("other", "openai/o9")]


def test_a_label_that_a_caller_chose_is_clean() -> None:
    metrics = Metrics()
    name = 'sim/\x1b[31ma"b\\c\nd sk-0123456789abcdef ' + "x" * 500
    metrics.request_ended(request(model=name, attempts=[AttemptRecord(target=name)]))
    (label,) = labels_of(metrics, "streamweir_requests_total", 2)
    assert label.startswith('sim/a"b\\cd *** xxx')
    assert len(label) == 200


@given(st.lists(st.one_of(st.sampled_from(CHUNK_GAP_S), st.floats(0, 100)), max_size=50))
def test_a_histogram_counts_what_is_at_most_its_bounds(gaps: list[float]) -> None:
    histogram = Histogram(CHUNK_GAP_S)
    for gap in gaps:
        histogram.observe(gap)
    expected = [sum(gap <= bound for gap in gaps) for bound in (*CHUNK_GAP_S, inf)]
    assert [count for _, count in histogram.buckets()] == expected
    assert histogram.total == pytest.approx(sum(gaps))


async def test_the_probe_measures_what_delays_the_loop() -> None:
    seen: asyncio.Queue[float] = asyncio.Queue()
    probe = LagProbe(seen.put_nowait, interval_s=0.001)
    probe.start()
    probe.start()
    async with asyncio.timeout(10):
        assert await seen.get() >= 0
        time.sleep(0.05)
        lags = [await seen.get()]
        while lags[-1] < 0.02:
            lags.append(await seen.get())
    probe.stop()
    probe.stop()
    assert max(lags) >= 0.02


def worker(number: int) -> bytes:
    metrics = Metrics(connections=lambda: [("openai", number, 1)], lines_dropped=lambda: number)
    metrics.set_names(["fast"], ["openai/gpt-4o"])
    for _ in range(number):
        metrics.stream_opened()
        metrics.chunk_gap.observe(0.03)
        metrics.request_ended(request(ttft_s=0.4))
    return metrics.text()


def test_the_sum_over_workers() -> None:
    one, two = worker(1), worker(2)
    readings = read(merge([one, two]))
    assert readings["streamweir_requests_total", "openai", "fast", "openai/gpt-4o", "completed"] == 3
    assert readings["streamweir_time_between_chunks_seconds_bucket", "0.03"] == 3
    assert readings["streamweir_time_between_chunks_seconds_sum",] == pytest.approx(0.09)
    assert readings["streamweir_open_streams",] == 3
    assert readings["streamweir_upstream_connections", "openai", "in_use"] == 3
    assert readings["streamweir_log_lines_dropped_total",] == 3
    assert next(value for key, value in readings.items() if key[0] == "streamweir_build_info") == 1
    starts = [read(text)["process_start_time_seconds",] for text in (one, two)]
    assert readings["process_start_time_seconds",] == min(starts)
    memory = [read(text)["process_resident_memory_bytes",] for text in (one, two)]
    assert readings["process_resident_memory_bytes",] == sum(memory)


def test_the_accounting_lag_of_several_workers_is_the_largest() -> None:
    texts = [Metrics(accounting=partial(accounting_of, number)).text() for number in (1, 2)]
    readings = read(merge(texts))
    assert readings["streamweir_journal_entries_waiting",] == 3
    assert readings["streamweir_journal_oldest_seconds",] == 1
    assert readings["streamweir_journal_bytes",] == 300
    assert readings["streamweir_journal_entries_refused_total",] == 3
    assert readings["streamweir_content_dropped_total",] == 6
    assert readings["streamweir_shared_degraded",] == 1


def test_of_several_workers_the_oldest_reload_and_the_largest_sums_count() -> None:
    reload, ratio = "streamweir_config_last_reload_successful", "streamweir_key_budget_used_ratio"
    texts = [f"# TYPE {reload} gauge\n{reload} {one}\n# TYPE {ratio} gauge\n{ratio} {one}\n" for one in (0, 1)]
    assert read(merge([text.encode() for text in texts])) == {(reload,): 0, (ratio,): 1}


def test_what_is_not_a_count_is_not_summed() -> None:
    """A gauge whose unit is not a count of anything: its name says so."""
    units = ("_seconds", "_ratio", "_successful", "_info", "_queue_limit")
    names = [name for name, (kind, _) in every_metric().items() if kind == "gauge" and name.endswith(units)]
    text = "".join(f"# TYPE {name} gauge\n{name} 1\n" for name in names).encode()
    assert read(merge([text, text])) == {(name,): 1 for name in names}


def test_the_sum_of_one_is_the_same_text() -> None:
    text = worker(3)
    assert merge([text]) == text


def test_the_sum_of_none_is_empty() -> None:
    assert merge([]) == b""


def test_an_ended_worker_keeps_its_counts_and_loses_its_gauges() -> None:
    gone = merge_gone([worker(1), worker(2)])
    readings = read(merge([worker(4)], [gone, worker(8)]))
    assert readings["streamweir_requests_total", "openai", "fast", "openai/gpt-4o", "completed"] == 15
    assert readings["streamweir_time_between_chunks_seconds_count",] == 15
    assert readings["streamweir_open_streams",] == 4
    assert next(value for key, value in readings.items() if key[0] == "streamweir_build_info") == 1


@given(st.text(max_size=40))
def test_any_label_survives_the_sum(model: str) -> None:
    metrics = Metrics()
    metrics.set_names([model], [])
    metrics.request_ended(request(model=model))
    text = metrics.text()
    assert merge([text]).splitlines()[:3] == text.splitlines()[:3]


def test_the_documentation_names_every_metric_with_its_type_and_labels() -> None:
    page = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()
    rows = re.findall(r"^\| `(streamweir_\w+)` \| (\w+) \| ?(.*?) ?\|", page, re.MULTILINE)
    documented = {
        name.removesuffix("_total"): (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows
    }
    shown = {name: each for name, each in every_metric().items() if name.startswith("streamweir_")}
    assert documented == shown


def test_every_metric_that_the_source_declares_is_among_them() -> None:
    """What `support.all_metrics` does not fill is on no page, and no rule could ask for it."""
    source = Path(streamweir.__file__).parent / "server"
    calls = (node for file in source.rglob("*.py") for node in ast.walk(ast.parse(file.read_text())))
    declared = {
        f"streamweir_{node.args[0].value}"
        for node in calls
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("counter", "gauge", "histogram")
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }
    declared |= {f"streamweir_{each.name}" for each in MONEY}
    shown = {name for name in every_metric() if name.startswith("streamweir_")}
    assert declared == shown - OF_THE_SUPERVISOR.keys()
