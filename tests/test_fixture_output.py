"""Every fixture through every dialect, the Messages API and the Responses API: the bytes that a caller would get.

Where a case has a `<dialect>.sse`, these are its exact bytes (`STREAMWEIR_UPDATE_FIXTURES=1`
writes them anew, to be read before they are kept). Every output is held to the rules of
docs/spec/dialects.md by the tests' own reading, and the streamed one to the buffered one.
"""

import json
import os
from pathlib import Path

import pytest

from streamweir.cli.commands.replay import replay
from support import responses
from support.comparison import joined
from support.dialect_output import Output, passed_frames, read_stream, read_whole
from support.dialect_rules import DIALECTS, Rules
from support.expected import Choice
from support.fixture_bodies import BODIES, ROOT, body_in, read_body
from support.messages import documents_of, read_documents
from support.soak import SOAKS, one_of_each, part_of

GOLDEN = sorted(path for rules in DIALECTS for path in ROOT.glob(f"*/*/{rules.name}.sse"))
CUTS = 200 if SOAKS else 3
UPDATES = os.environ.get("STREAMWEIR_UPDATE_FIXTURES") == "1"


def named(path: Path) -> str:
    return f"{path.parent.parent.name}/{path.parent.name}"


def named_value(value: Path | Rules) -> str:
    return named(value) if isinstance(value, Path) else value.name


def source_of(case: Path) -> str:
    return case.parent.name


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{named(path)}/{path.stem}")
def test_bytes_are_those_of_the_fixture(path: Path) -> None:
    case = path.parent
    out, _ = replay(body_in(case), source=source_of(case), target=path.stem, model="vendor/model", usage=True)
    if UPDATES:
        path.write_bytes(out)
    assert out == path.read_bytes()


@pytest.mark.parametrize(("path", "rules"), part_of(one_of_each(BODIES, DIALECTS), 2), ids=named_value)
def test_output_obeys_the_dialect(path: Path, rules: Rules) -> None:
    body, source = read_body(path), source_of(path.parent)
    passed = passed_frames(body)
    for asked in (True, False):
        out, completed = replay(body, source=source, target=rules.name, model="vendor/model", usage=asked)
        streamed = read_stream(out, rules, asked, passed)
        assert (streamed.error is None) is completed
        if rules.is_bitseek:
            continue
        out, also_completed = replay(
            body, source=source, target=rules.name, model="vendor/model", usage=asked, buffered=True
        )
        assert completed is also_completed
        buffered = read_whole(out, rules, passed)
        if completed:
            assert told(streamed) == told(buffered), "the deltas concatenate to the buffered message"
            assert streamed.usage in (None, buffered.usage)


@pytest.mark.parametrize("path", part_of(BODIES, 4), ids=named)
def test_output_obeys_the_messages_api(path: Path) -> None:
    body, source = read_body(path), source_of(path.parent)
    out, completed = replay(body, source=source, target="messages", model="claude-x", id="msg_1")
    streamed = read_documents(documents_of(out))
    assert ("error" in streamed) is not completed
    out, also_completed = replay(body, source=source, target="messages", model="claude-x", id="msg_1", buffered=True)
    assert completed is also_completed
    buffered = json.loads(out)
    assert (buffered["type"] == "message") is completed
    if completed:
        # By how long a cache holds what was written is told at the start, where this may not be known yet.
        for usage in (streamed["usage"], buffered["usage"]):
            usage.pop("cache_creation", None)
        one, other = (joined(json.dumps(message, ensure_ascii=False)) for message in (streamed, buffered))
        assert one == other


@pytest.mark.parametrize("path", part_of(BODIES, 4), ids=named)
def test_output_obeys_the_responses_api(path: Path) -> None:
    body, source = read_body(path), source_of(path.parent)
    out, completed = replay(body, source=source, target="responses", model="gpt-x", id="resp_1")
    documents = responses.documents_of(out)
    streamed = responses.read_documents(documents)
    assert (streamed["status"] in ("completed", "incomplete")) is completed
    out, also_completed = replay(body, source=source, target="responses", model="gpt-x", id="resp_1", buffered=True)
    assert completed is also_completed
    buffered = json.loads(out)
    assert ("error" in buffered and buffered["error"] is not None) is not completed
    if completed:
        one, other = (joined(json.dumps(response, ensure_ascii=False)) for response in (streamed, buffered))
        assert one == other
        assert usage_through_chat(body, source) == streamed["usage"]["total_tokens"]


@pytest.mark.parametrize("path", part_of(BODIES, 4), ids=named)
def test_a_cut_anywhere_gives_a_stream_of_the_responses_api_with_one_end(path: Path) -> None:
    body, source = read_body(path), source_of(path.parent)
    for cut in range(0, len(body), max(1, len(body) // CUTS)):
        out, completed = replay(body[:cut], source=source, target="responses", model="gpt-x", id="resp_1")
        response = responses.read_documents(responses.documents_of(out))
        assert (response["status"] in ("completed", "incomplete")) is completed


def usage_through_chat(body: bytes, source: str) -> int:
    out, _ = replay(body, source=source, target="openai", model="gpt-x", usage=True, buffered=True)
    tokens: int = json.loads(out)["usage"]["total_tokens"]
    return tokens


def calls(choice: Choice) -> list[object]:
    return [(call.id, call.name, joined(str(call.arguments)), call.legacy) for call in choice.calls]


def told(output: Output) -> list[object]:
    """What an answer says, whichever way it was sent."""
    return [
        (index, joined(choice.text), choice.reasoning, choice.refusal, choice.finish, choice.logprobs, calls(choice))
        for index, choice in sorted(output.choices.items())
    ]
