"""The gateway with its console on a real socket, in a thread with an event loop of its own, for a browser.

    with served_console(tmp_path) as console:
        page.goto(f"{console.base_url}/console")

Its provider `up` is a scripted upstream in the same loop: `play` says what it answers from now on. It keeps
books in `tmp_path`, has the test's own key (`support.gateway.KEY`), and the model `smart`, which has a price.
What a step waits for is told to it by `soon`; whatever else needs the loop goes through `call`.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from msgspec import structs
from openai import DefaultHttpxClient, OpenAI
from openai.types.chat import ChatCompletionUserMessageParam
from playwright.sync_api import Page, expect

from streamweir.config.display.difference import Difference, difference
from streamweir.config.error import ConfigError
from streamweir.config.model import Config
from streamweir.config.source import ConfigSource
from streamweir.server.process.reload import Reloads
from support.answers import openai_frames, token_steps
from support.console_session import storage_of
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import KEY, Gate, completed, gateway, providers
from support.program_deadlines import LONG_INTERVALS
from support.script import Script
from support.scripted_upstream import ScriptedUpstream
from support.watchdog import watched_loop

TOML = """
[store]
url = "sqlite:///streamweir.db"

[[models]]
id = "smart"
targets = [{ provider = "up", model = "gpt-4o-mini" }]
price = { input = 0.15, output = 0.6 }
"""
PACE = structs.replace(LONG_INTERVALS, live_interval_s=0.1, live_check_s=0.2)
"""What streams is told more often than a person could follow, and so is who may see it."""
PASSWORD = "the long way round"  # noqa: S105 (of everyone who is made up here)
T = TypeVar("T")


class Console:
    def __init__(
        self, gate: Gate, upstream: ScriptedUpstream, loop: asyncio.AbstractEventLoop, source: ConfigSource
    ) -> None:
        assert gate.secret is not None
        self.gate = gate
        self.source = source
        self.upstream = upstream
        self.base_url = gate.base_url
        self.secret = gate.secret
        """The operator's."""
        self._loop = loop

    def play(self, script: Script) -> None:
        """For every request from now on."""
        self.upstream.script = script

    def soon(self, do: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(do)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_TIMEOUT_S)

    def sign_in(self, page: Page, secret: str | None = None, path: str = "") -> None:
        """As the operator, or with a key's secret. `path`: below `/console`."""
        page.goto(f"{self.base_url}/console{path}")
        page.get_by_role("button", name="Secret or key").click()
        page.get_by_label("Admin secret or admin key").fill(secret or self.secret)
        page.get_by_role("button", name="Sign in", exact=True).click()
        expect(page.get_by_role("navigation", name="Pages", exact=True)).to_be_visible()

    def invite(self, name: str, role: str, workspace: str | None = None) -> str:
        """The token of the invitation."""
        made = self.ask("POST", "/api/people", {"name": name, "role": role, "workspace": workspace})
        return str(made["invitation"])

    def join(self, page: Page, name: str, role: str, workspace: str | None = None) -> None:
        """A new person, as whom the browser is signed in without the form. Its password is `PASSWORD`."""
        body = {"invitation": self.invite(name, role, workspace), "password": PASSWORD}
        address = f"{self.base_url}/api/invitation"
        reply = httpx2.post(address, json=body, timeout=WAIT_TIMEOUT_S, trust_env=False)
        assert reply.is_success, reply.text
        page.context.clear_cookies()
        page.context.add_cookies(
            [{"name": "streamweir", "value": reply.cookies["streamweir"], "url": f"{self.base_url}/api"}]
        )

    def chat(self, secret: str = KEY, model: str = "smart") -> str:
        """What the official SDK makes of a streamed answer. When it is back the database knows of it."""
        with OpenAI(
            api_key=secret,
            base_url=f"{self.base_url}/v1",
            max_retries=0,
            timeout=WAIT_TIMEOUT_S,
            http_client=DefaultHttpxClient(trust_env=False),
        ) as client:
            question: ChatCompletionUserMessageParam = {"role": "user", "content": "Say hello."}
            with client.chat.completions.create(model=model, messages=[question], stream=True) as chunks:
                text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        self.flush()
        return text

    def flush(self) -> None:
        """Until the database has all that was written down."""
        writer = storage_of(self.gate).accounting.writer
        assert writer is not None
        assert self.call(writer.flush(WAIT_TIMEOUT_S))

    def reload(self, change: Callable[[str], str]) -> None:
        """With the changed text of the file. It may be refused."""
        file = Path(self.source.file)
        file.write_text(change(file.read_text()))

        def use(config: Config) -> Difference:
            found = difference(self.gate.gateway.runtime.config, config)
            self.gate.gateway.reload(config)
            return found

        async def reload() -> None:
            with suppress(ConfigError):
                await Reloads(self.source, use, background=self.gate.gateway.background).reload()

        self.call(reload())

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The admin API as the operator, past the page: what a test needs to be there. It must go well."""
        reply = httpx2.request(
            method,
            f"{self.base_url}{path}",
            json=body,
            headers={"authorization": f"Bearer {self.secret}"},
            timeout=WAIT_TIMEOUT_S,
            trust_env=False,
        )
        assert reply.is_success, reply.text
        return reply.json() if reply.content else None


@contextmanager
def served_console(folder: Path, toml: str = TOML) -> Iterator[Console]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Console]:
        async with ScriptedUpstream(token_steps(openai_frames())) as upstream:
            whole = completed(f"{toml}\n{providers(up=upstream.base_url)}")
            (folder / "streamweir.toml").write_text(whole)
            source = ConfigSource(folder / "streamweir.toml", os.environ)
            source.load()
            async with gateway(whole, data_dir=folder, intervals=PACE, source=source) as gate:
                yield Console(gate, upstream, asyncio.get_running_loop(), source)

    is_open = threading.Event()
    made: list[tuple[Console, asyncio.Event]] = []
    failed: list[BaseException] = []

    async def serve() -> None:
        over = asyncio.Event()
        async with opened() as console:
            made.append((console, over))
            is_open.set()
            await over.wait()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=watched_loop) as runner:
                runner.run(serve())
        except BaseException as reason:  # noqa: BLE001 (for whoever waits)
            failed.append(reason)
        finally:
            is_open.set()

    thread = threading.Thread(target=run, name="console")
    thread.start()
    try:
        assert is_open.wait(WAIT_TIMEOUT_S)
        if not made:
            raise failed[0]
        yield made[0][0]
    finally:
        for console, over in made:
            console.soon(over.set)
        thread.join(WAIT_TIMEOUT_S)
    assert not thread.is_alive()
    if failed:
        raise failed[0]
