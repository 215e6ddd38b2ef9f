"""Whatever connections are lost, a resumable stream is the bytes of a stream that nobody has interrupted.

In every API and dialect, from every wire, passed on and translated: one to three readers of one stream lose their
connections at any byte, and come back in any of the ways that are documented (`support.lost_connections`), with several
nodes at any of them. Each gets what an ordinary request gets, and the request has one row, with the charge of that.

`make test` takes a part that changes with the commit, `make soak` all of it.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from conftest import SOAKS
from streamweir.core.verdict import Verdict
from streamweir.store.requests.requests import RequestFilter, RequestRow, list_requests
from support import rich_answers
from support.amazon_body import PADDING, frame
from support.answers import TEXTS, openai_frames, openai_stream, responses_frames
from support.completions import text_frames
from support.fleet import Fleet, fleet
from support.gateway import KEY, Gate, until
from support.lost_connections import APIS, Api, Case
from support.script import End, Head, Seen, Send, Step, stream
from support.scripted_upstream import ScriptedUpstream
from support.soak import part_of
from support.stream_bytes import StreamBytes
from support.valkey import ValkeyServer

ORDINARY = (("x-streamweir-resumable", "false"),)
WHOLE = "whole."
"""In place of the number of a case, and as long, for some answers have the estimated length of the prompt."""
AT_ONCE = 12
"""Cases that run beside each other."""
LONG = ("x" * 9000, "y", "z" * 40_000) * 8
"""More than a connection takes at once."""


def converse(texts: Sequence[str]) -> list[bytes]:
    deltas = [frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}}) for text in texts]
    usage = {"usage": {"inputTokens": 3, "outputTokens": len(texts), "totalTokens": 3 + len(texts)}}
    return [
        frame("messageStart", {"role": "assistant", **PADDING}),
        *deltas,
        frame("contentBlockStop", {"contentBlockIndex": 0}),
        frame("messageStop", {"stopReason": "end_turn"}),
        frame("metadata", {**usage, "metrics": {"latencyMs": 5}}),
    ]


def with_comments(frames: Sequence[bytes]) -> list[bytes]:
    """Lines that end with CR LF, comments between events and in one, an event of several lines, one without data."""
    found = [b": OPENROUTER PROCESSING\r\n\r\n"]
    for event in frames:
        found.append(b": busy\r\n" + event.replace(b"\n", b"\r\n"))
        found.append(b"event: ping\r\n\r\n")
    return found[:-1]


class Source(NamedTuple):
    """An answer of a provider, on one wire."""

    pieces: list[bytes]
    provider: str
    """More TOML of it."""
    kind: str
    content_type: str = "text/event-stream; charset=utf-8"


BEDROCK = 'region = "eu-central-1"\nwire = "converse"\n'
SOURCES = {
    "openai": Source(rich_answers.openai(), "", "openai"),
    "openai-long": Source(openai_frames(LONG), "", "openai"),
    "openai-comments": Source(with_comments(openai_frames()), "", "openai"),
    "foreign": Source(openai_frames(), "", "openai-compatible"),
    "anthropic": Source(rich_answers.anthropic(), "", "anthropic"),
    "gemini": Source(rich_answers.gemini(), "", "gemini"),
    "responses": Source(rich_answers.responses(), 'wire = "responses"\n', "openai"),
    "responses-long": Source(responses_frames(LONG), 'wire = "responses"\n', "openai"),
    "converse": Source(converse(TEXTS), BEDROCK, "bedrock", "application/vnd.amazon.eventstream"),
}
_TEXT = text_frames(finish="stop")
TEXT_COMPLETIONS = {
    "openai": _TEXT,
    "openai-long": text_frames(LONG, finish="stop"),
    "openai-comments": with_comments(_TEXT),
}
"""Of providers that have this API themselves, for `TEXT_MODEL`."""
TEXT_MODEL = "gpt-3.5-turbo-instruct"
BY_NAME = {api.name: api for api in APIS}
KINDS = list(product(APIS, SOURCES))
Kind = tuple[Api, str]
Numbered = tuple[int, Kind]
_IDS = re.compile(rb'"(id|item_id|call_id|created|created_at|completed_at|encrypted_content)":("[^"]*"|\d+)')
"""What differs from answer to answer, if it is translated."""


def pieces_of(api: Api, model: str) -> list[bytes]:
    return TEXT_COMPLETIONS.get(model, SOURCES[model].pieces) if api.name == "completions" else SOURCES[model].pieces


class Whole(NamedTuple):
    """An answer that nobody has interrupted."""

    events: list[bytes]
    is_the_same: bool
    """In every byte, whenever it is asked for."""
    row: RequestRow


def config_of(origin: str) -> str:
    parts = ['[streams]\nmax_per_key = 100000\n[[keys]]\nname = "test"\nkey = "' + KEY + '"\nmax_streams = 1000\n']
    for name, source in SOURCES.items():
        base_url = origin if source.kind == "bedrock" else f"{origin}/v1"
        parts.append(
            f'[[providers]]\nname = "{name}"\nkind = "{source.kind}"\nbase_url = "{base_url}"\napi_key = "sk-x"\n'
            f"{source.provider}"
        )
        for id, model in ((name, "m"), (f"{name}-text", TEXT_MODEL if name in TEXT_COMPLETIONS else "m")):
            parts.append(
                f'[[models]]\nid = "{id}"\ntargets = [{{ provider = "{name}", model = "{model}" }}]\n'
                "price = { input = 1000.0, output = 1000.0 }\n"
            )
    return "".join(parts)


class Runs:
    """Cases at the nodes of one fleet."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.cases: dict[str, Case] = {}
        self.asked: defaultdict[str, int] = defaultdict(int)
        self.whole: dict[Kind, Whole] = {}

    def script(self, request: Seen) -> list[Step]:
        found = re.search(rb"case-([\w.-]+)/([\w-]+)/([\w-]+);", request.body)
        assert found is not None
        number, api, model = [part.decode() for part in found.groups()]
        head = Head(content_type=SOURCES[model].content_type)
        if number == WHOLE:
            return [head, Send(b"".join(pieces_of(BY_NAME[api], model))), End()]
        self.asked[number] += 1
        return [head, self.cases[number].source, End()]

    async def learn(self, nodes: Fleet, kinds: Sequence[Kind]) -> None:
        """What ordinary requests get."""
        for api, model in kinds:
            if (api, model) not in self.whole:
                first, second = [await self._ask(nodes.gateways[0], api, model) for _ in range(2)]
                row = await row_of(nodes, first.headers["x-request-id"])
                if api.name == "completions" and model in TEXT_COMPLETIONS:
                    assert b'"text":""' not in first.events[0].replace(b" ", b""), "it was not asked as a chat"
                if row.verdict != Verdict.COMPLETED:
                    assert b"completion cannot show" in first.events[-2], "but an answer that ends with an error is one"
                self.whole[api, model] = Whole(first.events, first.events == second.events, row)

    async def _ask(self, gate: Gate, api: Api, model: str) -> StreamBytes:
        came = StreamBytes()
        async with await gate.connect() as client:
            await client.send(api.request(model, WHOLE, ORDINARY))
            while not came.is_ended:
                came.feed(await client._receive())
        assert came.status == 200, came.body
        return came

    async def run(self, nodes: Fleet, kinds: Sequence[Numbered]) -> None:
        addresses = [gate.address for gate in nodes.gateways]
        slots = asyncio.Semaphore(AT_ONCE)

        async def run_one(number: str, api: Api, model: str) -> None:
            whole = self.whole[api, model]
            case = Case(number, api, model, pieces_of(api, model), len(whole.events), nodes=self.nodes)
            self.cases[number] = case
            try:
                async with slots:
                    await case.run(addresses)
                self.check(case, whole)
            except Exception as error:
                error.add_note(f"case {number}: {api.name} from {model}, {case.connections}")
                raise

        async with asyncio.TaskGroup() as tasks:
            for number, (api, model) in kinds:
                tasks.create_task(run_one(f"{self.nodes}-{number:04}", api, model))

    def check(self, case: Case, whole: Whole) -> None:
        assert self.asked[case.number] == 1, "its provider was asked once"
        for reader in case.readers:
            if whole.is_the_same:
                assert_same(reader.events, whole.events)
            else:
                assert_same(list(map(plain, reader.events)), list(map(plain, whole.events)))
            assert_same(reader.events, case.readers[0].events)

    async def check_rows(self, nodes: Fleet) -> None:
        expected_rows = len(self.cases) + 2 * len(self.whole)
        await until(lambda: sum(len(gate.records) for gate in nodes.gateways) >= expected_rows)
        rows = await rows_of(nodes)
        assert len(rows) == expected_rows, "one row for each"
        by_id = {row.request_id: row for row in rows}
        by_case = {
            record.client_id: (node, by_id[record.id])
            for node, gate in enumerate(nodes.gateways)
            for record in gate.records
        }
        for case in self.cases.values():
            (node, row), expected = by_case[f"case-{case.number}"], self.whole[case.api, case.model].row
            assert (row.verdict, row.price, row.usage, row.flags) == (
                expected.verdict,
                expected.price,
                expected.usage,
                expected.flags,
            ), row
            assert row.resumed is not None
            assert row.resumed < case.connected
            if row.verdict == Verdict.COMPLETED:  # else it ended before its provider's answer
                assert row.resumed >= case.came_while_it_ran(node) >= case.holds_back, row
            assert all(until is not None for _, until in row.reader_gaps[:-1])
        spent, held = await nodes.spent_and_held()
        assert (spent, held) == (sum(row.price or 0 for row in rows), 0)


async def rows_of(nodes: Fleet) -> list[RequestRow]:
    found = await nodes.read(lambda conn: list_requests(conn, RequestFilter(), limit=1000).rows)
    assert len(found) < 1000
    return list(found)


async def row_of(nodes: Fleet, id: str) -> RequestRow:
    gate = nodes.gateways[0]
    await until(lambda: any(record.id == id for record in gate.records))
    (row,) = await nodes.read(lambda conn: list_requests(conn, RequestFilter(id=id), limit=2).rows)
    return row


def assert_same(events: list[bytes], expected: list[bytes]) -> None:
    """To show the difference of long answers takes minutes."""
    for number, (event, other) in enumerate(zip(events, expected, strict=False), 1):
        if event != other:
            raise AssertionError(f"event {number} is {event[:500]!r}, and not {other[:500]!r}")
    if len(events) != len(expected):
        raise AssertionError(f"{len(events)} events, and not {len(expected)}")


def plain(event: bytes) -> bytes:
    return _IDS.sub(rb'"\1":0', event)


def chosen(count: int, first: int = 0) -> list[Numbered]:
    """Numbered cases, which take the kinds in turn."""
    return [(number, KINDS[number % len(KINDS)]) for number in range(first, first + count)]


async def run_all(cases: Sequence[Numbered], folder: Path, count: int, valkey: ValkeyServer | None) -> None:
    runs = Runs(count)
    async with ScriptedUpstream(runs.script) as up:
        origin = up.base_url.removesuffix("/v1")
        async with fleet(
            stream(openai_stream()), folder, count=count, valkey=valkey, toml=config_of(origin), named=count > 1
        ) as nodes:
            await runs.learn(nodes, [kind for _, kind in cases])
            await runs.run(nodes, cases)
            await up.idle()
            await runs.check_rows(nodes)


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


BATCH = 500


@pytest.mark.parametrize("batch", range(8 if SOAKS else 1))
async def test_any_sequence_of_cuts_gives_the_bytes_of_an_uninterrupted_stream(batch: int, tmp_path: Path) -> None:
    cases = chosen(BATCH, batch * BATCH)
    await run_all(part_of(cases, 10), tmp_path, 1, None)


@pytest.mark.parametrize("batch", range(4 if SOAKS else 1))
async def test_readers_that_come_back_at_any_node_get_the_bytes_of_an_uninterrupted_stream(
    batch: int, tmp_path: Path, valkey: ValkeyServer
) -> None:
    cases = chosen(BATCH, batch * BATCH)
    await run_all(part_of(cases, 20), tmp_path, 2, valkey)
