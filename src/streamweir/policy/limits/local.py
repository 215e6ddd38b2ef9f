"""The limits of a key in one process: requests and tokens per minute, concurrent streams, and money. Those of targets,
providers and credentials are counted in the same way, each under an id of its own (`policy.limits.target_limits`).

A request reserves everything in one step, before anything is sent upstream: all of it, if all fits, or nothing. A
refused request does not count. Requests and tokens are counted over the last minute (`policy/limits/window.py`: never
too early, half a second late at most). Tokens are estimated, and corrected in the same tick when the request is
settled. A charge fits if used + amount <= limit. A settlement replaces the reserved amount by the cost.

Besides its amount, a reservation has a plan: what it may still need. While other requests of an account are open, a
request fits only beside all plans; a request that is alone, or that `takes_rest`, gets a smaller plan. An extension
uses up the plan of its reservation, and leaves those of others alone. A plan is no promise: only amounts are held.

A reservation is a lease: if it is not renewed for `lease_s`, it expires and releases its stream and its money. It is
still known: a renewal, an extension or a second reservation restores it, even beyond a limit (the request is running),
and a late settlement still counts its cost. `store/limits/limits.lua` has the same rules for several processes; one set
of tests checks both. This module knows neither prices nor periods.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import TypeVar

from msgspec import Struct

from streamweir.policy.limits.key_limits import RATE, STREAMS, KeyLimits
from streamweir.policy.limits.limit_request import UNKNOWN, BudgetCharge, Decision, LimitRequest, Window
from streamweir.policy.limits.window import REQUESTS, TOKENS, MinuteUsage, expires_in_s

T = TypeVar("T")

LEASE_S = 60.0
"""The lease of a reservation whose process may die."""
STREAM_RETRY_S = 1.0
"""The `Retry-After` if no stream is free: it is not known when one will be."""
_MAX_EXPIRED_AT_ONCE = 1000


class _Key(Struct):
    usage: MinuteUsage
    streams: int = 0


class _Account(Struct):
    used: int
    """Spent and held."""
    open_reservations: int = 0
    held: int = 0
    planned: int = 0


class _Reservation(Struct):
    request: LimitRequest
    accounts: tuple[str, ...]
    key: _Key
    tick: list[int]
    tokens: int
    amount: int
    planned: int
    expires_at: float


_ALLOWED = Decision()
"""For a key without a limit that is reported to the caller."""


class LocalLimits:
    """The limits of one process. Every `now` is of the same clock; setting it back neither delays nor admits requests.

    By default no lease expires: a process settles its own reservations, or loses them with this object. `max_keys` and
    `max_accounts` limit the memory: the least recently used ones without a reservation are dropped, and a dropped
    account is seeded again.
    """

    def __init__(
        self,
        *,
        lease_s: float = inf,
        max_keys: int = 10_000,
        max_accounts: int = 100_000,
        max_expired: int = 10_000,
    ) -> None:
        self._lease_s = lease_s
        self._leases_expire = lease_s < inf
        self._max_keys = max_keys
        self._max_accounts = max_accounts
        self._max_expired = max_expired
        self._keys: OrderedDict[str, _Key] = OrderedDict()
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._open: OrderedDict[str, _Reservation] = OrderedDict()  # by `expires_at`, for every lease is equally long
        self._expired: OrderedDict[str, _Reservation] = OrderedDict()
        self._missed: dict[str, int] = {}  # changes of accounts that are about to be seeded
        self._last = float("-inf")
        self._shift = 0.0

    def reserve(self, request: LimitRequest, now: float) -> Decision:
        """All or nothing. A request that already has a reservation is renewed, and not counted again."""
        at = self._monotonic(now)
        key, request_id = self._key(request.key_id), request.request_id
        usage, rpm, tpm = key.usage, request.rpm, request.tpm
        usage.drop_before(at)
        if request_id in self._open or request_id in self._expired:
            self._renew(request_id, at)
            return Decision(
                requests=_window(usage, REQUESTS, rpm, at),
                tokens=_window(usage, TOKENS, tpm, at),
                planned=self._open[request_id].planned,
            )
        needed = request.needed_tokens
        refused = _refusal(key, request, needed, at)
        if refused is None and request.charges:
            refused = self._budget_refusal(request, usage, at)
        if refused is not None:
            return refused
        tick = usage.tick_at(at)
        usage.add(tick, 1, needed)
        accounts = (
            (*[charge.account for charge in request.charges], *request.other_accounts)
            if request.charges
            else request.other_accounts
        )
        planned = self._plan_of(request) if request.planned else 0
        self._add_reservation(
            request_id,
            _Reservation(request, accounts, key, tick, needed, request.amount, planned, at + self._lease_s),
        )
        if rpm is None and tpm is None:
            return Decision(planned=planned) if planned else _ALLOWED
        reset_s = expires_in_s(tick, at)  # of both: this request is the last to go
        return Decision(
            requests=None if rpm is None else Window(rpm, max(0, rpm - usage.totals[REQUESTS]), reset_s),
            tokens=None if tpm is None else Window(tpm, max(0, tpm - usage.totals[TOKENS]), reset_s),
            planned=planned,
        )

    def reserve_all(self, requests: Sequence[LimitRequest], now: float) -> Decision:
        """All of them, each for another key and without charges, or none. Of several refusals, the one with the longest
        wait. A decision without windows."""
        at = self._monotonic(now)
        longest: Decision | None = None
        for request in requests:
            if request.request_id in self._open or request.request_id in self._expired:
                continue
            key = self._key(request.key_id)
            key.usage.drop_before(at)
            refused = _refusal(key, request, request.needed_tokens, at)
            if refused is not None and (longest is None or refused.retry_after_s > longest.retry_after_s):
                longest = refused
        if longest is not None:
            return Decision(refusal=longest.refusal, limited_by=longest.limited_by, retry_after_s=longest.retry_after_s)
        for request in requests:
            self.reserve(request, now)
        return _ALLOWED

    def peek(self, key_id: str, limits: KeyLimits, now: float) -> Decision:
        """The decision about the smallest request without charges; nothing is reserved."""
        at = self._monotonic(now)
        key = self._keys.get(key_id) or _Key(MinuteUsage())
        key.usage.drop_before(at)
        refused = _refusal(key, limits, 1, at)
        if refused is not None:
            return refused
        usage = key.usage
        return Decision(
            requests=_window(usage, REQUESTS, limits.rpm, at), tokens=_window(usage, TOKENS, limits.tpm, at)
        )

    def usage(self, key_id: str, now: float) -> tuple[int, int, int]:
        """The requests and tokens of the last minute, and the streams at the moment."""
        at = self._monotonic(now)
        key = self._keys.get(key_id)
        if key is None:
            return 0, 0, 0
        key.usage.drop_before(at)
        return key.usage.totals[REQUESTS], key.usage.totals[TOKENS], key.streams

    def find_refusal(self, key_id: str, limits: KeyLimits, now: float) -> Decision | None:
        """As `peek`, but only a refusal is returned."""
        at = self._monotonic(now)
        key = self._keys.get(key_id)
        if key is None:
            return None
        key.usage.drop_before(at)
        return _refusal(key, limits, 1, at)

    def extend(
        self,
        request_id: str,
        amount: int,
        charges: tuple[BudgetCharge, ...] | None = None,
        *,
        takes_rest: bool = False,
    ) -> str | None:
        """Reserves `amount` more on every account of the request. If it does not fit, nothing changes, and the error's
        code is returned. `charges`: the same accounts with their present limits. `takes_rest`: whatever others plan.
        A negative amount takes an extension back."""
        reservation = self._open.get(request_id)
        if reservation is None:
            if not self._renew(request_id, self._last + self._shift):
                return UNKNOWN
            reservation = self._open[request_id]
        planned = max(0, reservation.planned - amount)
        for charge in charges if charges is not None else reservation.request.charges:
            account = self._accounts.get(charge.account)
            if account is None:
                return UNKNOWN
            room = charge.limit - account.used - amount
            rest = room - account.planned + reservation.planned  # beside the plans of others
            if room < 0 or (rest < 0 and not takes_rest):
                return charge.code
            planned = max(0, min(planned, rest))
        self._change(reservation.accounts, amount, held=amount, planned=planned - reservation.planned)
        reservation.amount += amount
        reservation.planned = planned
        return None

    def count_tokens(self, request_id: str, tokens: int) -> None:
        """More tokens than were estimated, of a request that is running. No effect for one that is not known."""
        reservation = self._open.get(request_id) or self._expired.get(request_id)
        if reservation is not None:
            reservation.tokens += tokens
            reservation.key.usage.add(reservation.tick, 0, tokens)

    def settle(self, request_id: str, tokens: int | None, cost: int | None, now: float) -> None:
        """The request has ended: its usage replaces the reservation. None: the tokens stay as estimated, the cost is 0.
        No effect for a request that is not known or already settled."""
        self._end(request_id, tokens, cost or 0, now, took_place=True)

    def release(self, request_id: str, now: float) -> None:
        """The request was not sent: undoes its reservation."""
        self._end(request_id, 0, 0, now, took_place=False)

    def renew(self, request_ids: Iterable[str], now: float) -> None:
        at = self._monotonic(now)
        for request_id in request_ids:
            self._renew(request_id, at)

    def seed(self, account: str, used: int) -> None:
        """Sets the used amount of an account from the ledger; no effect if the account is already known."""
        if account not in self._accounts:
            seeded = self._accounts[account] = _Account(used)
            self._missed.pop(account, None)
            for reservation in self._open.values():  # made before it was known: `used` has what they hold
                if account in reservation.accounts:
                    seeded.open_reservations += 1
                    seeded.held += reservation.amount
                    seeded.planned += reservation.planned
            _evict(self._accounts, self._max_accounts, account, lambda each: each.open_reservations > 0)

    def missed(self, account: str) -> int:
        """The number of changes of an account that is not known yet, from the first call on until it is seeded."""
        if len(self._missed) >= self._max_accounts:  # of accounts that could not be seeded
            self._missed.clear()
        return self._missed.setdefault(account, 0)

    def correct(self, account: str, used: int) -> None:
        """Sets the used amount of an account from the ledger."""
        known = self._accounts.get(account)
        if known is None:
            self.seed(account, used)
        else:
            known.used = used

    def recount(self, is_forgotten: Callable[[str], bool], more: Mapping[str, Sequence[str]]) -> None:
        """Which accounts count has changed: forgets some, so that they are seeded again, and lets open reservations (by
        request id) change further ones, if they are seeded."""
        for account in [each for each in self._accounts if is_forgotten(each)]:
            del self._accounts[account]
        for request_id, accounts in more.items():
            reservation = self._open.get(request_id) or self._expired.get(request_id)
            if reservation is None:
                continue
            added = [each for each in accounts if each not in reservation.accounts]
            reservation.accounts += tuple(added)
            for account in added:
                if account in self._missed:  # what is read of it now may be without the reservation
                    self._missed[account] += 1

    def has_account(self, account: str) -> bool:
        return account in self._accounts

    def used(self, account: str) -> int | None:
        known = self._accounts.get(account)
        return None if known is None else known.used

    def held(self, account: str) -> int:
        """The part of the used amount that is held by reservations that are known here."""
        known = self._accounts.get(account)
        return 0 if known is None else known.held

    def _monotonic(self, now: float) -> float:
        """Monotonic time: the clock plus the total by which it was set back. Expires leases that are due."""
        if now < self._last:
            self._shift += self._last - now
        self._last = now
        at = now + self._shift
        if self._leases_expire and self._open and next(iter(self._open.values())).expires_at <= at:
            self._expire(at)
        return at

    def _key(self, key_id: str) -> _Key:
        key = self._keys.get(key_id)
        if key is None:
            key = self._keys[key_id] = _Key(MinuteUsage())
            _evict(self._keys, self._max_keys, key_id, lambda each: each.streams > 0)
        else:
            self._keys.move_to_end(key_id)
        return key

    def _budget_refusal(self, request: LimitRequest, usage: MinuteUsage, at: float) -> Decision | None:
        refusal = limited_by = None
        missing: tuple[str, ...] = ()
        for charge in request.charges:
            account = self._accounts.get(charge.account)
            if account is None:
                missing += (charge.account,)
                continue
            self._accounts.move_to_end(charge.account)
            room = charge.limit - account.used - request.amount
            fits = room >= 0 and (
                room >= account.planned + request.planned or request.takes_rest or not account.open_reservations
            )
            if refusal is None and not fits:
                refusal, limited_by = charge.code, charge.account
        if missing:
            refusal = limited_by = None
        elif refusal is None:
            return None
        return Decision(
            refusal=refusal,
            limited_by=limited_by,
            requests=_window(usage, REQUESTS, request.rpm, at),
            tokens=_window(usage, TOKENS, request.tpm, at),
            missing=missing,
        )

    def _plan_of(self, request: LimitRequest) -> int:
        """The plan of a request that fits: no more than is left beside the plans of others."""
        planned = request.planned
        for charge in request.charges:
            account = self._accounts[charge.account]
            planned = min(planned, charge.limit - account.used - request.amount - account.planned)
        return max(0, planned)

    def _add_reservation(self, request_id: str, reservation: _Reservation) -> None:
        self._open[request_id] = reservation
        reservation.key.streams += 1
        amount = reservation.amount
        self._change(reservation.accounts, amount, 1, held=amount, planned=reservation.planned)

    def _change(
        self, names: tuple[str, ...], amount: int, open_reservations: int = 0, *, held: int, planned: int
    ) -> None:
        """An account that was seeded meanwhile already has the reserved amount, from the ledger."""
        accounts = self._accounts
        if not accounts and not self._missed:
            return
        for name in names:
            account = accounts.get(name)
            if account is not None:
                # Negative only if it was corrected meanwhile. Without `max`, which would be most of what this takes.
                account.used = used if (used := account.used + amount) > 0 else 0
                account.open_reservations = count if (count := account.open_reservations + open_reservations) > 0 else 0
                account.held = rest if (rest := account.held + held) > 0 else 0
                if planned:  # of answers that can be cut only
                    account.planned = plan if (plan := account.planned + planned) > 0 else 0
            elif name in self._missed:
                self._missed[name] += 1

    def _expire(self, at: float) -> None:
        for _ in range(min(_MAX_EXPIRED_AT_ONCE, len(self._open))):
            request_id, reservation = next(iter(self._open.items()))
            if reservation.expires_at > at:
                break
            del self._open[request_id]
            reservation.key.streams -= 1
            amount = reservation.amount
            self._change(reservation.accounts, -amount, -1, held=-amount, planned=-reservation.planned)
            self._expired[request_id] = reservation
            if len(self._expired) > self._max_expired:
                self._expired.popitem(last=False)

    def _renew(self, request_id: str, at: float) -> bool:
        reservation = self._open.get(request_id)
        if reservation is not None:
            self._open.move_to_end(request_id)
        else:
            reservation = self._expired.pop(request_id, None)
            if reservation is None:
                return False
            reservation.key = self._key(reservation.request.key_id)  # it may have been evicted
            self._add_reservation(request_id, reservation)
        reservation.expires_at = at + self._lease_s
        return True

    def _end(self, request_id: str, tokens: int | None, cost: int, now: float, *, took_place: bool) -> None:
        self._monotonic(now)
        reservation = self._open.pop(request_id, None)
        if reservation is not None:
            reservation.key.streams -= 1
            amount = reservation.amount
            self._change(reservation.accounts, cost - amount, -1, held=-amount, planned=-reservation.planned)
        else:
            reservation = self._expired.pop(request_id, None)
            if reservation is None:
                return
            self._change(reservation.accounts, cost, held=0, planned=0)
        change = 0 if tokens is None else max(0, tokens) - reservation.tokens
        reservation.key.usage.add(reservation.tick, 0 if took_place else -1, change)


def _refusal(key: _Key, limits: KeyLimits, tokens: int, at: float) -> Decision | None:
    """The refusal by requests, tokens or streams, with the longer of two waits."""
    usage, rpm, tpm, max_streams = key.usage, limits.rpm, limits.tpm, limits.max_streams
    excess_requests = 0 if rpm is None else usage.totals[REQUESTS] + 1 - rpm
    excess_tokens = 0 if tpm is None else usage.totals[TOKENS] + tokens - tpm
    if excess_requests > 0 or excess_tokens > 0:
        requests_s = usage.freed_in_s(REQUESTS, excess_requests, at) if excess_requests > 0 else 0.0
        tokens_s = usage.freed_in_s(TOKENS, excess_tokens, at) if excess_tokens > 0 else 0.0
        refusal, limited_by = RATE, "tokens" if tokens_s > requests_s else "requests"
        retry_after_s = max(requests_s, tokens_s)
    elif max_streams is not None and key.streams >= max_streams:
        refusal, limited_by, retry_after_s = STREAMS, "streams", STREAM_RETRY_S
    else:
        return None
    return Decision(
        refusal=refusal,
        limited_by=limited_by,
        retry_after_s=retry_after_s,
        requests=_window(usage, REQUESTS, rpm, at),
        tokens=_window(usage, TOKENS, tpm, at),
    )


def _window(usage: MinuteUsage, kind: int, limit: int | None, at: float) -> Window | None:
    if limit is None:
        return None
    return Window(limit, max(0, limit - usage.totals[kind]), usage.empty_in_s(kind, at))


def _evict(known: OrderedDict[str, T], max_size: int, newest: str, is_needed: Callable[[T], bool]) -> None:
    """Drops the least recently used ones, in bounded time. Those that are needed are skipped."""
    for _ in range(4):
        if len(known) <= max_size:
            return
        name, oldest = next(iter(known.items()))
        if name == newest or is_needed(oldest):
            known.move_to_end(name)
        else:
            del known[name]
