"""One thing that a provider does on the wire, and how long it waits before it does it.

The order of steps is the order of calls of `upstream.base.Receiver`: a head, any number of blocks of
the body, then `END` or a failure. Steps that stop before either are a provider that has gone silent.
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
    """The body is whole by the rules of HTTP."""


END = End()

What = Head | bytes | UpstreamError | End


class Step(NamedTuple):
    what: What
    after_s: float = 0.0
    """Since the step before."""


def timed(sequence: Iterable[What], first_s: float, pace_s: float) -> Iterator[Step]:
    """`first_s` goes by before the head, `pace_s` between two blocks, and before a failure."""
    wait_s = 0.0
    for what in sequence:
        if isinstance(what, Head):
            yield Step(what, first_s)
        elif isinstance(what, End):
            yield Step(what)
        else:
            yield Step(what, wait_s)
            wait_s = pace_s
