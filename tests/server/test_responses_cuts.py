"""A stream of the Responses API whose upstream is cut, at every edge of a frame and inside of frames.

Translated from three wires and passed on from the fourth. Whatever had come, the caller gets what it would have got of
the whole answer, up to there, and then `error` and `response.failed`; or a status, where nothing had come. No cut
stream shows `response.completed`, in any of the ways in which a body can end (docs/spec/failures.md U17, U18 and U20).
Each leaves one record, which says how much was delivered and how that is known.

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
from support import rich_answers
from support.gateway import nothing_left
from support.outcome import assert_refused, assert_responses_error, serving
from support.raw_client import Reply
from support.responses import documents_of, read_documents, responses_request
from support.rich_answers import CALLS, REASONING, TEXT, USAGE
from support.script import End, Fin, Head, Rst, Seen, Send, Step
from support.soak import part_of

pytestmark = pytest.mark.usefixtures("no_jitter")

FRAMES = {**rich_answers.FRAMES, "responses": rich_answers.responses()}
ENDS: dict[str, Step] = {"end": End(), "fin": Fin(), "rst": Rst()}
CODES = {"end": "upstream_stream_truncated", "fin": "upstream_stream_truncated", "rst": "upstream_stream_reset"}
_CHANGING = ("id", "item_id", "call_id", "encrypted_content", "created_at", "completed_at", "model")
"""What differs from answer to answer."""


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
    parts = 8 if kind == "responses" else 4
    return sorted({Cut(0, "fin"), *part_of(chosen, parts), *part_of([Cut(at, "fin") for at in inside], parts)})


def script_for(kind: str) -> Any:
    body = b"".join(FRAMES[kind])

    def chosen(request: Seen) -> Sequence[Step]:
        found = re.search(rb"cut-(\d+)-(\w+)", request.path.encode() + request.body)
        assert found is not None
        return [Head(), Send(body[: int(found[1])]), ENDS[found[2].decode()]]

    return chosen


def plain(value: Any) -> Any:
    """Without what differs from answer to answer."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items() if name not in _CHANGING}
    return [plain(each) for each in value] if isinstance(value, list) else value


def assert_whole(response: dict[str, Any], is_told: bool = True) -> None:
    """`is_told`: the usage, by the provider."""
    assert response["status"] == "completed"
    said: dict[str, list[Any]] = {"reasoning": [], "message": [], "function_call": []}
    for item in response["output"]:
        if item["type"] == "function_call":
            said["function_call"].append((item["name"], json.loads(item["arguments"])))
        else:
            (part,) = item.get("content") or item["summary"]
            said[item["type"]].append(part["text"])
    assert said == {
        "reasoning": ["".join(REASONING)],
        "message": ["".join(TEXT)],
        "function_call": [(name, arguments) for _, name, arguments in CALLS],
    }
    if is_told:
        assert (response["usage"]["input_tokens"], response["usage"]["output_tokens"]) == USAGE


def complete_from(kind: str) -> int:
    """Where the wire has said that it is all, but for line ends. OpenAI's finish is that, if the body then ends."""
    frames = FRAMES[kind]
    return sum(map(len, frames[:-2] if kind == "openai" else frames)) - 4


def check(kind: str, cut: Cut, reply: Reply, record: RequestRecord, full: list[Any]) -> None:
    assert record.dialect == "responses"
    if record.verdict == "completed":
        assert cut.offset >= complete_from(kind)
        assert_whole(read_documents(documents_of(reply.body)), record.usage_source == "provider")
        return
    code = CODES[cut.how] if cut.offset or cut.how != "end" else "upstream_empty_response"
    assert (record.verdict, record.error, record.status) == ("truncated", code, reply.status)
    if reply.status != 200:
        assert_refused(reply, code, "responses")
        assert 1 <= len(record.attempts) <= 3
        return
    assert len(record.attempts) == 1, "never again, once something was sent"
    documents = documents_of(reply.body)
    *came, error, failed = documents
    if kind == "responses":  # items that were passed on are not kept, so they are not repeated
        assert (failed["type"], failed["response"]["output"]) == ("response.failed", [])
        assert_responses_error({**failed["response"], "error_frame": error["error"]}, code)
    else:
        assert_responses_error(read_documents(documents), code)
    assert plain(came) == full[: len(came)]
    assert b"response.completed" not in reply.body
    if kind == "responses":
        assert b"".join(FRAMES[kind]).startswith(reply.body[: reply.body.rindex(b"event: error")])
        assert record.completion_id == failed["response"]["id"] == documents[0]["response"]["id"]
    assert record.usage is not None
    assert record.usage_source in ("provider", "estimate", "tokenizer")
    assert record.usage.completion_tokens > 0


@pytest.mark.parametrize("kind", FRAMES)
async def test_u17_u18_u20_a_stream_cut(kind: str) -> None:
    cuts = cuts_of(kind)
    everything = Cut(sum(map(len, FRAMES[kind])), "end")
    is_passed = kind == "responses"
    setting = 'wire = "responses"\n' if is_passed else ""
    async with nothing_left(), serving(script_for(kind), "openai" if is_passed else kind, own=setting) as (gate, _):
        replies = []
        async with await gate.connect() as client:
            for cut in (everything, *cuts):
                await client.send(responses_request(model=f"up/cut-{cut.offset}-{cut.how}", stream=True))
                replies.append(await client.response())
        records = {record.id: record for record in await gate.settled(len(replies))}
        whole = documents_of(replies[0].body)
        assert_whole(read_documents(whole))
        seen = set()
        for cut, reply in zip(cuts, replies[1:], strict=True):
            try:
                check(kind, cut, reply, records[reply.header("x-request-id") or ""], plain(whole))
            except AssertionError as failure:
                failure.add_note(f"cut at {cut}: {reply}")
                raise
            seen.add(reply.status == 200)
        assert seen == {True, False}
