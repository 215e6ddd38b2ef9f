"""Splits the content of a simulated answer into deltas, and counts its tokens.

A choice is a sequence of parts: text, reasoning, a refusal, calls. `generate_deltas` yields its deltas in OpenAI's
format, one per token or in pieces of a given length, and stops at the caller's token limit. `fold` joins them for an
answer that is not streamed.

A token is a word of at most 16 characters or one other character, with the whitespace character before it. A longer run
of whitespace is a token of its own, and so is the name of a called function.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct

MAX_TOKENS = 16_384
"""The simulated model's own limit for all choices of an answer."""

_TOKEN = re.compile(r"\s?\w{1,16}|\s?[^\w\s]|\s{1,16}")


def split_tokens(text: str) -> Iterator[str]:
    return (found[0] for found in _TOKEN.finditer(text))


def count_tokens(text: str) -> int:
    return sum(1 for _ in _TOKEN.finditer(text))


class TokenTally(Struct):
    """The token counts of one answer so far."""

    prompt: int = 0
    completion: int = 0
    """Including the reasoning."""
    reasoning: int = 0


class Call(Struct, frozen=True):
    """A call of a function. `is_legacy`: as OpenAI's deprecated `function_call`."""

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
    """One part of a choice. With a `call`, the tokens are its arguments."""

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
    """The content of one chunk for one choice."""

    delta: dict[str, Any]
    finish: str | None = None


class _Budget:
    """The remaining tokens of a choice."""

    def __init__(self, max_tokens: float, tally: TokenTally) -> None:
        self.is_exceeded = False
        self._remaining = max_tokens
        self._tally = tally

    def spend(self, part: Part) -> bool:
        """Counts one token of the part. False if no token is left."""
        if not self._remaining:
            self.is_exceeded = True
            return False
        self._remaining -= 1
        self._tally.completion += 1
        self._tally.reasoning += part.member == "reasoning_content"
        return True

    def tokens(self, part: Part) -> Iterator[str]:
        """The tokens of the part, up to the limit."""
        for token in part.tokens:
            if not self.spend(part):
                return
            yield token


def generate_deltas(
    parts: Sequence[Part], tally: TokenTally, *, max_tokens: float, chunk: int | None, finish: str | None
) -> Iterator[ChunkContent]:
    """The deltas of a choice. Its finish reason is `finish`, or `length` if it exceeds `max_tokens`."""
    calls = [part.call for part in parts if part.call is not None]
    has_only_calls = bool(calls) and parts[0].call is not None
    yield ChunkContent({"role": "assistant", "content": None if has_only_calls else "", "refusal": None})
    budget = _Budget(max_tokens, tally)
    for part in parts:
        if part.call is not None and budget.spend(part):
            yield ChunkContent(part.call.opener)
        if not budget.is_exceeded:
            tokens = budget.tokens(part)
            for text in tokens if chunk is None else _pieces(tokens, chunk):
                yield ChunkContent(part.delta(text))
        if budget.is_exceeded:
            finish = "length"
            break
    if finish is None and calls:
        finish = "function_call" if calls[0].is_legacy else "tool_calls"
    yield ChunkContent({}, finish or "stop")


def fold(contents: Iterable[ChunkContent]) -> tuple[dict[str, Any], str | None]:
    """Joins the deltas of a choice into one message; also returns its finish reason."""
    texts: dict[str, list[str]] = {}
    calls: list[dict[str, Any]] = []
    word = None
    for delta, finish in contents:
        word = finish or word
        for name, value in delta.items():
            if isinstance(value, str):
                texts.setdefault(name, []).append(value)
            elif name == "tool_calls":
                _add_call(calls, value[0])
            elif name == "function_call":
                _add_call(calls, {"index": 0, "function": value})
    joined = {name: "".join(pieces) for name, pieces in texts.items()}
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None, "annotations": [], **joined}
    if "refusal" in joined:
        message["content"] = joined["content"] or None
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
    """Splits the text into pieces of `length` characters."""
    pending = ""
    for text in texts:
        pending += text
        while len(pending) >= length:
            yield pending[:length]
            pending = pending[length:]
    if pending:
        yield pending
