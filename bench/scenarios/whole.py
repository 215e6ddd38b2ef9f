"""What is seen of a whole process: a short request, its memory, how soon it answers after its start."""

from http.client import HTTPConnection, HTTPException
from json import dumps
from time import monotonic, sleep

from bench.load import Bench, Figures, Meter, pace_of
from bench.process import START_S, BenchError
from bench.system import CHAT, KEY, System

QUESTION = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Are you there?"}]}


def short(bench: Bench, system: System) -> Figures:
    """Buffered requests, one after the other on kept connections: what a request costs."""
    with Meter(system) as meter:
        report = bench.load(system, "--buffered", "--streams", 64, "--seconds", bench.size.short_s)
    return {
        "request_cpu_us": meter.cpu_s / report["requests"] * 1e6,
        "requests_per_s": report["requests"] / report["elapsed_s"],
        "others": meter.others,
    }


def memory(bench: Bench, system: System) -> Figures:
    """Many slow streams on a fresh process: what an open stream holds. Memory of the kernel is not in it."""
    count = system.open_streams or bench.size.open_streams
    with bench.fresh(system) as fresh:
        bench.warm(fresh, 8, routes=[fresh.routes["passed"]])
        before = most = fresh.running.rss
        pace = pace_of(chunks=5, first_us=1_000_000, gap_us=1_000_000)
        options = ["--streams", count, "--requests", count, "--ramp-ms", 2000, *pace]
        with bench.spawn_load(fresh, *options) as load:
            while load.is_running:
                most = max(most, fresh.running.rss)
                sleep(0.1)
            load.report()
    return {"idle_mb": before / 1e6, "stream_kib": (most - before) / count / 1024}


def start(_: Bench, system: System) -> Figures:
    """From the start of the program to the end of its first answer: the first time ever, and again."""
    with system.beside("started") as other:
        first_start_s = first_answer_s(other)
        other.stop()
        return {"first_start_s": first_start_s, "first_answer_s": first_answer_s(other)}


def first_answer_s(system: System) -> float:
    began = monotonic()
    system.spawn()
    while not is_answered(system.port):
        system.running.must_run()
        if monotonic() - began > START_S:
            raise BenchError(f"{system.name} did not answer within {START_S:.0f} s of its start")
        sleep(0.002)
    return monotonic() - began


def is_answered(port: int) -> bool:
    """False: nothing listens yet."""
    connection = HTTPConnection("127.0.0.1", port, timeout=START_S)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    try:
        connection.request("POST", CHAT, dumps(QUESTION), headers)
        answer = connection.getresponse()
        text = answer.read()
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
    if answer.status != 200:
        raise BenchError(f"the first answer is {answer.status}: {text[:200].decode(errors='replace')}")
    return True
