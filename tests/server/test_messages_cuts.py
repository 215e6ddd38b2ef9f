"""A stream of the Messages API whose upstream is cut, at every edge of a frame and inside of frames.

Translated from two wires and passed on from the third. Whatever had come, the caller gets what it would have got of the
whole answer, up to there, and then one `error` event; or a status, where nothing had come. No cut stream shows a stop
reason or `message_stop`, in any of the ways in which a body can end (docs/spec/failures.md U17, U18 and U20). Each
leaves one record, which says how much was delivered and how that is known.

`make test` takes a part of the places, `make soak` every byte.
"""

import json
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import pytest

from conftest import SOAKS
from streamweir.server.telemetry.record import RequestRecord
from support.gateway import nothing_left
from support.messages import documents_of, messages_request, read_documents
from support.outcome import assert_messages_error, assert_refused, serving
from support.raw_client import Reply
from support.rich_answers import CALLS, FRAMES, REASONING, TEXT, USAGE
from support.script import End, Fin, Head, Rst, Seen, Send, Step
from support.soak import part_of

pytestmark = pytest.mark.usefixtures("no_jitter")

ENDS: dict[str, Step] = {"end": End(), "fin": Fin(), "rst": Rst()}
CODES = {"end": "upstream_stream_truncated", "fin": "upstream_stream_truncated", "rst": "upstream_stream_reset"}


class Cut(NamedTuple):
    offset: int
    """Bytes of the body that come."""
    how: str


def cuts_of(kind: str) -> list[Cut]:
    frames = FRAMES[kind]
    edges = list(accumulate(map(len, frames), initial=0))
    inside = [edge + len(frame) // 2 for edge, frame in zip(edges, frames, strict=False)]
    chosen = [Cut(edge, how) for edge in edges[:-1] for how in ENDS]
    if SOAKS:
        return sorted({*chosen, *(Cut(offset, "fin") for offset in range(edges[-1]))})
    return sorted(part_of(chosen, 3) + part_of([Cut(at, "fin") for at in inside], 3))


def script_for(kind: str) -> Any:
    body = b"".join(FRAMES[kind])

    def chosen(request: Seen) -> Sequence[Step]:
        found = re.search(rb"cut-(\d+)-(\w+)", request.path.encode() + request.body)
        assert found is not None
        return [Head(), Send(body[: int(found[1])]), ENDS[found[2].decode()]]

    return chosen


def without_ids(documents: list[Any]) -> list[Any]:
    """What differs from answer to answer is left out."""
    kept = json.loads(json.dumps(documents))
    for document in kept:
        for owner in (document.get("message"), document.get("content_block")):
            if owner is not None:
                owner.pop("id", None)
                owner.pop("model", None)
    return list(kept)


def assert_whole(documents: list[Any], is_told: bool = True) -> None:
    """`is_told`: the usage, by the provider."""
    message = read_documents(documents)
    said: dict[str, Any] = {"thinking": [], "text": [], "tool_use": []}
    for block in message["content"]:
        said[block["type"]].append(block["input"] if block["type"] == "tool_use" else block[block["type"]])
    assert said == {
        "thinking": ["".join(REASONING)],
        "text": ["".join(TEXT)],
        "tool_use": [arguments for _, _, arguments in CALLS],
    }
    assert message["stop_reason"] == "tool_use"
    if is_told:
        assert (message["usage"]["input_tokens"], message["usage"]["output_tokens"]) == USAGE


def complete_from(kind: str) -> int:
    """Where the wire has said that it is all, but for line ends. OpenAI's finish is that, if the body then ends."""
    frames = FRAMES[kind]
    return sum(map(len, frames[:-2] if kind == "openai" else frames)) - 4


def check(kind: str, cut: Cut, reply: Reply, record: RequestRecord, full: list[Any]) -> None:
    if record.verdict == "completed":
        assert cut.offset >= complete_from(kind)
        assert_whole(documents_of(reply.body), record.usage_source == "provider")
        return
    code = CODES[cut.how] if cut.offset or cut.how != "end" else "upstream_empty_response"
    assert (record.verdict, record.error, record.status) == ("truncated", code, reply.status)
    assert record.dialect == "messages"
    if reply.status != 200:
        assert_refused(reply, code, "messages")
        assert 1 <= len(record.attempts) <= 3
        return
    assert len(record.attempts) == 1, "never again, once something was sent"
    *came, last = documents_of(reply.body)
    assert last["type"] == "error"
    assert_messages_error(last["error"], code)
    assert without_ids(came) == full[: len(came)]
    assert not {"message_delta", "message_stop"} & {each["type"] for each in came}
    if kind == "anthropic":
        assert b"".join(FRAMES[kind]).startswith(reply.body[: reply.body.rindex(b"event: error")])
    assert record.usage is not None
    assert record.usage_source in ("provider", "estimate", "tokenizer")
    assert record.usage.completion_tokens > 0


@pytest.mark.parametrize("kind", FRAMES)
async def test_u17_u18_u20_a_stream_cut(kind: str) -> None:
    cuts = cuts_of(kind)
    everything = Cut(sum(map(len, FRAMES[kind])), "end")
    async with nothing_left(), serving(script_for(kind), kind) as (gate, _):
        replies = []
        async with await gate.connect() as client:
            for cut in (everything, *cuts):
                await client.send(messages_request(model=f"up/cut-{cut.offset}-{cut.how}", stream=True))
                replies.append(await client.response())
        records = {record.id: record for record in await gate.settled(len(replies))}
        whole = documents_of(replies[0].body)
        assert_whole(whole)
        seen = set()
        for cut, reply in zip(cuts, replies[1:], strict=True):
            try:
                check(kind, cut, reply, records[reply.header("request-id") or ""], without_ids(whole))
            except AssertionError as failure:
                failure.add_note(f"cut at {cut}: {reply}")
                raise
            seen.add(reply.status == 200)
        assert seen == {True, False}
