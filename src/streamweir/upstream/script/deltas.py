"""What a simulated model says, cut into deltas and counted.

A choice is a sequence of parts: text, reasoning, a refusal, calls. `say` gives its deltas as they
stand in OpenAI's chunks, one per token or in pieces of a chosen length, and breaks off where the
caller's limit is reached; `fold` puts them together again for an answer that is not streamed.

A token here is a word of at most 16 characters or one other sign, with the blank before it; a
longer run of blanks is a token by itself. So is the name of a function that is called.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct

MOST_TOKENS = 16_384
"""Of one answer, over all its choices: the simulated model's own limit."""

_TOKEN = re.compile(r"\s?\w{1,16}|\s?[^\w\s]|\s{1,16}")


def tokens_of(text: str) -> Iterator[str]:
    return (found[0] for found in _TOKEN.finditer(text))


def count_tokens(text: str) -> int:
    return sum(1 for _ in _TOKEN.finditer(text))


class TokenTally(Struct):
    """The tokens of one answer so far."""

    prompt: int = 0
    completion: int = 0
    """With the reasoning in it."""
    reasoning: int = 0


class Call(Struct, frozen=True):
    """Which function is called. `is_legacy`: as OpenAI's deprecated `function_call`."""

    ordinal: int
    id: str
    name: str
    is_legacy: bool = False

    @property
    def opener(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": ""}
        if self.is_legacy:
            return {"function_call": function}
        return {"tool_calls": [{"index": self.ordinal, "id": self.id, "type": "function", "function": function}]}


class Part(Struct, frozen=True):
    """One stretch of a choice. With a `call`, the tokens are its arguments."""

    tokens: Iterable[str]
    member: Literal["content", "refusal", "reasoning_content"] = "content"
    call: Call | None = None

    def delta(self, text: str) -> dict[str, Any]:
        if self.call is None:
            return {self.member: text}
        if self.call.is_legacy:
            return {"function_call": {"arguments": text}}
        return {"tool_calls": [{"index": self.call.ordinal, "function": {"arguments": text}}]}


class ChunkContent(NamedTuple):
    """What one chunk says of one choice."""

    delta: dict[str, Any]
    finish: str | None = None


class _Budget:
    """How many tokens a choice may still have."""

    def __init__(self, most: float, tally: TokenTally) -> None:
        self.is_overdrawn = False
        self._left = most
        self._tally = tally

    def takes(self, part: Part) -> bool:
        """Pays for one token of the part. False: there is none left."""
        if not self._left:
            self.is_overdrawn = True
            return False
        self._left -= 1
        self._tally.completion += 1
        self._tally.reasoning += part.member == "reasoning_content"
        return True

    def tokens(self, part: Part) -> Iterator[str]:
        """The part's, as far as they can be paid for."""
        for token in part.tokens:
            if not self.takes(part):
                return
            yield token


def say(
    parts: Sequence[Part], tally: TokenTally, *, most: float, chunk: int | None, finish: str | None
) -> Iterator[ChunkContent]:
    """A choice, delta by delta. It finishes with `finish`, or with `length` where it has more than `most` tokens."""
    calls = [part.call for part in parts if part.call is not None]
    is_silent = bool(calls) and parts[0].call is not None
    yield ChunkContent({"role": "assistant", "content": None if is_silent else "", "refusal": None})
    budget = _Budget(most, tally)
    for part in parts:
        if part.call is not None and budget.takes(part):
            yield ChunkContent(part.call.opener)
        if not budget.is_overdrawn:
            tokens = budget.tokens(part)
            for text in tokens if chunk is None else _pieces(tokens, chunk):
                yield ChunkContent(part.delta(text))
        if budget.is_overdrawn:
            finish = "length"
            break
    if finish is None and calls:
        finish = "function_call" if calls[0].is_legacy else "tool_calls"
    yield ChunkContent({}, finish or "stop")


def fold(turns: Iterable[ChunkContent]) -> tuple[dict[str, Any], str | None]:
    """A choice's deltas as one message, and the word that it finished with."""
    texts: dict[str, list[str]] = {}
    calls: list[dict[str, Any]] = []
    word = None
    for delta, finish in turns:
        word = finish or word
        for name, value in delta.items():
            if isinstance(value, str):
                texts.setdefault(name, []).append(value)
            elif name == "tool_calls":
                _add_call(calls, value[0])
            elif name == "function_call":
                _add_call(calls, {"index": 0, "function": value})
    told = {name: "".join(pieces) for name, pieces in texts.items()}
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None, "annotations": [], **told}
    if "refusal" in told:
        message["content"] = told["content"] or None
    if calls and "id" in calls[0]:
        message["tool_calls"] = calls
    elif calls:
        message["function_call"] = calls[0]["function"]
    return message, word


def _add_call(calls: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    if piece["index"] == len(calls):
        opener = {name: value for name, value in piece.items() if name != "index"}
        calls.append({**opener, "function": dict(piece["function"])})
    else:
        calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]


def _pieces(texts: Iterable[str], length: int) -> Iterator[str]:
    """The same text in pieces of `length` characters."""
    held = ""
    for text in texts:
        held += text
        while len(held) >= length:
            yield held[:length]
            held = held[length:]
    if held:
        yield held
