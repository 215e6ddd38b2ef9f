"""A process that reserves as fast as it can: for every line on its input one round, for every round one line.

A line is a prefix, a number of requests and the kind of limit; the answer is how many were let in.
Run as `python -m support.limit_racer NAME URL`.
"""

import asyncio
import sys

import uvloop

from streamweir.policy.limits.limit_request import BudgetCharge, LimitRequest
from streamweir.store.limits.shared import SharedLimits, script
from streamweir.store.limits.valkey import Valkey

ACCOUNT = "ws:race"
ROOM = 3
CONNECTIONS = 3


def limit_request_of(kind: str, request_id: str) -> LimitRequest:
    """Room for three of them, whatever the kind."""
    if kind == "requests":
        return LimitRequest(request_id=request_id, key_id="race", rpm=ROOM)
    if kind == "tokens":
        return LimitRequest(request_id=request_id, key_id="race", tpm=10 * ROOM, tokens=10)
    if kind == "streams":
        return LimitRequest(request_id=request_id, key_id="race", max_streams=ROOM)
    charge = BudgetCharge(ACCOUNT, 10 * ROOM, "insufficient_quota")
    return LimitRequest(request_id=request_id, key_id="race", amount=10, charges=(charge,))


def scopes_of(request_id: str, number: int) -> list[LimitRequest]:
    """Room for three in the scope that all share, and for many in their own."""
    own = LimitRequest(request_id=f"{request_id}:0", key_id=f"own{number % 3}", rpm=100 * ROOM, max_streams=100 * ROOM)
    return [own, LimitRequest(request_id=f"{request_id}:1", key_id="race", max_streams=ROOM)]


async def race(name: str, url: str) -> None:
    connections = [Valkey(url, script(), timeout_s=30.0) for _ in range(CONNECTIONS)]
    loop = asyncio.get_running_loop()
    print("ready", flush=True)  # noqa: T201
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        prefix, count, kind = line.split()
        limits = [SharedLimits(connection, prefix=prefix) for connection in connections]
        if kind == "scopes":
            decisions = await asyncio.gather(
                *(
                    limits[number % CONNECTIONS].reserve_all(scopes_of(f"{name}.{number}", number))
                    for number in range(int(count))
                )
            )
        else:
            limit_requests = [limit_request_of(kind, f"{name}.{number}") for number in range(int(count))]
            decisions = await asyncio.gather(
                *(
                    limits[number % CONNECTIONS].reserve(limit_request)
                    for number, limit_request in enumerate(limit_requests)
                )
            )
        print(sum(decision.is_allowed for decision in decisions), flush=True)  # noqa: T201
    for connection in connections:
        await connection.close()


if __name__ == "__main__":
    uvloop.run(race(sys.argv[1], sys.argv[2]))
