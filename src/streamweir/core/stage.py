"""The interface of every step in the flow.

A step takes items and returns items; at the end of the input, `finish` is called once. How the input is cut never
changes the output: feeding `ab`, and feeding `a` and then `b`, give the same items in the same order.
A step that needs the time or an id gets it in its constructor.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


class Stage(Protocol[In, Out]):
    def feed(self, item: In, /) -> Iterable[Out]: ...

    def finish(self) -> Iterable[Out]: ...
