"""The one shape of every step in the flow.

A step is fed items and gives out items; when there is no more input it is
finished, once. Cutting the input anywhere never changes the output: feeding
`ab` and feeding `a`, then `b`, give the same items in the same order.
A step that needs the time or an id is handed it when it is made.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


class Stage(Protocol[In, Out]):
    def feed(self, item: In, /) -> Iterable[Out]: ...

    def finish(self) -> Iterable[Out]: ...
