"""The answers of an endpoint to the requests of a plan, parsed, by the names of the requests.

`conformance.probe` makes a `ProbeSession`; it does not change afterwards. A request that was not sent or not answered
has a reason, and rules that need its answer are skipped with that reason. This module knows neither sockets nor
dialects.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from streamweir.conformance.parsed_answer import Frame, ParsedAnswer, ParsedJson, is_count, parse_answer, parse_json
from streamweir.conformance.plan import ProbeRequest
from streamweir.conformance.recording import Exchange, Kind, Recording

_OUTSIDE_DIALECTS = frozenset({"wrong-method", "elsewhere"})
"""No dialect specifies the answers to these requests."""


class FailureKind(StrEnum):
    """Why an answer is missing or incomplete."""

    UNREACHABLE = "unreachable"
    CUT = "cut"
    """The endpoint closed the connection before the end of the answer, or sent something that is not HTTP."""
    TIMED_OUT = "timed_out"
    TOO_LARGE = "too_large"
    UNDECODABLE = "undecodable"
    """Its content encoding cannot be decoded."""


class ObservedExchange(Exchange, frozen=True, kw_only=True):
    probe_request: ProbeRequest
    failure_kind: FailureKind | None = None
    connection: int | None = None
    """Answers with the same number were received on the same connection."""
    leaked_key: bool = False
    """The answer contained the key. It is masked in the recording."""


@dataclass(frozen=True)
class AnswerContent:
    """The content of an answer, streamed or whole. Members of a wrong type are left out."""

    texts: dict[int, str] = field(default_factory=dict)
    finish_reasons: dict[int, str] = field(default_factory=dict)
    calls: dict[int, list[tuple[str, str]]] = field(default_factory=dict)
    """Names and arguments, by choice."""
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
        self,
        exchanges: Iterable[ObservedExchange],
        not_sent: Mapping[str, str] | None = None,
        *,
        request_count: int = 0,
    ) -> None:
        """`not_sent`: the reasons why requests were not sent, by name. `request_count`: including repeated requests."""
        self.exchanges = tuple(exchanges)
        self.request_count = request_count
        self._by_name = {each.name: each for each in self.exchanges}
        self._not_sent = dict(not_sent or {})

    def why_missing(self, *names: str) -> str | None:
        """Why one of these requests has no answer of any status. None if each has one."""
        for name in names:
            exchange = self._by_name.get(name)
            if exchange is None:
                return self._not_sent.get(name, f"{name} was not asked")
            if exchange.recording is None or exchange.recording.status is None:
                return f"{name} got no answer: {exchange.failure or 'nothing came'}"
        return None

    def why_unanswered(self, *names: str) -> str | None:
        """As `why_missing`; an answer must also have status 200 and be complete."""
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

    def exchange(self, name: str) -> ObservedExchange:
        return self._by_name[name]

    def recording(self, name: str) -> Recording:
        recording = self._by_name[name].recording
        assert recording is not None  # noqa: S101 (for the type checker: see `why_missing`)
        return recording

    def parsed(self, name: str) -> ParsedAnswer:
        return self._parsed[name]

    def content(self, name: str) -> AnswerContent:
        return content_of(self._parsed[name])

    def json(self, name: str) -> ParsedJson:
        return parse_json(self.recording(name).body)

    def error(self, name: str) -> Mapping[str, Any] | None:
        """The `error` object of a failed response; None if it has none."""
        document = self.json(name).value
        error = document.get("error") if isinstance(document, dict) else None
        return error if isinstance(error, dict) else None

    @cached_property
    def _parsed(self) -> dict[str, ParsedAnswer]:
        return {each.name: parse_answer(each.recording) for each in self.exchanges if each.recording is not None}

    @property
    def parsed_answers(self) -> list[ParsedAnswer]:
        """The answers that are checked by the rules for single answers."""
        return [answer for name, answer in self._parsed.items() if name not in _OUTSIDE_DIALECTS]

    @property
    def has_answer(self) -> bool:
        """At least one request was answered with status 200."""
        return any(each.recording is not None and each.recording.status == 200 for each in self.exchanges)


def why_inconclusive(session: ProbeSession, name: str) -> str | None:
    """A server error or a rate limit: the answer shows nothing about the request."""
    status = session.recording(name).status
    if status is not None and (status >= 500 or status == 429):
        return f"{name} was answered with status {status}"
    return None


def content_of(answer: ParsedAnswer) -> AnswerContent:
    if answer.kind is Kind.STREAM:
        return _stream_content(answer)
    document = answer.body.value
    return _body_content(document) if isinstance(document, dict) else AnswerContent()


def arrival_s(recording: Recording, frame: Frame) -> float | None:
    """When the last byte of a frame arrived, in seconds since the request was sent. None: not recorded."""
    last = frame.offset + len(frame.raw) - 1
    at = bisect_right(recording.pieces, last, key=lambda piece: piece.offset)
    return recording.pieces[at - 1].at_s if at else None


def text_frames(answer: ParsedAnswer) -> list[Frame]:
    """The frames that contain a part of the answer: text, reasoning, a refusal or a call."""
    frames: list[Frame] = []
    for part in answer.parts:
        has_content = any(part.delta.get(name) for name in ("content", "reasoning_content", "refusal", "tool_calls"))
        if has_content and (not frames or frames[-1] is not part.frame):
            frames.append(part.frame)
    return frames


def _stream_content(answer: ParsedAnswer) -> AnswerContent:
    texts: dict[int, list[str]] = {}
    finish_reasons: dict[int, str] = {}
    for part in answer.parts:
        pieces = texts.setdefault(part.index, [])
        for name in ("content", "refusal"):
            text = part.delta.get(name)
            if isinstance(text, str):
                pieces.append(text)
        if part.finish is not None:
            finish_reasons.setdefault(part.index, part.finish)
    calls: dict[int, list[tuple[str, str]]] = {}
    for (choice, _), call in sorted(answer.calls.items()):
        names = [piece.function.get("name") for piece in call.pieces]
        calls.setdefault(choice, []).append((next((n for n in names if isinstance(n, str)), ""), call.arguments))
    documents = [frame.document or {} for frame in answer.chunks]
    usages = [usage for each in documents if isinstance(usage := each.get("usage"), dict)]
    ids = [id for each in documents if isinstance(id := each.get("id"), str)]
    return AnswerContent(
        texts={index: "".join(pieces) for index, pieces in texts.items()},
        finish_reasons=finish_reasons,
        calls=calls,
        usage=usages[-1] if usages else None,
        id=ids[0] if ids else None,
    )


def _body_content(document: dict[str, Any]) -> AnswerContent:
    texts, finish_reasons, calls = {}, {}, {}
    choices = document.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        message = choice.get("message") if isinstance(choice, dict) else None
        index = choice.get("index") if isinstance(choice, dict) else None
        if not isinstance(message, dict) or type(index) is not int:
            continue
        texts_of_message = [message.get("content"), message.get("refusal")]
        texts[index] = "".join(text for text in texts_of_message if isinstance(text, str))
        if isinstance(choice.get("finish_reason"), str):
            finish_reasons[index] = choice["finish_reason"]
        if found := list(_whole_calls(message.get("tool_calls"))):
            calls[index] = found
    usage, id = document.get("usage"), document.get("id")
    return AnswerContent(
        texts=texts,
        finish_reasons=finish_reasons,
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
