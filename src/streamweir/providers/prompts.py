"""Text completions on a provider that only has chat completions.

Each prompt is one user message of a chat completion of its own; several are several calls (`UpstreamRequest.more`).
Their answers arrive one after the other and become one: the choices of the second prompt follow those of the first,
and usage is reported at the end, as the sum, if every call has reported it. Between the answers of two calls there is
an event `PART` (streamed), or they are the members of `{"parts": [...]}` (whole).

An answer is text, and reasoning, which is counted and not shown. A tool call, which was not requested, is
`upstream_bad_response`.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct, structs

from streamweir.core.errors import CallerError, StreamweirError, UpstreamError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    StreamTagged,
    TextDelta,
    ToolCallStarted,
    UsageDiscarded,
    UsageReported,
)
from streamweir.core.request import ChatRequest
from streamweir.core.usage import Usage
from streamweir.providers.base import (
    PART,
    Decoder,
    Provider,
    Target,
    UpstreamRequest,
    call_in_text,
    framing_of,
    max_event_bytes,
)
from streamweir.wire.sse import Frame

PREFIX = "prompts/"
"""Of the names of these providers in `registry`."""


class _Parts(Struct):
    parts: list[Raw]


_read_parts = msgspec.json.Decoder(_Parts).decode


class PromptsProvider:
    """See `providers.base.Provider`. `choices` are those of each prompt."""

    def __init__(self, provider: Provider, prompts: int, choices: int) -> None:
        self._provider = provider
        self._prompts = prompts
        self._choices = choices
        self.name = f"{PREFIX}{prompts}/{choices}/{provider.name}"
        self.framing = framing_of(provider)
        self.max_event_bytes = max_event_bytes(provider)

    def refusal_of(self, request: ChatRequest, model: str, /) -> CallerError | None:
        if not request.messages:
            message = "This model takes texts, not tokens."
            return CallerError("invalid_value", message, param="prompt")
        if request.max_output_tokens == 0:
            return CallerError("invalid_value", "max_tokens must be at least 1 for this model.", param="max_tokens")
        return self._provider.refusal_of(self._part(request, 0), model)

    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        calls = [self._provider.build_request(self._part(request, i), target) for i in range(self._prompts)]
        more = tuple(call.body for call in calls[1:])
        if not more:
            return calls[0]
        return structs.replace(calls[0], more=more, is_streamed=request.stream, framing=self.framing)

    def decoder(self, _choices: int | None = None, /) -> Decoder:
        return _PromptsDecoder(self._provider, self._prompts, self._choices)

    def decode_whole(self, body: bytes, _choices: int | None = None, /) -> Sequence[Event]:
        merger = _Merger(self._prompts, self._choices)
        for part in self._split(body):
            events = merger.take(self._provider.decode_whole(bytes(part), self._choices))
            if merger.is_over:
                return merger.taken(events)
            merger.keep(events)
            merger.next_part()
        return [_unreadable()]

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return self._provider.read_error(status, headers, body)

    def _part(self, request: ChatRequest, number: int) -> ChatRequest:
        """The request with one prompt."""
        message = request.body["messages"][number]
        return structs.replace(
            request,
            messages=(request.messages[number],),
            n=self._choices,
            prompts=1,
            body={**request.body, "messages": [message]},
        )

    def _split(self, body: bytes) -> Sequence[Raw | bytes]:
        if self._prompts == 1:
            return [body]
        try:
            parts = _read_parts(body).parts
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return []
        return parts if len(parts) == self._prompts else []


class _Merger:
    """The events of several answers as those of one."""

    def __init__(self, prompts: int, choices: int) -> None:
        self.is_over = False
        self._prompts = prompts
        self._choices = choices
        self._number = 0
        self._usage: Usage | None = None  # of the answer that is being read
        self._sum: Usage | None = Usage()  # of those before it; None: one of them had none
        self._kept: list[Event] = []

    @property
    def is_last(self) -> bool:
        return self._number == self._prompts - 1

    def take(self, events: Iterable[Event]) -> list[Event]:
        taken: list[Event] = []
        for event in events:
            if self.is_over:
                break
            self._take(event, taken)
        return taken

    def keep(self, events: list[Event]) -> None:
        self._kept += events

    def taken(self, events: list[Event]) -> list[Event]:
        return [*self._kept, *events]

    def next_part(self) -> None:
        """The answer of one call is complete."""
        self._sum = add_usage(self._sum, self._usage)
        self._usage = None
        self._number += 1

    def _take(self, event: Event, taken: list[Event]) -> None:
        offset = self._number * self._choices
        match event:
            case TextDelta():
                taken.append(TextDelta(event.choice + offset, event.text) if offset else event)
            case RefusalDelta() | ReasoningDelta() | ChoiceFinished():
                taken.append(structs.replace(event, choice=event.choice + offset))
            case StreamStarted() | StreamTagged():
                if self._number == 0:
                    taken.append(event)
            case UsageDiscarded():
                taken.append(event)
            case UsageReported():
                self._usage = event.usage
                if self._prompts == 1:
                    taken.append(event)
            case ToolCallStarted():
                taken.append(self._end(call_in_text()))
            case StreamFailed():
                taken.append(self._end(event))
            case StreamCompleted():
                if self.is_last:
                    usage = add_usage(self._sum, self._usage) if self._prompts > 1 else None
                    taken += [UsageReported(usage)] if usage is not None else []
                    taken.append(self._end(event))

    def _end(self, event: Event) -> Event:
        self.is_over = True
        return event


class _PromptsDecoder:
    """See `providers.base.Decoder`."""

    def __init__(self, provider: Provider, prompts: int, choices: int) -> None:
        self.lacks_terminator = False
        self._provider = provider
        self._choices = choices
        self._merger = _Merger(prompts, choices)
        self._decoder = provider.decoder(choices)
        self._has_completed = False

    @property
    def may_end_when_idle(self) -> bool:
        return self._merger.is_last and self._decoder.may_end_when_idle

    def feed(self, frame: Frame, /) -> Sequence[Event]:
        if self._merger.is_over:
            return ()
        if frame.event == PART:
            return self._next_part()
        return self._take(self._decoder.feed(frame))

    def finish(self) -> Sequence[Event]:
        events = self._take(self._finish_part())
        if self._merger.is_over:
            return events
        return [*events, *self._merger.take([_unreadable()])]

    def fail(self, error: StreamweirError, /) -> Sequence[Event]:
        return self._merger.take([StreamFailed(error)])

    def _next_part(self) -> Sequence[Event]:
        """An answer has ended. It must be complete."""
        if self._merger.is_last:
            return self._merger.take([_unreadable()])
        events = self._take(self._finish_part())
        if not self._merger.is_over and not self._has_completed:
            return [*events, *self._merger.take([_unreadable()])]
        self._merger.next_part()
        self._decoder = self._provider.decoder(self._choices)
        self._has_completed = False
        return events

    def _finish_part(self) -> Sequence[Event]:
        events = self._decoder.finish()
        self.lacks_terminator |= self._decoder.lacks_terminator
        return events

    def _take(self, events: Sequence[Event]) -> Sequence[Event]:
        if events and isinstance(events[-1], StreamCompleted):
            self._has_completed = True
        return self._merger.take(events)


def add_usage(first: Usage | None, second: Usage | None) -> Usage | None:
    """None: one of them is not known."""
    if first is None or second is None:
        return None
    return Usage(
        input_uncached=first.input_uncached + second.input_uncached,
        cache_read=_add(first.cache_read, second.cache_read),
        cache_write_5m=_add(first.cache_write_5m, second.cache_write_5m),
        cache_write_1h=_add(first.cache_write_1h, second.cache_write_1h),
        audio_input=_add(first.audio_input, second.audio_input),
        image_input=_add(first.image_input, second.image_input),
        output=first.output + second.output,
        reasoning=_add(first.reasoning, second.reasoning),
        audio_output=_add(first.audio_output, second.audio_output),
        image_output=_add(first.image_output, second.image_output),
        searches=_add(first.searches, second.searches),
    )


def _add(first: int | None, second: int | None) -> int | None:
    return second if first is None else first + (second or 0)


def _unreadable() -> StreamFailed:
    return StreamFailed(UpstreamError("upstream_bad_response", "The upstream's answers do not fit together."))
