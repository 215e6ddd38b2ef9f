"""Events folded into a completion.

A whole answer has the same events as a streamed one, and they are folded here. So there is one mapping per provider,
not two, and concatenating the deltas gives the whole message by construction. Pieces are kept in lists and joined in
`fold`.
"""

from collections.abc import Sequence
from enum import StrEnum
from itertools import chain, groupby
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from streamweir.core.errors import StreamweirError
from streamweir.core.events import (
    ChoiceFinished,
    EmbeddingRead,
    Event,
    Extra,
    FinishReason,
    LogprobsDelta,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    StreamTagged,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageReported,
)
from streamweir.core.usage import Usage


class FoldedCall(Struct):
    id: str | None
    name: str
    arguments: str
    legacy: bool = False
    custom: bool = False


class Run(StrEnum):
    TEXT = "text"
    REASONING = "reasoning"
    REFUSAL = "refusal"
    CALL = "call"
    LOGPROBS = "logprobs"
    """Of the text that follows. `details` has the object, or nothing if there is none from here on."""
    ANNOTATIONS = "annotations"
    """Of the text before, if that has not ended, else of the text that follows. `details` has the members."""


class FoldedRun(Struct):
    """Consecutive output of one kind: it ends where output of another kind begins."""

    kind: Run
    text: str = ""
    details: list[dict[str, Any]] = field(default_factory=list)
    call: int = 0


class FoldedChoice(Struct):
    index: int
    text: str | None
    """None: no text was sent. That differs from an empty text."""
    reasoning: str | None
    reasoning_details: list[dict[str, Any]]
    refusal: str | None
    calls: list[FoldedCall]
    logprobs: dict[str, Any] | None | UnsetType
    extras: dict[str, Any]
    reason: FinishReason | None
    raw_reason: str
    stop_sequence: str | None = None
    runs: list[FoldedRun] = field(default_factory=list)
    """The same text, reasoning and calls, in the order in which they were received."""


class Completion(Struct):
    started: StreamStarted
    choices: list[FoldedChoice]
    usage: Usage | None
    extras: dict[str, Any]
    error: StreamweirError | None
    completed: bool
    """False before the terminal event, and after a failure."""
    embeddings: list[EmbeddingRead] = field(default_factory=list)


class _Call(Struct):
    id: str | None
    name: str
    legacy: bool
    custom: bool
    arguments: list[str] = field(default_factory=list)


class _Run(Struct):
    kind: Run
    pieces: list[str] = field(default_factory=list)
    details: list[dict[str, Any]] = field(default_factory=list)
    index: object = None
    call: int = 0


class _Choice(Struct):
    index: int
    runs: list[_Run] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    logprobs: dict[str, Any] | None | UnsetType = UNSET
    extras: list[dict[str, Any]] = field(default_factory=list)
    reason: FinishReason | None = None
    raw_reason: str = ""
    stop_sequence: str | None = None
    last_kind: Run | None = None
    blocks: int = 0

    def run(self, kind: Run) -> _Run:
        """The current run; a new one if the kind changes."""
        if not self.runs or self.runs[-1].kind is not kind:
            self.begin(_Run(kind), is_new_block=self.last_kind is not kind)
        return self.runs[-1]

    def begin(self, run: _Run, *, is_new_block: bool = True) -> None:
        self.last_kind = run.kind
        self.blocks += is_new_block
        self.runs.append(run)


class Accumulator:
    """Feed it every event of one stream, then `fold()`."""

    def __init__(self) -> None:
        self._started = StreamStarted()
        self._choices: dict[int, _Choice] = {}
        self._usage: Usage | None = None
        self._extras: dict[str, Any] = {}
        self._error: StreamweirError | None = None
        self._completed = False
        self._embeddings: list[EmbeddingRead] = []

    @property
    def blocks(self) -> int:
        """How often text, reasoning and calls took turns: writing a message takes time for each."""
        return sum(choice.blocks for choice in self._choices.values())

    def feed(self, event: Event, /) -> None:
        match event:
            case TextDelta():
                self._choice(event.choice).run(Run.TEXT).pieces.append(event.text)
            case ReasoningDelta():
                self._add_reasoning(self._choice(event.choice), event)
            case RefusalDelta():
                self._choice(event.choice).run(Run.REFUSAL).pieces.append(event.text)
            case ToolCallStarted():
                choice = self._choice(event.choice)
                choice.begin(_Run(Run.CALL, call=len(choice.calls)))
                choice.calls.append(_Call(event.id, event.name, event.legacy, event.custom))
            case ToolCallDelta():
                self._choice(event.choice).calls[event.call].arguments.append(event.arguments)
            case LogprobsDelta():
                choice = self._choice(event.choice)
                details = [event.logprobs] if isinstance(event.logprobs, dict) else []
                choice.runs.append(_Run(Run.LOGPROBS, details=details))
                if isinstance(event.logprobs, dict):
                    held = choice.logprobs if isinstance(choice.logprobs, dict) else {}
                    choice.logprobs = extend_logprobs(held, event.logprobs)
                elif event.logprobs is None and choice.logprobs is UNSET:
                    choice.logprobs = None
            case ChoiceFinished():
                choice = self._choice(event.choice)
                choice.reason, choice.raw_reason = event.reason, event.raw
                choice.stop_sequence = event.stop_sequence
            case UsageReported():
                self._usage = event.usage
            case StreamStarted():
                self._started = event
            case StreamTagged():
                self._tag(event)
            case Extra(choice=None):
                self._extras.update(event.fields)
            case Extra(choice=int(index)):
                choice = self._choice(index)
                choice.extras.append(event.fields)
                if "annotations" in event.fields:
                    choice.runs.append(_Run(Run.ANNOTATIONS, details=[event.fields]))
            case EmbeddingRead():
                self._embeddings.append(event)
            case StreamCompleted():
                self._completed = True
            case StreamFailed():
                self._error = event.error

    def fold(self) -> Completion:
        return Completion(
            started=self._started,
            choices=[_fold_choice(choice) for _, choice in sorted(self._choices.items())],
            usage=self._usage,
            extras=self._extras,
            error=self._error,
            completed=self._completed,
            embeddings=self._embeddings,
        )

    def _choice(self, index: int) -> _Choice:
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = _Choice(index)
        return choice

    def _add_reasoning(self, choice: _Choice, event: ReasoningDelta) -> None:
        run, index = choice.run(Run.REASONING), reasoning_index(event.details)
        if index is not None and run.index is not None and index != run.index:
            run = _Run(Run.REASONING)
            choice.begin(run)
        if index is not None:
            run.index = index
        if event.text:
            run.pieces.append(event.text)
        run.details.extend(event.details)

    def _tag(self, event: StreamTagged) -> None:
        old = self._started
        self._started = StreamStarted(
            old.id,
            old.model,
            old.created,
            old.system_fingerprint if event.system_fingerprint is UNSET else event.system_fingerprint,
            old.service_tier if event.service_tier is UNSET else event.service_tier,
        )


def join_text(pieces: list[str]) -> str:
    """The pieces as one text. A surrogate pair that the upstream split (an emoji) becomes one character again."""
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def reasoning_index(details: Sequence[dict[str, Any]]) -> object:
    """The index of the block that this reasoning belongs to: consecutive blocks have different ones. None: unknown."""
    return details[0].get("index") if details else None


def merge_details(pieces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`reasoning_details` as in a whole message: the streamed pieces of one entry are joined.

    Consecutive pieces with the same type and index belong to one entry.
    """
    return [_join_object(list(group), "text", "summary") for _, group in groupby(pieces, entry_key)]


def entry_key(piece: dict[str, Any]) -> object:
    """A key that is equal for the pieces of one entry. An entry that is never split gets a unique key."""
    kind, index = piece.get("type"), piece.get("index")
    is_piecewise = kind in ("reasoning.text", "reasoning.summary") and index is not None
    return (kind, index) if is_piecewise else object()


def _fold_choice(choice: _Choice) -> FoldedChoice:
    return FoldedChoice(
        index=choice.index,
        text=_text_of(choice, Run.TEXT),
        reasoning=_text_of(choice, Run.REASONING),
        reasoning_details=merge_details(
            [piece for run in choice.runs if run.kind is Run.REASONING for piece in run.details]
        ),
        refusal=_text_of(choice, Run.REFUSAL),
        calls=[
            FoldedCall(call.id, call.name, join_text(call.arguments), call.legacy, call.custom) for call in choice.calls
        ],
        logprobs=choice.logprobs,
        extras=_merge_extras(choice.extras),
        reason=choice.reason,
        raw_reason=choice.raw_reason,
        stop_sequence=choice.stop_sequence,
        runs=[FoldedRun(run.kind, join_text(run.pieces), run.details, run.call) for run in choice.runs],
    )


def _text_of(choice: _Choice, kind: Run) -> str | None:
    """Joined over all runs: the two halves of a surrogate pair can be in different runs."""
    pieces = [piece for run in choice.runs if run.kind is kind for piece in run.pieces]
    return join_text(pieces) if pieces else None


def extend_logprobs(held: dict[str, Any], piece: dict[str, Any]) -> dict[str, Any]:
    """Appends the piece's entries to `held`. `held` owns its lists; the piece is not changed."""
    for name, value in piece.items():
        if not isinstance(value, list):
            held.setdefault(name, value)
        elif isinstance(held.get(name), list):
            held[name].extend(value)
        else:
            held[name] = list(value)
    return held


def _merge_extras(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """The extra members of the deltas: lists are concatenated, an object (audio) is merged."""
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for piece in pieces for name in piece):
        values = [piece[name] for piece in pieces if name in piece]
        if all(isinstance(value, list) for value in values):
            merged[name] = list(chain.from_iterable(values))
        elif all(isinstance(value, dict) for value in values):
            merged[name] = _join_object(values, "data", "transcript")
        else:
            merged[name] = values[-1]
    return merged


def _join_object(pieces: list[dict[str, Any]], *growing: str) -> dict[str, Any]:
    """One object from its pieces: the `growing` texts are joined; the newest value of any other member is used."""
    whole: dict[str, Any] = {}
    for piece in pieces:
        whole.update((name, value) for name, value in piece.items() if value is not None or name not in whole)
    for name in growing:
        texts = [piece[name] for piece in pieces if isinstance(piece.get(name), str)]
        if texts:
            whole[name] = join_text(texts)
    return whole
