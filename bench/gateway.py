"""What the gateway costs on real sockets, against nginx doing the same job in the same run.

    python -m bench.gateway [--rounds N] [--only SCENARIO,...] [--system "NAME=COMMAND {port} ..."] [...]

A mock provider and a load generator in C (`upstream.c`, `load.c`) share one core; the system under
test has another to itself, and the kernel says what CPU it used. The systems take turns within a
round, and the rounds are repeated, so that a busy neighbour hits all of them. The report goes to
`build/bench/report.md` and `report.json`. docs/performance.md says what the figures mean.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path

from bench.process import BenchError, Process, allow_files, free_port, two_cores
from bench.report import DIRECT, Record, as_json, markdown
from bench.scenario import DIRECT_TOO, SCENARIOS, Bench, Size
from bench.system import WITH_BOOKS, WITHOUT_BOOKS, Setting, System, nginx, other, streamweir

HERE = Path(__file__).parent
FOLDER = HERE.parent / "build" / "bench"


def compile_tools(folder: Path) -> None:
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise BenchError("no C compiler: install gcc, or name one with CC=...")
    for name in ("upstream", "load"):
        flags = ["-O2", "-std=gnu11", "-Wall", "-Wextra"]
        subprocess.run([compiler, *flags, "-o", folder / name, HERE / f"{name}.c"], check=True)  # noqa: S603


@contextmanager
def mock_provider(folder: Path, core: int) -> Iterator[tuple[Process, int]]:
    acks, closes, port = folder / "acks", folder / "closes", free_port()
    acks.unlink(missing_ok=True)
    os.mkfifo(acks)
    closes.write_text("")
    command = [folder / "upstream", port, "--acks", acks, "--closes", closes]
    process = Process([str(word) for word in command], core, folder / "upstream.log")
    try:
        process.wait_for_port(port)
        yield process, port
    finally:
        process.stop()


def systems_of(setting: Setting, others: list[str]) -> list[System]:
    yardstick, ours = nginx(setting), streamweir(setting, has_books=False)
    booked = streamweir(setting, has_books=True)
    if yardstick is None:
        say("nginx is not installed (NGINX=... names one): the comparison with it is skipped")
    if ours is None:
        say("streamweir is not installed (STREAMWEIR=... names one): it is skipped")
    return [*filter(None, (yardstick, ours, booked)), *(other(definition, setting) for definition in others)]


def play_round(bench: Bench, systems: list[System], record: Record, chosen: list[str]) -> None:
    for scenario in chosen:
        if scenario not in SCENARIOS:
            raise BenchError(f"no scenario {scenario!r}: choose of {', '.join(SCENARIOS)}")
        if scenario in DIRECT_TOO:
            record.add(DIRECT, scenario, DIRECT_TOO[scenario](bench, None))
        for system in systems:
            figures = SCENARIOS[scenario](bench, system)
            record.add(system.name, scenario, figures)
            if figures:
                told = ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
                say(f"  {scenario}, {system.name}: {told}")


def measure(options: argparse.Namespace) -> Record:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for left_over in FOLDER.glob("*.log"):
        left_over.unlink()
    for data in (WITHOUT_BOOKS, WITH_BOOKS):
        shutil.rmtree(FOLDER / data, ignore_errors=True)
    compile_tools(FOLDER)
    system_core, load_core = two_cores()
    os.sched_setaffinity(0, {load_core})
    if system_core == load_core:
        say("one core only: the load takes its share of the measured core")
    files = allow_files(16384)
    with ExitStack() as stack:
        mock, mock_port = stack.enter_context(mock_provider(FOLDER, load_core))
        size = Size(**{each.name: getattr(options, each.name) for each in fields(Size)})
        bench = Bench(FOLDER, mock, mock_port, system_core, load_core, size)
        systems = systems_of(Setting(FOLDER, mock_port, files, system_core), options.system)
        for system in systems:
            stack.callback(system.stop)
            system.start()
            bench.warm(system)
        record = Record({system.name: system.version for system in systems}, (system_core, load_core))
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            play_round(bench, systems[:: (-1) ** number], record, options.only.split(","))
    record.add_differences()
    return record


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(SCENARIOS), help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--system", action="append", default=[], help="one more, as NAME=COMMAND with {port} and so on")
    for each in fields(Size):
        option = f"--{each.name.replace('_', '-')}"
        parser.add_argument(option, type=type(each.default), default=each.default, metavar=str(each.default))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an orderly end: what was started is stopped
    try:
        record = measure(parser.parse_args())
    except BenchError as error:
        raise SystemExit(f"bench: {error}") from None
    (FOLDER / "report.md").write_text(markdown(record))
    (FOLDER / "report.json").write_text(as_json(record))
    print(markdown(record))


if __name__ == "__main__":
    main()
