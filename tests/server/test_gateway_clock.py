"""A clock that jumps: docs/spec/failures.md G16. Timers, windows and durations use only the monotonic clock.

The wall clock is for stored times (dates, log lines, `created`) and for the expiry of keys. The places that may read it
are listed here.
"""

import ast
import re
import time
from itertools import cycle
from pathlib import Path

import pytest

import streamweir
from support.answers import TEXTS, openai_stream
from support.gateway import KEY, gateway_to, text_of
from support.outcome import assert_broken
from support.script import Hang, Head, Send, stream
from support.serve_process import BEGUN, BEGUN_TEXT

PACKAGE = Path(streamweir.__file__).parent
WALL_CLOCKS = {"time", "time_ns", "now", "utcnow", "today", "localtime", "gmtime"}
ALLOWED = {
    "client/settings.py": {"failure"},  # `Retry-After`, where it is a date
    "cli/commands/prices.py": {"_fetch", "update"},  # the day of a price list
    "cli/commands/status.py": {"_age"},  # since a gateway was started
    # whether a key has expired; the times of limits, which some APIs write as dates
    "server/process/gateway.py": {"begin", "serve"},
    "server/process/reload.py": {"__init__", "_noted"},  # the metric of the last reload
    "server/telemetry/otel/exporter.py": {"__init__"},  # the times of spans
    "server/request/lookup/lookups.py": {"_send_models", "_show"},
    "server/control/metrics_access.py": {"sees_money", "error_of"},  # whether a key has expired
    "server/alerts/sender.py": {"_send"},  # the time that is signed
    "server/request/attempt/attempt_setup.py": {"_now"},  # `created`
    "server/http/ids.py": {"new_id"},  # ids in the order of arrival
    "server/request/lookup/provider_check.py": {"_try"},  # how far the provider's clock is ahead
    "server/streams/error_frame.py": {"error_frames"},  # `created`
    "server/telemetry/log.py": {"_date", "_dropped_line", "log_request"},
    "server/http/answers.py": {"failure_answer"},  # the times of limits, as above
    "server/request/error_answer.py": {"error_answer"},
    "server/request/attempt/attempt_builder.py": {"make_relay"},
    "server/request/playground.py": {"admit", "_handle"},  # whether a key has expired
    "server/http/response.py": {"_head", "http_date"},  # the header `date`
    "store/db/clock.py": {"now_ms"},  # what is written down
    "store/db/schema.py": {"_nodes_alive"},  # the heartbeats of nodes, which are written down
    "store/journal/files.py": {"_remove_unfinished"},  # the age of a file
    "upstream/oidc/provider.py": {"_read_metadata"},  # how far the provider's clock is ahead
    "upstream/sim.py": {"__init__"},  # `created`
    # what is signed, and until when a token is valid, where its service says that as a date
    "upstream/cloud/aws.py": {"headers_for"},
    "upstream/cloud/aws_token_service.py": {"_lease", "_signed"},
    "upstream/cloud/entra.py": {"sign"},
    "upstream/cloud/google.py": {"_exchange_assertion"},
    "upstream/cloud/google_aws.py": {"signed_request"},
    "upstream/cloud/managed_identity.py": {"_life_s"},
    "upstream/cloud/token_answer.py": {"_life_s"},
}
CLOCK = re.compile(r"\b(?:time|datetime|date)\b\.")
"""What a source has that reads a clock: most need not be parsed."""
HOUR_S = 3600.0


def readings(path: Path) -> set[str]:
    """The functions that read the time of day, called or handed on: `time.time`, `datetime.now`."""
    found: set[str] = set()
    source = path.read_text()
    if CLOCK.search(source) is None:
        return found
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and node.attr in WALL_CLOCKS and isinstance(node.value, ast.Name):
                    owner = node.value.id
                    if owner in ("datetime", "date") or (owner == "time" and node.attr != "monotonic"):
                        found.add(function.name)
    return found


def test_g16_the_time_of_day_is_read_where_it_is_meant() -> None:
    everywhere = {str(path.relative_to(PACKAGE)): readings(path) for path in PACKAGE.rglob("*.py")}
    assert {name: functions for name, functions in everywhere.items() if functions} == ALLOWED


def test_g16_no_module_imports_a_clock_by_name() -> None:
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if re.search(r"\bfrom time\b", source) else ():
            if isinstance(node, ast.ImportFrom) and node.module == "time":
                assert {alias.name for alias in node.names} <= {"monotonic", "perf_counter"}, path


@pytest.fixture
def _jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock finds it an hour off, now forwards, now backwards."""
    steps, real = cycle([0.0, HOUR_S, -HOUR_S]), time.time
    monkeypatch.setattr(time, "time", lambda: real() + next(steps))


@pytest.mark.usefixtures("_jumps")
async def test_g16_streams_are_not_cut_and_stalls_are_seen() -> None:
    toml = "[server.timeouts]\nidle_s = 0.1\nkeepalive_s = 0.02\nsilence_s = 0.01\n"
    async with gateway_to([Head(), Send(BEGUN), Hang()], toml) as (gate, _):
        reply = await gate.ask(model="up/m", stream=True)
        assert_broken(reply, "stream_idle_timeout", text=BEGUN_TEXT)
        (record,) = await gate.settled()
        assert record.verdict == "idle_timeout"
        assert record.ttft_s is not None
        assert 0 <= record.ttft_s <= record.duration_s < HOUR_S / 2
    async with gateway_to(stream(openai_stream())) as (gate, _):
        for _ in range(6):
            assert text_of((await gate.ask(model="up/m", stream=True)).body) == "".join(TEXTS)
        assert {record.verdict for record in gate.records} == {"completed"}
        assert all(0 <= record.duration_s < HOUR_S / 2 for record in gate.records)


@pytest.mark.usefixtures("_jumps")
async def test_g16_a_window_grants_no_more_than_it_should() -> None:
    toml = f'[[keys]]\nname = "test"\nkey = "{KEY}"\nrpm = 3\n'
    async with gateway_to(stream(openai_stream()), toml) as (gate, up):
        statuses = [(await gate.ask(model="up/m", stream=True)).status for _ in range(12)]
        assert statuses == [200] * 3 + [429] * 9
        assert len(up.requests) == 3
