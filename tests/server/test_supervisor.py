"""Several workers on one address, as real processes: replaced when they die, ended together."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.supervisor_process import Gang, running


@pytest.fixture(scope="module")
def gang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gang]:
    """Two workers, for the tests that leave them as they found them."""
    with running(tmp_path_factory.mktemp("gang"), 2) as gang:
        gang.start()
        yield gang
        gang.mark()
        gang.signal(signal.SIGTERM)
        assert gang.end() == 0


def readings(text: str) -> dict[str, float]:
    families = text_string_to_metric_families(text)
    return {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}


def test_both_workers_take_connections(gang: Gang) -> None:
    for pid in gang.pids().values():
        gang.line_to(pid).close()


def test_the_control_socket_is_for_this_user_alone(gang: Gang) -> None:
    (path,) = gang.config.parent.glob("control-*.sock")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_worker_that_is_killed_is_replaced_and_the_other_is_left_alone(gang: Gang) -> None:
    before = gang.pids()
    gang.mark()
    with gang.line_to(before[1]) as line:
        line.say("stream")
        assert line.read() == "started"
        os.kill(before[0], signal.SIGKILL)
        assert gang.wait("worker ended", number=0)["signal"] == "SIGKILL"
        # What it had reserved for its requests is given back by another, at once.
        assert gang.wait("told of an end", worker=1)["instance"] == f"instance of {before[0]}"
        replaced = gang.wait("worker serves", number=0)["pid"]
        assert replaced != before[0]
        assert gang.pids()[1] == before[1]
        gang.line_to(replaced).close()
        line.say("still there?")
    assert not any(event["event"] == "worker ended" and event["number"] == 1 for event in gang.events)


def test_tasks_that_keep_workers_are_started_again_and_keep_the_same_workers(gang: Gang) -> None:
    before = gang.pids()
    gang.mark()
    gang.signal(signal.SIGUSR1)
    end = gang.wait("background task ended unexpectedly")
    assert (end["task"], end["reason"]) == ("worker", "cancelled")
    with gang.line_to(before[1]) as line:
        assert any('streamweir_background_task_ends_total{task="worker"} 2' in line.metrics() for _ in range(1000))
        assert gang.pids() == before
        os.kill(before[0], signal.SIGKILL)
        replaced = gang.wait("worker serves", number=0)["pid"]
        assert gang.pids() == {0: replaced, 1: before[1]}


def test_metrics_are_the_sum_over_all_workers_whichever_is_asked(gang: Gang) -> None:
    lines = [gang.line_to(pid) for pid in gang.pids().values()]
    for line in lines:
        line.say("stream")
        assert line.read() == "started"
    for pid in gang.pids().values():
        with gang.line_to(pid) as asking:
            sums = readings(asking.metrics())
        assert sums["streamweir_open_streams"] == 2
        assert sums["streamweir_workers"] == 2
    for line in lines:
        line.close()


def test_counts_do_not_fall_when_a_worker_dies(gang: Gang) -> None:
    def count() -> float:
        with gang.line() as line:
            return readings(line.metrics())["streamweir_time_between_chunks_seconds_count"]

    pid = gang.pids()[0]
    with gang.line_to(pid) as line:
        line.say("stream")
        assert line.read() == "started"
        before = count()
        assert before >= 1
        gang.mark()
        os.kill(pid, signal.SIGKILL)
        gang.wait("worker ended", number=0)
        assert count() >= before
        gang.wait("worker serves", number=0)
        assert count() >= before
    with gang.line() as line:
        after = readings(line.metrics())
    assert after["streamweir_open_streams"] == 0
    assert after["streamweir_worker_restarts_total"] >= 1


def test_a_reload_is_passed_on_and_a_broken_file_changes_nothing(gang: Gang) -> None:
    gang.mark()
    gang.signal(signal.SIGHUP)
    gang.wait("configuration reloaded by all workers")
    for number in (0, 1):
        gang.wait("configuration reloaded", worker=number)
    gang.config.write_text("broken")
    gang.signal(signal.SIGHUP)
    assert gang.wait("configuration not reloaded by all workers")["failed"] == [0, 1]
    gang.config.write_text("fine")
    for number in (0, 1):
        told = gang.wait("configuration not reloaded, the previous one stays active", worker=number)
        assert told["reason"] == "tiny.toml: server.timeouts.idle_s: expected a number"
    with gang.line() as line:
        assert line.pid in gang.pids().values()


def test_a_worker_that_is_killed_during_a_reload_has_not_failed_to_reload(gang: Gang) -> None:
    """The next in its place starts with the new file."""
    gang.mark()
    pid = gang.pids()[0]
    os.kill(pid, signal.SIGSTOP)
    gang.signal(signal.SIGHUP)
    gang.wait("configuration reloaded", worker=1)
    os.kill(pid, signal.SIGKILL)
    gang.wait("configuration reloaded by all workers")
    gang.wait("worker serves", number=0)
    assert not any(event["event"] == "configuration not reloaded by all workers" for event in gang.since())


def test_a_worker_that_starts_during_a_reload_takes_up_the_new_file_when_it_serves(gang: Gang) -> None:
    gang.config.write_text("slow")
    gang.mark()
    os.kill(gang.pids()[0], signal.SIGKILL)
    gang.wait("about to serve", worker=0)
    gang.config.write_text("fine")
    gang.signal(signal.SIGHUP)
    gang.wait("configuration reloaded by all workers")
    (gang.config.parent / "go").touch()
    gang.wait("worker serves", number=0)
    gang.wait("configuration reloaded", worker=0)


def test_a_file_that_breaks_after_the_start_keeps_a_dead_worker_away_but_not_the_others(gang: Gang) -> None:
    gang.config.write_text("broken")
    gang.mark()
    os.kill(gang.pids()[0], signal.SIGKILL)
    assert gang.wait("worker ended", number=0, status=78)
    with gang.line() as line:
        assert line.pid == gang.pids()[1]
    gang.config.write_text("fine")
    gang.wait("worker serves", number=0)


def test_sigterm_lets_streams_end_and_then_all_go(tmp_path: Path) -> None:
    with running(tmp_path, 2) as gang:
        gang.start()
        lines = [gang.line_to(pid) for pid in gang.pids().values()]
        for line in lines:
            line.say("stream")
            assert line.read() == "started"
        gang.signal(signal.SIGTERM)
        for number in (0, 1):
            gang.wait("stopping", worker=number)
        with gang.line() as late:
            assert late.answer == "busy"
        for line in lines:
            line.close()
        assert gang.end() == 0
    assert not list(tmp_path.glob("*.sock")), "nothing is left behind"


def test_a_second_signal_ends_every_stream_with_an_error(tmp_path: Path) -> None:
    with running(tmp_path, 2) as gang:
        gang.start()
        lines = [gang.stream() for _ in range(4)]
        gang.signal(signal.SIGINT)
        gang.wait("stopping", worker=0)
        gang.signal(signal.SIGTERM)
        for line in lines:
            assert line.read() == "error server_shutting_down"
            assert line.read() == ""
            line.close()
        assert gang.end() == 1


def test_a_service_manager_that_signals_everyone_cuts_no_stream(tmp_path: Path) -> None:
    with running(tmp_path, 2) as gang:
        gang.start()
        with gang.stream() as line:
            for pid in (gang.process.pid, *gang.pids().values()):
                os.kill(pid, signal.SIGTERM)
            gang.wait("stopping", worker=0)
            for pid in gang.pids().values():
                if pid == line.pid:
                    os.kill(pid, signal.SIGTERM)
            line.say("still there?")
        assert gang.end() == 0
    assert not [event for event in gang.events if event["event"] == "ending streams"]


def test_a_worker_that_does_not_hear_is_killed_after_the_second_signal(tmp_path: Path) -> None:
    with running(tmp_path, 2, word="deaf") as gang:
        gang.start()
        gang.signal(signal.SIGTERM)
        gang.wait("stopping")
        gang.signal(signal.SIGTERM)
        gang.wait("worker killed: it did not exit in time")
        assert gang.end() == 1


def test_without_their_supervisor_workers_finish_their_streams_and_go(tmp_path: Path) -> None:
    with running(tmp_path, 2) as gang:
        gang.start()
        with gang.stream() as line:
            gang.signal(signal.SIGKILL)
            for number in (0, 1):
                gang.wait("supervisor exited: this worker exits when its streams have ended", worker=number)
            gang.wait("stopped")  # the one without a stream
            with pytest.raises(ConnectionRefusedError):
                gang.line()
            line.say("still there?")
        gang.wait_for_all()
        assert gang.process.wait() == -signal.SIGKILL
    # What a killed supervisor leaves is cleared away by the next one.
    assert list(tmp_path.glob("*.sock"))
    with running(tmp_path, 1) as gang:
        gang.start()
        assert len(list(tmp_path.glob("*.sock"))) == 1


def test_a_configuration_that_cannot_be_used_ends_the_whole_start(tmp_path: Path) -> None:
    with running(tmp_path, 2, word="broken") as gang:
        assert gang.end() == 78
    told = {event["text"] for event in gang.events if event["event"] == "text"}
    assert told == {"tiny.toml: server.timeouts.idle_s: expected a number"}


def test_a_worker_that_dies_again_and_again_is_waited_for(tmp_path: Path) -> None:
    with running(tmp_path, 1, word="mortal", delay_s=1000) as gang:
        gang.start()
        assert gang.wait("worker keeps dying, waiting before the next start")["seconds"] == 30
        deaths = [event["status"] for event in gang.events if event["event"] == "worker ended"]
        assert deaths == [3, 3], "the first one is replaced at once"
        gang.signal(signal.SIGTERM)
        assert gang.end() == 0, "and the wait is no hindrance to the end"


def test_the_embedded_model_is_kept_here_and_its_key_is_not_on_a_command_line(tmp_path: Path) -> None:
    with running(tmp_path, 2, "local") as gang:
        gang.start()
        for pid in gang.pids().values():
            assert "the-key-of-the-model" not in Path(f"/proc/{pid}/cmdline").read_text()
        gang.signal(signal.SIGTERM)
        assert gang.end() == 0
    told = [event for event in gang.events if event["event"] == "embedded model"]
    assert [(event["url"], event["length"]) for event in told] == [("http://127.0.0.1:1/v1", 20)] * 2
    names = [event["event"] for event in gang.events]
    assert names.index("model stopped") > max(place for place, name in enumerate(names) if name == "worker ended")
