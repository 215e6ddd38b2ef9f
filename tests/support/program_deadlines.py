"""The program's deadlines in tests.

A deadline is tested with one of the test's own, which is short, or never reached. No other test may depend on one:
where a test says nothing, the program in it waits for its database, and for its readers, much longer than in
production.
"""

from msgspec import structs

from streamweir.server.accounting.intervals import Intervals
from streamweir.server.control.api.context import Context
from streamweir.server.process import bootstrap
from support.deadlines import PROGRAM_TIMEOUT_S, replace_default

LONG_INTERVALS = Intervals(
    shared_timeout_s=PROGRAM_TIMEOUT_S,
    decision_s=PROGRAM_TIMEOUT_S,
    apply_s=PROGRAM_TIMEOUT_S,
    stream_timeout_s=PROGRAM_TIMEOUT_S,
    stream_lease_s=2 * PROGRAM_TIMEOUT_S,
)
"""A slow part does not count as unavailable."""


def use_long_deadlines(**intervals: float) -> None:
    """For the program in this process, wherever it has no other intervals. `intervals`: members that are to differ."""
    replace_default(bootstrap.open_accounting, intervals=structs.replace(LONG_INTERVALS, **intervals))
    replace_default(Context.read, timeout_s=PROGRAM_TIMEOUT_S)
