"""The embedded model for tests that want a real answer and do not care who owns the child.

It is kept by an event loop of its own in a thread, so that one child can serve many tests, each of
which has a loop that ends with it: `LocalUpstream(address)` there. Where the model is not
installed, `needs_the_model` skips a test with the reason.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from streamweir.upstream.local import LocalAddress, LocalExit, LocalModel, find_weights, why_unavailable
from support.deadlines import WAIT_TIMEOUT_S

needs_the_model = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))


def new_model(exited: Callable[[LocalExit], None] = lambda _: None) -> LocalModel:
    weights = find_weights()
    assert weights is not None
    return LocalModel(weights, exited=exited)


@contextmanager
def running_model() -> Iterator[LocalAddress]:
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="embedded model")
    thread.start()
    model = new_model()
    try:
        asyncio.run_coroutine_threadsafe(model.ready(), loop).result(WAIT_TIMEOUT_S)
        yield model.address
    finally:
        asyncio.run_coroutine_threadsafe(model.stop(), loop).result(WAIT_TIMEOUT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
