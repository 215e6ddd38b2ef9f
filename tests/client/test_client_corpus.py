"""`parse` over every recorded stream of an OpenAI-shaped service, judged by a reading of the tests' own.

What the recording carries is what the client has, piece by piece or at once; and one that lacks its end, or ends in an
error, is never whole. `make test` takes every eighth, `make soak` all.
"""

import json
import random

import pytest

from streamweir.client import ClientError, StreamBroken, StreamError, StreamTruncated
from support.client_result import joined, outcome, told
from support.corpus import PARTS, WHY_MISSING, Recording, recordings
from support.reading import read_recording
from support.soak import part_of

RECORDINGS = part_of([each for each in recordings() if each.family == "openai-chat"], PARTS)
if not RECORDINGS:
    pytest.skip(WHY_MISSING, allow_module_level=True)

STREAMS = [each for each in RECORDINGS if not each.is_whole]
WHOLE = [each for each in RECORDINGS if each.is_whole and not each.is_error]


def named(recording: Recording) -> str:
    return recording.name


def cut(body: bytes, seed: int) -> list[bytes]:
    rng = random.Random(seed)
    places = sorted(rng.randrange(len(body) + 1) for _ in range(20))
    return [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]


@pytest.mark.parametrize("recording", STREAMS, ids=named)
def test_a_stream(recording: Recording) -> None:
    body = recording.body()
    completion, error = outcome(body, dialect="openai")
    assert told(*outcome(*cut(body, 1), dialect="openai")) == told(completion, error)
    if recording.is_edited:
        return
    expected = read_recording(recording.family, body)
    judge_end(expected.ended, b"[DONE]" in body, error)
    for choice in completion.choices:
        wanted = expected.choices[choice.index]
        assert joined(choice.text or "") == joined(wanted.text)
        assert joined(choice.reasoning or "") == joined(wanted.reasoning)
        if error is None:
            assert [call.name for call in choice.tool_calls] == [call.name for call in wanted.calls]
            for call in choice.tool_calls:
                assert (call.problem is None) is is_object(call.arguments or "{}"), "cut off by a length, they are not"


@pytest.mark.parametrize("recording", WHOLE, ids=named)
def test_a_whole_answer(recording: Recording) -> None:
    body = recording.body()
    completion, error = outcome(body, dialect="openai")
    if recording.is_edited:
        return
    expected = read_recording(recording.family, body)
    assert (error is None) is (expected.ended == "complete")
    for choice in completion.choices:
        assert joined(choice.text or "") == joined(expected.choices[choice.index].text)


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def judge_end(ended: str, has_terminator: bool, error: ClientError | None) -> None:
    if ended == "error":
        assert isinstance(error, StreamBroken)
        assert not isinstance(error, StreamTruncated)
    elif ended == "complete" and has_terminator:
        assert error is None
    else:
        assert isinstance(error, StreamTruncated)
        assert error.is_finished is (ended == "complete")
        assert not isinstance(error, StreamError)
