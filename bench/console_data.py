"""A database with a month of traffic, for measuring how fast the console's queries are answered.

The same seed and number of requests give the same month, up to its end, which is handed in. All rows
are written by `store.ledger`, as the gateway writes them: so ledger, sums and log agree. Traffic
rises and falls with the day; every key has a few models of its own; most answers are good.
"""

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete

from streamweir.policy.routing.latency import BOUNDS_MS
from streamweir.store.db.base import Store
from streamweir.store.db.engine import open_store
from streamweir.store.db.request_log import Row
from streamweir.store.db.tables import usage_minutes, usage_quarters
from streamweir.store.journal.entries import Entry, Hold, Refused, Settle
from streamweir.store.keys.credit import add_credit
from streamweir.store.keys.keys import create_key
from streamweir.store.keys.sessions import ensure_admin_secret
from streamweir.store.keys.spec import KeySpec
from streamweir.store.keys.workspaces import WorkspaceSpec, create_workspace
from streamweir.store.ledger.posting import apply
from streamweir.store.requests.retention import FINE_USAGE_MS

DAY_MS = 86_400_000
DAYS = 30
KEY_NAMES = (
    "chat-web",
    "chat-mobile",
    "support-agent",
    "search-rerank",
    "mail-draft",
    "code-review",
    "docs-translate",
    "meeting-notes",
    "lead-scoring",
    "image-captions",
    "invoice-reader",
    "sql-assistant",
    "onboarding-bot",
    "release-notes",
    "log-triage",
    "evals-nightly",
    "embedding-lab",
    "prompt-lab",
    "data-labelling",
    "voice-agent",
    "compliance-check",
    "pricing-model",
    "news-digest",
    "ci",
    "trial",
)
KEYS = len(KEY_NAMES)
BATCH = 2000
_WRITE_S = 300.0

PROVIDERS = ("openai", "anthropic", "google", "together")
MODELS = (
    ("gpt-4o", 0),
    ("gpt-4o-mini", 0),
    ("o4-mini", 0),
    ("gpt-4.1", 0),
    ("claude-sonnet-4-5", 1),
    ("claude-haiku-4-5", 1),
    ("claude-opus-4-1", 1),
    ("gemini-2.5-flash", 2),
    ("gemini-2.5-pro", 2),
    ("llama-3.3-70b", 3),
    ("qwen3-235b", 3),
    ("deepseek-v3", 3),
)
RARE_MODEL = "gpt-4-32k"
"""Asked for by one request of fifty thousand."""
DIALECTS = ("openai", "opentoken", "aivene", "bitseek")
VERDICTS: tuple[tuple[str, int, str | None, float], ...] = (
    ("completed", 200, None, 0.93),
    ("length", 200, None, 0.025),
    ("client_gone", 200, None, 0.015),
    ("upstream_error", 502, "upstream_error", 0.01),
    ("first_token_timeout", 504, "upstream_timeout", 0.004),
    ("truncated", 200, "upstream_stream_truncated", 0.003),
    ("idle_timeout", 200, "stream_idle_timeout", 0.002),
    ("filtered", 200, None, 0.0009),
    ("stopped", 200, "stopped_by_operator", 0.0001),
)
REFUSED = 0.01
"""Of all: without a hold, and without a target."""


@dataclass
class Filled:
    """What there is to ask for."""

    secret: str
    admin_key: str
    workspace: str
    small_workspace: str
    key_id: str
    rare_key_id: str
    request_ids: list[str]
    """Some, from the oldest to the newest."""
    completion_ids: list[str]
    since_ms: int
    until_ms: int


async def make_books(folder: Path, rows: int, until_ms: int, seed: int = 1) -> Filled:
    """Into `streamweir.db` of an empty folder."""
    store = await open_store("sqlite:///streamweir.db", folder)
    try:
        month = _Month(random.Random(seed), rows, until_ms)
        filled = await store.write(month.furnish)
        await _write(store, month)
        await store.write(lambda conn: _forget(conn, until_ms), timeout_s=_WRITE_S)
        return filled
    finally:
        await store.close()


async def _write(store: Store, month: "_Month") -> None:
    batch: list[Entry] = []

    def work(conn: Connection) -> None:
        apply(conn, batch)

    for entries in month.entries():
        batch += entries
        if len(batch) >= BATCH:
            await store.write(work, timeout_s=_WRITE_S)
            batch.clear()
    if batch:
        await store.write(work, timeout_s=_WRITE_S)


def _forget(conn: Connection, now_ms: int) -> None:
    """As they would have been purged all the time."""
    before_ms = now_ms - FINE_USAGE_MS
    conn.execute(delete(usage_minutes).where(usage_minutes.c.minute < before_ms // 60_000))
    conn.execute(delete(usage_quarters).where(usage_quarters.c.quarter < before_ms // 900_000))


class _Month:
    def __init__(self, chance: random.Random, rows: int, until_ms: int) -> None:
        self._chance = chance
        self._rows = rows
        self._since_ms = until_ms - DAYS * DAY_MS
        self._until_ms = until_ms
        self._keys: list[tuple[str, str, str, list[int]]] = []
        """Id, name, workspace, and the models it uses."""
        self._strips = [_strip(chance) for _ in range(500)]
        self._filled: Filled

    def furnish(self, conn: Connection) -> Filled:
        secret = ensure_admin_secret(conn, self._since_ms)
        assert secret is not None, "the books are not empty"
        spaces = [
            create_workspace(conn, WorkspaceSpec(name=name), actor="cli", at_ms=self._since_ms).id
            for name in ("product", "research", "trial")
        ]
        for number in range(KEYS):
            # The last key is the only one of its workspace, and nearly idle.
            space = spaces[2] if number == KEYS - 1 else spaces[number % 2]
            spec = KeySpec(name=KEY_NAMES[number])
            made = create_key(conn, space, spec, actor="cli", at_ms=self._since_ms)
            self._keys.append((made.key.id, spec.name, space, self._chance.sample(range(len(MODELS)), 4)))
        scopes = ("chat", "models", "admin")
        admin = create_key(conn, spaces[0], KeySpec(name="admin", scopes=scopes), actor="cli", at_ms=self._since_ms)
        for space in spaces:
            add_credit(conn, space, 10**15, actor="cli", at_ms=self._since_ms)
        self._filled = Filled(
            secret=secret,
            admin_key=admin.secret,
            workspace=spaces[0],
            small_workspace=spaces[2],
            key_id=self._keys[0][0],
            rare_key_id=self._keys[-1][0],
            request_ids=[],
            completion_ids=[],
            since_ms=self._since_ms,
            until_ms=self._until_ms,
        )
        return self._filled

    def entries(self) -> Iterator[list[Entry]]:
        chance = self._chance
        every = max(1, self._rows // 200)
        for number in range(self._rows):
            row = self._row(number, self._moment(number))
            if number % every == 0:
                self._filled.request_ids.append(row.request_id)
                self._filled.completion_ids.append(row.completion_id or "")
            if row.target is None:
                yield [Refused(row=row)]
                continue
            cached = (row.prompt_tokens or 0) // 3 if chance.random() < 0.4 else 0
            yield [_hold(row), Settle(row=row, cached_tokens=cached, has_price=True)]

    def _moment(self, number: int) -> int:
        """Thrice as busy at noon as at midnight."""
        days = (number + 0.5) / self._rows * DAYS
        days -= 0.5 / math.tau * math.sin(math.tau * days)
        return min(self._since_ms + round(days * DAY_MS), self._until_ms - 1)

    def _row(self, number: int, at_ms: int) -> Row:
        chance = self._chance
        index = KEYS - 1 if chance.random() < 0.0005 else int((KEYS - 1) * chance.random() ** 1.6)
        key_id, key_name, workspace, models = self._keys[index]
        model, provider = MODELS[models[int(4 * chance.random() ** 2)]]
        named = RARE_MODEL if chance.random() < 1 / 50_000 else model
        dialect = DIALECTS[int(4 * chance.random() ** 3)]
        common: dict[str, Any] = {
            "request_id": f"req_{at_ms:012x}{chance.getrandbits(64):016x}",
            "completion_id": f"chatcmpl-{chance.getrandbits(116):029x}",
            "at_ms": at_ms,
            "instance": "bench",
            "workspace_id": workspace,
            "key_id": key_id,
            "key_name": key_name,
            "dialect": dialect,
            "model": named,
            "stream": chance.random() < 0.85,
            "peer": f"10.0.{index}.{number % 250}",
            "client": "OpenAI/Python 2.8.0",
        }
        if chance.random() < REFUSED:
            refusal: dict[str, Any] = {
                "status": 429,
                "verdict": "rejected",
                "error": "rate_limit_exceeded",
                "duration_ms": 1,
            }
            return Row(**common, **refusal)
        if chance.random() < 0.05:
            provider = (provider + 1) % len(PROVIDERS)  # after a failure of the first
        return Row(**common, **self._answer(f"{PROVIDERS[provider]}/{model}"))

    def _answer(self, target: str) -> dict[str, Any]:
        chance = self._chance
        verdict, status, error, _ = chance.choices(VERDICTS, _SHARES)[0]
        prompt, output = int(200 * 10 ** chance.gauss(0, 0.5)), int(150 * 10 ** chance.gauss(0, 0.5))
        ttft_ms = min(BOUNDS_MS[-1] + 1, int(420 * 10 ** chance.gauss(0, 0.25)))
        duration_ms = ttft_ms + output * 12
        is_free = status >= 500
        return {
            "target": target,
            "attempts": f'[{{"target":"{target}","error":null,"duration_s":{duration_ms / 1000},"start_s":0.002}}]',
            "status": status,
            "verdict": verdict,
            "error": error,
            "finish": None if error else "stop",
            "prompt_tokens": prompt,
            "completion_tokens": 0 if is_free else output,
            "usage": f'{{"input_uncached":{prompt},"output":{output}}}',
            "usage_source": "provider",
            "cost": 0 if is_free else prompt * 2000 + output * 8000,
            "price": 0 if is_free else prompt * 2500 + output * 10_000,
            "held": prompt * 2500 + 4096 * 10_000,
            "price_version": "2026-11-01",
            "rates": '{"input":2500000000,"output":10000000000,"cache_read":1250000000}',
            "cost_rates": '{"input":2000000000,"output":8000000000,"cache_read":1000000000}',
            "ttft_ms": None if is_free else ttft_ms,
            "duration_ms": duration_ms,
            "chunks": output,
            "gap_p50_ms": 11,
            "gap_p99_ms": 60,
            "gap_max_ms": 240,
            "bytes_in": prompt * 5,
            "bytes_out": output * 220,
            "admitted_ms": 1,
            "settled_ms": duration_ms + 1,
            "strip": chance.choice(self._strips),
        }


_SHARES = [share for *_, share in VERDICTS]


def _hold(row: Row) -> Hold:
    return Hold(
        request_id=row.request_id,
        instance=row.instance,
        at_ms=row.at_ms,
        workspace_id=row.workspace_id or "",
        key_id=row.key_id or "",
        key_name=row.key_name or "",
        dialect=row.dialect or "",
        model=row.model or "",
        stream=row.stream,
        amount=row.held or 0,
        prices="{}",
        prompt_tokens=row.prompt_tokens or 0,
    )


def _strip(chance: random.Random) -> str:
    counts = [chance.randrange(12) for _ in range(chance.randrange(20, 120))]
    return json.dumps({"start_ms": 420, "slot_ms": 50, "counts": counts}, separators=(",", ":"))
