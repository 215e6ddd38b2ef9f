"""How frames of a native wire are passed on: the table of what reads them, by the wire.

A provider that writes a wire to the byte and a frontend whose own wire it is are a native pair (`pipeline.plan`).
What passes its frames (`tap`) and its whole bodies (`take_whole`) is found here, so that the exchange knows none of
them by name.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from streamweir.pipeline.canonical import take_canonical
from streamweir.pipeline.meter import Record
from streamweir.pipeline.tap import ChatTap
from streamweir.wire.native import NativeWire
from streamweir.wire.sse import Frame


class Tap(Protocol):
    """Reads the frames of one stream that are passed on, and sees to it that they may be."""

    record: Record
    ended: bool
    """The end of the answer went out."""
    held: list[tuple[Frame, bytes]]
    """Frames that did not go out yet, with their bytes."""

    @property
    def has_finished(self) -> bool:
        """Nothing but usage and the end can come."""
        ...

    def feed(self, frame: Frame, /) -> bytes | None:
        """The bytes that go out for it. None: it may not pass, and nothing of it was taken."""
        ...

    def replay_frames(self) -> Iterable[Frame]:
        """Frames of a short answer after which a decoder knows what is known here of the frames that went out."""
        ...


class NativePath(NamedTuple):
    tap: Callable[[Record, bool, int | None], Tap]
    """Given the record, whether usage goes out, and how many choices were asked for (None: that is not known)."""
    take_whole: Callable[[bytes, Record, int | None], bytes | None]
    """The body of a whole answer as the caller gets it, with what it says in the record. None: it is decoded."""


NATIVE: dict[NativeWire, NativePath] = {NativeWire.OPENAI_CHAT: NativePath(ChatTap, take_canonical)}
