"""What an endpoint answered to the requests of a plan, as rules look at it: by name, read, never guessed.

An `ProbeSession` is made by `conformance.probe` and is a value from then on. A question that was not put, or got no
answer, has a reason, and a rule that would need the answer is skipped with that reason. It knows neither
sockets nor dialects.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from streamweir.conformance.parsed_answer import Frame, Json, Reading, is_count, read, read_json
from streamweir.conformance.plan import ProbeRequest
from streamweir.conformance.recording import Exchange, Kind, Recording

_BESIDE_THE_POINT = frozenset({"wrong-method", "elsewhere"})
"""No dialect's document speaks of what is answered there."""


class Loss(StrEnum):
    """Why an answer has no end, or is not there."""

    UNREACHABLE = "unreachable"
    CUT = "cut"
    """The endpoint ended the connection within the answer, or wrote what is not HTTP."""
    LATE = "late"
    """It took longer than it was given."""
    LARGE = "large"
    """More came than was read."""
    CODED = "coded"
    """In a content encoding that cannot be undone."""


class ObservedExchange(Exchange, frozen=True, kw_only=True):
    ask: ProbeRequest
    loss: Loss | None = None
    connection: int | None = None
    """Two answers with the same number came on one kept connection."""
    has_leaked: bool = False
    """The key stood in the answer. It is masked in the recording."""


@dataclass(frozen=True)
class AnswerContent:
    """An answer's sense, streamed or whole, as far as its members are of the right types."""

    texts: dict[int, str] = field(default_factory=dict)
    finishes: dict[int, str] = field(default_factory=dict)
    calls: dict[int, list[tuple[str, str]]] = field(default_factory=dict)
    """By choice: names and arguments."""
    usage: Mapping[str, Any] | None = None
    id: str | None = None

    @property
    def prompt_tokens(self) -> int | None:
        return self._count("prompt_tokens")

    @property
    def completion_tokens(self) -> int | None:
        return self._count("completion_tokens")

    def _count(self, name: str) -> int | None:
        value = (self.usage or {}).get(name)
        return value if isinstance(value, int) and is_count(value) else None


class ProbeSession:
    def __init__(
        self, heard: Iterable[ObservedExchange], unasked: Mapping[str, str] | None = None, *, sent: int = 0
    ) -> None:
        """`unasked`: why a question was not put. `sent`: how many requests it took."""
        self.heard = tuple(heard)
        self.sent = sent
        self._by_name = {each.name: each for each in self.heard}
        self._unasked = dict(unasked or {})

    def why_missing(self, *names: str) -> str | None:
        """Why there is no answer of any status to one of these. None: there is one to each."""
        for name in names:
            heard = self._by_name.get(name)
            if heard is None:
                return self._unasked.get(name, f"{name} was not asked")
            if heard.recording is None or heard.recording.status is None:
                return f"{name} got no answer: {heard.failure or 'nothing came'}"
        return None

    def why_unanswered(self, *names: str) -> str | None:
        """As `why_missing`; an answer must be a good one, and have come whole."""
        for name in names:
            reason = self.why_missing(name)
            if reason is not None:
                return reason
            recording = self.recording(name)
            if recording.status != 200:
                return f"{name} was answered with status {recording.status}"
            if recording.was_cut:
                return f"{name} was not read to its end: {self._by_name[name].failure or 'it was left'}"
        return None

    def of(self, name: str) -> ObservedExchange:
        return self._by_name[name]

    def recording(self, name: str) -> Recording:
        recording = self._by_name[name].recording
        assert recording is not None  # noqa: S101 (for the type checker: see `why_missing`)
        return recording

    def reading(self, name: str) -> Reading:
        return self._readings[name]

    def said(self, name: str) -> AnswerContent:
        return said(self._readings[name])

    def json(self, name: str) -> Json:
        return read_json(self.recording(name).body)

    def error(self, name: str) -> Mapping[str, Any] | None:
        """The `error` object of a failed response; None: it has none."""
        document = self.json(name).value
        error = document.get("error") if isinstance(document, dict) else None
        return error if isinstance(error, dict) else None

    @cached_property
    def _readings(self) -> dict[str, Reading]:
        return {each.name: read(each.recording) for each in self.heard if each.recording is not None}

    @property
    def readings(self) -> list[Reading]:
        """What the rules for one answer look at."""
        return [reading for name, reading in self._readings.items() if name not in _BESIDE_THE_POINT]

    @property
    def has_answer(self) -> bool:
        """Anything was answered well at all."""
        return any(each.recording is not None and each.recording.status == 200 for each in self.heard)


def why_passing(interview: ProbeSession, name: str) -> str | None:
    """A fault or a limit came first: it says nothing about the request."""
    status = interview.recording(name).status
    if status is not None and (status >= 500 or status == 429):
        return f"{name} was answered with status {status}"
    return None


def said(reading: Reading) -> AnswerContent:
    if reading.kind is Kind.STREAM:
        return _said_in_stream(reading)
    document = reading.body.value
    return _said_whole(document) if isinstance(document, dict) else AnswerContent()


def arrival_s(recording: Recording, frame: Frame) -> float | None:
    """When the last byte of a frame had come, in seconds since the request was sent. None: not recorded."""
    last = frame.offset + len(frame.raw) - 1
    at = bisect_right(recording.pieces, last, key=lambda piece: piece.offset)
    return recording.pieces[at - 1].at_s if at else None


def text_frames(reading: Reading) -> list[Frame]:
    """Those that bring something of the answer itself: text, reasoning, a call."""
    frames: list[Frame] = []
    for part in reading.parts:
        brings = any(part.delta.get(name) for name in ("content", "reasoning_content", "refusal", "tool_calls"))
        if brings and (not frames or frames[-1] is not part.frame):
            frames.append(part.frame)
    return frames


def _said_in_stream(reading: Reading) -> AnswerContent:
    texts: dict[int, list[str]] = {}
    finishes: dict[int, str] = {}
    for part in reading.parts:
        pieces = texts.setdefault(part.index, [])
        for name in ("content", "refusal"):
            text = part.delta.get(name)
            if isinstance(text, str):
                pieces.append(text)
        if part.finish is not None:
            finishes.setdefault(part.index, part.finish)
    calls: dict[int, list[tuple[str, str]]] = {}
    for (choice, _), call in sorted(reading.calls.items()):
        names = [piece.function.get("name") for piece in call.pieces]
        calls.setdefault(choice, []).append((next((n for n in names if isinstance(n, str)), ""), call.arguments))
    documents = [frame.document or {} for frame in reading.chunks]
    usages = [usage for each in documents if isinstance(usage := each.get("usage"), dict)]
    ids = [id for each in documents if isinstance(id := each.get("id"), str)]
    return AnswerContent(
        texts={index: "".join(pieces) for index, pieces in texts.items()},
        finishes=finishes,
        calls=calls,
        usage=usages[-1] if usages else None,
        id=ids[0] if ids else None,
    )


def _said_whole(document: dict[str, Any]) -> AnswerContent:
    texts, finishes, calls = {}, {}, {}
    choices = document.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        message = choice.get("message") if isinstance(choice, dict) else None
        index = choice.get("index") if isinstance(choice, dict) else None
        if not isinstance(message, dict) or type(index) is not int:
            continue
        spoken = [message.get("content"), message.get("refusal")]
        texts[index] = "".join(text for text in spoken if isinstance(text, str))
        if isinstance(choice.get("finish_reason"), str):
            finishes[index] = choice["finish_reason"]
        if named := list(_whole_calls(message.get("tool_calls"))):
            calls[index] = named
    usage, id = document.get("usage"), document.get("id")
    return AnswerContent(
        texts=texts,
        finishes=finishes,
        calls=calls,
        usage=usage if isinstance(usage, dict) else None,
        id=id if isinstance(id, str) else None,
    )


def _whole_calls(sent: object) -> Iterable[tuple[str, str]]:
    for call in sent if isinstance(sent, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            name, arguments = function.get("name"), function.get("arguments")
            yield (name if isinstance(name, str) else "", arguments if isinstance(arguments, str) else "")
