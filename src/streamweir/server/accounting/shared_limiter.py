"""The limiter of several processes: Valkey counts for all of them, and the database decides about money.

Valkey counts requests, tokens, streams and money in one step. Everything about money is decided again by the database,
under its locks, before the upstream is called: so neither a flushed Valkey nor a lost answer can cause overspending.
If one of them is unavailable:

    Valkey             rates: counted in this process, divided by the number of processes; money: the database.
                       What requests plan is counted in this process only
    the database       Valkey alone, and the hold goes to the journal
    both               requests with a budget are refused (503), because it is not known whether they fit

From time to time a process that reaches both corrects the sums in Valkey by those of the ledger. That must not lose
what other processes have only in their journals: so they pin the accounts that they charged without the database, until
it has their entries.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any

from msgspec import Struct, structs

from streamweir.core.errors import GatewayFault
from streamweir.policy.access import Key
from streamweir.policy.limits.limit_request import BudgetCharge, Decision, LimitRequest
from streamweir.policy.limits.limit_rule import is_rule_account
from streamweir.policy.limits.local import LocalLimits
from streamweir.server.accounting.limiter import AccountState, LimitDecision, remaining_s, unavailable
from streamweir.server.accounting.target_limiter import TargetLimiter
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.journal.entries import Extend, Hold
from streamweir.store.journal.handle import JournalUnavailable, WriteHandle
from streamweir.store.ledger.accounts import sums_of, used_of
from streamweir.store.ledger.writer import DECISION_S, Writer
from streamweir.store.limits.errors import SharedUnavailable
from streamweir.store.limits.shared import SharedLimits

_MAX_ACCOUNTS = 10_000
_REPORT_S = 10.0
_HEARTBEATS = 4
"""How often within the time after which a process counts as dead."""


class _Pin(Struct):
    since: float
    mark: int
    """A position of the writer: when the database has everything before it, the account need not be pinned any more."""


class SharedLimiter:
    """`shared` is None if no Valkey is configured: then it counts as unavailable. See
    `server.accounting.limiter.Limiter`."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        shared: SharedLimits | None,
        peers: Callable[[], int],
        decision_s: float = DECISION_S,
        targets: TargetLimiter | None = None,
        *,
        report: Callable[[str, Mapping[str, Any]], None] = lambda *_: None,
    ) -> None:
        """`peers`: the number of processes that serve at the moment, including this one. `targets`: its reservations
        are renewed with those of callers' keys. `report` is called when Valkey is lost and when it is back."""
        self._store = store
        self._writer = writer
        self._shared = shared
        self._peers = peers
        self._decision_s = decision_s
        self._targets = targets or TargetLimiter()
        self._local = LocalLimits()
        self._shared_ids: set[str] = set()  # request ids that Valkey counts
        self._local_ids: set[str] = set()  # and those that were counted here, while it was unavailable
        self._charged_accounts: set[str] = set()  # accounts whose sums in Valkey must still be corrected
        self._counted_locally: set[str] = set()  # those of them that were charged while Valkey was unavailable
        self._undecided: dict[str, int] = {}  # what is counted here, and about what the database decides just now
        self._pinned: dict[str, _Pin] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._heartbeat_at = 0.0
        self._heartbeat_is_running = False
        self.is_degraded = False
        self._report = report
        self._is_reported = False
        self._reported_at = -inf

    def reserve_at_once(self, request: LimitRequest, hold: Hold) -> Decision | None:
        return Decision() if not request.is_limited and hold.idempotency is None else None

    def begin(self, account: str) -> None:  # noqa: ARG002 (others may have spent in it)
        return

    async def reserve(self, request: LimitRequest, hold: Hold) -> LimitDecision:
        deadline = time.monotonic() + self._decision_s
        decision = await self._count(request, deadline)
        if decision.refusal is not None or not (request.charges or hold.idempotency is not None):
            return LimitDecision(decision=decision)
        if request.request_id in self._local_ids and len(self._counted_locally) < _MAX_ACCOUNTS:
            self._counted_locally.update(charge.account for charge in request.charges)
        self._note_undecided(request.charges, request.amount)
        try:
            code = await self._writer.decide(hold, request.charges, remaining_s(deadline, self._decision_s))
        except StoreUnavailable:
            return await self._without_database(request, hold, decision)
        except BaseException:  # a bug, or cancelled: what was counted is not used
            self.release(request.request_id)
            raise
        finally:
            self._note_undecided(request.charges, -request.amount)
        if code is not None:
            await self._release_now(request.request_id)
        return LimitDecision(decision=decision, is_recorded=True, code=code)

    async def remaining(self, charges: Sequence[BudgetCharge], *, exactly: bool = False) -> int | None:
        """By Valkey if it knows; with `exactly`, and otherwise, by the database as well."""
        used: dict[str, int] = {}
        if self._shared is not None:
            with suppress(SharedUnavailable):
                found = {charge.account: await self._shared.used(charge.account) for charge in charges}
                used = {account: amount for account, amount in found.items() if amount is not None}
        asked = [charge.account for charge in charges if exactly or charge.account not in used]
        if asked:
            with suppress(StoreUnavailable):
                booked = await self._store.read(lambda conn: used_of(conn, asked), timeout_s=self._decision_s)
                used |= {account: max(amount, used.get(account, amount)) for account, amount in booked.items()}
        return min([charge.limit - used[charge.account] for charge in charges if charge.account in used], default=None)

    async def states(self, charges: Sequence[BudgetCharge]) -> list[AccountState]:
        """By the database; if it is unavailable, by Valkey, which does not know what of it is held."""
        accounts = [charge.account for charge in charges]
        try:
            sums = await self._store.read(lambda conn: sums_of(conn, accounts), timeout_s=self._decision_s)
            return [AccountState(charge, sums[charge.account].spent, sums[charge.account].held) for charge in charges]
        except StoreUnavailable:
            if self._shared is None:
                return []
        with suppress(SharedUnavailable):
            found = [(charge, await self._shared.used(charge.account)) for charge in charges]
            return [AccountState(charge, used, 0) for charge, used in found if used is not None]
        return []

    async def recheck(self, charges: Sequence[BudgetCharge]) -> bool:
        """Valkey's sums are too high if it missed what other processes released, or if they were seeded with what is
        held by a request that began without the rule."""
        shared, accounts, is_corrected = self._shared, [charge.account for charge in charges], False
        if shared is None:
            return False
        with suppress(StoreUnavailable, SharedUnavailable):
            booked = await self._store.read(lambda conn: used_of(conn, accounts), timeout_s=self._decision_s)
            for account, amount in booked.items():
                known = await shared.used(account)
                if known is not None and known > amount:
                    is_corrected |= await shared.adjust(account, amount)
        return is_corrected

    async def extend(self, entry: Extend, request: LimitRequest) -> bool:
        """Where plans are counted it must fit, too: so it is counted there first, and taken back if the database
        refuses."""
        is_counted = await self._count_extension(entry.amount, request)
        if is_counted is False:
            return False
        try:
            is_refused = await self._writer.extend(entry, request.charges) is not None
        except StoreUnavailable:
            if request.request_id in self._shared_ids and is_counted:
                return await self._pin(request, self._writer.mark + 1)
            is_refused = True
        if is_refused and is_counted:
            await self._count_extension(-entry.amount, structs.replace(request, takes_rest=True))
        return not is_refused

    def count_tokens(self, request_id: str, tokens: int) -> None:
        if request_id in self._local_ids:
            self._local.count_tokens(request_id, tokens)
        elif request_id in self._shared_ids and self._shared is not None:
            self._start(self._shared.count_tokens(request_id, tokens))

    def settle(self, request_id: str, tokens: int, cost: int) -> None:
        if request_id in self._local_ids:
            self._local_ids.discard(request_id)
            self._local.settle(request_id, tokens, cost, time.monotonic())
        elif request_id in self._shared_ids and self._shared is not None:
            self._shared_ids.discard(request_id)
            self._start(self._shared.settle(request_id, tokens, cost))

    def release(self, request_id: str) -> None:
        if request_id in self._local_ids:
            self._local_ids.discard(request_id)
            self._local.release(request_id, time.monotonic())
        elif request_id in self._shared_ids and self._shared is not None:
            self._shared_ids.discard(request_id)
            self._start(self._shared.release(request_id))

    async def _release_now(self, request_id: str) -> None:
        """As `release`, but waits for it: the same request may try again with less."""
        if request_id in self._shared_ids and self._shared is not None:
            self._shared_ids.discard(request_id)
            await self._shared.release(request_id)
        else:
            self.release(request_id)

    def rules_changed(self, accounts: Mapping[str, Sequence[str]]) -> None:
        """Valkey's sums are corrected by the ledger's, and the database decides."""
        self._local.recount(is_rule_account, accounts)

    def check_rate(self, key: Key) -> Decision | None:  # noqa: ARG002 (what others have used is not known here)
        return None

    async def rates_used(self, key_id: str) -> tuple[int, int, int] | None:
        if self._shared is None:  # each process has its share, and knows only what it has admitted itself
            return self._local.usage(key_id, time.monotonic())
        try:
            return (await self._shared.usage([key_id]))[0]
        except SharedUnavailable:
            return None

    def renew(self, request_ids: Iterable[str]) -> None:
        every = list(request_ids)
        self._local.renew([each for each in every if each in self._local_ids], time.monotonic())
        for account in [each for each, pin in self._pinned.items() if self._writer.has_applied(pin.mark)]:
            del self._pinned[account]
        if self._shared is not None:
            held = [each for each in every if each in self._shared_ids]
            self._start(self._renew_shared([*held, *self._targets.shared_ids]))

    def send_heartbeat(self) -> None:
        shared = self._shared
        if (
            shared is None
            or self._heartbeat_is_running
            or time.monotonic() - self._heartbeat_at < shared.instance_s / _HEARTBEATS
        ):
            return
        self._heartbeat_at, self._heartbeat_is_running = time.monotonic(), True
        self._start(self._send_heartbeat(shared))

    def instance_ended(self, instance: str) -> None:
        if self._shared is not None:
            self._start(self._shared.end_instance(instance))

    async def _send_heartbeat(self, shared: SharedLimits) -> None:
        try:
            if await shared.heartbeat():  # this process was blocked, and was treated as dead
                await shared.renew([*self._shared_ids, *self._targets.shared_ids])
        except SharedUnavailable as reason:
            self._lost(reason)
        else:
            self._reached()
        finally:
            self._heartbeat_is_running = False

    async def correct(self) -> None:
        """Corrects Valkey's sums of money by the ledger's, after losses or a flush. Maintenance calls it."""
        shared = self._shared
        if shared is None:
            return
        if len(self._charged_accounts) < _MAX_ACCOUNTS:
            self._charged_accounts.update(shared.charged_accounts(), self._counted_locally)
        if not self._charged_accounts:
            return
        used = await self._store.read(lambda conn: used_of(conn, sorted(self._charged_accounts)))
        with suppress(SharedUnavailable):
            for account, amount in used.items():
                if await shared.adjust(account, amount, at_least=account in self._counted_locally):
                    self._charged_accounts.discard(account)
                self._counted_locally.discard(account)

    async def close(self) -> None:
        await asyncio.gather(*self._tasks)
        if self._shared is not None:
            await self._shared.close()

    async def _without_database(self, request: LimitRequest, hold: Hold, decision: Decision) -> LimitDecision:
        """Valkey has decided, and the journal stores the hold: from the moment when the writer gives up the
        database."""
        if request.request_id not in self._shared_ids or hold.idempotency is not None:
            self.release(request.request_id)
            raise unavailable()
        try:
            handle: WriteHandle = self._writer.put(hold)
        except JournalUnavailable:
            self.release(request.request_id)
            raise unavailable() from None
        if not await self._pin(request, self._writer.mark):
            self._writer.abandon(hold)
            self.release(request.request_id)
            raise unavailable()
        return LimitDecision(decision=decision, is_recorded=True, handle=handle)

    async def _count(self, request: LimitRequest, deadline: float) -> Decision:
        if not request.is_limited:
            return Decision()
        if self._shared is not None:
            try:
                decision = await self._shared.reserve(request)
                if decision.missing:
                    decision = await self._seed_and_reserve(request, decision, deadline)
                self._reached()
            except SharedUnavailable as reason:
                self._lost(reason)
            else:
                if decision.refusal is None:
                    self._shared_ids.add(request.request_id)
                return decision
        decision = await self._count_locally(request.divided_by(self._peers()), deadline)
        if decision.refusal is None:
            self._local_ids.add(request.request_id)
        return decision

    async def _count_locally(self, request: LimitRequest, deadline: float) -> Decision:
        """Rates are divided among the processes. Money is decided by the database; here it is only counted, because of
        the plans, and what others have spent is read if it does not fit."""
        decision = self._local.reserve(request, time.monotonic())
        if not decision.missing and decision.limited_by not in [charge.account for charge in request.charges]:
            return decision
        await self._load_accounts(request.charges, remaining_s(deadline, self._decision_s))
        decision = self._local.reserve(request, time.monotonic())
        if decision.missing:  # evicted at once
            raise unavailable()
        return decision

    async def _load_accounts(self, charges: Sequence[BudgetCharge], limit_s: float) -> None:
        accounts = [charge.account for charge in charges]
        try:
            used = await self._store.read(lambda conn: used_of(conn, accounts), timeout_s=limit_s)
        except StoreUnavailable:
            raise unavailable() from None
        for account, amount in used.items():
            self._local.correct(account, amount + self._undecided.get(account, 0))

    def _note_undecided(self, charges: Sequence[BudgetCharge], amount: int) -> None:
        for charge in charges:
            left = self._undecided.pop(charge.account, 0) + amount
            if left > 0:
                self._undecided[charge.account] = left

    async def _seed_and_reserve(self, request: LimitRequest, decision: Decision, deadline: float) -> Decision:
        """For accounts that Valkey does not have, or has lost."""
        assert self._shared is not None  # noqa: S101 (for the type checker)
        try:
            used = await self._store.read(
                lambda conn: used_of(conn, decision.missing), timeout_s=remaining_s(deadline, self._decision_s)
            )
        except StoreUnavailable:
            raise unavailable() from None
        for account, amount in used.items():
            await self._shared.seed(account, amount)
        decision = await self._shared.reserve(request)
        if decision.missing:
            raise SharedUnavailable("lost again in this moment")
        return decision

    async def _count_extension(self, amount: int, request: LimitRequest) -> bool | None:
        """Whether it fits. None: it is not known here, and the database decides."""
        id, charges, takes_rest = request.request_id, request.charges, request.takes_rest
        if self._shared is not None and id in self._shared_ids:
            try:
                return await self._shared.extend(id, amount, charges, takes_rest=takes_rest) is None
            except SharedUnavailable:
                return None
        if id not in self._local_ids:
            return None
        if self._local.extend(id, amount, charges, takes_rest=takes_rest) is None:
            return True
        with suppress(GatewayFault):
            await self._load_accounts(charges, self._decision_s)
        return self._local.extend(id, amount, charges, takes_rest=takes_rest) is None

    async def _pin(self, request: LimitRequest, mark: int) -> bool:
        """Whether the charge, which is in the journal before `mark`, is protected from corrections by others."""
        assert self._shared is not None  # noqa: S101 (for the type checker)
        now = time.monotonic()
        stale = []
        for charge in request.charges:
            pin = self._pinned.get(charge.account)
            if pin is not None:
                pin.mark = mark
            if pin is None or now - pin.since > self._shared.lease_s / 2:
                stale.append(charge.account)
        if not stale:
            return True
        if len(self._pinned) >= _MAX_ACCOUNTS:
            return False
        try:
            await self._shared.pin(stale)
        except SharedUnavailable:
            return False
        self._pinned.update({account: _Pin(now, mark) for account in stale})
        return True

    async def _renew_shared(self, request_ids: list[str]) -> None:
        assert self._shared is not None  # noqa: S101 (for the type checker)
        try:
            await self._shared.renew(request_ids)
            if self._pinned:
                await self._shared.pin(list(self._pinned))
        except SharedUnavailable as reason:
            self._lost(reason)
        else:
            self._reached()

    def _lost(self, reason: SharedUnavailable) -> None:
        """A single late answer counts, too. So that a slow Valkey does not fill the log, it is reported at most once
        in `_REPORT_S`."""
        self.is_degraded, now = True, time.monotonic()
        if not self._is_reported and now - self._reported_at >= _REPORT_S:
            self._is_reported, self._reported_at = True, now
            self._report("valkey_away", {"reason": str(reason)})

    def _reached(self) -> None:
        self.is_degraded = False
        if self._is_reported:
            self._is_reported = False
            self._report("valkey_back", {})

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
