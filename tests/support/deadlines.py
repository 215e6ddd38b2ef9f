"""How long tests wait for what must happen: so long that a busy machine is no reason to fail."""

from collections.abc import Callable
from typing import Any

WAIT_TIMEOUT_S = 120.0
"""For anything that must happen. Nothing is expected to take it, and no test measures speed by it."""
PROGRAM_TIMEOUT_S = 60.0
"""For what the program waits for. Shorter, so that it is the program which says what it has waited for."""

DEADLINES = (
    ("limits", "lag_s", WAIT_TIMEOUT_S),
    ("limits", "turn_s", WAIT_TIMEOUT_S),
    ("timeouts", "connect_s", PROGRAM_TIMEOUT_S),
    ("timeouts", "idle_s", 2 * WAIT_TIMEOUT_S),
    ("timeouts", "commit_s", PROGRAM_TIMEOUT_S),
    ("timeouts", "header_s", PROGRAM_TIMEOUT_S),
    ("timeouts", "body_s", PROGRAM_TIMEOUT_S),
    ("timeouts", "lame_duck_s", 0.0),  # no test waits for balancers that it does not have
)
"""Of the gateway's configuration, wherever a test does not name the member: a busy machine is no overload, and no fault
of a provider or a caller."""


def replace_default(function: Callable[..., Any], **deadlines: object) -> None:
    """Of the function's keyword arguments, for all who do not say what they want."""
    defaults: dict[str, object] = getattr(function, "__kwdefaults__", None) or {}
    assert defaults.keys() >= deadlines.keys()
    defaults.update(deadlines)
