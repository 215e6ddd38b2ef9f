"""Accounting in this process: a reservation before the upstream is called, one settlement when the request is over.

    RequestHandler -> open (prices, limits, reservation) -> ... -> settle (usage, price) -> journal -> database

`open` accepts a request or says why not. An accepted request is in the journal before the upstream is called.
`settle` never waits and never fails: a thread writes the entry to the journal, a task copies it to the database, and
it is kept until then. `server.accounting.limiter` decides about limits; periodic work (key updates, heartbeats,
orphans) is in `server.accounting.maintenance`.
"""

import asyncio
import time
from contextlib import suppress
from functools import partial

from msgspec import structs

from streamweir.core.errors import CallerError, GatewayFault
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.policy.access import Key, KeyRing
from streamweir.policy.attribution import NOTHING
from streamweir.policy.limits.limit_request import headers_of
from streamweir.policy.limits.limit_rule import LimitRule
from streamweir.policy.limits.local import LEASE_S
from streamweir.policy.limits.reserve import Need, Size, limit_of
from streamweir.server.accounting.account_limits import AccountLimits, AccountLimitsCache
from streamweir.server.accounting.budget_reserver import BUDGET_WAIT_S, BudgetReserver
from streamweir.server.accounting.budget_use import BudgetUse
from streamweir.server.accounting.charge import charge
from streamweir.server.accounting.intervals import ProgressInterval
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.accounting.limit_refusal import refusal_of
from streamweir.server.accounting.limiter import LimitDecision, Limiter, MemoryLimiter
from streamweir.server.accounting.request_row import row_of, row_of_open, tags_text
from streamweir.server.accounting.reservation import Reservation, ReservationRequest
from streamweir.server.accounting.target_limiter import TargetLimiter
from streamweir.server.http.answers import Refusal
from streamweir.server.http.message import Headers
from streamweir.server.telemetry.record import RequestRecord
from streamweir.store.db.clock import now_ms
from streamweir.store.journal.entries import Hold, Progress, Refused, Settle, short
from streamweir.store.journal.handle import JournalUnavailable
from streamweir.store.ledger.writer import DECISION_S, Writer

_UNPRICED = (
    'The model "{}" has no price, and this key has a spend limit. '
    "Set its `price` under [[models]] in the configuration, or ask for a model that has one."
)
"""Shown to callers. Only a change of the operator's file helps, so a retry does not."""
HOLD_TOKENS = 1024


class Accounting:
    def __init__(
        self,
        instance: str,
        directory: KeyDirectory,
        limiter: Limiter,
        writer: Writer | None = None,
        hold_tokens: int = HOLD_TOKENS,
        can_enforce_limits: bool = True,
        renew_s: float = LEASE_S / 4,
        decision_s: float = DECISION_S,
        targets: TargetLimiter | None = None,
        budget_wait_s: float = BUDGET_WAIT_S,
    ) -> None:
        """`writer` is None without a database. `hold_tokens`: the first slice of an answer, and the size of one whose
        caller sets no limit. `budget_wait_s`: how long a request waits for money that others hold.

        `can_enforce_limits`: False for several processes without shared state. `renew_s`: how often
        reservations are renewed. `decision_s`: how long a request waits until its hold is written. `targets`: the
        limits of targets, which attempts are counted against; None: this process counts them alone.
        """
        self.instance = instance
        self.directory = directory
        self.writer = writer
        self._progress = None if writer is None else ProgressInterval(writer)
        self._limiter = limiter
        self.rates_used = limiter.rates_used
        self.targets = targets or TargetLimiter()
        self._hold_tokens = hold_tokens
        self.can_enforce_limits = can_enforce_limits
        self._open: dict[str, Reservation] = {}
        self._account_limits = AccountLimitsCache(limiter.begin)
        self.budget_use = BudgetUse(self._account_limits, directory, limiter)
        self.budgets = BudgetReserver(limiter, self._newest_limits_of, writer, hold_tokens, budget_wait_s)
        self._renew_s = renew_s
        self._decision_s = decision_s
        self._renewed_at = time.monotonic()
        self._undo_tasks: set[asyncio.Task[None]] = set()
        self._cancelled: dict[str, RequestRecord | None] = {}
        """Requests that ended before the decision about them, with their records: their rows are written after it."""
        """Rows of refused requests that did not fit into the journal."""

    def set_exclusive_from(self, hour: int) -> None:
        """From this hour (Unix) on, only this process spends: for a period that begins then or later it knows what its
        keys have spent, without a query."""
        self._account_limits.set_exclusive_from(hour)

    def use_file(self, keys: KeyRing, rules: tuple[LimitRule, ...]) -> None:
        """The keys and the rules of the operator's file, after a reload."""
        self.directory.use_file_keys(keys)
        if self._account_limits.use_rules(rules):
            self._limiter.rules_changed(self._account_limits.rule_accounts_of(self._open.values(), self.directory))

    @property
    def open_count(self) -> int:
        return len(self._open)

    @property
    def is_degraded(self) -> bool:
        """Limits are counted only in this process, although there are others, because Valkey is unavailable."""
        return self._limiter.is_degraded

    def check_rate(self, key: Key) -> None:
        """Checks the rate limits, before the size of the request is known. Raises `Refusal`."""
        if not key.has_limits:
            return
        decision = self._limiter.check_rate(key)
        if decision is not None and decision.refusal is not None:
            raise Refusal(refusal_of(decision.refusal, decision, key), headers_of(decision))

    async def open(self, request: ReservationRequest) -> tuple[Reservation, Headers]:
        """Admits a request. Raises `Refusal`. The hold is written to the journal later: see `Reservation.written`."""
        rules = self._account_limits.rules
        account_limits = self._account_limits_of(request)
        if account_limits.charges:
            limits, make = self._newest_limits_of, partial(self._make_reservation, request)
            reservation, result = await self.budgets.reserve(request, account_limits, limits, make, self._reserve)
        else:
            answer = request.output_tokens if request.output_tokens is not None else self._hold_tokens
            reservation = self._make_reservation(request, account_limits, Size(request.prompt_tokens, answer))
            result = await self._reserve(reservation)
        headers = headers_of(result.decision)
        code = result.decision.refusal or result.code
        if code is not None:
            needed_tokens = reservation.limit_request.needed_tokens
            raise Refusal(refusal_of(code, result.decision, request.key, needed_tokens), headers)
        reservation.handle = result.handle
        if self.writer is not None and not result.is_recorded:
            try:
                reservation.handle = self.writer.put(reservation.hold)
            except JournalUnavailable:
                self._limiter.release(request.request_id)
                raise Refusal(unavailable()) from None
        self._open[request.request_id] = reservation
        if rules is not self._account_limits.rules:  # a reload has changed them, and did not find it here
            self._limiter.rules_changed(self._account_limits.rule_accounts_of((reservation,), self.directory))
        return reservation, headers

    def withdraw(self, reservation: Reservation) -> None:
        """Undoes `open`: the journal could not write the hold."""
        reservation.is_settled = True
        self._open.pop(reservation.hold.request_id, None)
        self._limiter.release(reservation.hold.request_id)
        self._wake_waiting(reservation)

    def count_tokens(self, reservation: Reservation, tokens: int) -> None:
        """For `tpm`: a running answer has `tokens`, more than were counted. The count at least doubles."""
        counted = reservation.rate_tokens or 0
        reservation.rate_tokens = max(2 * counted, tokens)
        self._limiter.count_tokens(reservation.hold.request_id, reservation.rate_tokens - counted)

    def stop_waiting(self) -> None:
        """Requests that wait for money wait no longer: the process ends."""
        self.budgets.line.close()

    def _wake_waiting(self, reservation: Reservation) -> None:
        if self.budgets.line.waiting:
            request = reservation.limit_request
            self.budgets.line.wake((*[charge.account for charge in request.charges], *request.other_accounts))

    def settle(self, reservation: Reservation, record: RequestRecord) -> None:
        """Exactly once. Adds cost and price to the record."""
        if reservation.is_settled:
            return
        reservation.is_settled = True
        reservation.progress = None  # it holds the attempt
        self._open.pop(reservation.hold.request_id, None)
        usage, record.held = record.usage, reservation.held
        charge(reservation, record)
        if (record.price or 0) > reservation.held and reservation.limit_request.charges:
            record.flags += ("over_reserved",)  # the provider has billed more than it was allowed to
        record.settled_s = time.monotonic() - record.arrived_s
        record.workspace_id = reservation.workspace_id
        self._limiter.settle(reservation.hold.request_id, sum(record.tokens), record.price or 0)
        if self.writer is not None:
            self.writer.put(self._settlement(reservation, record, usage), required=True)
        if reservation.shown_bytes is not None:
            self.budgets.note_answer(reservation, record)
            reservation.shown_bytes = None  # it holds the attempt
        if self.budgets.line.waiting:
            self._wake_waiting(reservation)

    def refused(self, record: RequestRecord) -> None:
        """A request without a reservation. Without a valid key its row is in no workspace: only operators see it."""
        if self.writer is None or not record.has_row:
            return
        record.workspace_id = self.directory.workspace_id(record.workspace_id)
        if record.id in self._cancelled:
            self._cancelled[record.id] = record
            return
        with suppress(JournalUnavailable):  # the journal counts what it does not take
            self.writer.put(Refused(row=row_of(record, self.instance)))

    def note_progress(self) -> None:
        """Once a second: writes the progress that operators see and by which an orphan would be settled. It is written
        only if it has changed, and less and less often while the database is unavailable."""
        if self._progress is not None and self._progress.may_write(time.monotonic()):
            self._write_progress(self._progress)

    def _write_progress(self, interval: ProgressInterval) -> None:
        rows, times, readers = [], [], []
        for request_id, reservation in self._open.items():
            progress = reservation.progress() if reservation.progress is not None else None
            if progress is not None and progress != reservation.written_progress:
                reservation.written_progress = progress
                rows.append((request_id, short(progress.target), progress.tokens))
                times.append((progress.first_ms, progress.last_ms))
                readers.append(progress.readers)
        if rows and self.writer is not None:
            with suppress(JournalUnavailable):  # then an orphan is settled by older progress
                self.writer.put(
                    Progress(at_ms=now_ms(), rows=rows, times=times, readers=readers if any(readers) else [])
                )
                interval.note_written(time.monotonic())

    def renew_leases(self) -> None:
        """Once a second: renews reservations in Valkey, and sends the heartbeat of this process."""
        self._limiter.send_heartbeat()
        if time.monotonic() - self._renewed_at >= self._renew_s:
            self._renewed_at = time.monotonic()
            self._limiter.renew(self._open)

    def instance_ended(self, instance: str) -> None:
        """Another process is dead: its reservations are released."""
        self._limiter.instance_ended(instance)

    async def correct(self) -> None:
        """From time to time: corrects the shared sums by the ledger. Raises `StoreUnavailable`."""
        await self._limiter.correct()

    async def close(self, timeout_s: float) -> bool:
        """Writes all settlements to the database. False: not all in that time; the journal has the rest."""
        await asyncio.gather(*self._undo_tasks)
        await self.targets.close()
        await self._limiter.close()
        return self.writer is None or await self.writer.close(timeout_s)

    async def _reserve(self, reservation: Reservation) -> LimitDecision:
        decision = self._limiter.reserve_at_once(reservation.limit_request, reservation.hold)
        return LimitDecision(decision=decision) if decision is not None else await self._decide(reservation)

    def _account_limits_of(self, request: ReservationRequest) -> AccountLimits:
        """The accounts that the request is charged to. Raises `Refusal` if they are unknown or cannot be enforced."""
        key, workspace = request.key, self.directory.workspace_of(request.key)
        if workspace.is_unresolved:
            raise Refusal(unavailable())
        account_limits = self._account_limits.of(key, workspace, request.at_ms, request.attribution.end_user)
        if account_limits.is_limited and not self.can_enforce_limits:
            raise Refusal(unavailable("Rate limits with several workers need [shared] (Valkey)."))
        return account_limits

    def _newest_limits_of(self, request: ReservationRequest) -> AccountLimits:
        """After a wait: credit may have been added since, or the budget raised."""
        key = self.directory.newest(request.key)
        return self._account_limits.of(
            key, self.directory.workspace_of(key), request.at_ms, request.attribution.end_user
        )

    def _make_reservation(
        self,
        request: ReservationRequest,
        account_limits: AccountLimits,
        size: Size,
        need: Need | None = None,
        takes_rest: bool = False,
    ) -> Reservation:
        """`need`: None if money is not limited."""
        key, workspace, charges = request.key, account_limits.workspace, account_limits.charges
        output_tokens = size.answer + (need.extra_output if need is not None else 0)
        amount = request.quote.hold(size.prompt, output_tokens, request.service_tier)
        if amount is None and charges:
            raise Refusal(CallerError("model_unpriced", _UNPRICED.format(request.model), param="model"))
        hold = Hold(
            request_id=request.request_id,
            instance=self.instance,
            at_ms=request.at_ms,
            workspace_id=workspace.id,
            key_id=key.id,
            key_name=key.name,
            dialect=request.dialect,
            model=short(request.model),
            stream=request.stream,
            amount=amount or 0,
            account=account_limits.budget_account,
            prices=request.quote_text,
            prompt_tokens=request.prompt_tokens,
        )
        if request.idempotency is not None:
            hold.idempotency, hold.body_digest = request.idempotency
        if account_limits.rules:
            hold.accounts = account_limits.rule_accounts
        if (said := request.attribution) is not NOTHING:
            hold.end_user, hold.session, hold.tags = said.end_user, said.session, tags_text(said.tags)
        planned = 0
        if size.planned:
            whole = request.quote.hold(size.prompt, output_tokens + size.planned, request.service_tier)
            planned = max(0, (whole or 0) - hold.amount)
        wanted = request.output_tokens if request.output_tokens is not None else self._hold_tokens
        first = min(wanted, self._hold_tokens, output_tokens)
        limit_request = structs.replace(
            account_limits.request,
            request_id=request.request_id,
            tokens=request.prompt_tokens + first,
            amount=hold.amount,
            planned=planned,
            takes_rest=takes_rest,
        )
        reservation = Reservation(
            request, hold, limit_request, hold.amount, None, size.prompt, decision_s=self._decision_s
        )
        if need is not None and not request.quote.is_free(request.service_tier):
            reservation.allowance, reservation.choices = output_tokens, need.choices
            reservation.limit, reservation.flags = limit_of(need, need.longest if need.is_cuttable else size.answer)
            if need.is_cuttable:
                reservation.longest = need.longest
                reservation.bytes_per_token = self.budgets.bytes_per_token(request.model, reasons=need.reasons)
        if request.key.tpm is not None and (request.output_tokens is None or first < request.output_tokens):
            reservation.rate_tokens = first
        return reservation

    async def _decide(self, reservation: Reservation) -> LimitDecision:
        """In its own task: if the caller disconnects meanwhile, the reservation must still be undone."""
        rules = self._account_limits.rules
        task = asyncio.get_running_loop().create_task(
            self._limiter.reserve(reservation.limit_request, reservation.hold)
        )
        try:
            return await asyncio.shield(task)
        except GatewayFault as error:
            raise Refusal(error) from None
        except asyncio.CancelledError:
            self._cancelled[reservation.hold.request_id] = None
            undo_task = asyncio.get_running_loop().create_task(self._undo(reservation, task, rules))
            self._undo_tasks.add(undo_task)
            undo_task.add_done_callback(self._undo_tasks.discard)
            raise

    async def _undo(
        self, reservation: Reservation, task: "asyncio.Task[LimitDecision]", rules: tuple[LimitRule, ...]
    ) -> None:
        await asyncio.wait({task})
        record = self._cancelled.pop(reservation.hold.request_id)
        result = task.result() if not task.cancelled() and task.exception() is None else None
        if result is not None and result.decision.refusal is None and result.code is None:
            self._limiter.release(reservation.hold.request_id)
            if result.is_recorded and self.writer is not None:
                self.writer.put(self._settle_cancelled(reservation, record), required=True)
                if rules is not self._account_limits.rules:  # sums that were read since may have its hold
                    self._limiter.rules_changed({})
                return
        if record is not None:
            self.refused(record)

    def _settle_cancelled(self, reservation: Reservation, record: RequestRecord | None) -> Settle:
        if record is None:
            return settle_abandoned(reservation.hold)
        record.held, record.workspace_id = reservation.held, reservation.workspace_id
        record.cost = record.price = 0
        return self._settlement(reservation, record, None)

    def _settlement(self, reservation: Reservation, record: RequestRecord, usage: Usage | None) -> Settle:
        return Settle(
            row=row_of(record, self.instance),
            account=reservation.hold.account,
            accounts=reservation.hold.accounts,
            cached_tokens=(usage.cache_read or 0) if usage is not None else 0,
            reasoning_tokens=(usage.reasoning or 0) if usage is not None else 0,
            frees_idempotency=usage is None,
            credential=record.attempts[-1].credential if record.attempts else "",
            has_price=True,
        )


def without_store(keys: KeyRing, workers: int = 1) -> Accounting:
    """Limits in memory, without a database. `workers`: each has its share of the limits of targets."""
    return Accounting("", KeyDirectory(keys), MemoryLimiter(None, None), targets=TargetLimiter(peers=lambda: workers))


def settle_abandoned(hold: Hold) -> Settle:
    """Releases a hold whose request was cancelled before an upstream was called."""
    row = row_of_open(
        hold,
        Verdict.REJECTED,
        status=503,
        error="ledger_unavailable",
        duration_ms=max(0, now_ms() - hold.at_ms),
        held=hold.amount,
        cost=0,
        price=0,
    )
    return Settle(row=row, account=hold.account, accounts=hold.accounts, frees_idempotency=True, has_price=True)


def unavailable(message: str = "Accounting is unavailable at the moment. Try again later.") -> GatewayFault:
    return GatewayFault("ledger_unavailable", message)
