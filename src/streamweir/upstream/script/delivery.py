"""How an answer goes over the wire: well, or in one of the ways in which providers fail.

A `ScriptedAnswer` is one answer in the making; a performance is the sequence of what is done with it. Where
frames are counted (`at`), the first is the one with the role, and a fault comes at the latest before
`[DONE]`. A whole answer, one that is not streamed, has two frames in this sense: its two halves.
"""

from collections.abc import Callable, Iterator
from itertools import islice, repeat
from math import inf

from msgspec import Struct

from streamweir.core.errors import UpstreamError
from streamweir.core.request import ChatRequest
from streamweir.upstream.script.answer import Answer, ChoiceInput
from streamweir.upstream.script.chunk import ChunkWriter, write_error
from streamweir.upstream.script.deltas import MOST_TOKENS, ChunkContent, TokenTally, fold, say
from streamweir.upstream.script.parameter import Options
from streamweir.upstream.script.step import END, Head, What
from streamweir.wire import jsonio
from streamweir.wire.sse import DONE, write_frame

_JSON = {"content-type": "application/json"}
_EVENTS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_PAGE = b"<!doctype html><html><title>Welcome</title><script>alert(1)</script><p>Please sign in.</p></html>\n"
_GARBAGE = b'data: {"id":"chatcmpl-simulated","choices":[{"ind\n\n'
_BLOCK = b"x" * 65_536
_CONTENT = b'"content":"'
"""Where the text of a frame or of a whole answer begins. Unescaped, it stands in no text."""

_LOSSES = {
    # As the HTTP client reports them.
    "fin": ("upstream_stream_truncated", "The upstream's answer ended before it was complete."),
    "rst": ("upstream_stream_reset", "The upstream's connection was reset in the midst of its answer."),
}


class ScriptedAnswer(Struct, frozen=True):
    """One answer. `frames` and `whole` make it, once."""

    chat: ChatRequest
    options: Options
    completion_id: str
    writer: ChunkWriter
    tally: TokenTally
    answer: Answer
    is_endless: bool = False
    """It takes no notice of the caller's limit, nor of its own."""

    @property
    def head(self) -> Head:
        return Head(200, _EVENTS if self.chat.stream else _JSON)

    @property
    def done(self) -> tuple[bytes, ...]:
        return (DONE,) if self.chat.stream else ()

    def frames(self) -> Iterator[bytes]:
        """All but `[DONE]`. Choices take turns."""
        talking = dict(enumerate(self._choices()))
        while talking:
            for index, turns in list(talking.items()):
                delta, finish = next(turns)
                if finish is not None:
                    del talking[index]
                yield self.writer.chunk(index, delta, finish, is_last=not talking)
        usage = self.writer.usage_chunk()
        if usage:
            yield usage

    def whole(self) -> bytes:
        return self.writer.whole([fold(turns) for turns in self._choices()])

    def blocks(self) -> Iterator[bytes]:
        """The frames, or a whole answer's halves."""
        if self.chat.stream:
            yield from self.frames()
        else:
            body = self.whole()
            yield body[: len(body) // 2]
            yield body[len(body) // 2 :]

    def beginning(self) -> Iterator[bytes]:
        """What goes out before the fault."""
        return islice(self.blocks(), self.options.at if self.chat.stream else 1)

    def _choices(self) -> list[Iterator[ChunkContent]]:
        asked = self.chat.max_output_tokens or MOST_TOKENS
        most = inf if self.is_endless else min(asked, MOST_TOKENS // self.chat.n)
        chunk, finish = self.options.chunk, self.options.finish
        cues = [ChoiceInput(self.chat, self.options, index, self.completion_id) for index in range(self.chat.n)]
        return [say(self.answer(cue), self.tally, most=most, chunk=chunk, finish=finish) for cue in cues]


Performance = Callable[[ScriptedAnswer], Iterator[What]]


def complete(scene: ScriptedAnswer) -> Iterator[What]:
    yield scene.head
    yield from scene.blocks()
    yield from scene.done
    yield END


def error(scene: ScriptedAnswer) -> Iterator[What]:
    """A failed response; with `at`, one that has begun well (and of a whole answer, only its status)."""
    options = scene.options
    document = write_error(options.status, "The simulator was asked for this error.", options.code)
    if options.at is None:
        retry = {} if options.retry_after is None else {"retry-after": str(options.retry_after)}
        yield Head(options.status, {**_JSON, **retry})
        yield document
    elif scene.chat.stream:
        yield scene.head
        yield from scene.beginning()
        yield write_frame(document)
        yield DONE
    else:
        yield scene.head
        yield document
    yield END


def cut(scene: ScriptedAnswer) -> Iterator[What]:
    how = scene.options.how
    yield scene.head
    if how == "no-done":
        yield from scene.blocks()
        yield END
    elif how == "no-finish":
        # A frame's own members are not escaped, as the same words in a text are.
        yield from (block for block in scene.beginning() if b'"finish_reason":"' not in block)
        yield from scene.done
        yield END
    elif how == "half-frame":
        blocks = scene.blocks()
        yield from islice(blocks, scene.options.at if scene.chat.stream else 1)
        half = next(blocks, DONE)
        yield half[: len(half) // 2]
        yield END
    else:
        yield from scene.beginning()
        yield UpstreamError(*_LOSSES[how]) if how in _LOSSES else END


def stall(scene: ScriptedAnswer) -> Iterator[What]:
    yield scene.head
    yield from scene.beginning()


def empty(scene: ScriptedAnswer) -> Iterator[What]:
    yield scene.head
    yield END


def html(_: ScriptedAnswer) -> Iterator[What]:
    yield Head(200, {"content-type": "text/html; charset=utf-8"})
    yield _PAGE
    yield END


def redirect(_: ScriptedAnswer) -> Iterator[What]:
    yield Head(307, {"location": "https://example.org/elsewhere"})
    yield END


def garbage(scene: ScriptedAnswer) -> Iterator[What]:
    yield scene.head
    yield from scene.beginning()
    yield _GARBAGE
    yield from scene.done
    yield END


def huge_frame(scene: ScriptedAnswer) -> Iterator[What]:
    """The next frame with text, or the whole answer, has so many more bytes of it, given out in blocks."""
    yield scene.head
    before_it = max(scene.options.at or 0, scene.chat.n) if scene.chat.stream else 0  # the roles' frames at the least
    is_due = True
    for number, block in enumerate(scene.frames() if scene.chat.stream else [scene.whole()]):
        if is_due and number >= before_it and _CONTENT in block:
            is_due = False
            before, found, after = block.partition(_CONTENT)
            yield before + found
            yield from repeat(_BLOCK, scene.options.bytes // len(_BLOCK))
            yield _BLOCK[: scene.options.bytes % len(_BLOCK)] + after
        else:
            yield block
    yield from scene.done
    yield END


def endless(scene: ScriptedAnswer) -> Iterator[What]:
    """A stream that does not end, or a whole answer whose text does not."""
    return complete(scene) if scene.chat.stream else _endless_text(scene)


def _endless_text(scene: ScriptedAnswer) -> Iterator[What]:
    yield scene.head
    before, found, _ = scene.writer.whole([({"role": "assistant", "content": ""}, None)]).partition(_CONTENT)
    yield before + found
    cue = ChoiceInput(scene.chat, scene.options, 0, scene.completion_id)
    for token in scene.answer(cue)[0].tokens:
        yield jsonio.encode(token)[1:-1]
