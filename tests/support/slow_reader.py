"""A caller that does not read, and what is sent for it until everything stands still."""

from support.gateway import Gate
from support.scripted_upstream import ScriptedUpstream

PIECE = "0123456789abcdef" * 256
MOST_TAKEN = 1_500_000
"""From an upstream whose caller does not read: what the gateway holds, and the kernel for four sockets."""


async def standing_still(gate: Gate, up: ScriptedUpstream) -> int:
    """Waits until the upstream can send no more, or nearly so (kernels have timers too). How much it has sent."""
    taken = -1
    while taken != up.body_sent or not up.stalls:
        taken = up.body_sent
        for _ in range(3):
            await gate.has_read()
    return taken
