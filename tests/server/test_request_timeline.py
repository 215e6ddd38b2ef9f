"""The timeline of a request in its row: admission, attempts, pieces, settlement, and the calculation of its cost."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec import structs

from streamweir.core.usage import Usage
from streamweir.policy.billing.bill import FEMTO, bill_of
from streamweir.policy.pricing.prices import cost_of, decode_rates
from streamweir.server.accounting.maintenance import orphan
from streamweir.server.streams.table import StreamCounts
from streamweir.store.requests.live import OpenRequest, open_of
from streamweir.store.requests.requests import RequestRow
from support.accounting_gateway import MILLI, MODEL, PROMPT, UNPRICED, AccountingSetup, answers, keeping
from support.answers import TEXTS, error_body, openai_frames, openai_stream, openai_whole
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import KEY, chat_request, text_of, until
from support.program_deadlines import LONG_INTERVALS
from support.script import End, Hang, Head, Line, Send, Step, Wait, stream, whole

FRAMES = openai_frames(TEXTS, usage=(7, 5))
SPARE = MODEL.replace('"gpt-4o" }', '"gpt-4o" }, { provider = "spare", model = "gpt-4o" }')
STILL = structs.replace(LONG_INTERVALS, tick_s=3600.0)
"""Progress is noted when the test says so."""


def bill_sum(row: RequestRow) -> int:
    assert row.usage is not None
    assert row.rates is not None
    usage = Usage(**row.usage)
    return sum(line.amount for line in bill_of(usage, decode_rates(row.rates), row.service_tier))


async def live(setup: AccountingSetup) -> OpenRequest:
    (found,) = await setup.read(lambda conn: open_of(conn, None, 10))
    return found


def is_noted(setup: AccountingSetup) -> bool:
    """Notes the progress now. Whether there was any."""
    journal = setup.writer._journal
    assert journal is not None
    before = journal.bytes
    setup.storage.accounting.note_progress()
    return journal.bytes > before


async def test_a_stream_from_its_admission_to_its_settlement(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(FRAMES[0] + FRAMES[1]), Wait(go_on), Send(b"".join(FRAMES[2:])), End()]
    async with keeping(script, tmp_path) as setup, await setup.gate.connect() as client:
        await client.send(chat_request(model="m", stream=True))
        await client.read_until(TEXTS[0].encode())
        go_on.set()
        await client.read_until(b"[DONE]")
        row = await setup.row()
        assert row.admitted_ms is not None
        assert row.ttft_ms is not None
        assert row.settled_ms is not None
        (attempt,) = row.attempts
        assert 0 <= row.admitted_ms <= row.ttft_ms <= row.duration_ms <= row.settled_ms
        assert row.admitted_ms <= round(attempt["start_s"] * 1000) <= row.ttft_ms
        assert row.strip is not None
        assert row.ttft_ms <= row.strip["start_ms"] <= row.duration_ms
        assert (sum(row.strip["counts"]), row.chunks) == (2, 2)
        assert row.price == 12 * MILLI
        assert bill_sum(row) == row.price * FEMTO


@pytest.mark.parametrize("kind", ["whole", "refused", "unpriced", "unknown"])
async def test_what_other_requests_have_of_it(kind: str, tmp_path: Path) -> None:
    script = whole(error_body("no"), 400) if kind == "refused" else answers(is_streamed=False)
    async with keeping(script, tmp_path, MODEL + UNPRICED) as setup:
        model = {"unpriced": "free", "unknown": "nobody-has-it"}.get(kind, "m")
        await setup.gate.ask(model=model, max_tokens=5)
        row = await setup.row()
        assert row.strip is None
        assert (row.admitted_ms is None) == (row.settled_ms is None) == (kind == "unknown")
        assert (row.rates is not None) == (kind == "whole"), "what nobody used was reckoned by nothing"
        assert row.price == {"whole": 12 * MILLI, "refused": 0}.get(kind)


async def test_each_attempt_has_its_beginning(tmp_path: Path) -> None:
    down = whole(error_body("down"), 500)
    async with keeping(down, tmp_path, SPARE, others={"spare": answers(is_streamed=True)}) as setup:
        reply = await setup.gate.ask(model="m", stream=True)
        assert text_of(reply.body) == "".join(TEXTS)
        first, second = (await setup.row()).attempts
        assert first["error"] is not None
        assert 0 < first["start_s"] <= first["start_s"] + first["duration_s"] <= second["start_s"] + 1e-5


@pytest.mark.parametrize(
    ("asked", "reported", "kept"),
    [(None, None, None), ("flex", None, "flex"), ("flex", "priority", "priority"), (None, "default", "default")],
)
async def test_the_service_tier_of_the_cost(
    asked: str | None, reported: str | None, kept: str | None, tmp_path: Path
) -> None:
    body = json.dumps({**json.loads(openai_whole(usage=(7, 5))), "service_tier": reported}).encode()
    toml = '[[models]]\nid = "listed"\ntargets = [{ provider = "up", model = "gpt-5" }]\n'
    async with keeping(whole(body), tmp_path, toml) as setup:
        await setup.gate.ask(model="listed", **({"service_tier": asked} if asked is not None else {}))
        row = await setup.row()
        assert row.service_tier == kept
        assert row.rates is not None
        rates = decode_rates(row.rates)
        assert rates.services, "each tier has rates of its own"
        assert row.price == cost_of(Usage(input_uncached=7, output=5), rates, kept)
        assert bill_sum(row) == row.price * FEMTO


async def test_a_secret_instead_of_a_service_tier_is_not_stored(tmp_path: Path) -> None:
    body = json.dumps({**json.loads(openai_whole()), "service_tier": None}).encode()
    async with keeping(whole(body), tmp_path) as setup:
        secret = await setup.new_key()
        await setup.gate.ask(model="m", key=secret, service_tier=secret)
        assert (await setup.row()).service_tier == "***"


async def test_usage_that_was_counted_has_a_bill_too(tmp_path: Path) -> None:
    async with keeping(stream(openai_stream(usage=None)), tmp_path) as setup:
        await setup.gate.ask(model="m", stream=True)
        row = await setup.row()
        assert (row.usage_source, row.price) != ("provider", None)
        assert bill_sum(row) == (row.price or 0) * FEMTO


async def test_what_operators_see_of_a_stream_while_it_runs(tmp_path: Path) -> None:
    """A row when it has moved, and none while it stands still."""
    begin, go_on, end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    script: list[Step] = [Head(), Wait(begin), Send(FRAMES[0] + FRAMES[1]), Wait(go_on), Send(FRAMES[2]), Wait(end)]
    script += [Send(b"".join(FRAMES[3:])), End()]
    async with keeping(script, tmp_path, intervals=STILL) as setup, await setup.gate.connect() as client:
        assert not is_noted(setup)
        await client.send(chat_request(model="m", stream=True))
        await setup.up.seen(1)
        assert is_noted(setup)
        seen = await live(setup)
        assert (seen.target, seen.output_tokens, seen.first_ms, seen.last_ms) == ("up/gpt-4o", 0, None, None)
        assert readers_of(seen) == (None, None, False), "nobody can come back to it"
        assert not is_noted(setup)

        begin.set()
        await client.read_until(TEXTS[0].encode())
        assert is_noted(setup)
        seen = await live(setup)
        assert seen.first_ms is not None
        assert seen.at_ms <= seen.first_ms == seen.last_ms
        assert (seen.prompt_tokens, seen.output_tokens) == (PROMPT, 1)
        for _ in range(3):
            assert not is_noted(setup), "it stands still"

        go_on.set()
        await client.read_until(TEXTS[1].encode())
        assert is_noted(setup)
        moved = await live(setup)
        assert moved.last_ms is not None
        assert moved.first_ms == seen.first_ms <= moved.last_ms
        assert moved.output_tokens > seen.output_tokens
        end.set()
        await client.read_until(b"[DONE]")
        await setup.row()
        assert not is_noted(setup)


async def test_what_operators_see_of_the_readers_of_a_stream(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(FRAMES[0] + FRAMES[1]), Wait(go_on), Send(b"".join(FRAMES[2:])), End()]
    async with keeping(script, tmp_path, intervals=STILL) as setup:

        def counts() -> StreamCounts:
            return setup.gate.gateway._streams.table.counts()

        async with await setup.gate.connect() as client:
            await client.send(chat_request(model="m", stream=True, headers=(("x-streamweir-resumable", "true"),)))
            id = (await client.head()).header("x-streamweir-stream")
            await client.read_until(TEXTS[0].encode())
            assert is_noted(setup)
            assert readers_of(await live(setup)) == (1, 0, False)
            client.reset()
        await until(lambda: counts().away == 1)
        assert is_noted(setup)
        seen = await live(setup)
        assert readers_of(seen) == (0, 1, True)
        assert seen.first_ms is not None
        assert seen.away_since_ms is not None
        assert seen.away_since_ms >= seen.first_ms
        assert not is_noted(setup), "it stands still"
        async with await setup.gate.connect() as client:
            head = f"GET /v1/streams/{id} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {KEY}\r\n\r\n"
            await client.send(head.encode())
            await client.head()
            assert is_noted(setup)
            assert readers_of(await live(setup)) == (1, 1, False)
            go_on.set()
            await client.rest()
        ((since_ms, until_ms),) = [(gap["from_ms"], gap["until_ms"]) for gap in (await setup.row()).reader_gaps]
        assert abs(seen.at_ms + since_ms - seen.away_since_ms) <= 1
        assert until_ms >= since_ms


def readers_of(seen: OpenRequest) -> tuple[int | None, int | None, bool]:
    return seen.readers, seen.reader_gap_count, seen.away_since_ms is not None


async def test_an_orphan_is_settled_by_what_was_noted(tmp_path: Path) -> None:
    script: list[Step] = [Head(), Send(FRAMES[0] + FRAMES[1]), Hang()]
    async with keeping(script, tmp_path, intervals=STILL) as setup:
        async with await setup.gate.connect() as client:
            await client.send(chat_request(model="m", stream=True))
            await client.read_until(TEXTS[0].encode())
            assert is_noted(setup)
            seen = await live(setup)
        row = orphan(seen, 0).row
        assert seen.first_ms is not None
        assert row.ttft_ms == seen.first_ms - seen.at_ms
        assert row.rates is not None
        assert row.price == cost_of(Usage(input_uncached=PROMPT, output=1), decode_rates(row.rates))


async def test_a_target_that_has_changed_is_noted(tmp_path: Path) -> None:
    fails, is_asked, answer = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def ask(_: Line) -> None:
        is_asked.set()

    failing: list[Step] = [Wait(fails), *whole(error_body("down"), 500)]
    spare: list[Step] = [ask, Wait(answer), *answers(is_streamed=True)]
    async with keeping(failing, tmp_path, SPARE, others={"spare": spare}, intervals=STILL) as setup:
        async with await setup.gate.connect() as client:
            await client.send(chat_request(model="m", stream=True))
            await setup.up.seen(1)
            assert is_noted(setup)
            assert (await live(setup)).target == "up/gpt-4o"
            fails.set()
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                await is_asked.wait()
            assert is_noted(setup)
            seen = await live(setup)
            assert (seen.target, seen.output_tokens, seen.first_ms) == ("spare/gpt-4o", 0, None)
            answer.set()
            await client.read_until(b"[DONE]")
        assert (await setup.row()).target == "spare/gpt-4o"
