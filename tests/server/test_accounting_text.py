"""Whatever callers and upstreams write: a row each, once, and one line of the log (C17, G12, S2, S21).

Every text of the corpus goes through every place from which a text gets into the books: the model, the
user, headers, names of members, and of the upstream the ids, models, finish reasons and errors. Nothing of
it is obeyed by a database, a log or a terminal, nothing of it is a fault of ours, and nothing is lost for it.
"""

import asyncio
import io
import json
import unicodedata
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from streamweir.policy.refusal_quota import PER_ADDRESS
from streamweir.server.telemetry.log import close_log, configure_log
from streamweir.store.db.tables import metadata
from streamweir.store.journal.entries import plain
from support.accounting_gateway import MODEL, AccountingSetup
from support.answers import anthropic_whole, error_body, error_frame, openai_frames, openai_whole
from support.gateway import chat_request, gateway, providers
from support.key_store import dump
from support.raw_client import Reply
from support.script import End, Head, Seen, Send, Step, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.soak import part_of
from support.stores import DATABASES, migrated_url, one_database
from support.untrusted_texts import FOREIGN

SQL = (
    "'; UPDATE accounts SET granted=1e15; --",
    "1; DROP TABLE requests CASCADE",
    "' UNION SELECT digest, digest FROM keys --",
    "\\'; SELECT pg_sleep(10); --",
    "admin'/*",
    "%' OR 1=1 OR name LIKE '%",
    "$1 $2 ?1 :request_id %(id)s",
    "x'); ATTACH DATABASE '/tmp/x' AS y; --",
)
LINES = (
    "a\r\nset-cookie: x=1",
    "a\nforged line",
    "a\u2028b\u2029c",
    "a\x85b\x0bc\x0cd\x1ce",
    "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    "data: [DONE]\n\ndata: {}",
    '{"event":"request","id":"forged"}',
    "\ud83d",
    "\udc00\ud800",
    "\ufffe\uffff",
    "\U0010ffff",
    "\u0000\u0001\u001f\u007f",
)
OTHERS = (*FOREIGN, *LINES)
"""With each commit a third of them; in `make soak` all."""
MEGABYTE = "\U0001f600'\x00" * 52_000
_LONGEST = 256
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control characters, marks without a width, surrogates, ends of lines and paragraphs."""


_ERRORS = ("error", "frame")


def play(request: Seen) -> list[Step]:
    """The word before the first slash of `user` says where to put the rest."""
    if request.path.endswith("messages"):
        return whole(anthropic_whole())
    place, _, text = (request.json.get("user") or "").partition("/")
    if place in _ERRORS:
        error = error_body(text, kind=text, code=text, param=text)
        if place == "frame":
            return [Head(), Send(openai_frames()[1]), Send(error_frame(error)), End()]
        return whole(error, 400)
    document = json.loads(openai_whole())
    if place == "id":
        document |= dict.fromkeys(("id", "model", "system_fingerprint", "service_tier"), text)
    elif place == "finish":
        document["choices"][0]["finish_reason"] = text
    return stream(_stream_of(document)) if request.json.get("stream") else whole(_json(document))


def _stream_of(document: dict[str, Any]) -> bytes:
    """The same answer in two frames."""
    (choice,) = document.pop("choices")
    common = {**document, "object": "chat.completion.chunk"}
    said = {"index": 0, "delta": choice["message"], "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    frames = ({**common, "usage": None, "choices": [said]}, {**common, "choices": [last]})
    return b"".join(b"data: %b\n\n" % _json(frame) for frame in frames) + b"data: [DONE]\n\n"


def _json(document: dict[str, Any]) -> bytes:
    """The characters themselves, but for those that have no form in UTF-8."""
    text = json.dumps(document, ensure_ascii=False)
    return "".join(f"\\u{ord(each):04x}" if "\ud800" <= each <= "\udfff" else each for each in text).encode()


def asked(text: str, number: int) -> Iterator[bytes]:
    """One request for each place in which a caller, or the upstream, may write something that is kept."""
    named: dict[str, Any] = {text or "empty": text, "logit_bias": {"1": 1}}
    yield chat_request(model=text)
    yield chat_request(model=f"up/{text}")
    yield chat_request(model="m", user=text, stop=[text], metadata={text: text})
    yield chat_request(model="claude/m", **named)
    for place in (*_ERRORS, "id", "finish"):
        model = f"up/{number}-{place}"  # one that fails too often is left out
        yield chat_request(model=model, user=f"{place}/{text}")
        yield chat_request(model=model, user=f"{place}/{text}", stream=True)
    value = _as_header(text)
    for name in ("x-request-id", "user-agent", "idempotency-key", "x-forwarded-for", "accept-language"):
        yield chat_request(model="m").replace(b"\r\n\r\n", b"\r\n%b: %b\r\n\r\n" % (name.encode(), value), 1)


def _as_header(text: str) -> bytes:
    """What a header can hold of it: in UTF-8, without line ends and NUL, which end the header or the connection."""
    data = text[:4000].encode("utf-8", "surrogatepass")
    return bytes(each for each in data if each >= 0x20 and each != 0x7F)


class Reader:
    """Who sends all this, and looks at the books in the end."""

    def __init__(self, setup: AccountingSetup) -> None:
        self.setup = setup
        self.sent = 0

    async def send(self, text: str) -> None:
        replies = await asyncio.gather(*map(self.answer, asked(text, self.sent)))
        self.sent += sum(
            reply.header("idempotent-replayed") is None for reply in replies
        )  # else two texts made one key
        for reply in replies:
            assert reply.status in (200, 400, 404, 409, 502), (reply.status, text[:30])
            assert "internal_error" not in reply.body.decode()
            assert not [name for name, _ in reply.headers if name in ("set-cookie", "x-evil")]

    async def check(self) -> None:
        """A row each, and in each nothing but plain and short texts."""
        await self.setup.gate.gateway.drained()
        rows = await self.setup.rows()
        assert len(rows) == len({row.request_id for row in rows}) == self.sent
        for row in rows:
            for name in ("model", "target", "completion_id", "client", "client_id", "peer"):
                value = getattr(row, name)
                assert value is None or (len(value) <= _LONGEST and value == plain(value)), (name, value)

    async def answer(self, request: bytes) -> Reply:
        async with await self.setup.gate.connect() as client:
            await client.send(request)
            return await client.response()


@asynccontextmanager
async def reading(
    database: str, folder: Path, form: Literal["json", "text"] = "json"
) -> AsyncIterator[tuple[Reader, list[str]]]:
    """In the end every row is in the database, and its line in the log: no more and no fewer."""
    log, lines = io.StringIO(), list[str]()
    configure_log(form, log)
    try:
        url = await migrated_url(database, folder)
        async with ScriptedUpstream(play) as up:
            toml = providers(up=up.base_url) + providers("anthropic", claude=up.base_url)
            toml += f'[server]\ntrusted_proxies = ["127.0.0.1"]\n[store]\nurl = "{url}"\n{MODEL}'
            toml += "[alerts]\nerror_percent = 0\n"  # a line of it would depend on how long the test takes
            async with gateway(toml, data_dir=folder) as gate:
                reader = Reader(AccountingSetup(gate, up))
                yield reader, lines
                await reader.check()
                tables = await dump(reader.setup.storage.store)
                await reader.setup.assert_sound()
        assert set(tables) == {table.name for table in metadata.sorted_tables}
        assert not (folder / "journal" / "quarantine.jsonl").exists(), "no row was refused"
        assert reader.setup.writer.batcher.quarantined == 0
    finally:
        close_log()
    lines += log.getvalue().splitlines()
    odd = {each for line in lines for each in line if unicodedata.category(each) in _UNSEEN}
    assert not odd, odd
    assert max(map(len, lines), default=0) < 4000


@pytest.mark.usefixtures("no_jitter")
@pytest.mark.parametrize("database", part_of(DATABASES, 2))
async def test_any_text_in_any_member(database: str, tmp_path: Path) -> None:
    async with reading(database, tmp_path) as (reader, lines):
        for text in (*SQL, *part_of(OTHERS, 3)):
            await reader.send(text)
    assert [json.loads(line)["event"] for line in lines] == ["request"] * reader.sent


@pytest.mark.usefixtures("no_jitter")
async def test_any_text_in_a_log_for_people(tmp_path: Path) -> None:
    async with reading("sqlite", tmp_path, "text") as (reader, lines):
        for text in LINES:
            await reader.send(text)
    assert len(lines) == reader.sent


@pytest.mark.usefixtures("no_jitter")
@one_database
async def test_a_megabyte_of_it(database: str, tmp_path: Path) -> None:
    async with reading(database, tmp_path) as (reader, lines):
        for text in (MEGABYTE, MEGABYTE.replace("\0", "")):
            await reader.send(text)
    assert [json.loads(line)["event"] for line in lines] == ["request"] * reader.sent


@one_database
async def test_a_statement_is_no_key(database: str, tmp_path: Path) -> None:
    """S2: it is hashed before anybody looks for it."""
    async with reading(database, tmp_path) as (reader, _):
        for text in ("' OR '1'='1", *SQL, *FOREIGN):
            value = _as_header(text).strip()
            for name, before in ((b"authorization", b"Bearer "), (b"x-api-key", b""), (b"api-key", b"")):
                request = chat_request(key=None, model="m")
                head = b"\r\n%b: %b%b\r\n\r\n" % (name, before, value)
                reply = await reader.answer(request.replace(b"\r\n\r\n", head, 1))
                assert reply.status == 401, text[:30]
                assert not value or value not in reply.body
        rows = await reader.setup.rows()
        reader.sent = PER_ADDRESS  # of more only the number is kept
        assert len(rows) == reader.sent
        assert {(row.error, row.key_id, row.workspace_id) for row in rows} <= {
            ("invalid_api_key", None, None),
            ("missing_api_key", None, None),
        }
