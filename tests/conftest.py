"""How hard the properties are tried: repeatably in `make test`, at random and far longer in `make soak`.

And the event loop of every test that has one: the program's own, with a watchdog.
"""

import gc

from hypothesis import HealthCheck, settings

from support.leave_out import pytest_addoption, pytest_ignore_collect
from support.memory_folder import pytest_configure
from support.soak import SOAKS, pytest_collection_modifyitems
from support.watchdog_plugin import pytest_asyncio_loop_factories, pytest_runtest_call, pytest_runtest_teardown

__all__ = [
    "SOAKS",
    "pytest_addoption",
    "pytest_asyncio_loop_factories",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_ignore_collect",
    "pytest_runtest_call",
    "pytest_runtest_teardown",
]


gc.disable()  # until the tests are collected: nothing becomes garbage


def pytest_collection_finish() -> None:
    """Thousands of tests stay in memory to the end: the garbage collector need not go through them each time.

    It comes rarely, too: a test that parses the program's sources makes a million objects, and no garbage.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


settings.register_profile("test", max_examples=25, derandomize=True, deadline=None, database=None)
settings.register_profile(
    "soak", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("soak" if SOAKS else "test")
