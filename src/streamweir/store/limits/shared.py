"""Limits that several processes share, in Valkey or Redis: the rules of policy/limits/local.py, run by `limits.lua`.

Every call is one atomic step of the script, by the server's clock. After `SharedUnavailable` it is not known whether
the step was done, so each step may be repeated: a reservation has its request id and is counted once, and settling an
unknown one has no effect. Nothing leaks permanently:

    answer to `reserve` lost    its release is deferred, and sent with the next exchange
    `settle` not delivered      deferred as well; if the lease has expired meanwhile, the cost still counts
    process killed              its reservations expire together, `instance_s` after its last call, or at once after
                                `end_instance`: streams and money are released; what it had spent by then is
                                missing here until the account is corrected
    process blocked             as if it were dead; its next `heartbeat` returns that it must renew its reservations
    request forgotten           its own lease expires after `lease_s`
    Valkey flushed, restarted   accounts are missing, and seeded from the ledger; settling earlier reservations has
                                no effect, so the accounts are too high until they are corrected

So a counter may be wrong for a while. It decides alone only if the database is unavailable. `adjust`, called regularly
for the accounts of `charged_accounts`, corrects it from the ledger. All keys are in one slot: cluster mode is not
supported.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING

from streamweir.policy.limits.key_limits import KINDS, KeyLimits, limits_of
from streamweir.policy.limits.limit_request import BudgetCharge, Decision, LimitRequest, Window
from streamweir.policy.limits.local import LEASE_S
from streamweir.policy.routing.breaker import Breaker
from streamweir.store.limits.errors import SharedError, SharedUnavailable

if TYPE_CHECKING:
    from streamweir.store.limits.valkey import Valkey

TIMEOUT_S = 0.05
PAUSE_S = 60.0
"""After too many failures it is not called for this time."""
INSTANCE_S = 8.0
"""A process without a call for this time is considered dead."""
_MICRO = 1_000_000
_MAX_CHARGED = 10_000
_MAX_RENEWED = 100
"""In one step of the script, so that other calls do not wait long."""
_MAX_SHOWN = 20
_SCHEMES = {
    "redis": "redis",
    "rediss": "rediss",
    "valkey": "redis",
    "valkeys": "rediss",
    "unix": "unix",
}
_MISSING, _MONEY = -1, -2
_ALLOWED = Decision()


class SharedLimits:
    """`clock`, in seconds, replaces the server's clock in tests."""

    def __init__(
        self,
        valkey: "Valkey",
        *,
        prefix: str = "streamweir",
        lease_s: float = LEASE_S,
        clock: Callable[[], float] | None = None,
        instance: str = "",
        instance_s: float = INSTANCE_S,
    ) -> None:
        """`instance`: the id of this process; without one it has no lease of its own."""
        self._valkey = valkey
        self._prefix = "{" + prefix + "}"
        self.lease_s = lease_s
        self.instance_s = instance_s
        self._lease = str(round(lease_s * _MICRO))
        self._instance = (instance, str(round(instance_s * _MICRO)))
        self._clock = clock
        self._charged_accounts: dict[str, None] = {}

    @property
    def is_unavailable(self) -> bool:
        """It failed too often, and is not called for a while."""
        return self._valkey.is_unavailable

    async def reserve(self, request: LimitRequest) -> Decision:
        """All or nothing. A request that already has a reservation is renewed, and not counted again."""
        arguments = self._arguments(
            "reserve",
            request.request_id,
            request.key_id,
            str(request.needed_tokens),
            str(request.amount),
            str(request.planned),
            "1" if request.takes_rest else "0",
            *_limits(request),
            *_charges(request.charges),
        )
        for charge in request.charges:
            if len(self._charged_accounts) < _MAX_CHARGED:
                self._charged_accounts[charge.account] = None
        self._valkey.cancel_deferred(request.request_id)
        release = self._settlement(request.request_id, 0, 0, took_place=False)
        return _decision(await self._valkey.call(arguments, undo=(request.request_id, release)), request)

    async def reserve_all(self, requests: Sequence[LimitRequest]) -> Decision:
        """All of them, each for another key and without charges, or none, in one step. Of several refusals, the one
        with the longest wait. A decision without windows. `end_all` ends them."""
        arguments = self._arguments("reserve_all")
        for request in requests:
            arguments += (request.request_id, request.key_id, str(request.needed_tokens), *_limits(request))
        ids = [request.request_id for request in requests]
        undo = (ids[0], self._settlements(ids, 0, took_place=False))
        kind, wait = map(int, (await self._valkey.call(arguments, undo=undo)).split())
        if not kind:
            return _ALLOWED
        refused = KINDS[kind - 1]
        return Decision(refusal=refused.code, limited_by=refused.counts, retry_after_s=wait / _MICRO)

    async def peek(self, key_id: str, limits: KeyLimits) -> Decision:
        """The decision about the smallest request without charges; nothing is reserved."""
        answer = await self._valkey.call(self._arguments("peek", key_id, *_limits(limits)))
        return _decision(answer, LimitRequest(request_id="", key_id=key_id, **limits_of(limits)))

    async def usage(self, key_ids: Sequence[str]) -> list[tuple[int, int, int]]:
        """For each key the requests and tokens of the last minute, and the streams at the moment."""
        found: list[int] = []
        for first in range(0, len(key_ids), _MAX_SHOWN):
            answer = await self._valkey.call(self._arguments("usage", *key_ids[first : first + _MAX_SHOWN]))
            found += map(int, answer.split())
        return list(zip(found[::3], found[1::3], found[2::3], strict=True))

    async def extend(
        self, request_id: str, amount: int, charges: Sequence[BudgetCharge], *, takes_rest: bool = False
    ) -> str | None:
        """Reserves `amount` more on every account of the request (`charges`: with their present limits). If it does
        not fit, nothing changes, and the error's code is returned. `takes_rest`: whatever others plan. A negative
        amount takes an extension back. Raises `SharedUnavailable` also if Valkey does not know the request."""
        rest = "1" if takes_rest else "0"
        code = await self._valkey.call(self._arguments("extend", request_id, str(amount), rest, *_charges(charges)))
        if code == "unknown":
            raise SharedUnavailable("Valkey does not know the request any more")
        return code or None

    async def count_tokens(self, request_id: str, tokens: int) -> None:
        """More tokens than were estimated, of a request that is running. Does not raise: its settlement corrects it."""
        with suppress(SharedUnavailable):
            await self._valkey.call(self._arguments("count", request_id, str(tokens)))

    async def settle(self, request_id: str, tokens: int | None, cost: int | None) -> None:
        """The request has ended: its usage replaces the reservation. None: the tokens stay as estimated, the cost is 0.
        Does not raise: if Valkey is unavailable, the call is deferred."""
        await self._end(request_id, self._settlement(request_id, tokens, cost or 0, took_place=True))

    async def release(self, request_id: str) -> None:
        """The request was not sent: undoes its reservation. Does not raise."""
        await self._end(request_id, self._settlement(request_id, 0, 0, took_place=False))

    async def end_all(self, request_ids: Sequence[str], tokens: int | None, *, took_place: bool) -> None:
        """Ends the reservations of one `reserve_all`: as `settle`, or (not `took_place`) as `release`. Does not
        raise."""
        await self._end(request_ids[0], self._settlements(request_ids, tokens, took_place=took_place))

    async def renew(self, request_ids: Iterable[str]) -> None:
        """To be called several times within `lease_s` for all open requests, also if there are none: deferred calls are
        sent with it, and it shows whether Valkey is available."""
        ids = list(request_ids)
        for first in range(0, max(1, len(ids)), _MAX_RENEWED):
            await self._valkey.call(self._arguments("renew", *ids[first : first + _MAX_RENEWED]))
        self._valkey.flush_deferred()

    async def heartbeat(self) -> bool:
        """The heartbeat of this process, several times within `instance_s`. True: it was considered dead meanwhile, and
        must renew its reservations."""
        return await self._valkey.call(self._arguments("beat")) == "1"

    async def end_instance(self, instance: str) -> None:
        """Releases the reservations of a dead process. Does not raise: its lease expires in any case."""
        with suppress(SharedUnavailable):
            await self._valkey.call(self._arguments("end", instance))

    async def seed(self, account: str, used: int) -> None:
        """Sets the used amount of an account from the ledger; no effect if the account is already known."""
        await self._valkey.call(self._arguments("seed", account, str(used)))

    async def correct(self, account: str, used: int) -> None:
        """Sets the used amount from the ledger. Reservations that are not in the ledger yet are missing; then the
        database decides."""
        await self._valkey.call(self._arguments("correct", account, str(used)))

    async def adjust(self, account: str, used: int, *, at_least: bool = False) -> bool:
        """As `correct`, if the ledger has everything: the account was not charged for a while, nor pinned. Else False;
        with `at_least` the used amount is raised to `used` all the same."""
        return await self._valkey.call(self._arguments("adjust", account, str(used), "1" if at_least else "0")) == "1"

    async def pin(self, accounts: Sequence[str]) -> None:
        """Prevents adjustments for `lease_s`: there are charges that the ledger does not have yet."""
        for first in range(0, len(accounts), _MAX_RENEWED):
            await self._valkey.call(self._arguments("pin", *accounts[first : first + _MAX_RENEWED]))

    def charged_accounts(self) -> list[str]:
        """The accounts that this process has charged since the last call: they must be corrected."""
        charged_accounts, self._charged_accounts = self._charged_accounts, {}
        return list(charged_accounts)

    async def has_account(self, account: str) -> bool:
        return await self.used(account) is not None

    async def used(self, account: str) -> int | None:
        answer = await self._valkey.call(self._arguments("used", account))
        return int(answer) if answer else None

    async def close(self) -> None:
        await self._valkey.close()

    async def _end(self, request_id: str, arguments: Sequence[str]) -> None:
        is_delivered = False
        try:
            await self._valkey.call(arguments)
            is_delivered = True
        except SharedUnavailable:
            return
        finally:
            if not is_delivered:
                self._valkey.defer(request_id, arguments)

    def _settlement(self, request_id: str, tokens: int | None, cost: int, *, took_place: bool) -> list[str]:
        counted = "" if tokens is None else str(max(0, tokens))
        return self._arguments("settle", request_id, counted, str(cost), "1" if took_place else "0")

    def _settlements(self, request_ids: Sequence[str], tokens: int | None, *, took_place: bool) -> list[str]:
        counted = "" if tokens is None else str(max(0, tokens))
        return self._arguments("settle_all", counted, "1" if took_place else "0", *request_ids)

    def _arguments(self, command: str, *rest: str) -> list[str]:
        now = "" if self._clock is None else str(floor(self._clock() * _MICRO))
        return [self._prefix, command, now, self._lease, *self._instance, *rest]


def open_shared(
    url: str,
    *,
    prefix: str = "streamweir",
    lease_s: float = LEASE_S,
    timeout_s: float = TIMEOUT_S,
    pause_s: float = PAUSE_S,
    instance: str = "",
    instance_s: float = INSTANCE_S,
) -> SharedLimits:
    """Does not connect yet. Raises `SharedError` for an invalid address."""
    address = server_url(url)
    try:
        from streamweir.store.limits.valkey import Valkey
    except ModuleNotFoundError as reason:
        if reason.name is None or reason.name.partition(".")[0] != "redis":
            raise
        raise SharedError("shared limits need the extra `shared`: pip install 'streamweir[shared]'") from None
    try:
        valkey = Valkey(address, script(), timeout_s=timeout_s, breaker=Breaker(open_s=pause_s))
    except (ValueError, TypeError):  # its message may contain parts of the address
        raise SharedError("the address of the shared limits is not valid") from None
    return SharedLimits(valkey, prefix=prefix, lease_s=lease_s, instance=instance, instance_s=instance_s)


def server_url(url: str) -> str:
    """The address as the library knows it. Raises `SharedError` for an invalid one."""
    scheme, separator, rest = url.partition("://")
    known = _SCHEMES.get(scheme.lower())
    if known is None or not separator or not rest:
        raise SharedError(f"the address of the shared limits must begin with one of {', '.join(_SCHEMES)}, and ://")
    return f"{known}://{rest}"


def script() -> str:
    return Path(__file__).with_name("limits.lua").read_text("utf-8")


def _limits(limits: KeyLimits) -> list[str]:
    """In the order of `KINDS`, as the script expects."""
    return ["-1" if limit is None else str(max(0, limit)) for limit in limits_of(limits).values()]


def _charges(charges: Sequence[BudgetCharge]) -> list[str]:
    return [text for charge in charges for text in (charge.account, str(charge.limit), charge.code)]


def _decision(answer: str, request: LimitRequest) -> Decision:
    kind, wait, requests, requests_reset, tokens, tokens_reset, *numbers = map(int, answer.split())
    refusal = limited_by = None
    if kind == _MONEY:
        charge = request.charges[numbers[0]]
        refusal, limited_by = charge.code, charge.account
    elif kind > 0:
        refusal, limited_by = KINDS[kind - 1].code, KINDS[kind - 1].counts
    return Decision(
        refusal=refusal,
        limited_by=limited_by,
        retry_after_s=wait / _MICRO,
        requests=_window(request.rpm, requests, requests_reset),
        tokens=_window(request.tpm, tokens, tokens_reset),
        planned=numbers[0] if kind == 0 and numbers else 0,
        missing=tuple(request.charges[number].account for number in numbers) if kind == _MISSING else (),
    )


def _window(limit: int | None, used: int, reset: int) -> Window | None:
    return None if limit is None else Window(limit, max(0, limit - used), reset / _MICRO)
