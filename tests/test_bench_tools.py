"""The tools of the benchmark: the mock provider speaks its wires right, and the load generator counts right.

What they measure is never asserted here.
"""

import http.client
import json
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any

import pytest
from bench.gateway import chosen_scenarios, compile_tools, mock_provider
from bench.load import Load, pace_of
from bench.process import BenchError, Process
from bench.scenarios.soak import figures_of
from bench.system import filled
from bench.tls import NoTls, make_certificate

from streamweir.core.events import (
    ChoiceFinished,
    FinishReason,
    StreamCompleted,
    StreamStarted,
    TextDelta,
    UsageReported,
)
from streamweir.frontends.base import Reply
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import Exchange
from streamweir.pipeline.intake import Intake
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.registry import provider_named

WAIT_TIMEOUT_S = 10.0

CORE = min(os.sched_getaffinity(0))
CHUNKS = 7
WIRES = {
    "openai": "/v1/chat/completions",
    "openai-compatible": "/foreign/v1/chat/completions",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
    "bedrock": "/model/amazon.nova-pro-v1%3A0/converse-stream",
    "bedrock-messages": "/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream",
}

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="the tools are C")


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    compile_tools(folder)
    return folder


@pytest.fixture(scope="module")
def mock_port(tools: Path) -> Iterator[int]:
    with mock_provider(tools, CORE) as port:
        yield port


def ask(port: int, path: str, *, stream: bool = True) -> tuple[int, bytes]:
    prompt = f"pace:chunks={CHUNKS},first=0,gap=100,lockstep=0. Hello"
    usage = {"stream_options": {"include_usage": True}} if stream else {}
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": prompt}], **usage}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.status, response.read()
    connection.close()
    return answer


def run_load(tools: Path, port: int, *options: object) -> dict[str, Any]:
    with Load([str(word) for word in (tools / "load", "--port", port, *options)], CORE) as load:
        return load.report()


@pytest.mark.parametrize("kind", WIRES)
def test_an_answer_is_read_whole_by_the_decoder_of_its_wire(mock_port: int, kind: str) -> None:
    status, body = ask(mock_port, WIRES[kind])
    intake = Intake(provider_named(kind))
    events = [*intake.feed(body), *intake.finish()]
    assert status == 200
    assert [type(event) for event in events if not isinstance(event, TextDelta)].count(StreamStarted) == 1
    assert len([event for event in events if isinstance(event, TextDelta)]) == CHUNKS
    assert [event.reason for event in events if isinstance(event, ChoiceFinished)] == [FinishReason.STOP]
    usage = [event.usage for event in events if isinstance(event, UsageReported)][-1]
    assert (usage.prompt_tokens, usage.output) == (212, CHUNKS)
    assert type(events[-1]) is StreamCompleted
    assert not intake.lacks_terminator


def exchanged(body: bytes, kind: str, mode: Mode) -> tuple[Exchange, bytes]:
    reply = Reply(id="chatcmpl-ours", now=lambda: 0, model="asked", target_model="ours", include_usage=True)
    exchange = Exchange(provider_named(kind), FRONTENDS.by_name["openai"], reply, mode, Meter())
    return exchange, exchange.feed(body)


def test_what_is_meant_to_pass_passes(mock_port: int) -> None:
    _, body = ask(mock_port, WIRES["openai"])
    exchange, out = exchanged(body, "openai", Mode.PASS)
    assert exchange.passes
    assert out == body


def test_what_is_meant_to_be_translated_gets_another_id_and_another_model(mock_port: int) -> None:
    _, body = ask(mock_port, WIRES["openai-compatible"])
    _, out = exchanged(body, "openai-compatible", Mode.TRANSLATE)
    frames = [line.removeprefix(b"data: ") for line in out.splitlines() if line]
    chunks = [json.loads(frame) for frame in frames[:-1]]
    assert frames[-1] == b"[DONE]"
    assert {(chunk["id"], chunk["model"]) for chunk in chunks} == {("chatcmpl-ours", "ours")}
    assert b"chatcmpl-ours" not in body
    assert b'"ours"' not in body


def test_a_whole_answer_is_given_where_there_is_one(mock_port: int) -> None:
    status, body = ask(mock_port, WIRES["openai"], stream=False)
    assert (status, json.loads(body)["object"]) == (200, "chat.completion")
    assert ask(mock_port, WIRES["anthropic"], stream=False)[0] == 400


def test_every_chunk_and_every_request_is_counted(tools: Path, mock_port: int) -> None:
    report = run_load(tools, mock_port, "--streams", 4, "--requests", 10, *pace_of(chunks=5, gap_us=100))
    assert (report["requests"], report["texts"], report["failures"]) == (10, 50, 0)
    assert report["frames"] == 10 * (5 + 3)  # a start, a finish and the usage
    assert report["transit_us"]["count"] == 50
    assert report["gap_us"]["count"] == 10 * 7


def test_the_messages_api_is_read_too(tools: Path, mock_port: int) -> None:
    options = ["--path", "/v1/messages", "--streams", 3, "--requests", 6, "--acks", tools / "acks"]
    report = run_load(tools, mock_port, *options, *pace_of(chunks=5, lockstep=1))
    assert (report["requests"], report["texts"], report["failures"]) == (6, 30, 0)
    assert report["transit_us"]["count"] == 30


def test_buffered_answers_are_counted(tools: Path, mock_port: int) -> None:
    report = run_load(tools, mock_port, "--streams", 2, "--requests", 6, "--buffered", "--pause-us", 1000)
    assert (report["requests"], report["failures"]) == (6, 0)


def test_in_lockstep_no_chunk_is_read_with_another(tools: Path, mock_port: int) -> None:
    options = ["--streams", 3, "--requests", 3, "--acks", tools / "acks", *pace_of(chunks=40, lockstep=1)]
    report = run_load(tools, mock_port, *options)
    assert report["texts"] == 120
    assert report["transit_us"]["count"] == 120


def test_many_streams_in_lockstep_continue(tools: Path, mock_port: int) -> None:
    options = ["--streams", 400, "--requests", 400, "--acks", tools / "acks", *pace_of(chunks=10, lockstep=1)]
    assert run_load(tools, mock_port, *options)["texts"] == 4000


def test_the_mock_sees_every_cancel(tools: Path, mock_port: int) -> None:
    pace = pace_of(chunks=1000, gap_us=10_000)
    report = run_load(tools, mock_port, "--streams", 5, "--cancels", 12, "--every-us", 2000, *pace)
    cancelled = {stream for stream, _ in report["cancelled"]}
    assert len(cancelled) == 12
    end = monotonic() + WAIT_TIMEOUT_S
    while not cancelled <= {int(line.split()[0]) for line in (tools / "closes").read_text().splitlines()}:
        assert monotonic() < end, "a close was never seen"


def test_a_window_counts_what_is_in_it(tools: Path, mock_port: int) -> None:
    options = ["--port", mock_port, "--streams", 5, "--window", 0.2, *pace_of(chunks=1000, gap_us=20_000)]
    with Load([str(word) for word in (tools / "load", *options)], CORE) as load:
        assert load.has_said("open")
        assert load.has_said("shut")
        report = load.report()
    assert report["elapsed_s"] >= 0.2
    assert report["texts"] == report["transit_us"]["count"] > 0
    assert report["least_texts"] > 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'data: {"choices":[{"delta":{"content":" 1.1"}}]}\n\ndata: [DONE]\n\n', "not whole: 1 chunks of text"),
        (b'data: {"choices":[{"delta":{"content":" 1.1"}}]}\n\n' * 2, "not whole: 2 chunks of text, no end"),
    ],
)
def test_an_answer_that_is_not_whole_is_a_failure(tools: Path, body: bytes, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

        thread = Thread(target=answer)
        thread.start()
        with pytest.raises(BenchError, match=f"1 of 1 answers failed: {reason}$"):
            run_load(tools, listener.getsockname()[1], "--streams", 1, "--requests", 1, *pace_of(chunks=2))
        thread.join()


def test_the_time_of_processes_that_have_ended_is_counted(tmp_path: Path) -> None:
    burn = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
    process = Process(["sh", "-c", f"(({burn})); echo done; sleep 30"], {CORE}, tmp_path / "burn.log")
    try:
        while "done" not in (tmp_path / "burn.log").read_text():
            sleep(0.02)
        assert process.cpu_s >= 0.05
    finally:
        process.stop()


def test_the_slope_of_memory_leaves_out_the_warm_up() -> None:
    samples = [(float(second), 10_000_000 if second < 60 else 20_000_000 + 1024 * second) for second in range(120)]
    figures = figures_of(samples, warm_s=60)
    assert figures["slope_kib_per_min"] == pytest.approx(60)
    assert figures["rss_start_mb"] == pytest.approx(20.06144)
    with pytest.raises(BenchError):
        figures_of(samples[:60], warm_s=60)


def test_without_openssl_there_is_no_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoTls, match="openssl is not installed"):
        make_certificate(tmp_path)


def test_only_known_names_are_filled_in() -> None:
    assert filled("listen {port}; { x } {other}", {"port": 1}) == "listen 1; { x } {other}"


def test_an_unknown_scenario_is_refused() -> None:
    assert list(chosen_scenarios("passed,soak")) == ["passed", "soak"]
    with pytest.raises(BenchError, match="no scenario 'pased'"):
        chosen_scenarios("pased")
