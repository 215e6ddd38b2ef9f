"""How often a password may be tried: for one name from one address, from one address, and for one name from elsewhere.

A password can be guessed, unlike a secret that was made here. So each attempt counts before it is checked, and too many
are refused without being checked, the right password with them. The bound of a name holds for addresses from where that
person has no session: who tries the names of others does not lock them out where they work.
Pure: the times of earlier attempts are an argument.
"""

from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address

WINDOW_MS = 15 * 60_000
"""Attempts that are older do not count."""
PER_NAME_AND_ADDRESS = 10
PER_ADDRESS = 50
PER_NAME = 30
"""From addresses where the person has no session."""


def wait_ms(
    of_both: Sequence[int], of_address: Sequence[int], of_name: Sequence[int], *, is_familiar: bool, at_ms: int
) -> int:
    """How long the next attempt must wait. The times of earlier attempts: with this name from this address, from this
    address, and with this name. `is_familiar`: that person has a session that was opened from this address."""
    waits = [_wait_ms(of_both, PER_NAME_AND_ADDRESS, at_ms), _wait_ms(of_address, PER_ADDRESS, at_ms)]
    if not is_familiar:
        waits.append(_wait_ms(of_name, PER_NAME, at_ms))
    return max(waits)


def network_of(address: str) -> str:
    """What counts as one address: an IPv6 address is its network of 64 bits, which one caller has."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> 64 << 64)}/64"


def _wait_ms(times: Sequence[int], maximum: int, at_ms: int) -> int:
    recent = sorted(each for each in times if 0 <= at_ms - each < WINDOW_MS)
    return recent[-maximum] + WINDOW_MS - at_ms if len(recent) >= maximum else 0
