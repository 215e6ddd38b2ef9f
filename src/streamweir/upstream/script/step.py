"""One step of a simulated answer: an action on the wire, and the delay before it.

The order of steps is the order of the calls of `upstream.base.Receiver`: a head, any number of blocks of the body, then
`END` or a failure. If the steps end before that, the provider has stalled.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from streamweir.core.errors import UpstreamError


class Head(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    """Names are lower-case."""


class End(Struct, frozen=True):
    """The body is complete by the rules of HTTP."""


END = End()

Action = Head | bytes | UpstreamError | End


class Step(NamedTuple):
    action: Action
    after_s: float = 0.0
    """Delay after the previous step."""


def timed(sequence: Iterable[Action], first_s: float, pace_s: float) -> Iterator[Step]:
    """Adds the delays: `first_s` before the head, `pace_s` between two blocks and before a failure."""
    wait_s = 0.0
    for action in sequence:
        if isinstance(action, Head):
            yield Step(action, first_s)
        elif isinstance(action, End):
            yield Step(action)
        else:
            yield Step(action, wait_s)
            wait_s = pace_s
