"""What the callers of a gateway that may be killed have seen, and whether its ledger agrees.

    checker = ConsistencyChecker(store, seed)
    async with ScriptedUpstream(checker.script) as up, ...:
        async with checker.asking(program, callers=6):
            await checker.steps(20)
            program.signal(signal.SIGKILL)
        await checker.check()               # after the next start, before any new request

Every request has a prompt of another length, so that the amount of its hold alone identifies it, even if its caller
never got an id. A request is acknowledged when its caller has the head of an answer with status 200: from then on it
must be in the ledger, once, whatever happens to the process.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, select

from streamweir.core.verdict import Verdict
from streamweir.policy.limits.budget import NANO
from streamweir.store.db.base import Store
from streamweir.store.db.tables import ledger, open_requests, requests
from streamweir.store.ledger.check import Fault, check_sums
from support.answers import openai_frames, openai_whole
from support.gateway import KEY, chat_request
from support.raw_client import CutShort, RawClient
from support.script import End, Hang, Head, Line, Seen, Send, Step
from support.serve_process import Program

MILLI = NANO // 1000
"""Nano-dollars that a token costs, of the prompt and of the answer alike."""
HOLD_TOKENS = 4
_LONGEST_ANSWER = 16_384
"""Of the model, by which a budget reserves where nothing else limits an answer."""
_TEMPLATE_TOKENS = 64
"""Beside the bytes of its body, which bound a prompt that a budget pays for."""
BUDGET_KEY = "sk-Bd4vLmZ2pKd9RtYw4HbNc8Jf"
TOML = f"""
[server.log]
level = "warning"
[[models]]
id = "m"
targets = [{{ provider = "up", model = "gpt-4o" }}]
price = {{ input = 1000.0, output = 1000.0 }}
[[keys]]
name = "plain"
key = "{KEY}"
[[keys]]
name = "budget"
key = "{BUDGET_KEY}"
budget_usd = 1000000.0
budget_period = "total"
"""
_BYTES_PER_TOKEN = 4
_WORD = " and more of it"
"""Almost four tokens by the rule of thumb: two of them outgrow a hold."""
_SETTLED_S = 60.0


class Sent(Struct):
    """One request, and what its caller saw."""

    prompt_tokens: int
    stream: bool
    held_tokens: int = 0
    """By its hold."""
    id: str | None = None
    """None: the caller has nothing, and cannot know whether it took place."""
    is_refused: bool = False
    """It came too late: the process was about to end."""
    is_stopped: bool = False
    """The answer ended with our word that the process does."""
    is_whole: bool = False
    """All of the answer came."""


class Page(Struct):
    """The ledger at one moment."""

    holds: dict[str, int]
    """By request id: the amount of the hold itself."""
    posted: Counter[tuple[str, str]]
    costs: dict[str, int | None]
    rows: dict[str, Any]
    logged: int
    open_ids: list[str]
    faults: list[Fault]


class ConsistencyChecker:
    def __init__(self, store: Store, seed: int) -> None:
        self.sent: list[Sent] = []
        self.verdicts: Counter[str] = Counter()
        """Of all that was acknowledged, at the last check."""
        self._store = store
        self._chance = random.Random(seed)
        self._answers: dict[int, int] = {}
        """By the prompt's tokens: the tokens of the answer, by the upstream's own count, if it reported them."""
        self._asked: set[int] = set()
        """By the prompt's tokens: all that came to the upstream."""
        self._taken = 0
        self._free = 0
        """Callers who may still come to the end of an answer."""
        self._step = asyncio.Event()

    # What happens.

    def script(self, request: Seen) -> Sequence[Step]:
        """An answer of some length: at once, slowly, or never to its end."""
        self._take_step()
        prompt = len(request.json["messages"][0]["content"]) // _BYTES_PER_TOKEN
        self._asked.add(prompt)
        words = [_WORD] * self._chance.randrange(1, 7)
        usage = (prompt, len(words) * _BYTES_PER_TOKEN)
        pause_s = self._chance.choice((0.0, 0.0, 0.005, 0.02))

        async def tell(line: Line) -> None:  # noqa: ARG001 (a step)
            self._answers[prompt] = usage[1]

        async def pause(line: Line) -> None:  # noqa: ARG001
            await asyncio.sleep(self._chance.random() * pause_s)

        if not request.json.get("stream"):
            body = openai_whole("".join(words), usage)
            return [pause, tell, Head(200, "application/json", framing=len(body)), Send(body), End()]
        frames = openai_frames(words, usage)
        if self._chance.random() < 0.2:
            self._free -= 1
            return [Head(), *(Send(frame) for frame in frames[: len(words)]), Hang()]
        steps: list[Step] = [Head()]
        for place, frame in enumerate(frames):
            steps += [pause, tell, Send(frame)] if place == len(words) + 2 else [pause, Send(frame)]
        return [*steps, End()]

    @asynccontextmanager
    async def asking(self, program: Program, callers: int) -> AsyncIterator[None]:
        """Callers that send requests until there is no answer: the block must end the process."""
        self._free = callers
        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(self._call_on(program))
            yield

    async def steps(self, count: int) -> None:
        """Until so many more are taken: a request is sent, one comes to the upstream, an answer begins, one ends."""
        wanted = self._taken + count
        while self._taken < wanted and self._free:
            self._step.clear()
            await self._step.wait()

    def _take_step(self) -> None:
        self._taken += 1
        self._step.set()

    async def _call_on(self, program: Program) -> None:
        # A caller without a connection or an answer knows that the process is dead.
        with suppress(CutShort, ConnectionError):
            goes_on = True
            while goes_on:
                async with await RawClient.open(program.address) as client:
                    goes_on = await self._ask(client)

    async def _ask(self, client: RawClient) -> bool:
        """Whether the next one may be answered too."""
        sent = Sent(len(self.sent) + 1, stream=self._chance.random() < 0.8)
        self.sent.append(sent)
        headers = [("idempotency-key", f"once-{sent.prompt_tokens}")] if self._chance.random() < 0.2 else []
        content = "x" * (sent.prompt_tokens * _BYTES_PER_TOKEN)
        key = self._chance.choice((KEY, BUDGET_KEY))
        request = chat_request(
            key=key,
            headers=tuple(headers),
            model="m",
            stream=sent.stream,
            messages=[{"role": "user", "content": content}],
        )
        if key == KEY:
            sent.held_tokens = sent.prompt_tokens + HOLD_TOKENS
        else:
            sent.held_tokens = len(request.partition(b"\r\n\r\n")[2]) + _TEMPLATE_TOKENS + _LONGEST_ANSWER
        await client.send(request)
        self._take_step()
        head = await client.head()
        sent.id = head.header("x-request-id")
        assert sent.id is not None
        self._take_step()
        body = b""
        if head.header("content-length") is not None:
            body = await client.read_exactly(int(head.header("content-length") or 0))
        else:
            while chunk := await client.chunk():
                body += chunk
            assert body.endswith(b"data: [DONE]\n\n")
        sent.is_stopped = b'"server_shutting_down"' in body
        sent.is_refused = head.status == 503
        assert sent.is_stopped if sent.is_refused else head.status == 200, body
        sent.is_whole = not sent.is_stopped
        self._take_step()
        return sent.is_whole

    # Checks.

    async def sums_agree(self) -> None:
        assert (await self._store.read(check_sums)).faults == []

    async def look(self) -> Page:
        page = await self._store.read(_read)
        assert page.faults == []
        return page

    async def check(self) -> None:
        """Of a process that has started and was not asked anything yet: nothing is lost, twice, invented or open."""
        page = await self._settled()
        self._check_acknowledged(page)
        self._check_strangers(page)

    async def _settled(self) -> Page:
        """At the latest a minute after the start; nearly always before it takes requests."""
        async with asyncio.timeout(_SETTLED_S):
            while True:
                page = await self.look()
                if not page.open_ids:
                    return page
                await asyncio.sleep(0.1)

    def _check_acknowledged(self, page: Page) -> None:
        self.verdicts.clear()
        for sent in self.sent:
            if sent.id is not None and not sent.is_refused:
                assert page.holds.get(sent.id) == sent.held_tokens, f"lost: {sent}"
                self._check_ending(sent, page)

    def _check_ending(self, sent: Sent, page: Page) -> None:
        assert sent.id is not None
        row = page.rows[sent.id]
        self.verdicts[row.verdict] += 1
        prompt, answer = row.prompt_tokens, row.completion_tokens
        assert row.price == page.costs[sent.id] == (prompt + answer) * MILLI
        assert (row.stream, row.model) == (sent.stream, "m")
        assert not sent.is_stopped or row.verdict in (Verdict.SHUTDOWN, Verdict.ORPHANED)
        if row.verdict == Verdict.SHUTDOWN:
            assert not sent.is_whole
            return
        assert prompt == sent.prompt_tokens, row
        if row.verdict == Verdict.ORPHANED:
            assert (row.status, row.usage_source) == (0, "estimate")
            assert answer <= 7 * _BYTES_PER_TOKEN
        else:
            assert (row.verdict, row.status, row.usage_source) == (Verdict.COMPLETED, 200, "provider"), row
            assert answer == self._answers[prompt], "the upstream's own count"

    def _check_strangers(self, page: Page) -> None:
        """A request without an answer may be in the ledger, once; one that was never sent may not."""
        assert set(page.posted.values()) <= {1}
        assert len(page.rows) == page.logged, "each logged once"
        assert page.holds.keys() == page.costs.keys(), "each held and settled"
        refused = {sent.id: sent for sent in self.sent if sent.is_refused and sent.id is not None}
        assert page.holds.keys() <= page.rows.keys() <= page.holds.keys() | refused.keys()
        for id in refused.keys() & page.costs.keys():
            was_asked = refused[id].prompt_tokens in self._asked
            assert not page.costs[id] or was_asked or page.rows[id].verdict == Verdict.ORPHANED
        known = {sent.id for sent in self.sent}
        nameless = {sent.held_tokens for sent in self.sent if sent.id is None}
        strangers = [amount for id, amount in page.holds.items() if id not in known]
        assert len(set(strangers)) == len(strangers), "one request, booked as two"
        assert set(strangers) <= nameless, "a request that nobody sent"


def _read(conn: Connection) -> Page:
    posted = conn.execute(select(ledger.c.request_id, ledger.c.kind, ledger.c.amount, ledger.c.price)).all()
    rows = conn.execute(select(requests)).all()
    return Page(
        holds={row.request_id: -row.amount // MILLI for row in posted if row.kind == "hold"},
        posted=Counter((row.request_id, row.kind) for row in posted),
        costs={row.request_id: row.price for row in posted if row.kind == "settle"},
        rows={row.request_id: row for row in rows},
        logged=len(rows),
        open_ids=list(conn.scalars(select(open_requests.c.request_id))),
        faults=check_sums(conn).faults,
    )
