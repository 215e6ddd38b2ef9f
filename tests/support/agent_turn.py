"""A turn of a model, and a request for one, whatever wire they are on; and what such a wire can do.

`support.agent_wires` has the wires, `support.agent_model` the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from support.script import Seen, Step


@dataclass(frozen=True)
class ToolCall:
    id: str
    name: str
    arguments: dict[str, Any]
    is_custom: bool = False
    """It has text, in the argument `input`, and no schema."""


@dataclass(frozen=True)
class ToolResult:
    id: str
    """Of its call."""
    text: str


@dataclass(frozen=True)
class Turn:
    """One turn of the model: as it is sent, or as it comes back in the history."""

    reasoning: tuple[str, ...] = ()
    signature: str = ""
    texts: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True)
class TokenCounts:
    """Of one answer. `cached` is a part of `prompt`, `reasoning` a part of `completion`."""

    prompt: int
    cached: int
    completion: int
    reasoning: int = 0


@dataclass(frozen=True)
class ModelRequest:
    """What a request of any wire says."""

    model: str
    is_streamed: bool
    tools: dict[str, dict[str, Any]]
    """The schema of the arguments, by name."""
    turns: tuple[Turn, ...]
    """Of the model, so far."""
    results: tuple[ToolResult, ...]
    texts: tuple[str, ...]
    """Of the user and the system, in their order."""
    wants_json: bool
    max_tokens: int | None
    custom_tools: frozenset[str] = frozenset()
    """Those of the tools that take text. On a wire that has none they are functions with one argument, `input`."""


@dataclass(frozen=True)
class AnswerId:
    model: str
    number: int
    """Each answer has its own: Claude Code merges turns with equal ids."""


class Wire(Protocol):
    name: str

    def read(self, request: Seen, /) -> ModelRequest: ...

    def frames(self, turn: Turn, tokens: TokenCounts, answer_id: AnswerId, /) -> list[bytes]: ...

    def whole(self, turn: Turn, tokens: TokenCounts, answer_id: AnswerId, /) -> bytes: ...

    def error(self, status: int, message: str, /) -> bytes: ...

    def context_error(self) -> bytes: ...


class Fault(Protocol):
    """The steps that replace an answer, from its frames."""

    def __call__(self, wire: Wire, frames: Sequence[bytes], /) -> Sequence[Step]: ...
