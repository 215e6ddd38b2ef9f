"""One sanitized line per request, for people or for machines; writing never waits for a reader."""

import json
import logging
import os
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest

from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from streamweir.server.telemetry.log import Format, close_log, configure_log, dropped_lines, log_request, logger
from streamweir.server.telemetry.log_line import written
from streamweir.server.telemetry.record import AttemptRecord, RequestRecord

FACTS = RequestRecord(
    id="req_0123456789abcdef0123456789abcdef",
    client_id="mine-1",
    client_ids={"x-some-session-id": "0c6a7f0e-3d2b-4a51-9f3e-7f2a8d1c6b90"},
    method="POST",
    path="/v1/chat/completions",
    peer="192.0.2.7",
    dialect="openai",
    key="ci",
    model="fast",
    stream=True,
    attempts=[
        AttemptRecord(target="azure-eu/gpt4o", error="upstream_overloaded", duration_s=0.25, resends=1),
        AttemptRecord(target="openai/gpt-4o", duration_s=2.0),
    ],
    status=200,
    verdict=Verdict.LENGTH,
    completion_id="chatcmpl-1",
    ttft_s=0.3120001,
    duration_s=2.41,
    bytes_out=4096,
    usage=Usage(input_uncached=100, cache_read=20, output=300, reasoning=45),
    usage_source=UsageSource.PROVIDER,
    finish="length",
    dropped=("logit_bias", "messages[0].name"),
)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_log()


def logged(form: Format = "json") -> str:
    """What is written for `FACTS`."""
    stream = StringIO()
    configure_log(form, stream)
    log_request(FACTS)
    assert close_log()
    return stream.getvalue()


def lines_of(stream: StringIO) -> list[dict[str, Any]]:
    assert close_log()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def event_of(stream: StringIO) -> dict[str, Any]:
    (event,) = lines_of(stream)
    return event


def test_a_request_is_one_json_line_with_all_that_is_known() -> None:
    line = json.loads(logged())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "event": "request",
        "id": "req_0123456789abcdef0123456789abcdef",
        "status": 200,
        "verdict": "length",
        "key": "ci",
        "dialect": "openai",
        "model": "fast",
        "target": "openai/gpt-4o",
        "attempts": [
            {"target": "azure-eu/gpt4o", "duration_s": 0.25, "error": "upstream_overloaded", "resends": 1},
            {"target": "openai/gpt-4o", "duration_s": 2.0},
        ],
        "stream": True,
        "finish": "length",
        "ttft_s": 0.312,
        "duration_s": 2.41,
        "bytes_out": 4096,
        "usage": {"prompt_tokens": 120, "completion_tokens": 345, "cache_read": 20, "reasoning": 45},
        "usage_source": "provider",
        "dropped": ["logit_bias", "messages[0].name"],
        "method": "POST",
        "path": "/v1/chat/completions",
        "peer": "192.0.2.7",
        "client_id": "mine-1",
        "client_ids": {"x-some-session-id": "0c6a7f0e-3d2b-4a51-9f3e-7f2a8d1c6b90"},
        "completion_id": "chatcmpl-1",
    }


def test_a_line_is_written_in_the_order_in_which_it_is_read() -> None:
    stream = StringIO()
    configure_log("json", stream, worker=3)
    log_request(FACTS)
    assert " ".join(event_of(stream)) == (
        "time level event worker id status verdict key dialect model target attempts stream finish ttft_s duration_s"
        " bytes_out usage usage_source dropped method path peer client_id client_ids completion_id"
    )


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (1731694800.123, "2024-11-15T18:20:00.123Z"),
        (1731694800.0, "2024-11-15T18:20:00.000Z"),
        (1731694800.9999994, "2024-11-15T18:20:00.999Z"),
        (1731694800.9999996, "2024-11-15T18:20:01.000Z"),
    ],
)
def test_a_moment_is_written_in_utc_to_the_millisecond(now: float, expected: str) -> None:
    assert written(now) == expected


def test_what_is_not_known_is_left_out() -> None:
    stream = StringIO()
    configure_log("json", stream)
    log_request(RequestRecord(id="req_1", method="GET", path="/v1/models", status=401, error="invalid_api_key"))
    line = event_of(stream)
    line.pop("time")
    assert line == {
        "level": "info",
        "event": "request",
        "id": "req_1",
        "status": 401,
        "error": "invalid_api_key",
        "stream": False,
        "duration_s": 0.0,
        "bytes_out": 0,
        "method": "GET",
        "path": "/v1/models",
    }


def test_a_request_is_one_line_of_text() -> None:
    day, clock, rest = logged("text").split(" ", 2)
    assert (len(day), len(clock)) == (10, 8)
    assert rest == (
        "200 length  fast -> openai/gpt-4o  ci  ttft 312ms  2.41s  120 in 345 out  2 attempts"
        "  req_0123456789abcdef0123456789abcdef\n"
    )


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            RequestRecord(id="req_1", method="GET", path="/v1/models", status=401, error="invalid_api_key"),
            "401  GET /v1/models  0ms  invalid_api_key  req_1",
        ),
        (
            RequestRecord(
                id="req_2",
                method="POST",
                path="/v1/chat/completions",
                model="sim/hello",
                attempts=[AttemptRecord(target="sim/hello")],
                status=499,
                verdict=Verdict.CLIENT_GONE,
                duration_s=615.4,
                usage=Usage(input_uncached=3, output=4),
                usage_source=UsageSource.ESTIMATE,
            ),
            "499 client_gone  sim/hello  615s  ~3 in ~4 out  req_2",
        ),
    ],
)
def test_text_shows_what_is_known(record: RequestRecord, expected: str) -> None:
    stream = StringIO()
    configure_log("text", stream)
    log_request(record)
    close_log()
    assert stream.getvalue().split(" ", 2)[2] == expected + "\n"


def test_other_events_as_text() -> None:
    stream = StringIO()
    configure_log("text", stream, worker=3)
    logger.warning("target ejected", target="openai/gpt-4o", for_s=30)
    close_log()
    assert stream.getvalue().split(" ", 2)[2] == "warning target ejected  worker=3  target=openai/gpt-4o  for_s=30\n"


def on_a_terminal(form: Format) -> str:
    """What a terminal is sent."""
    master, slave = os.openpty()
    with os.fdopen(master, "rb", buffering=0) as terminal, os.fdopen(slave, "w") as stream:
        configure_log(form, stream)
        log_request(FACTS)
        close_log()
        return terminal.read(65536).decode()


def test_a_terminal_gets_a_short_coloured_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    line = on_a_terminal("auto")
    assert "\x1b[32m200 length\x1b[0m" in line
    assert "\x1b[1mfast\x1b[0m -> openai/gpt-4o" in line
    assert line.count("\n") == 1


def test_colour_is_left_out_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    line = on_a_terminal("auto")
    assert "\x1b" not in line
    assert line.split(" ", 1)[1].startswith("200 length  fast -> openai/gpt-4o")


def test_json_can_be_asked_for_on_a_terminal() -> None:
    assert json.loads(on_a_terminal("json"))["event"] == "request"


def test_anything_but_a_terminal_gets_json() -> None:
    assert json.loads(logged("auto"))["event"] == "request"


@pytest.mark.parametrize(
    ("verdict", "status", "level"),
    [
        (Verdict.COMPLETED, 200, "info"),
        (Verdict.REJECTED, 429, "info"),
        (Verdict.CLIENT_GONE, 499, "info"),
        (Verdict.TRUNCATED, 200, "warning"),
        (Verdict.SHUTDOWN, 503, "warning"),
        (Verdict.UPSTREAM_ERROR, 502, "warning"),
        (Verdict.GATEWAY_FAULT, 500, "error"),
        (Verdict.GATEWAY_FAULT, 200, "error"),
    ],
)
def test_the_log_level_depends_on_the_cause(verdict: Verdict, status: int, level: str) -> None:
    stream = StringIO()
    configure_log("json", stream)
    log_request(RequestRecord(id="req_1", method="POST", path="/", verdict=verdict, status=status))
    assert event_of(stream)["level"] == level


def test_lines_below_the_level_are_not_written() -> None:
    stream = StringIO()
    configure_log("json", stream, level="warning")
    log_request(FACTS)
    logger.info("not this")
    logger.warning("this")
    assert event_of(stream)["event"] == "this"


HOSTILE = "\x1b[2Jgpt\r\n{\u202e}" + "x" * 500


def test_what_a_caller_chose_is_cleaned_and_cut() -> None:
    stream = StringIO()
    configure_log("json", stream)
    log_request(
        RequestRecord(
            id="req_1",
            method=HOSTILE,
            path=HOSTILE,
            model=HOSTILE,
            client_id=HOSTILE,
            client_ids={"x-some-id": HOSTILE},
            completion_id=HOSTILE,
            dropped=(HOSTILE,),
            attempts=[AttemptRecord(target=HOSTILE)],
            status=400,
        )
    )
    line = event_of(stream)
    named = [line[name] for name in ("method", "path", "model", "client_id", "completion_id", "target")]
    for text in [*named, line["dropped"][0], line["client_ids"]["x-some-id"], line["attempts"][0]["target"]]:
        assert text.startswith("gpt{}xxx")
        assert len(text) == 200


def test_a_line_of_text_cannot_be_broken_or_coloured_by_a_caller() -> None:
    stream = StringIO()
    configure_log("text", stream)
    log_request(RequestRecord(id="req_1", method="POST", path="/", model=HOSTILE, status=400, key="a\nb"))
    close_log()
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_a_key_is_masked_in_every_string_of_every_event() -> None:
    secret = "sk-sw-0123456789abcdef"  # noqa: S105 (of no use anywhere)
    stream = StringIO()
    configure_log("json", stream)
    log_request(
        RequestRecord(
            id=secret,
            client_id=secret,
            completion_id=secret,
            method=secret,
            path=f"/v1/{secret}",
            peer=secret,
            key=secret,
            dialect=secret,
            model=secret,
            error=secret,
            finish=secret,
            attempts=[AttemptRecord(target=f"openai/{secret}", error=secret)],
            dropped=(secret,),
            status=400,
        )
    )
    try:
        raise ValueError(f"cannot use {secret}")
    except ValueError as error:
        logger.error(f"about {secret}", why=error, where={secret: [{"deep": (secret,)}]}, exc_info=True)
    logging.getLogger("asyncio").error("lost %s", secret)
    assert close_log()
    assert "0123456789" not in stream.getvalue()
    assert stream.getvalue().count("\n") == 3


def test_ids_of_requests_are_shown_one_or_many() -> None:
    stream = StringIO()
    configure_log("json", stream)
    logger.error("settled twice", request_id=FACTS.id, request_ids=[FACTS.id, "sk-abcdefgh"], others=[FACTS.id])
    event = event_of(stream)
    assert event["request_id"] == FACTS.id
    assert event["request_ids"] == [FACTS.id, "***"]
    assert event["others"] == ["***"]


def test_an_object_that_is_not_known_is_named_by_its_type_alone() -> None:
    class Holder:
        def __str__(self) -> str:
            raise AssertionError("asked")

    stream = StringIO()
    configure_log("json", stream)
    deep: list[Any] = []
    deep.append(deep)
    logger.info("kinds", holder=Holder(), data=b"bytes", deep=deep, many=list(range(1000)))
    event = event_of(stream)
    assert event["holder"] == "Holder"
    assert event["data"] == "bytes"
    assert event["deep"] == [[[["list"]]]]
    assert len(event["many"]) == 50


def test_half_a_surrogate_pair_is_harmless() -> None:
    stream = StringIO()
    configure_log("json", stream)
    log_request(RequestRecord(id="req_1", method="POST", path="/", model="gpt\ud800", status=404))
    assert event_of(stream)["model"] == "gpt"


def test_a_traceback_is_kept_as_lines_and_bounded() -> None:
    def fall(depth: int) -> None:
        if depth == 0:
            raise RuntimeError("deep " + "x" * 1000)
        fall(depth - 1)

    stream = StringIO()
    configure_log("json", stream)
    try:
        fall(100)
    except RuntimeError as error:
        logger.error("internal error", id="req_1", exc_info=error)
    event = event_of(stream)
    lines = event["exception"].split("\n")
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1].startswith("RuntimeError: deep xxx")
    assert max(map(len, lines)) <= 200
    assert len(lines) < 100
    assert event["id"] == "req_1"


def test_without_a_configuration_nothing_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    log_request(FACTS)
    logger.error("unheard")
    assert capfd.readouterr() == ("", "")
    assert close_log(), "closing what is closed is harmless"


def test_it_may_be_configured_again() -> None:
    first, second = StringIO(), StringIO()
    configure_log("json", first)
    logger.info("one")
    configure_log("json", second)
    logger.info("two")
    close_log()
    assert json.loads(first.getvalue())["event"] == "one"
    assert json.loads(second.getvalue())["event"] == "two"


def test_a_line_dropped_is_counted_over_reconfigurations() -> None:
    count = dropped_lines()
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        configure_log("json", stream)
        logger.info("to nobody")
        close_log()
    configure_log("json", StringIO())
    assert dropped_lines() == count + 1
