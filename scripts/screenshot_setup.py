"""The gateway of `scripts.screenshots`, with a scripted upstream and a few callers.

Nothing here knows of a browser. The model answers the same each time, with thoughts, a pause and an end; or it is held
open; one of the targets is always overloaded, so that requests fail over.
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from bench.console_data import MODELS

from support.answers import error_body
from support.raw_client import RawClient
from support.script import End, Hang, Head, Line, Seen, Send, Step, whole
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import Program, served

PROVIDERS = (
    ("openai", "openai"),
    ("anthropic", "openai-compatible"),
    ("google", "openai-compatible"),
    ("together", "together"),
)
PRICES = {
    "gpt-4o": "input = 2.5, output = 10.0, cache_read = 1.25",
    "gpt-4.1": "input = 2.0, output = 8.0, cache_read = 0.5",
    "o4-mini": "input = 1.1, output = 4.4, cache_read = 0.275",
    "claude-sonnet-4-5": "input = 3.0, output = 15.0, cache_read = 0.3",
    "claude-haiku-4-5": "input = 1.0, output = 5.0, cache_read = 0.1",
    "gemini-2.5-pro": "input = 1.25, output = 10.0",
    "gemini-2.5-flash": "input = 0.3, output = 2.5",
    "llama-3.3-70b": "input = 0.88, output = 0.88",
}


def configuration(base_url: str) -> str:
    """Four providers, which are all the same upstream; models of one target, and two of several."""
    parts = [
        """
[server]
default_model = "assistant"

[server.timeouts]
first_event_s = 600
idle_s = 600

[[models]]
id = "assistant"
targets = [{ provider = "together", model = "llama-3.3-70b" }, { provider = "openai", model = "gpt-4o" }]
price = { input = 3.0, output = 12.5, cache_read = 1.5 }

[[models]]
id = "small"
strategy = "weighted"
targets = [
    { provider = "openai", model = "gpt-4o-mini", weight = 3 },
    { provider = "google", model = "gemini-2.5-flash", weight = 1 },
]
price = { input = 0.15, output = 0.6 }
"""
    ]
    providers = {model: PROVIDERS[place][0] for model, place in MODELS}
    for model, price in PRICES.items():
        target = f'{{ provider = "{providers[model]}", model = "{model}" }}'
        parts.append(f'[[models]]\nid = "{model}"\ntargets = [{target}]\nprice = {{ {price} }}\n')
    for name, kind in PROVIDERS:
        key = f"sk-{name}-0123456789abcdef"
        parts.append(f'[[providers]]\nname = "{name}"\nkind = "{kind}"\nbase_url = "{base_url}"\napi_key = "{key}"\n')
    return "\n".join(parts)


SYSTEM = "You answer shortly, and say so where you are not sure."
QUESTION = "Why does a weir keep a river navigable in a dry summer, and what does it cost the fish?"
REASONING = (
    "The user asks about two things: how the water level is held, and what that does to fish. Mention the head pond, "
    "the steady depth upstream, then barriers to migration and the usual remedy."
)
ANSWER = """\
A weir holds back water: upstream of it the river stays as deep as the crest is high, however little flows. Boats get \
the depth they need for most of the year, and a lock lets them past the step.

The price is paid by whatever swims. A weir is a wall to fish that climb to spawn, the still water above it \
grows warm and silts up, and the gravel that should be carried down stays behind. The usual remedies are:

1. a fish ladder, or better a bypass that looks like a brook;
2. letting more water through while they migrate;
3. taking the weir down where no boat needs it."""


FOREIGN = "ما هو مستوى المياه اليوم عند الهدّار في Köln، وهل يمكن للقوارب أن تمرّ؟"
_LEVEL = {"name": "read_level", "arguments": '{"station": "Köln", "unit": "m", "since": "2026-11-12T00:00:00Z"}'}
CALLED = (
    {"role": "user", "content": "مرحبا"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "call_7", "type": "function", "function": _LEVEL}]},
    {"role": "tool", "tool_call_id": "call_7", "content": '{"level_m": 3.42, "trend": "falling"}'},
)
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("read_level", "list_stations", "send_report_to_the_office_that_is_responsible")
]


@dataclass(frozen=True)
class Pause:
    seconds: float

    async def __call__(self, _: Line) -> None:
        await asyncio.sleep(self.seconds)


def frame(**members: Any) -> Send:
    document = {"object": "chat.completion.chunk", "created": 1, "model": "m", **members}
    return Send(b"data: %b\n\n" % json.dumps(document).encode())


def piece(**delta: str) -> Send:
    return frame(choices=[{"index": 0, "delta": delta, "finish_reason": None}])


def words(text: str) -> list[str]:
    parts = text.split(" ")
    return [parts[0], *(f" {part}" for part in parts[1:])]


def answer(pace_s: float = 0.02, reasoning: str = REASONING, text: str = ANSWER) -> list[Step]:
    """As a model gives it: a while of nothing, thoughts, and words with a gap among them."""
    thoughts = [step for word in words(reasoning) for step in (Pause(pace_s / 2), piece(reasoning_content=word))]
    said = [step for word in words(text) for step in (Pause(pace_s), piece(content=word))]
    gap = 2 * len(words(text)) // 3
    usage = {"prompt_tokens": 412, "completion_tokens": 228, "total_tokens": 640}
    details = {"prompt_tokens_details": {"cached_tokens": 256}, "completion_tokens_details": {"reasoning_tokens": 41}}
    return [
        Head(),
        Pause(12 * pace_s),
        *thoughts,
        *said[: 2 * gap],
        Pause(40 * pace_s),
        *said[2 * gap :],
        frame(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}]),
        frame(choices=[], usage={**usage, **details}),
        Send(b"data: [DONE]\n\n"),
        End(),
    ]


def held(pieces: int) -> list[Step]:
    """It begins, and continues for as long as it is read."""

    async def drip(line: Line) -> None:
        while True:
            await asyncio.sleep(0.1)
            await piece(content=" and")(line)

    texts = [piece(content=word) for word in words(ANSWER)[:pieces]]
    return [Head(), *texts, *([drip] if pieces > 20 else [Hang()])] if pieces else [Hang()]


HELD = {
    "claude-sonnet-4-5": 60,
    "gpt-4o-mini": 34,
    "gemini-2.5-flash": 34,
    "gemini-2.5-pro": 12,
    "o4-mini": 0,
    "gpt-4.1": 48,
}
"""So many pieces at once. Few: then nothing more. None: not even the first."""


def play(seen: Seen) -> Sequence[Step]:
    """By the model that is asked for, as the provider would know it."""
    body = seen.json
    if body["messages"][-1]["content"] == "Hold.":
        return held(HELD[body["model"]])
    if body["model"] == "llama-3.3-70b":
        return [Pause(0.18), *whole(error_body("The model is overloaded."), 503)]
    return answer()


class DemoGateway:
    """The gateway that is shown in the pictures."""

    def __init__(self, program: Program, secret: str) -> None:
        self.program = program
        self.secret = secret
        self._client = httpx2.AsyncClient(
            base_url=program.base_url, headers={"authorization": f"Bearer {secret}"}, timeout=30.0, trust_env=False
        )

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        reply = await self._client.request(method, path, json=body)
        reply.raise_for_status()
        return reply.json()

    async def new_key(self, name: str, **more: Any) -> str:
        secret: str = (await self.ask("POST", "/api/keys", {"name": name, **more}))["secret"]
        return secret

    async def invite(self, name: str, role: str, **more: str) -> dict[str, Any]:
        """The new person, with the token of the invitation."""
        made: dict[str, Any] = await self.ask("POST", "/api/people", {"name": name, "role": role, **more})
        return made

    async def join(self, name: str, role: str, **more: str) -> tuple[str, str]:
        """The id of a new person, and the token of its session."""
        made = await self.invite(name, role, **more)
        body = {"invitation": made["invitation"], "password": "the long way round"}
        async with httpx2.AsyncClient(base_url=self.program.base_url, trust_env=False) as client:
            reply = await client.post("/api/invitation", json=body)
        return made["id"], reply.raise_for_status().cookies["streamweir"]

    async def chat(self, secret: str, model: str, text: str, before: Sequence[Any] = (), **more: Any) -> str:
        """The id of a request, which has been answered. `before`: what was said before."""
        async with await self.program.connect() as client:
            await client.send(chat_bytes(secret, model, text, before, **more))
            return (await client.response()).header("x-request-id") or ""

    async def hold(self, secret: str, model: str) -> RawClient:
        client = await self.program.connect()
        await client.send(chat_bytes(secret, model, "Hold.", stream=True))
        return client

    async def close(self) -> None:
        await self._client.aclose()


def chat_bytes(secret: str, model: str, text: str, before: Sequence[Any] = (), **more: Any) -> bytes:
    messages = [{"role": "system", "content": SYSTEM}, *before, {"role": "user", "content": text}]
    body = json.dumps({"model": model, "messages": messages, **more}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nuser-agent: OpenAI/Python 2.8.0\r\n"
        f"content-type: application/json\r\nauthorization: Bearer {secret}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass(frozen=True)
class Furnished:
    told: str
    """The id of a request that failed over, and of which all is kept."""
    refused: str
    called: str
    """The id of one with tools, written from the right to the left."""
    streams: list[RawClient]
    member: str
    """The session of a person whose own these requests are."""
    owner: str
    """The session of a person who may do everything."""
    invitation: str


OIDC = """
[oidc]
issuer = "https://sso.example.com"
client_id = "streamweir"
client_secret = "hush-0123456789"
url = "https://gateway.example.com"
name = "Acme"
"""


async def reload(demo: DemoGateway, file: Path) -> None:
    """With a mistake, and then with some changes."""
    text = file.read_text()
    changed = text.replace("idle_s = 600", "idle_s = 300")
    changed = changed.replace("output = 12.5", "output = 11.0").replace("abcdef", "abc123", 1) + OIDC
    for each, event in (
        (text.replace("idle_s", "idel_s"), "configuration not reloaded, the previous one stays active"),
        (changed.replace("[server]\n", '[server]\nnode = "gw1"\n', 1), "configuration reloaded"),
    ):
        file.write_text(each)
        demo.program.signal(signal.SIGHUP)
        await demo.program.logged(event)


async def furnish(demo: DemoGateway) -> Furnished:
    """What is on the pictures beside the month before."""
    space = next(each["id"] for each in (await demo.ask("GET", "/api/workspaces"))["data"] if each["name"] == "product")
    await demo.ask("POST", "/api/workspaces", {"name": "partner", "prepaid": True})
    await demo.ask("POST", "/api/credits", {"workspace": "partner", "amount_usd": "250", "note": "invoice 2041"})
    limits = {"rpm": 120, "tpm": 400_000, "max_streams": 20, "budget_usd": "40", "budget_period": "month"}
    ada, member = await demo.join("Ada Lovelace", "member", workspace="product")
    _, owner = await demo.join("Grace Hopper", "owner", email="grace@example.com")
    await demo.join("Alan Turing", "admin", workspace="product")
    away, _ = await demo.join("Charles Babbage", "viewer")
    await demo.ask("PATCH", f"/api/people/{away}", {"disabled": True})
    invited = await demo.invite("Katherine Johnson", "operator", email="katherine@example.com")
    rules = {"max_keys": 5, "budget_usd": "100", "budget_period": "month", "models": ["gpt-*", "claude-*", "assistant"]}
    await demo.ask("PATCH", f"/api/workspaces/{space}/member-keys", rules)
    helpdesk = await demo.new_key("helpdesk", workspace=space, log_content=True, person=ada, **limits)
    await demo.new_key("notebook", workspace=space, person=ada, budget_usd="25", budget_period="month")
    partner = await demo.new_key("partner-portal", workspace="partner", models=["small", "claude-*", "assistant"])
    said: dict[str, Any] = {"user": "ada@example.com", "metadata": {"team": "legal", "ticket": "4711"}}
    told = await demo.chat(helpdesk, "assistant", QUESTION, stream=True, temperature=0.4, logit_bias={"1": 1}, **said)
    refused = await demo.chat(helpdesk, "gpt-5", QUESTION, stream=True)
    called = await demo.chat(
        helpdesk, "gpt-4.1", FOREIGN, CALLED, stream=True, tools=TOOLS, temperature=0, max_tokens=800, seed=7
    )
    for user, team, count in (("ada@example.com", "legal", 3), ("grace@example.com", "sales", 2), ("alan", "sales", 1)):
        for _ in range(count):
            await demo.chat(helpdesk, "gpt-4.1", QUESTION, user=user, metadata={"team": team}, stream=True)
    streams = [
        await demo.hold(secret, model)
        for secret, model in (
            (helpdesk, "claude-sonnet-4-5"),
            (partner, "small"),
            (helpdesk, "gemini-2.5-pro"),
            (partner, "claude-sonnet-4-5"),
            (helpdesk, "gpt-4.1"),
            (helpdesk, "o4-mini"),
        )
    ]
    return Furnished(told, refused, called, streams, member, owner, invited["invitation"])


@asynccontextmanager
async def opened(folder: Path, secret: str | None) -> AsyncIterator[DemoGateway]:
    """A gateway whose data is in a folder, and the upstream of all its providers."""
    async with (
        ScriptedUpstream(play) as upstream,
        served(folder, configuration(upstream.base_url), keyed=False) as program,
    ):
        demo = DemoGateway(program, secret or (await program.tells(r"(sw-admin\S+)"))[1])
        try:
            yield demo
        finally:
            await demo.close()
