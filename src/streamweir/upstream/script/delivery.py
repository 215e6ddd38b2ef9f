"""How an answer is delivered: without failures, or in one of the ways in which providers fail.

A `ScriptedAnswer` produces the bytes of one answer; a delivery is the sequence of actions that send it. If frames are
counted (`at`), the first one is the frame with the role, and a failure comes before `[DONE]` at the latest. An answer
that is not streamed counts as two frames: its two halves.
"""

from collections.abc import Callable, Iterator
from itertools import islice, repeat
from math import inf

from msgspec import Struct

from streamweir.core.errors import UpstreamError
from streamweir.core.request import ChatRequest
from streamweir.upstream.script.answer import Answer, ChoiceInput
from streamweir.upstream.script.chunk import ChunkWriter, write_error
from streamweir.upstream.script.deltas import MAX_TOKENS, ChunkContent, TokenTally, fold, generate_deltas
from streamweir.upstream.script.parameter import Options
from streamweir.upstream.script.step import END, Action, Head
from streamweir.wire import jsonio
from streamweir.wire.sse import DONE, write_frame

_JSON = {"content-type": "application/json"}
_EVENTS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_PAGE = b"<!doctype html><html><title>Welcome</title><script>alert(1)</script><p>Please sign in.</p></html>\n"
_AT_THE_END = (b'"finish_reason":"', b'"choices":[]')
_GARBAGE = b'data: {"id":"chatcmpl-simulated","choices":[{"ind\n\n'
_BLOCK = b"x" * 65_536
_CONTENT = b'"content":"'
"""The beginning of the text of a frame or of a whole answer. In a text itself, the quotes are escaped."""

_CONNECTION_ERRORS = {
    # As the HTTP client reports them.
    "fin": ("upstream_stream_truncated", "The upstream's answer ended before it was complete."),
    "rst": ("upstream_stream_reset", "The upstream's connection was reset in the midst of its answer."),
}


class ScriptedAnswer(Struct, frozen=True):
    """One answer. Call `frames` or `whole` once."""

    chat: ChatRequest
    options: Options
    completion_id: str
    writer: ChunkWriter
    tally: TokenTally
    make_answer: Answer
    is_endless: bool = False
    """It ignores the token limits of the caller and of the model."""

    @property
    def head(self) -> Head:
        return Head(200, _EVENTS if self.chat.stream else _JSON)

    @property
    def done(self) -> tuple[bytes, ...]:
        return (DONE,) if self.chat.stream else ()

    def frames(self) -> Iterator[bytes]:
        """All frames but `[DONE]`. The choices alternate."""
        active = dict(enumerate(self._choices()))
        while active:
            for index, contents in list(active.items()):
                delta, finish = next(contents)
                if finish is not None:
                    del active[index]
                yield self.writer.chunk(index, delta, finish, is_last=not active)
        usage = self.writer.usage_chunk()
        if usage:
            yield usage

    def whole(self) -> bytes:
        return self.writer.whole([fold(contents) for contents in self._choices()])

    def blocks(self) -> Iterator[bytes]:
        """The frames, or the halves of a whole answer."""
        if self.chat.stream:
            yield from self.frames()
        else:
            body = self.whole()
            yield body[: len(body) // 2]
            yield body[len(body) // 2 :]

    def beginning(self) -> Iterator[bytes]:
        """The blocks before the failure."""
        return islice(self.blocks(), self.options.at if self.chat.stream else 1)

    def _choices(self) -> list[Iterator[ChunkContent]]:
        requested = self.chat.max_output_tokens or MAX_TOKENS
        max_tokens = inf if self.is_endless else min(requested, MAX_TOKENS // self.chat.n)
        chunk, finish = self.options.chunk, self.options.finish
        choice_inputs = [
            ChoiceInput(self.chat, self.options, index, self.completion_id) for index in range(self.chat.n)
        ]
        return [
            generate_deltas(
                self.make_answer(choice_input), self.tally, max_tokens=max_tokens, chunk=chunk, finish=finish
            )
            for choice_input in choice_inputs
        ]


Delivery = Callable[[ScriptedAnswer], Iterator[Action]]


def complete(scripted: ScriptedAnswer) -> Iterator[Action]:
    yield scripted.head
    yield from scripted.blocks()
    yield from scripted.done
    yield END


def error(scripted: ScriptedAnswer) -> Iterator[Action]:
    """A failed response; with `at`, an error after that many frames (for a whole answer, an error with status 200)."""
    options = scripted.options
    document = write_error(options.status, "The simulator was asked for this error.", options.code)
    if options.at is None:
        retry = {} if options.retry_after is None else {"retry-after": str(options.retry_after)}
        yield Head(options.status, {**_JSON, **retry})
        yield document
    elif scripted.chat.stream:
        yield scripted.head
        yield from scripted.beginning()
        yield write_frame(document)
        yield DONE
    else:
        yield scripted.head
        yield document
    yield END


def cut(scripted: ScriptedAnswer) -> Iterator[Action]:
    how = scripted.options.how
    yield scripted.head
    if how == "no-done":
        yield from scripted.blocks()
        yield END
    elif how == "no-finish":
        # In the text of a frame these quotes would be escaped. With the usage the answer would be complete.
        yield from (block for block in scripted.beginning() if not any(each in block for each in _AT_THE_END))
        yield from scripted.done
        yield END
    elif how == "half-frame":
        blocks = scripted.blocks()
        yield from islice(blocks, scripted.options.at if scripted.chat.stream else 1)
        half = next(blocks, DONE)
        yield half[: len(half) // 2]
        yield END
    else:
        yield from scripted.beginning()
        yield UpstreamError(*_CONNECTION_ERRORS[how]) if how in _CONNECTION_ERRORS else END


def stall(scripted: ScriptedAnswer) -> Iterator[Action]:
    yield scripted.head
    yield from scripted.beginning()


def empty(scripted: ScriptedAnswer) -> Iterator[Action]:
    yield scripted.head
    yield END


def html(_: ScriptedAnswer) -> Iterator[Action]:
    yield Head(200, {"content-type": "text/html; charset=utf-8"})
    yield _PAGE
    yield END


def redirect(_: ScriptedAnswer) -> Iterator[Action]:
    yield Head(307, {"location": "https://example.org/elsewhere"})
    yield END


def garbage(scripted: ScriptedAnswer) -> Iterator[Action]:
    yield scripted.head
    yield from scripted.beginning()
    yield _GARBAGE
    yield from scripted.done
    yield END


def huge_frame(scripted: ScriptedAnswer) -> Iterator[Action]:
    """One frame with text, or the whole answer, gets this many more bytes of text, sent in blocks."""
    yield scripted.head
    first_frame = (
        max(scripted.options.at or 0, scripted.chat.n) if scripted.chat.stream else 0
    )  # the roles' frames at the least
    is_pending = True
    for number, block in enumerate(scripted.frames() if scripted.chat.stream else [scripted.whole()]):
        if is_pending and number >= first_frame and _CONTENT in block:
            is_pending = False
            before, found, after = block.partition(_CONTENT)
            yield before + found
            yield from repeat(_BLOCK, scripted.options.bytes // len(_BLOCK))
            yield _BLOCK[: scripted.options.bytes % len(_BLOCK)] + after
        else:
            yield block
    yield from scripted.done
    yield END


def endless(scripted: ScriptedAnswer) -> Iterator[Action]:
    """An endless stream, or a whole answer with an endless text."""
    return complete(scripted) if scripted.chat.stream else _endless_text(scripted)


def _endless_text(scripted: ScriptedAnswer) -> Iterator[Action]:
    yield scripted.head
    before, found, _ = scripted.writer.whole([({"role": "assistant", "content": ""}, None)]).partition(_CONTENT)
    yield before + found
    choice_input = ChoiceInput(scripted.chat, scripted.options, 0, scripted.completion_id)
    for token in scripted.make_answer(choice_input)[0].tokens:
        yield jsonio.encode(token)[1:-1]
