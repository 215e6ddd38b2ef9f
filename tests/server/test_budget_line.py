"""Who may wait for money: so many in a process, and half of them for one account."""

import time

from streamweir.server.accounting.budget_line import BudgetLine


async def test_one_account_does_not_take_all_places() -> None:
    line, deadline = BudgetLine(max_waiting=4), time.monotonic() + 600
    first = line.join("a", deadline)
    assert first is not None
    assert line.join("a", deadline) is not None
    assert line.join("a", deadline) is None
    assert line.join("a", deadline, is_running=True) is not None, "an answer that runs always waits"
    assert line.join("b", deadline) is not None
    assert line.join("b", deadline) is None, "the process has no more"
    line.leave(first)
    assert line.join("c", deadline) is not None
    assert line.waiting == 4
