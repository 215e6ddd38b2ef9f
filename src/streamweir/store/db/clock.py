"""The time of day, for what is written down. Everything that waits or measures goes by a clock that does not jump."""

import time


def now_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000
