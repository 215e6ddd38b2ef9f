"""Several workers on one address, as real processes: replaced when they die, ended together."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.supervisor_process import SupervisorProcess, running


@pytest.fixture(scope="module")
def workers_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisorProcess]:
    """Two workers, for the tests that leave them as they found them."""
    with running(tmp_path_factory.mktemp("workers_process"), 2) as workers_process:
        workers_process.start()
        yield workers_process
        workers_process.mark()
        workers_process.signal(signal.SIGTERM)
        assert workers_process.end() == 0


def readings(text: str) -> dict[str, float]:
    families = text_string_to_metric_families(text)
    return {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}


def test_both_workers_take_connections(workers_process: SupervisorProcess) -> None:
    for pid in workers_process.pids().values():
        workers_process.line_to(pid).close()


def test_the_control_socket_is_for_this_user_alone(workers_process: SupervisorProcess) -> None:
    (path,) = workers_process.config.parent.glob("control-*.sock")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_worker_that_is_killed_is_replaced_and_the_other_is_left_alone(workers_process: SupervisorProcess) -> None:
    before = workers_process.pids()
    workers_process.mark()
    with workers_process.line_to(before[1]) as line:
        line.say("stream")
        assert line.read() == "started"
        os.kill(before[0], signal.SIGKILL)
        assert workers_process.wait("worker ended", number=0)["signal"] == "SIGKILL"
        # What it had reserved for its requests is given back by another, at once.
        assert workers_process.wait("told of an end", worker=1)["instance"] == f"instance of {before[0]}"
        replaced = workers_process.wait("worker serves", number=0)["pid"]
        assert replaced != before[0]
        assert workers_process.pids()[1] == before[1]
        workers_process.line_to(replaced).close()
        line.say("still there?")
    assert not any(event["event"] == "worker ended" and event["number"] == 1 for event in workers_process.events)


def test_tasks_that_keep_workers_are_started_again_and_keep_the_same_workers(
    workers_process: SupervisorProcess,
) -> None:
    before = workers_process.pids()
    workers_process.mark()
    workers_process.signal(signal.SIGUSR1)
    end = workers_process.wait("background task ended unexpectedly")
    assert (end["task"], end["reason"]) == ("worker", "cancelled")
    with workers_process.line_to(before[1]) as line:
        assert any('streamweir_background_task_ends_total{task="worker"} 2' in line.metrics() for _ in range(1000))
        assert workers_process.pids() == before
        os.kill(before[0], signal.SIGKILL)
        replaced = workers_process.wait("worker serves", number=0)["pid"]
        assert workers_process.pids() == {0: replaced, 1: before[1]}


def test_metrics_are_the_sum_over_all_workers_whichever_is_asked(workers_process: SupervisorProcess) -> None:
    lines = [workers_process.line_to(pid) for pid in workers_process.pids().values()]
    for line in lines:
        line.say("stream")
        assert line.read() == "started"
    for pid in workers_process.pids().values():
        with workers_process.line_to(pid) as asking:
            sums = readings(asking.metrics())
        assert sums["streamweir_open_streams"] == 2
        assert sums["streamweir_workers"] == 2
    for line in lines:
        line.close()


def test_counts_do_not_fall_when_a_worker_dies(workers_process: SupervisorProcess) -> None:
    def count() -> float:
        with workers_process.line() as line:
            return readings(line.metrics())["streamweir_time_between_chunks_seconds_count"]

    pid = workers_process.pids()[0]
    with workers_process.line_to(pid) as line:
        line.say("stream")
        assert line.read() == "started"
        before = count()
        assert before >= 1
        workers_process.mark()
        os.kill(pid, signal.SIGKILL)
        workers_process.wait("worker ended", number=0)
        assert count() >= before
        workers_process.wait("worker serves", number=0)
        assert count() >= before
    with workers_process.line() as line:
        after = readings(line.metrics())
    assert after["streamweir_open_streams"] == 0
    assert after["streamweir_worker_restarts_total"] >= 1


def test_a_reload_is_passed_on_and_a_broken_file_changes_nothing(workers_process: SupervisorProcess) -> None:
    workers_process.mark()
    workers_process.signal(signal.SIGHUP)
    workers_process.wait("configuration reloaded by all workers")
    for number in (0, 1):
        workers_process.wait("configuration reloaded", worker=number)
    workers_process.config.write_text("broken")
    workers_process.signal(signal.SIGHUP)
    assert workers_process.wait("configuration not reloaded by all workers")["failed"] == [0, 1]
    workers_process.config.write_text("fine")
    for number in (0, 1):
        told = workers_process.wait("configuration not reloaded, the previous one stays active", worker=number)
        assert told["reason"] == "tiny.toml: server.timeouts.idle_s: expected a number"
    with workers_process.line() as line:
        assert line.pid in workers_process.pids().values()


def test_a_worker_that_is_killed_during_a_reload_has_not_failed_to_reload(workers_process: SupervisorProcess) -> None:
    """The next in its place starts with the new file."""
    workers_process.mark()
    pid = workers_process.pids()[0]
    os.kill(pid, signal.SIGSTOP)
    workers_process.signal(signal.SIGHUP)
    workers_process.wait("configuration reloaded", worker=1)
    os.kill(pid, signal.SIGKILL)
    workers_process.wait("configuration reloaded by all workers")
    workers_process.wait("worker serves", number=0)
    assert not any(event["event"] == "configuration not reloaded by all workers" for event in workers_process.since())


def test_a_worker_that_starts_during_a_reload_takes_up_the_new_file_when_it_serves(
    workers_process: SupervisorProcess,
) -> None:
    workers_process.config.write_text("slow")
    workers_process.mark()
    os.kill(workers_process.pids()[0], signal.SIGKILL)
    workers_process.wait("about to serve", worker=0)
    workers_process.config.write_text("fine")
    workers_process.signal(signal.SIGHUP)
    workers_process.wait("configuration reloaded by all workers")
    (workers_process.config.parent / "go").touch()
    workers_process.wait("worker serves", number=0)
    workers_process.wait("configuration reloaded", worker=0)


def test_a_file_that_breaks_after_the_start_stops_only_a_dead_workers_replacement(
    workers_process: SupervisorProcess,
) -> None:
    workers_process.config.write_text("broken")
    workers_process.mark()
    os.kill(workers_process.pids()[0], signal.SIGKILL)
    assert workers_process.wait("worker ended", number=0, status=78)
    with workers_process.line() as line:
        assert line.pid == workers_process.pids()[1]
    workers_process.config.write_text("fine")
    workers_process.wait("worker serves", number=0)


def test_sigterm_lets_streams_end_and_then_all_go(tmp_path: Path) -> None:
    with running(tmp_path, 2) as workers_process:
        workers_process.start()
        lines = [workers_process.line_to(pid) for pid in workers_process.pids().values()]
        for line in lines:
            line.say("stream")
            assert line.read() == "started"
        workers_process.signal(signal.SIGTERM)
        for number in (0, 1):
            workers_process.wait("stopping", worker=number)
        with workers_process.line() as late:
            assert late.answer == "busy"
        for line in lines:
            line.close()
        assert workers_process.end() == 0
    assert not list(tmp_path.glob("*.sock")), "nothing is left behind"


def test_a_second_signal_ends_every_stream_with_an_error(tmp_path: Path) -> None:
    with running(tmp_path, 2) as workers_process:
        workers_process.start()
        lines = [workers_process.stream() for _ in range(4)]
        workers_process.signal(signal.SIGINT)
        workers_process.wait("stopping", worker=0)
        workers_process.signal(signal.SIGTERM)
        for line in lines:
            assert line.read() == "error server_shutting_down"
            assert line.read() == ""
            line.close()
        assert workers_process.end() == 1


def test_a_service_manager_that_signals_everyone_cuts_no_stream(tmp_path: Path) -> None:
    with running(tmp_path, 2) as workers_process:
        workers_process.start()
        with workers_process.stream() as line:
            for pid in (workers_process.process.pid, *workers_process.pids().values()):
                os.kill(pid, signal.SIGTERM)
            workers_process.wait("stopping", worker=0)
            for pid in workers_process.pids().values():
                if pid == line.pid:
                    os.kill(pid, signal.SIGTERM)
            line.say("still there?")
        assert workers_process.end() == 0
    assert not [event for event in workers_process.events if event["event"] == "ending streams"]


def test_a_worker_that_does_not_react_is_killed_after_the_second_signal(tmp_path: Path) -> None:
    with running(tmp_path, 2, word="deaf") as workers_process:
        workers_process.start()
        workers_process.signal(signal.SIGTERM)
        workers_process.wait("stopping")
        workers_process.signal(signal.SIGTERM)
        workers_process.wait("worker killed: it did not exit in time")
        assert workers_process.end() == 1


def test_without_their_supervisor_workers_finish_their_streams_and_go(tmp_path: Path) -> None:
    with running(tmp_path, 2) as workers_process:
        workers_process.start()
        with workers_process.stream() as line:
            workers_process.signal(signal.SIGKILL)
            for number in (0, 1):
                workers_process.wait("supervisor exited: this worker exits when its streams have ended", worker=number)
            workers_process.wait("stopped")  # the one without a stream
            with pytest.raises(ConnectionRefusedError):
                workers_process.line()
            line.say("still there?")
        workers_process.wait_for_all()
        assert workers_process.process.wait() == -signal.SIGKILL
    # What a killed supervisor leaves is cleared away by the next one.
    assert list(tmp_path.glob("*.sock"))
    with running(tmp_path, 1) as workers_process:
        workers_process.start()
        assert len(list(tmp_path.glob("*.sock"))) == 1


def test_a_configuration_that_cannot_be_used_ends_the_whole_start(tmp_path: Path) -> None:
    with running(tmp_path, 2, word="broken") as workers_process:
        assert workers_process.end() == 78
    told = {event["text"] for event in workers_process.events if event["event"] == "text"}
    assert told == {"tiny.toml: server.timeouts.idle_s: expected a number"}


def test_a_worker_that_dies_repeatedly_is_restarted_with_a_delay(tmp_path: Path) -> None:
    with running(tmp_path, 1, word="mortal", delay_s=1000) as workers_process:
        workers_process.start()
        assert workers_process.wait("worker keeps dying, waiting before the next start")["seconds"] == 30
        deaths = [event["status"] for event in workers_process.events if event["event"] == "worker ended"]
        assert deaths == [3, 3], "the first one is replaced at once"
        workers_process.signal(signal.SIGTERM)
        assert workers_process.end() == 0, "and the wait is no hindrance to the end"


def test_the_embedded_model_is_kept_here_and_its_key_is_not_on_a_command_line(tmp_path: Path) -> None:
    with running(tmp_path, 2, "local") as workers_process:
        workers_process.start()
        for pid in workers_process.pids().values():
            assert "the-key-of-the-model" not in Path(f"/proc/{pid}/cmdline").read_text()
        workers_process.signal(signal.SIGTERM)
        assert workers_process.end() == 0
    told = [event for event in workers_process.events if event["event"] == "embedded model"]
    assert [(event["url"], event["length"]) for event in told] == [("http://127.0.0.1:1/v1", 20)] * 2
    names = [event["event"] for event in workers_process.events]
    assert names.index("model stopped") > max(place for place, name in enumerate(names) if name == "worker ended")
