"""How frames of a native wire format are passed on: a table by format.

A provider that writes a format exactly and a frontend that uses it are a native pair (`pipeline.plan`). The exchange
finds the functions here that pass on frames (`tap`) and whole bodies (`take_whole`), and imports neither itself.
"""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import NamedTuple, Protocol

from streamweir.core.errors import StreamweirError
from streamweir.pipeline.canonical import take_canonical
from streamweir.pipeline.meter import Record
from streamweir.pipeline.tap import ChatTap
from streamweir.wire.native import NativeWire
from streamweir.wire.sse import Frame


class Tap(Protocol):
    """Reads the frames of one stream that are passed on, and checks that they may be."""

    record: Record
    ended: bool
    """The end of the answer was sent."""
    has_reasoned: bool
    """Reasoning was passed on: like text, it starts an answer."""
    failure: StreamweirError | None
    """Why a frame was not passed on, for a wire that is never translated in mid-stream: the answer ends with it."""
    held: list[tuple[Frame, bytes]]
    """Frames that were not sent yet, with their bytes."""

    @property
    def has_finished(self) -> bool:
        """Only usage and the end can follow."""
        ...

    @property
    def next_number(self) -> int:
        """The number of the next frame, for a wire that numbers them; otherwise 0."""
        ...

    def feed(self, frame: Frame, /) -> bytes | None:
        """The bytes to send for it. None: it must be translated; nothing was read from it."""
        ...

    def replay_frames(self) -> Iterable[Frame]:
        """Frames of a short answer that bring a decoder into the state after the frames that were sent."""
        ...


class NativePath(NamedTuple):
    tap: Callable[[Record, bool, int | None], Tap]
    """Arguments: the record, whether usage is sent, and the number of requested choices (None: unknown)."""
    take_whole: Callable[[bytes, Record, int | None], bytes | None]
    """The body of a whole answer as the caller gets it; its data is written to the record. None: it is decoded."""
    passes_large: bool = False
    """A body that is too large for the event loop is passed on unchanged, if another process could read it."""


def _messages_tap(record: Record, includes_usage: bool, choices: int | None, /) -> Tap:
    tap: Tap = import_module(_MESSAGES).MessagesTap(record, includes_usage, choices)
    return tap


def _take_message(body: bytes, record: Record, choices: int | None, /) -> bytes | None:
    passed: bytes | None = import_module(_MESSAGES).take_message(body, record, choices)
    return passed


def _responses_tap(record: Record, includes_usage: bool, choices: int | None, /) -> Tap:
    tap: Tap = import_module(_RESPONSES).ResponsesTap(record, includes_usage, choices)
    return tap


def _take_response(body: bytes, record: Record, choices: int | None, /) -> bytes | None:
    passed: bytes | None = import_module(_RESPONSES).take_response(body, record, choices)
    return passed


_MESSAGES = "streamweir.pipeline.messages_tap"
"""Imported when it is needed, because it imports the provider's modules."""
_RESPONSES = "streamweir.pipeline.responses_tap"

NATIVE: dict[NativeWire, NativePath] = {
    NativeWire.OPENAI_CHAT: NativePath(ChatTap, take_canonical),
    NativeWire.ANTHROPIC_MESSAGES: NativePath(_messages_tap, _take_message, passes_large=True),
    NativeWire.OPENAI_RESPONSES: NativePath(_responses_tap, _take_response, passes_large=True),
}
