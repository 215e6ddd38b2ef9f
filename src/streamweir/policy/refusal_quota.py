"""How many refusals of callers without a valid key are recorded: a few a minute of each address, and not many of all.

Anyone can cause them, so they must fill neither the database nor the log. What is left out is counted, and summed up
once for each minute. An IPv6 address counts as its network of 64 bits, which one caller has. Pure: times are arguments.
"""

from collections import Counter
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from msgspec import Struct

PER_ADDRESS = 20
IN_ALL = 200
WINDOW_S = 60.0
_MAX_ADDRESSES = 10_000
_MAX_SHOWN = 5
_OTHERS = "others"
"""For all addresses beyond the limit."""


class LeftOut(Struct, frozen=True):
    """What was left out in one window."""

    count: int
    most: list[str]
    """The addresses with the most of them: `address: count`."""


class RefusalQuota:
    def __init__(self, per_address: int = PER_ADDRESS, in_all: int = IN_ALL) -> None:
        self._per_address = per_address
        self._in_all = in_all
        self._began = 0.0
        self._recorded = 0
        self._seen: Counter[str] = Counter()

    def admits(self, address: str, now: float) -> bool:
        """Counts one refusal. Whether it is recorded. Call `take_left_out` first: it begins a new window."""
        if not self._seen:
            self._began = now
        network = network_of(address)
        if network not in self._seen and len(self._seen) >= _MAX_ADDRESSES:
            network = _OTHERS
        self._seen[network] += 1
        if self._seen[network] > self._per_address or self._recorded >= self._in_all:
            return False
        self._recorded += 1
        return True

    def take_left_out(self, now: float) -> LeftOut | None:
        """When the window is over: what it has left out, if anything."""
        if not self._seen or now - self._began < WINDOW_S:
            return None
        seen, recorded = self._seen, self._recorded
        self._seen, self._recorded = Counter(), 0
        if seen.total() == recorded:
            return None
        most = [f"{network}: {count}" for network, count in seen.most_common(_MAX_SHOWN)]
        return LeftOut(seen.total() - recorded, most)


@lru_cache(maxsize=1024)
def network_of(address: str) -> str:
    try:
        found = ip_address(address)
    except ValueError:  # of a socket without addresses
        return address
    if not isinstance(found, IPv6Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> 64 << 64)}/64"
