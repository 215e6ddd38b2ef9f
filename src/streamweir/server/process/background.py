"""The background tasks of a serving process: the log lines about their ends, and their effect on `/ready`.

`streamweir.background` keeps a task running; how often each has ended is a metric. The threads of the journal cannot be
restarted, because it is not known how far a write had come: if one of them ends by a fault, the process is not ready
until it is restarted. If only the disk refuses writes, it is not ready until the disk accepts them again, which the
threads detect themselves.
"""

from functools import partial

from streamweir.background import BackgroundTasks, TaskEnd
from streamweir.server.control.readiness import Readiness
from streamweir.server.telemetry.log import logger
from streamweir.store.journal.journal import Journal

_PART = "background tasks"


def background_tasks() -> BackgroundTasks:
    """Logs every unexpected end of a task, with its traceback."""
    return BackgroundTasks(_log_end)


def connect_readiness(background: BackgroundTasks, readiness: Readiness, journal: Journal | None = None) -> None:
    """From now on the process is not ready while a task cannot be kept running."""
    if journal is not None:
        journal.on_state = partial(readiness.set, "journal")
    background.on_change = partial(_changed, background, readiness)
    if background.failing:
        background.on_change()


def _log_end(end: TaskEnd) -> None:
    logger.error(
        "background task ended unexpectedly",
        task=end.name,
        reason=end.reason,
        lived_s=round(end.lived_s, 3),
        failures=end.failures,
        restart_s=end.restart_s,
        exc_info=end.fault,
    )


def _changed(background: BackgroundTasks, readiness: Readiness) -> None:
    failing = background.failing
    readiness.set(_PART, f"background tasks keep failing: {', '.join(failing)}" if failing else None)
    if failing:
        logger.error("not ready: background tasks keep failing", tasks=failing)
    elif readiness.is_ready:
        logger.info("all background tasks are running")
