"""A whole answer that the upstream was asked to stream: its events become one body at the end.

The caller gets what a whole answer would have been: `core.completion` folds the same events in both cases. What differs
is that the answer's beginning and its progress are known before its end, so that the deadlines of a stream apply. A
stream that is cut is a `failure`, as with every whole answer, and nothing of it is sent. An upstream that answers with
one document nevertheless is read as such.
"""

from streamweir.frontends.base import Frontend, Reply
from streamweir.pipeline.exchange import WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.base import Provider


class FoldedExchange(WholeExchange):
    def __init__(self, provider: Provider, frontend: Frontend, reply: Reply, mode: Mode, meter: Meter) -> None:
        super().__init__(provider, frontend, reply, mode, meter)
        self.has_progressed = False
        """An event was read since the relay reset this."""
        self.has_read_no_event = False
        """The last read has comments only. The relay resets this."""

    @property
    def may_end_when_idle(self) -> bool:
        """See `Exchange.may_end_when_idle`."""
        return not self.ended and self._intake.may_end_when_idle

    @property
    def is_mid_event(self) -> bool:
        return self._intake.is_mid_event

    def feed(self, chunk: bytes, /) -> bytes:
        out = super().feed(chunk)
        if self._intake.has_event:
            self.has_progressed = True
        else:
            self.has_read_no_event = not self.is_mid_event
        return out
