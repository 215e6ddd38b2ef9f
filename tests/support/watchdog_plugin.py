"""The hooks of pytest that give every test a watched event loop, and fail the test whose gateway held it too long."""

import asyncio
from collections.abc import Callable, Generator

import pytest

from support.watchdog import WATCHDOG, watched_loop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": watched_loop}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    yield
    _check(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Also after a test that failed for another reason: what it has found is not the next one's."""
    yield
    _check(item)


def _check(item: pytest.Item) -> None:
    found = WATCHDOG.take()
    mark = item.get_closest_marker("long_callback")
    if mark is not None:
        assert mark.args, "long_callback wants a reason"
    elif found:
        pytest.fail("\n".join(found), pytrace=False)
