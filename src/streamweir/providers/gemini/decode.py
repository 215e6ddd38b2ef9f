"""Gemini's frames to events.

A frame has a piece of every candidate's answer and a report of the usage so far. The protocol has no terminator: the
answer is complete when every candidate has a finish reason and the body then ends cleanly; if a requested candidate is
missing, the answer is truncated. A finish reason is not the end (Google's tools continue after a first STOP, and old
models send STOP on every frame), so choices are finished at the end of the body. A blocked prompt has no candidates: it
is an answer with the finish reason content_filter.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.core.events import (
    Event,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    UsageDiscarded,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.providers.base import documents_in, invalid_frame, missing_choices, too_many_choices, truncated
from streamweir.providers.gemini.answer import INVALID_REPORT, Answer, Candidate, Grounding, Report, read_answer
from streamweir.providers.gemini.choice import MALFORMED_CALL, UNSPECIFIED, Choice
from streamweir.providers.gemini.error import classify
from streamweir.providers.gemini.usage import searches_of, usage_of
from streamweir.wire import jsonio
from streamweir.wire.sse import Frame

_MAX_QUERIES = 1000


class Decoder:
    may_end_when_idle = False  # a candidate can continue after it has finished
    lacks_terminator = False  # this protocol has none

    def __init__(self, choices: int | None = None, *, is_whole: bool = False) -> None:
        self._requested = choices
        self._is_whole = is_whole  # not streamed: complete by itself, with or without a finish reason
        self._is_refused = False  # there was feedback about the prompt, and no candidate so far
        self._choices: dict[int, Choice] = {}
        self._report: Report | None = None
        self._queries: set[str] = set()
        self._searches: int | None = None
        self._has_searched = False  # since the last report
        self._model: str | None = None
        self._usage: Usage | None = None
        self._has_started = False
        self._has_ended = False

    def feed(self, frame: Frame, /) -> Sequence[Event]:
        if self._has_ended:
            return ()
        data = frame.data
        if data is None:
            return self._read_bare(frame)
        try:
            answer = read_answer(data)
        except jsonio.InvalidJson:
            if data == b"[DONE]":  # quirk: some proxies add it, Gemini does not (fixture gemini/stray_done)
                return ()
            documents = documents_in(frame)
            if documents:
                return [event for document in documents for event in self.feed(document)]
            return self._end(invalid_frame() if frame.terminated else truncated())
        if answer.error:
            return self._take_error(answer)
        events: list[Event] = []
        if not self._has_started:
            self._start(answer, events)
        failure = None
        if answer.candidates:
            failure = self._take_candidates(answer.candidates, events)
        elif answer.prompt_feedback is not None:
            self._take_feedback(answer.prompt_feedback.block_reason)
        report = answer.usage_metadata
        if report is INVALID_REPORT:
            events.append(UsageDiscarded())
        elif report is not None and report != self._report:
            self._take_report(report, events)
        elif self._has_searched and self._report is not None:
            self._take_report(self._report, events)
        if failure is not None:
            events += self._end(failure)
        return events

    def finish(self) -> Sequence[Event]:
        if self._has_ended:
            return ()
        if self._is_refused and self._is_whole and not self._choices:
            self._block("BLOCK_REASON_UNSPECIFIED")
        choices = [choice for _, choice in sorted(self._choices.items())]
        if not choices or not (self._is_whole or all(choice.reason for choice in choices)):
            return self._end(truncated())
        if self._requested is not None and len(choices) < self._requested:
            return self._end(missing_choices(len(choices), self._requested) if self._is_whole else truncated())
        self._has_ended = True
        events: list[Event] = []
        for choice in choices:
            choice.finish(events)
        events.append(StreamCompleted())
        return events

    def fail(self, error: StreamweirError, /) -> Sequence[Event]:
        return () if self._has_ended else self._end(StreamFailed(error))

    def _end(self, failure: StreamFailed) -> Sequence[Event]:
        self._has_ended = True
        return (failure,)

    def _start(self, answer: Answer, events: list[Event]) -> None:
        self._has_started = True
        self._model = answer.model_version
        created = _seconds(answer.create_time) if answer.create_time else None
        events.append(StreamStarted(answer.response_id or None, answer.model_version or None, created))

    def _take_candidates(self, candidates: list[Candidate], events: list[Event]) -> StreamFailed | None:
        for candidate in candidates:
            index = candidate.index
            choice = self._choices.get(index)
            if choice is None:
                if self._requested is not None and index >= self._requested:
                    return too_many_choices(self._requested)
                choice = self._choices[index] = Choice(index)
            if candidate.grounding_metadata is not None:
                self._take_searches(candidate.grounding_metadata)
            text = _plain_text(candidate)
            if text:
                choice.text_length += len(text)
                events.append(TextDelta(index, text))
            else:
                try:
                    choice.take(candidate, events)
                except jsonio.InvalidJson:
                    return invalid_frame()
            reason = candidate.finish_reason
            if reason is not None and reason not in UNSPECIFIED:
                choice.note_reason(reason)
                if choice.reason == MALFORMED_CALL:
                    message = "The model wrote a function call that cannot be read."
                    return StreamFailed(UpstreamError("upstream_server_error", message))
        return None

    def _take_feedback(self, reason: str | int | None) -> None:
        if reason is None or reason in UNSPECIFIED:
            # quirk: a prompt is blocked without a reason (fixture gemini/prompt_blocked_without_reason). In a
            # stream the answer can still follow.
            self._is_refused = True
        elif not self._choices:
            self._block(str(reason))

    def _block(self, reason: str) -> None:
        for index in range(self._requested or 1):
            choice = self._choices[index] = Choice(index)
            choice.reason = reason
            choice.is_blocked = True

    def _take_searches(self, grounding: Grounding) -> None:
        known = len(self._queries)
        for query in grounding.web_search_queries or ():
            if query and len(self._queries) < _MAX_QUERIES:
                self._queries.add(query)
        if len(self._queries) > known:
            self._searches, self._has_searched = searches_of(self._queries, self._model), True

    def _take_report(self, report: Report, events: list[Event]) -> None:
        self._report, self._has_searched = report, False
        usage = usage_of(report, self._searches)
        if usage is not None and usage != self._usage:
            self._usage = usage
            events.append(UsageReported(usage))

    def _take_error(self, answer: Answer) -> Sequence[Event]:
        events: list[Event] = []
        if answer.usage_metadata is not None and answer.usage_metadata is not INVALID_REPORT:
            if not self._has_started:
                self._start(answer, events)
            self._take_report(answer.usage_metadata, events)
        events += self._end(StreamFailed(classify({"error": answer.error})))
        return events

    def _read_bare(self, frame: Frame) -> Sequence[Event]:
        """A block without data. Vertex sends failures as JSON in such a block (fixture vertex/bare_json_error)."""
        text = frame.raw.strip()
        if not text.startswith((b"{", b"[")):
            return ()
        try:
            value = jsonio.decode(text)
        except jsonio.InvalidJson:
            return self._end(invalid_frame() if frame.terminated else truncated())
        return self._end(StreamFailed(classify(value)))


def _seconds(time: str) -> int | None:
    """RFC 3339 to seconds of the epoch; None if it cannot be parsed."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return None
    seconds = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    return seconds if seconds > 0 else None


def _plain_text(candidate: Candidate) -> str | None:
    """The text of the most frequent candidate: one part, plain text, nothing else. None for any other."""
    content = candidate.content
    if content is None or candidate.logprobs_result is not None:
        return None
    parts = content.parts
    if not parts or len(parts) > 1:
        return None
    part = parts[0]
    if part.thought or part.thought_signature or part.function_call is not None:
        return None
    return part.text
