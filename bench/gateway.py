"""What the gateway costs on real sockets, against nginx doing the same job in the same run.

    python -m bench.gateway [--rounds N] [--only SCENARIO,...] [--system "NAME=COMMAND {port} ..."] [...]

A mock provider and a load generator in C (`upstream.c`, `load.c`) share one core; the system under
test has another to itself, and the kernel says what CPU it used. The systems take turns within a
round, and the rounds are repeated, so that a busy neighbour hits all of them. The report goes to
`build/bench`. docs/performance.md says what the figures mean.
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

from bench.claims import Verdict, judge
from bench.load import Bench, Figures, Size
from bench.peers import litellm, portkey
from bench.process import BenchError, Process, allow_files, free_port, share_cores
from bench.record import DIRECT, Record
from bench.report import markdown, write
from bench.scenarios import SCENARIOS, Scenario
from bench.system import Setting, System, before, haproxy, nginx, other, streamweir, traced
from bench.tls import NoTls, tls_provider

HERE = Path(__file__).parent
FOLDER = HERE.parent / "build" / "bench"
TOOLS = {"upstream": ("upstream.c", "wire.c", "amazon.c"), "load": ("load.c", "caller.c")}
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")
FILES = 16384
"""Open at once, of every process: 5,000 streams are 10,000 for a gateway."""


def compile_tools(folder: Path) -> None:
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise BenchError("no C compiler: install gcc, or name one with CC=...")
    for name, sources in TOOLS.items():
        files = [str(HERE / source) for source in sources]
        subprocess.run([compiler, *FLAGS, "-o", str(folder / name), *files], check=True)  # noqa: S603


@contextmanager
def mock_provider(folder: Path, core: int) -> Iterator[int]:
    """Its port."""
    acks, closes, port = folder / "acks", folder / "closes", free_port()
    acks.unlink(missing_ok=True)
    os.mkfifo(acks)
    closes.write_text("")
    command = [folder / "upstream", port, "--acks", acks, "--closes", closes]
    process = Process([str(word) for word in command], {core}, folder / "upstream.log")
    try:
        process.wait_for_port(port)
        yield port
    finally:
        process.stop()


def systems_of(setting: Setting, options: argparse.Namespace) -> list[System]:
    known = {
        "nginx (NGINX=... names one)": nginx(setting),
        "haproxy (HAPROXY=... names one)": haproxy(setting),
        "streamweir (STREAMWEIR=... names one)": streamweir(setting, has_books=True),
        "streamweir without accounting": streamweir(setting, has_books=False),
    }
    if options.tracing:
        known["streamweir with tracing"] = traced(setting)
    if (other_build := before(setting)) is not None:
        known["the build that BEFORE=... names"] = other_build
    if options.peers:
        known |= {"LiteLLM": litellm(setting), "Portkey": portkey(setting)}
    for name, system in known.items():
        if system is None:
            say(f"{name} is not installed: the comparison with it is skipped")
    systems = [*filter(None, known.values()), *(other(definition, setting) for definition in options.system)]
    wanted = options.systems.split(",") if options.systems else [system.name for system in systems]
    return [system for system in systems if system.name in wanted]


def chosen_scenarios(names: str) -> dict[str, Scenario]:
    chosen = names.split(",")
    unknown = [name for name in chosen if name not in SCENARIOS]
    if unknown:
        raise BenchError(f"no scenario {unknown[0]!r}: choose of {', '.join(SCENARIOS)}")
    return {name: SCENARIOS[name] for name in chosen}


def tls_or_none(stack: ExitStack, setting: Setting, core: int) -> Setting | None:
    try:
        return stack.enter_context(tls_provider(setting, core))
    except NoTls as reason:
        say(f"tls is skipped: {reason}")
        return None


def is_ready(bench: Bench, stack: ExitStack, system: System) -> bool:
    """Started and warm."""
    stack.callback(system.stop)
    try:
        system.start()
        bench.warm(system)
    except BenchError as error:
        if not system.may_fail:
            raise BenchError(f"{system.name}: {error}") from None
        say(f"{system.name} is left out, for {error}")
        return False
    return True


def play(bench: Bench, systems: list[System], record: Record, name: str, scenario: Scenario) -> None:
    """One round of one scenario."""
    if scenario.direct is not None:
        add(record, name, DIRECT, scenario.direct(bench, None))
    for system in systems:
        if not system.plays(name):
            continue
        try:
            figures = scenario.play(bench, system)
        except BenchError as error:
            if not system.may_fail and not scenario.may_fail:
                raise BenchError(f"{name}, {system.name}: {error}") from None
            say(f"  {name}, {system.name}: left out, for {error}")
            continue
        add(record, name, system.name, figures)


def add(record: Record, scenario: str, system: str, figures: Figures) -> None:
    record.add(system, scenario, figures)
    if figures:
        told = ", ".join(f"{figure} {value:.2f}" for figure, value in figures.items())
        say(f"  {scenario}, {system}: {told}")


def measure(options: argparse.Namespace) -> Record:
    scenarios = chosen_scenarios(options.only)
    folder = FOLDER / "systems"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    compile_tools(FOLDER)
    system_core, load_core, worker_cores = share_cores()
    os.sched_setaffinity(0, {load_core})
    if system_core == load_core:
        say("one core only: the load takes its share of the measured core")
    files = allow_files(FILES)
    with ExitStack() as stack:
        mock_port = stack.enter_context(mock_provider(FOLDER, load_core))
        size = Size(**{each.name: getattr(options, each.name) for each in fields(Size)})
        setting = Setting(folder, mock_port, files, frozenset({system_core}))
        tls = tls_or_none(stack, setting, load_core) if "tls" in scenarios else None
        bench = Bench(FOLDER, mock_port, load_core, worker_cores, files, size, tls, say)
        wanted = [system for system in systems_of(setting, options) if any(map(system.plays, scenarios))]
        systems = [system for system in wanted if is_ready(bench, stack, system)]
        record = Record({system.name: system.version for system in systems}, (system_core, load_core))
        for number in range(max(options.rounds, options.long_rounds)):
            say(f"round {number + 1}")
            for name, scenario in scenarios.items():
                if number < (options.long_rounds if scenario.is_long else options.rounds):
                    play(bench, systems[:: (-1) ** number], record, name, scenario)
    record.add_differences()
    return record


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = ",".join(name for name, scenario in SCENARIOS.items() if scenario.by_default)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long-rounds", type=int, default=1, help="of the scenarios that take long")
    parser.add_argument("--only", default=usual, help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--system", action="append", default=[], help="one more, as NAME=COMMAND with {port} and so on")
    parser.add_argument("--systems", metavar="NAME,...", help="none but these")
    parser.add_argument(
        "--peers", action="store_true", help="LiteLLM and Portkey too: `make bench-peers` installs them"
    )
    parser.add_argument("--tracing", action="store_true", help="also the gateway with every request traced")
    parser.add_argument("--strict", action="store_true", help="status 1 where a claim was measured and is not kept")
    for each in fields(Size):
        option = f"--{each.name.replace('_', '-')}"
        parser.add_argument(option, type=type(each.default), default=each.default, metavar=str(each.default))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an orderly end: what was started is stopped
    options = parser.parse_args()
    try:
        record = measure(options)
    except BenchError as error:
        raise SystemExit(f"bench: {error}") from None
    write(record, FOLDER)
    print(markdown(record))
    if options.strict and any(judged.verdict is Verdict.NOT_KEPT for judged in judge(record)):
        sys.exit(1)


if __name__ == "__main__":
    main()
