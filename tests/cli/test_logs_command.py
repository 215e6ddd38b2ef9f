"""`streamweir logs`, as a person and a script meet it, on a real store."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamweir.policy.end_user import hashed
from streamweir.policy.redact import Redactor
from streamweir.store.journal.entries import plain
from streamweir.store.keys.audit import list_rows
from streamweir.store.requests.content import pack, write_contents
from support.command import Commands
from support.contents import make_content
from support.request_rows import DAY_MS, insert_key, insert_open, insert_rows, request_row
from support.stores import store_on
from support.untrusted_texts import FOREIGN

NOW_MS = 1_794_700_000_000
SECRET = "sk-sw-" + "a1B2c3D4" * 6
FULL: dict[str, Any] = {
    "attempts": '[{"target":"azure/gpt-4o","error":"upstream_timeout","duration_s":5.0,"resends":1},'
    '{"target":"openai/gpt-4o","error":null,"duration_s":2.4,"resends":0},"odd"]',
    "prompt_tokens": 1200,
    "completion_tokens": 345,
    "usage": '{"input_uncached":1000,"cache_read":200,"output":345}',
    "usage_source": "tokenizer",
    "flags": '["usage_anomaly"]',
    "held": 5_000_000,
    "cost": 2_450_000,
    "price": 3_450_000,
    "price_version": "2026-11-01",
    "ttft_ms": 312,
    "duration_ms": 2410,
    "chunks": 88,
    "gap_p50_ms": 12,
    "gap_p99_ms": 80,
    "gap_max_ms": 1310,
    "bytes_in": 1000,
    "bytes_out": 20_000,
    "peer": "10.0.0.1",
    "client": "OpenAI/Python 2.0",
    "client_id": "mine-1",
    "dropped": '["logit_bias"]',
    "finish": "stop",
    "end_user": "ann",
    "session": "s1",
    "tags": '["team=a","job=7"]',
}
_RUN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # a test may run with it ignored
    "from streamweir.cli.main import main; main()"
)


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def fill(commands: Commands) -> None:
    rows = [
        request_row(0, **FULL),
        request_row(1, workspace_id="two", key_id="key_2", key_name="prod", model="claude", target="anthropic/claude"),
        request_row(2, status=429, verdict="rejected", error="rate_limit_exceeded", target=None),
        request_row(3, verdict="client_gone", at_ms=NOW_MS - 2 * DAY_MS),
    ]
    commands.write(partial(insert_key, id="key_1"))
    commands.write(partial(insert_rows, rows=rows))


def shown(commands: Commands, *words: str) -> list[int]:
    """The numbers of the rows, in the order of the lines; both ways of showing them say the same."""
    lines = [json.loads(line)["request_id"] for line in commands("logs", *words, "--json").stdout.splitlines()]
    table = [row[-1] for row in commands.table("logs", *words)[1:]]
    assert table == lines
    return [int(id[-16:], 16) for id in lines]


def test_the_latest_are_shown_the_newest_last(commands: Commands) -> None:
    assert commands("logs").stderr == "There are no requests in the log.\n"
    fill(commands)
    head, *rows = commands.table("logs")
    assert head == ["AT", "STATUS", "OUTCOME", "MODEL", "KEY", "TTFT", "TIME", "IN", "OUT", "PRICE", "COST", "ID"]
    assert rows[1][1:] == [
        *("200", "completed", "gpt-4o", "ci", "312ms", "2.41s", "~1,200", "~345", "$0.00345", "$0.00245"),
        request_row(0).request_id,
    ]
    assert rows[3][1:4] == ["429", "rate_limit_exceeded", "gpt-4o"]
    assert shown(commands) == [3, 0, 1, 2]
    assert shown(commands, "--limit", "2") == [1, 2]
    assert shown(commands, "--key", "key_1") == [3, 0, 2]
    assert shown(commands, "--model", "claude") == [1]
    assert shown(commands, "--target", "anthropic") == [1]
    assert shown(commands, "--verdict", "client_gone") == [3]
    for words in (["--user", "ann"], ["--session", "s1"], ["--tag", "team=a"]):
        assert shown(commands, *words) == [0]
        assert shown(commands, words[0], "nobody") == []
    assert shown(commands, "--failed") == [2]
    assert shown(commands, "--workspace", "default") == []
    assert shown(commands, "--since", "2026-11-14") == [0, 1, 2]
    assert shown(commands, "--since", "1s") == []


def test_an_end_user_is_found_by_name_where_only_its_digest_is_kept(commands: Commands) -> None:
    file = commands.folder / "streamweir.toml"
    file.write_text('[store]\nend_user = "hash"\n')
    commands.write(partial(insert_rows, rows=[request_row(0, end_user=hashed("ann")), request_row(1)]))
    assert shown(commands, "--user", "ann", "--config", str(file)) == [0]


def test_a_key_or_workspace_that_is_not_there_is_an_error_and_not_an_empty_list(commands: Commands) -> None:
    fill(commands)
    assert "there is no key" in commands.fails("logs", "--key", "nobody's")
    assert "nobody's" in commands.fails("logs", "--workspace", "nobody's")


def test_wrong_usage_is_reported(commands: Commands) -> None:
    assert "--follow" in commands.misused("logs", "req_1", "--follow")
    assert "--content" in commands.misused("logs", "--content")
    assert "expected a length" in commands.misused("logs", "--since", "yesterday")
    assert "--limit" in commands.misused("logs", "--limit", "0")


@pytest.mark.parametrize("id", [request_row(0).request_id, request_row(0).completion_id])
def test_one_request_is_shown_whole_by_either_id(commands: Commands, id: str) -> None:
    fill(commands)
    lines = commands("logs", id).stdout.splitlines()
    records = [(name.strip(), value.strip()) for name, _, value in (line.partition("  ") for line in lines)]
    told = dict(records)
    assert told["id"] == request_row(0).request_id
    assert told["completion id"] == request_row(0).completion_id
    assert [value for name, value in records if name == "attempt"] == [
        "azure/gpt-4o, upstream_timeout, 5.00s, resent once",
        "openai/gpt-4o, answered, 2.40s",
        "odd",
    ]
    assert told["usage"] == "1,200 in, 345 out (by tokenizer: input_uncached 1000, cache_read 200, output 345)"
    assert (told["price"], told["cost"]) == ("$0.00345 (prices 2026-11-01)", "$0.00245")
    assert told["chunks"] == "88 (between them: p50 12ms, p99 80ms, max 1.31s)"
    assert told["key"] == "ci (key_1)"
    assert (told["end user"], told["session"], told["tags"]) == ("ann", "s1", "team=a, job=7")
    assert (told["flags"], told["dropped"], told["content"]) == ("usage_anomaly", "logit_bias", "not kept")
    document = commands.json("logs", id)
    assert (document["price"], document["usage"]["cache_read"], document["flags"]) == (
        3_450_000,
        200,
        ["usage_anomaly"],
    )
    assert commands.fails("logs", id, "--workspace", "default") == "the request is not in the log"


def test_what_a_provider_answered_is_shown_below_its_attempt(commands: Commands) -> None:
    attempts = [
        {
            "target": "azure/gpt-4o",
            "credential": "eu-2",
            "error": "upstream_rate_limited",
            "duration_s": 0.35,
            "resends": 0,
            "status": 429,
            "provider_code": "rate_limit_exceeded",
            "provider_type": "requests",
            "provider_param": "model",
            "provider_message": "Limit of 5 reached.",
            "advice": "Try again later.",
            "provider_request_id": "0c6a7f0e-3d2b-4a51-9f3e-7f2a8d1c6b90",
            "address": "192.0.2.1:3128",
            "via_proxy": True,
            "reused": False,
            "dns_s": 0.002,
            "connect_s": 0.011,
            "tls_s": 0.024,
            "first_byte_s": 0.31,
        },
        {"target": "openai/gpt-4o", "error": None, "duration_s": 2, "resends": 0, "status": 200, "reused": True},
        {"target": "other/m", "error": "upstream_dns_failed", "provider_message": "No such name", "dns_s": 0.5},
    ]
    commands.write(partial(insert_rows, rows=[request_row(0, attempts=json.dumps(attempts))]))
    lines = commands("logs", request_row(0).request_id).stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("attempt"))
    told = [" ".join(line.split()) for line in lines[start : start + 10]]
    assert told == [
        "attempt azure/gpt-4o, credential eu-2, upstream_rate_limited, 350ms",
        "answer 429 rate_limit_exceeded (requests, param model): Limit of 5 reached.",
        "advice Try again later.",
        "provider's id 0c6a7f0e-3d2b-4a51-9f3e-7f2a8d1c6b90",
        "connection proxy 192.0.2.1:3128, new (dns 2ms, connect 11ms, tls 24ms), first byte after 310ms",
        "attempt openai/gpt-4o, answered, 2.00s",
        "answer 200",
        "connection reused",
        "attempt other/m, upstream_dns_failed",
        "answer No such name",
    ]


def test_a_missing_request_is_distinguished_from_a_running_one(commands: Commands) -> None:
    commands.write(partial(insert_open, request_id="req_1"))
    assert commands.fails("logs", "req_1") == "the request is still running"
    assert commands.fails("logs", "req_1", "--workspace", "default") == "the request is not in the log"
    for text in FOREIGN:
        if text and "\0" not in text:  # no shell passes these on
            assert commands.fails("logs", "--", text) == "the request is not in the log"


def test_content_is_shown_as_text_and_the_audit_log_knows(commands: Commands) -> None:
    content = make_content(1, prompt='{"content":"\\u001b[31mred"}', answer=f"one\ntwo \x1b]0;title\x07{SECRET}\u202e")
    commands.write(insert_key)
    commands.write(partial(insert_rows, rows=[request_row(1, has_content=True), request_row(2)]))
    commands.write(partial(write_contents, packed=[pack(content, Redactor())]))
    assert commands.read(list_rows) == []
    told = commands("logs", request_row(1).request_id, "--content")
    lines = told.stdout.splitlines()
    assert lines[lines.index("ANSWER") :][:3] == ["ANSWER", "  one", "  two \ufffd]0;title\ufffd***\ufffd"]
    assert "      13 ms  data: [DONE]" in lines
    assert SECRET not in told.output
    document = commands.json("logs", str(request_row(1).completion_id), "--content")
    assert document["content"]["answer"] == "one\ntwo \x1b]0;title\x07***\u202e"
    looked_at = [(row.actor, row.action, row.object, row.workspace_id) for row in commands.read(list_rows)]
    assert looked_at[:-1] == [("cli", "content.read", content.request_id, "one")] * 2
    nothing = commands("logs", request_row(2).request_id, "--content")
    assert (
        nothing.stderr == "No content is stored for this request. Content is stored only for keys with --log-content.\n"
    )
    assert commands.json("logs", request_row(2).request_id, "--content")["content"] is None
    assert len(commands.read(list_rows)) == len(looked_at)


def test_untrusted_text_is_neither_interpreted_nor_breaks_a_line(commands: Commands) -> None:
    rows = [
        request_row(
            number,
            completion_id=plain(text)[:256],
            model=plain(text),
            key_name=plain(text),
            target=plain(text),
            client=plain(text),
            client_id=plain(text),
            finish=plain(text),
            dropped=json.dumps([plain(text)]),
            attempts=json.dumps([{"target": plain(text), "error": plain(text)}, plain(text)]),
            usage=json.dumps({plain(text): plain(text)}),
            prompt_tokens=1,
        )
        for number, text in enumerate((*FOREIGN, SECRET, f"Bearer {SECRET}"))
    ]
    commands.write(partial(insert_rows, rows=rows))
    table = commands("logs", "--limit", "100")
    assert len(table.stdout.splitlines()) == len(rows) + 1
    everything = [table.stdout, *(commands("logs", row.request_id).stdout for row in rows)]
    for text in everything:
        assert all(line.isprintable() for line in text.splitlines())
        assert SECRET not in text
    for row, line in zip(rows, commands("logs", "--limit", "100", "--json").stdout.splitlines(), strict=True):
        assert line.isascii()
        assert json.loads(line)["model"] == row.model


async def test_following_shows_each_as_it_ends_until_it_is_stopped(tmp_path: Path) -> None:
    async with store_on("sqlite", tmp_path) as store:
        await store.write(insert_key)
        await store.write(partial(insert_rows, rows=[request_row(number) for number in range(5)]))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _RUN, "logs", "--follow", "--limit", "2", "--key", "key_1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "STREAMWEIR_DATA": str(tmp_path), "STREAMWEIR_QUIET": "1"},
        )

        async def next_word() -> str:
            """The last on a line: the id."""
            assert process.stdout is not None
            return (await asyncio.wait_for(process.stdout.readline(), 60)).decode().split()[-1]

        assert [await next_word() for _ in range(3)] == ["ID", request_row(3).request_id, request_row(4).request_id]
        stranger = request_row(7, key_id="key_2")
        await store.write(partial(insert_rows, rows=[request_row(9), stranger, request_row(6)]))
        assert [await next_word() for _ in range(2)] == [request_row(9).request_id, request_row(6).request_id]
        await store.write(partial(insert_rows, rows=[request_row(8)]))
        assert await next_word() == request_row(8).request_id
        process.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert (out, err, process.returncode) == (b"", b"", 0)
