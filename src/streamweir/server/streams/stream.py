"""A stream that its caller can come back to: between the attempt that writes it and the connections that read it.

It is the `Response` of its request (`server.http.message`), so the attempt writes to it as to any caller, and is not
changed by readers that come and go. Every piece goes to the kept frames and to the readers:

    attempt -> write -> Frames            for readers that come, and readers that are behind
                    \\-> Reader, Reader    up to date: in the same call

A reader that does not take its bytes falls behind: it is not written to until it has read what it was sent, then gets
what it missed from the frames. The attempt goes on meanwhile. It is paused only when every reader is behind and the
frames are near their bound, or are not kept any more.

When the last reader leaves, the stream waits for one to come back, and the upstream is read on. After that time, or if
its frames are given up, it tells the attempt that the caller has gone: then it is the attempt that drains or aborts the
upstream, as for any caller. A caller that has not been sent the head of the answer does not know the stream: it is not
waited for, unless it can find the stream by its `Idempotency-Key`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec import structs

from streamweir.core.errors import StreamweirError
from streamweir.server.http.message import Answer, Headers, Response
from streamweir.server.streams.frames import Frames, StreamEnd, StreamHead
from streamweir.server.streams.gaps import ReaderGaps
from streamweir.server.streams.reader import NAME_HEADER, REPLAYED, Reader, headers_for
from streamweir.server.telemetry.record import RequestRecord
from streamweir.wire.event_blocks import event_blocks, is_one_event, with_id

_WRITE_BYTES = 64 * 1024
"""A reader that is behind gets about so many bytes in one write."""
_PART_BYTES = 32 * 1024
"""A whole answer is kept in parts of this size."""


class Table(Protocol):
    """What a stream needs of the table that it is in."""

    grace_s: float
    max_bytes: int

    def opened(self, stream: "ResumableStream", /) -> Frames | None:
        """It begins now. None: it cannot be kept."""
        ...

    def ended(self, stream: "ResumableStream", /) -> None:
        """It was written to its end."""
        ...

    def lost(self, stream: "ResumableStream", /) -> None:
        """It cannot be read any more."""
        ...

    def freed(self, stream: "ResumableStream", /) -> None:
        """Its request has cost nothing: the same request may be tried again."""
        ...


class ResumableStream:
    """See `server.http.message.Response`."""

    __slots__ = (
        "_frames",
        "_grace",
        "_is_stream",
        "_loop",
        "_only",
        "_table",
        "arrived_s",
        "end_state",
        "full",
        "gaps",
        "gone",
        "head",
        "is_admitted",
        "is_replayable",
        "more_headers",
        "on_drained",
        "on_full",
        "on_gone",
        "over",
        "readers",
        "resumed",
        "started",
    )

    def __init__(self, table: Table, head: StreamHead, response: Response, arrived_s: float) -> None:
        """`head`: what is known of it before it begins."""
        self._table = table
        self._loop = asyncio.get_running_loop()
        self.head = head
        self.arrived_s = arrived_s
        self._frames: Frames | None = None
        self.end_state: StreamEnd | None = None
        """None: it runs."""
        self._only: Response | None = None
        """The only reader, while it is up to date and gets the bytes as they are, and they are kept: the hot path."""
        self.readers: list[Reader] = []
        self._grace: asyncio.TimerHandle | None = None
        self.gaps = ReaderGaps()
        """When nobody read it, by the loop's clock."""
        self.resumed = 0
        """How often somebody came back, or came in addition."""
        self.is_replayable = self.is_admitted = False
        """A repeat with the same `Idempotency-Key` gets it; and it is certain that it is the first one."""
        self.started = self.over = self.full = self._is_stream = False
        self.gone = response.gone
        self.more_headers: Headers = ()
        self.on_gone: Callable[[], None] | None = None
        self.on_full: Callable[[], None] | None = None
        self.on_drained: Callable[[], None] | None = None
        self._add(Reader(response, has_ids=head.has_ids))

    @property
    def frames(self) -> Frames | None:
        """None: it has not begun, or could not be kept."""
        return self._frames

    @property
    def is_kept(self) -> bool:
        return self._frames is not None and self._frames.is_kept

    @property
    def has_readers_here(self) -> bool:
        return any(not reader.is_elsewhere for reader in self.readers)

    @property
    def is_away(self) -> bool:
        """It runs, and nobody reads it."""
        return self.gaps.is_open and not self.over

    @property
    def memory_bytes(self) -> int:
        return self._frames.held_bytes if self._frames is not None else 0

    def complete_record(self, record: RequestRecord) -> None:
        """Adds how it was read. At its end."""
        if self._frames is not None:
            record.resumed = self.resumed
            record.reader_gaps, record.reader_gap_count = self.gaps.since(self.arrived_s), self.gaps.count
        if self._is_stream and (self._frames is None or self._frames.given_up is not None):
            record.flags += ("resume_given_up",)

    # Called by the attempt: see `Response`.

    def send(self, answer: Answer, /) -> None:
        if self.over:
            return
        self.started = True
        if self.is_replayable:
            self.head = structs.replace(self.head, status=answer.status, headers=answer.headers, is_whole=True)
            self._frames = frames = self._table.opened(self)
            for at in range(0, len(answer.body), _PART_BYTES) if frames is not None else ():
                part = answer.body[at : at + _PART_BYTES]
                frames.append(part, len(part))  # type: ignore[union-attr]
        again = structs.replace(answer, headers=answer.headers + REPLAYED)
        for reader in self._take_readers():
            reader.response.send(again if reader.is_replay else answer)
        self._finish(StreamEnd.COMPLETE)

    def start(self, status: int, headers: Headers, first: bytes = b"", /) -> None:
        if self.over:
            return
        self.started = self._is_stream = True
        self.head = structs.replace(self.head, headers=headers)
        frames = self._frames = self._table.opened(self)
        if frames is not None:
            headers += ((NAME_HEADER, self.head.id),)
        events = self._keep(first) if first else []
        for reader in self.readers:
            more = REPLAYED if reader.is_replay else ()
            reader.response.start(status, headers + more, self._bytes_for(reader, first, events))
        self._balance()

    def write(self, data: bytes, /) -> None:
        only = self._only
        if only is None or not is_one_event(data):
            self._write_any(data)
            return
        frames = self._frames
        frames.append(data, len(data))  # type: ignore[union-attr]  # there are frames if there is `_only`
        only.write(data)
        if only.full or not frames.is_kept:  # type: ignore[union-attr]
            self._balance()

    def end(self, last: bytes = b"", /) -> None:
        if self.over:
            return
        events = self._keep(last) if last else []
        for reader in self._take_readers(only_current=True):
            reader.response.end(self._bytes_for(reader, last, events))
        self._finish(StreamEnd.COMPLETE)

    def cut(self) -> None:
        if not self.over:
            self._cut(list(self.readers))
            self._finish(StreamEnd.CUT)

    def read_body(self, max_bytes: int | None, done: Callable[[StreamweirError | None], None], /) -> None:
        if self.readers:
            self.readers[0].response.read_body(max_bytes, done)

    def arrived_body(self) -> bytes:
        return self.readers[0].response.arrived_body() if self.readers else b""

    # Called for readers.

    def attach(self, reader: Reader, after: int) -> None:
        """One more reader, which gets what came behind the Nth event. The stream is kept, or has not begun."""
        if reader.response.gone:
            return
        self.resumed += 1
        self._end_gap()
        self._add(reader)
        if not self.started:
            return
        assert self._frames is not None  # noqa: S101 (it is kept)
        headers = headers_for(self.head, is_replay=reader.is_replay)
        if self.head.is_whole:
            self._remove(reader)
            body = b"".join(self._frames.read(0, self._frames.held_bytes))
            reader.response.send(Answer(status=self.head.status, headers=headers, body=body))
            return
        reader.response.start(200, headers)
        reader.is_behind, reader.position = True, after
        self._send_missed(reader)
        self._update()

    def detach(self, reader: Reader) -> None:
        """It does not read any more, and is answered elsewhere."""
        if reader in self.readers:
            self._remove(reader)
            self._reader_left()

    def close_readers(self) -> None:
        """Ends every reader's answer between two events, without the end of the stream: they are to come back."""
        if self.has_readers_here and self.started and self.is_kept and not self.over:
            for reader in [reader for reader in self.readers if not reader.is_elsewhere]:
                self._remove(reader)
                reader.response.end()
            self._reader_left()

    def delete(self) -> None:
        """Its caller ends it."""
        self._cut(list(self.readers))
        if self.over:
            self.end_state = StreamEnd.DELETED
            if self._frames is not None:
                self._frames.delete()
            self._table.lost(self)
        else:
            self._lose(StreamEnd.DELETED)

    def release_readers(self) -> list[Reader]:
        """Its request is the repetition of one at another node, whose answer its readers get. It has not begun."""
        readers = self._take_readers()
        self.is_replayable = False
        self._finish(StreamEnd.CUT)
        return readers

    def settled(self, record: RequestRecord) -> None:
        """Its request is settled."""
        if record.usage is None and self.is_replayable:
            self._table.freed(self)

    def leave(self) -> None:
        """Nobody came back in time."""
        if not self.readers and not self.over:
            self._lose(StreamEnd.LEFT)

    # Frames and readers.

    def _keep(self, data: bytes) -> list[bytes]:
        """The events that were kept."""
        frames = self._frames
        if frames is None:
            return []
        events = event_blocks(data)
        for event in events:
            frames.append(event, len(event))
        return events

    def _write_any(self, data: bytes) -> None:
        if self.over:
            return
        events = self._keep(data)
        for reader in self.readers:
            if not reader.is_behind:
                reader.response.write(self._bytes_for(reader, data, events))
        self._balance()

    def _bytes_for(self, reader: Reader, data: bytes, events: list[bytes]) -> bytes:
        """`events`: those of `data`, which were kept last."""
        if not (reader.has_ids and events and self._frames is not None):
            return data
        first = self._frames.events - len(events) + 1
        return b"".join([with_id(event, number) for number, event in enumerate(events, first)])

    def _send_missed(self, reader: Reader) -> None:
        """Sends a reader what it has missed, as far as it takes it."""
        frames, response = self._frames, reader.response
        assert frames is not None  # noqa: S101 (without them no reader falls behind)
        while not response.full:
            events = frames.read(reader.position, _WRITE_BYTES)
            if not events:
                reader.is_behind = False
                if frames.end is not None:
                    self._remove(reader)
                    response.end()
                return
            first = reader.position + 1
            if reader.has_ids:
                response.write(b"".join([with_id(event, number) for number, event in enumerate(events, first)]))
            else:
                response.write(b"".join(events))
            reader.position += len(events)

    def unread(self) -> int:
        """The last event that every reader has."""
        events = self._frames.events if self._frames is not None else 0
        return min((reader.position for reader in self.readers if reader.is_behind), default=events)

    def given_up(self) -> None:
        """Called by its frames while they are changed: they are not kept any more."""
        self._loop.call_soon(self._update)

    def cut_behind(self) -> None:
        """Called by its frames: readers that are behind do not get the rest."""
        self._cut([reader for reader in self.readers if reader.is_behind])
        self._loop.call_soon(self._reader_left)

    def _balance(self) -> None:
        """Who is behind, and whether the attempt must wait for readers. Not called for most pieces."""
        if not self.started:
            return
        frames, is_kept = self._frames, self.is_kept
        if frames is not None and is_kept:
            for reader in self.readers:
                if not reader.is_behind and reader.response.full:
                    reader.is_behind, reader.position = True, frames.events
        else:
            self._forget_readers_elsewhere()
            self._cut_slow_readers()
            if frames is not None:
                frames.trim(self.unread())
            if self.is_away:
                self._loop.call_soon(self.leave)
        waits = bool(self.readers) and all(reader.is_behind or reader.response.full for reader in self.readers)
        self.full = waits and (not is_kept or self.memory_bytes * 4 > self._table.max_bytes * 3)
        one = self.readers[0] if len(self.readers) == 1 and is_kept and not self.over else None
        self._only = one.response if one is not None and not (one.is_behind or one.has_ids) else None

    def _forget_readers_elsewhere(self) -> None:
        """What is not kept is not shared."""
        for reader in [reader for reader in self.readers if reader.is_elsewhere]:
            self._remove(reader)
        if not self.readers and not self.over:
            self.gaps.begin(self._loop.time())

    def _cut_slow_readers(self) -> None:
        """If nothing is kept, a slow reader must not stop those who read."""
        slow = [reader for reader in self.readers if reader.is_behind or reader.response.full]
        if len(slow) < len(self.readers):
            self._cut(slow)

    def _update(self) -> None:
        """After a change at the readers."""
        was_full = self.full
        self._balance()
        if was_full and not self.full and self.on_drained is not None:
            self.on_drained()

    def _drained(self, reader: Reader) -> None:
        if reader.is_behind:
            self._send_missed(reader)
        self._update()

    def _left(self, reader: Reader) -> None:
        """The connection of a reader has ended."""
        self._remove(reader)
        self._reader_left()

    def _reader_left(self) -> None:
        if not self.readers and not self.over:
            self.gaps.begin(self._loop.time())
            may_come_back = self.is_kept if self.started else self.is_replayable
            if not may_come_back:
                self._lose(StreamEnd.LEFT)
                return
            self._grace = self._loop.call_later(self._table.grace_s, self.leave)
        self._update()

    def _end_gap(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        if not self.over:
            self.gaps.end(self._loop.time())

    def _add(self, reader: Reader) -> None:
        self.readers.append(reader)
        response = reader.response
        response.on_gone, response.on_full = partial(self._left, reader), None
        response.on_drained = partial(self._drained, reader)

    def _remove(self, reader: Reader) -> None:
        if reader in self.readers:
            self.readers.remove(reader)
        response = reader.response
        response.on_gone = response.on_full = response.on_drained = None
        if reader.on_over is not None:
            reader.on_over()

    def _take_readers(self, *, only_current: bool = False) -> list[Reader]:
        """Removes them. `only_current`: those that are not behind."""
        taken = [reader for reader in self.readers if not (only_current and reader.is_behind)]
        for reader in taken:
            self._remove(reader)
        return taken

    def _cut(self, readers: list[Reader]) -> None:
        for reader in readers:
            self._remove(reader)
            reader.response.cut()

    # The end.

    def _lose(self, end: StreamEnd) -> None:
        on_gone, self.gone = self.on_gone, True
        self._finish(end)
        if on_gone is not None:
            on_gone()

    def _finish(self, end: StreamEnd) -> None:
        self.over, self.full, self._only, self.end_state = True, False, None, end
        self.on_gone = self.on_full = self.on_drained = None
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        if self._frames is not None:
            self._frames.finish(end)
        if end is StreamEnd.COMPLETE and self.is_kept:
            self._table.ended(self)
        else:
            self._table.lost(self)
