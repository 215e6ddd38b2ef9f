"""The program's deadlines in tests.

A deadline is tested with one of the test's own, which is short, or never reached. No other test may depend on one:
where a test says nothing, the program in it waits for its database, and for its readers, much longer than in
production.
"""

from msgspec import structs

from streamweir.server.accounting.intervals import Intervals
from streamweir.server.control.api.context import Context
from streamweir.server.process import bootstrap
from support.deadlines import PATIENT_S, replace_default

PATIENT = Intervals(shared_timeout_s=PATIENT_S, decision_s=PATIENT_S, apply_s=PATIENT_S)
"""Nobody is taken for away who is only slow."""


def be_patient(**intervals: float) -> None:
    """For the program in this process, wherever it has no other intervals. `intervals`: members that are to differ."""
    replace_default(bootstrap.open_accounting, intervals=structs.replace(PATIENT, **intervals))
    replace_default(Context.read, timeout_s=PATIENT_S)
