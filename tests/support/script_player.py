"""The simulator's scripts played without a loop, and what came of it in the plain shapes that tests compare."""

import json
from itertools import islice
from typing import Any

from streamweir.upstream.script import END, Head, Step, play

CREATED = 1_750_000_000
USER = {"role": "user", "content": "Say this, please."}
DONE = b"data: [DONE]\n\n"


def body_of(model: object, **more: Any) -> bytes:
    """A request's body: streamed, with usage asked for, unless `stream` or `asked` say otherwise."""
    stream, asked = more.pop("stream", True), more.pop("asked", True)
    options = {"stream": True, "stream_options": {"include_usage": asked}} if stream else {}
    return json.dumps({"model": model, "messages": [USER], **options, **more}).encode()


def steps(model: object, most: int = 100_000, **more: Any) -> list[Step]:
    return list(islice(play(body_of(model, **more), created=CREATED, entropy=bytes(24)), most))


def blocks_of(model: str, **more: Any) -> tuple[list[bytes], Any]:
    """The body of an answer that began with status 200, block by block, and what came last; None: silence."""
    head, *others = [step.action for step in steps(model, **more)]
    assert isinstance(head, Head)
    assert head.status == 200
    blocks = [action for action in others if isinstance(action, bytes)]
    assert blocks == others[: len(blocks)]
    assert len(others) - len(blocks) <= 1
    return blocks, others[-1] if len(others) > len(blocks) else None


def frames(model: str, **more: Any) -> list[Any]:
    """The documents of a streamed answer that completes, without the sentinel."""
    blocks, end = blocks_of(model, **more)
    assert end == END
    assert blocks.pop() == DONE
    for block in blocks:
        assert block.startswith(b"data: {")
        assert block.endswith(b"}\n\n")
    return [json.loads(block[6:]) for block in blocks]


def whole(model: str, **more: Any) -> dict[str, Any]:
    blocks, end = blocks_of(model, stream=False, **more)
    assert end == END
    document: dict[str, Any] = json.loads(b"".join(blocks))
    return document


def deltas(model: str, index: int = 0, member: str = "content", **more: Any) -> list[Any]:
    """What a choice says in one member, piece by piece, without the empty one of the opening."""
    choices = [choice for frame in frames(model, **more) for choice in frame["choices"] if choice["index"] == index]
    return [choice["delta"][member] for choice in choices if choice["delta"].get(member)]


def said(model: str, **more: Any) -> str:
    return "".join(deltas(model, **more))


def finish_of(model: str, **more: Any) -> str:
    words = [choice["finish_reason"] for frame in frames(model, **more) for choice in frame["choices"]]
    assert words[:-1] == [None] * (len(words) - 1)
    return str(words[-1])


def error_of(model: object, **more: Any) -> tuple[Head, dict[str, Any]]:
    """A failed response."""
    head, body, end = [step.action for step in steps(model, **more)]
    assert isinstance(head, Head)
    assert isinstance(body, bytes)
    assert end == END
    error: dict[str, Any] = json.loads(body)["error"]
    return head, error
