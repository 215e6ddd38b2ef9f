"""The gateway under the random load: the real program on a real store, killed, started again and reloaded meanwhile.

A life is one process of it (with two workers: one supervisor). All lives have the same folder and the same database.
"""

import asyncio
import itertools
import math
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from randomload.callers import Caller, Notes, secret_of
from randomload.plan import KEYS, KEYS_EACH, plan_of
from randomload.upstream import Providers, Turns
from streamweir.policy.limits.budget import NANO
from streamweir.store.db.base import Store
from streamweir.store.db.clock import now_ms
from streamweir.store.db.engine import open_store
from streamweir.store.keys.credit import add_credit
from streamweir.store.keys.workspaces import WorkspaceSpec, create_workspace
from support.deadlines import WAIT_TIMEOUT_S
from support.forked_processes import fork_server
from support.gateway import providers
from support.raw_client import CutShort, RawClient
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import Program, get, write_config
from support.stores import migrated_url
from support.valkey import ValkeyServer

AT_ONCE = 24
"""Callers at a time."""
PAUSE_S = 0.03
FROZEN_S = 45.0
"""Without an answer for so long, a gateway that is idle but for its callers hangs."""
TROUBLE = {"top up": 12, "reload": 50, "kill worker": 230, "kill": 410}
"""What happens meanwhile, and after how many calls each."""
SETTINGS = """
[server.timeouts]
connect_s = 5
first_event_s = 1
idle_s = 1
total_s = 5
silence_s = 0.2
header_s = 2
body_s = 1
keep_s = 5
write_stall_s = 1
abandoned_s = 1
drain_s = 10
"""
MODEL = """
[[models]]
id = "{wire}"
targets = [{{ provider = "{wire}", model = "gpt-4o" }}, {{ provider = "{wire}-spare", model = "gpt-4o" }}]
price = {{ input = 2.5, output = 10.0 }}
"""
WIRES = ("openai", "anthropic", "gemini")
HOLD_TOKENS = 64


@dataclass(frozen=True)
class Variant:
    """Where the gateway runs."""

    database: str
    workers: int = 1

    @property
    def name(self) -> str:
        return self.database if self.workers == 1 else f"{self.database} with {self.workers} workers and Valkey"


@dataclass(frozen=True)
class Load:
    """How much of it: so many calls, or as many as are done in so many seconds."""

    seed: str
    calls: int | None = None
    seconds: float | None = None


class Rig:
    def __init__(self, folder: Path, variant: Variant, store: Store, settings: Callable[[int], str]) -> None:
        self.folder = folder
        self.store = store
        self.notes = Notes()
        self.events: list[dict[str, object]] = []
        """What all lives have logged."""
        self.workspaces: list[str] = []
        self._variant = variant
        self._settings = settings
        """The configuration of a generation: each reload has another one."""
        self._generation = 0
        self._serving = asyncio.Event()
        self._orders: asyncio.Queue[str] = asyncio.Queue()
        self._address = ("", 0)
        self._program: Program | None = None

    async def run(self, load: Load, turns: Turns, judge: Callable[["Rig", Program], AsyncIterator[None]]) -> None:
        """The load, then `judge` with the last life, which it has to end."""
        turns.pause = self._pause
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._spend_lives(judge))
                pulse = group.create_task(self._feel_pulse())
                await self._send(load, turns)
                pulse.cancel()
                self._orders.put_nowait("end")
        except* AssertionError as failures:
            for failure in failures.exceptions:
                failure.add_note(
                    f"{self._variant.name}, STREAMWEIR_SEED={load.seed}, after {self.notes.asked} requests"
                )
            raise

    async def _send(self, load: Load, turns: Turns) -> None:
        numbers = itertools.count()
        calls = load.calls if load.calls is not None else math.inf
        until = time.monotonic() + (load.seconds if load.seconds is not None else math.inf)

        async def call_again_and_again() -> None:
            for number in numbers:
                if number >= calls or time.monotonic() > until:
                    return
                for trouble, every in TROUBLE.items():
                    if number % every == every - 1:
                        self._orders.put_nowait(trouble)
                await self._serving.wait()
                await Caller(self._address, plan_of(load.seed, number), turns, self.notes).go()
                turns.forget(number)

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(call_again_and_again())

    async def _spend_lives(self, judge: Callable[["Rig", Program], AsyncIterator[None]]) -> None:
        while True:
            async with self._life() as program:
                while (order := await self._orders.get()) not in ("kill", "end"):
                    await self._disturb(program, order)
                if order == "end":
                    async for _ in judge(self, program):
                        ...
                    self.events += program.events
                    return
                self._serving.clear()
                program.signal(signal.SIGKILL)
                assert await program.status() == -signal.SIGKILL
                self.events += program.events
                self.notes.life += 1

    @asynccontextmanager
    async def _life(self) -> AsyncIterator[Program]:
        words = () if self._variant.workers == 1 else ("--workers", str(self._variant.workers))
        toml = self._settings(self._generation)
        async with fork_server().served(self.folder, toml, *words, intervals={"tick_s": 0.1}) as program:
            await program.started()
            self._address, self._program = program.address, program
            self._serving.set()
            yield program

    async def _disturb(self, program: Program, order: str) -> None:
        if order == "reload":
            self._generation += 1
            write_config(self.folder, self._settings(self._generation))
            program.signal(signal.SIGHUP)
        elif order == "top up":
            for workspace in self.workspaces:
                credit = partial(
                    add_credit, workspace_id=workspace, amount_nano=NANO // 20, actor="test", at_ms=now_ms()
                )
                await self.store.write(credit, timeout_s=WAIT_TIMEOUT_S)
        elif self._variant.workers > 1:
            for pid in self._processes()[:1]:
                self.notes.life += 1
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _pause(self) -> None:
        """As on a machine that is busy: what comes meanwhile from callers and upstreams is found in one turn."""
        if self._serving.is_set():
            pids = self._processes()
            _signal(pids, signal.SIGSTOP)
            asyncio.get_running_loop().call_later(PAUSE_S, _signal, pids, signal.SIGCONT)

    def _processes(self) -> list[int]:
        """Those that serve."""
        program = self._program
        assert program is not None
        if self._variant.workers == 1:
            return [program.pid]
        pids = {event["number"]: event["pid"] for event in program.events if event["event"] == "worker serves"}
        ended = {event["pid"] for event in program.events if event["event"] == "worker ended"}
        return sorted(set(pids.values()) - ended)

    async def _feel_pulse(self) -> None:
        """A process that hangs answers nobody any more, or one worker of several nobody that it has accepted."""
        while True:
            await self._serving.wait()
            life = self.notes.life
            try:
                async with asyncio.timeout(FROZEN_S), await RawClient.open(self._address) as client:
                    await client.send(get("/v1/models", secret_of("plain0")))
                    await client.response()
            except (ConnectionError, CutShort):
                assert life != self.notes.life or not self._serving.is_set(), "the gateway hung up on its operator"
            except TimeoutError:
                assert life != self.notes.life, f"the gateway has not answered for {FROZEN_S:g} s"
            await asyncio.sleep(0.2)


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@asynccontextmanager
async def rig_for(folder: Path, variant: Variant, load: Load, turns: Turns) -> AsyncIterator[Rig]:
    data = folder / "data"
    data.mkdir()
    url = await migrated_url(variant.database, data)
    async with AsyncExitStack() as stack:
        shared = ""
        if variant.workers > 1:
            shared = f'[shared]\nurl = "{stack.enter_context(ValkeyServer()).url}"\n'
        store = await open_store(url, data)
        stack.push_async_callback(store.close)
        up = await stack.enter_async_context(ScriptedUpstream(Providers(load.seed, turns).script))
        fixed = f'[store]\nurl = "{url}"\nhold_tokens = {HOLD_TOKENS}\n{shared}{SETTINGS}'
        for wire in WIRES:
            fixed += providers(wire, **{wire: up.base_url, f"{wire}-spare": up.base_url}) + MODEL.format(wire=wire)
        rig = Rig(folder, variant, store, lambda generation: fixed + keys(generation))
        for number in range(KEYS_EACH):
            spec = WorkspaceSpec(name=f"prepaid{number}", prepaid=True)
            made = await store.write(partial(create_workspace, spec=spec, actor="test", at_ms=now_ms()))
            rig.workspaces.append(made.id)
        yield rig


def keys(generation: int) -> str:
    bounds = {
        "budget": f'budget_usd = {0.05 + 0.1 * generation:.2f}\nbudget_period = "total"',
        "rpm": f"rpm = {30 + generation}",
        "tpm": f"tpm = {5000 + generation}",
        "streams": "max_streams = 2",
        "kept": "log_content = true",
    }
    toml = f'\n[[keys]]\nname = "operator"\nkey = "{secret_of("operator")}"\nscopes = ["admin"]\n'
    for kind in KEYS:
        if kind == "passing" and generation % 2:
            continue
        for number in range(KEYS_EACH):
            name = f"{kind}{number}"
            more = f'workspace = "{name}"' if kind == "prepaid" else bounds.get(kind, "")
            toml += f'\n[[keys]]\nname = "{name}"\nkey = "{secret_of(name)}"\n{more}\n'
    return toml
