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

from msgspec import structs

from streamweir.core.errors import CallerError, GatewayFault
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.pipeline.answer_count import MAX_BYTES_PER_TOKEN
from streamweir.policy.access import Key, KeyRing
from streamweir.policy.key_limits import BY_COUNT
from streamweir.policy.limit_request import Decision, LimitRequest, headers_of
from streamweir.policy.limits import LEASE_S
from streamweir.policy.reserve import Need, Size, extension_sizes, fitting_size, limit_of, wanted_size
from streamweir.server.accounting.account_limits import AccountLimits, AccountLimitsCache, charges_of
from streamweir.server.accounting.charge import charge
from streamweir.server.accounting.intervals import ProgressInterval
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.accounting.limiter import LimitDecision, Limiter, MemoryLimiter
from streamweir.server.accounting.request_row import row_of, row_of_open, tags_text
from streamweir.server.accounting.reservation import Reservation, ReservationRequest
from streamweir.server.accounting.target_limiter import TargetLimiter
from streamweir.server.http.answers import Refusal
from streamweir.server.http.message import Headers
from streamweir.server.telemetry.record import RequestRecord
from streamweir.store.db.clock import now_ms
from streamweir.store.journal.entries import Extend, Hold, Progress, Refused, Settle, short
from streamweir.store.journal.handle import JournalUnavailable
from streamweir.store.ledger.writer import DECISION_S, Writer

_BUDGET_REFUSALS = ("budget_exceeded", "insufficient_quota")
_MESSAGES = {
    "budget_exceeded": "The spend limit of this API key is reached.",
    "insufficient_quota": "The credit balance is used up.",
    "idempotency_in_progress": "A request with this Idempotency-Key is being answered.",
    "idempotency_key_reused": "This Idempotency-Key was used for another request.",
    "idempotency_completed": "The request with this Idempotency-Key is complete; its answer is not stored.",
}


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
    ) -> None:
        """`writer` is None without a database. `hold_tokens`: for an answer whose caller sets no limit.

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
        self._renew_s = renew_s
        self._decision_s = decision_s
        self._renewed_at = time.monotonic()
        self._undo_tasks: set[asyncio.Task[None]] = set()
        self._cancelled: dict[str, RequestRecord | None] = {}
        """Requests that ended before the decision about them, with their records: their rows are written after it."""
        self.refused_dropped = 0
        """Rows of refused requests that did not fit into the journal."""

    def set_exclusive_from(self, hour: int) -> None:
        """From this hour (Unix) on, only this process spends: for a period that begins then or later it knows what its
        keys have spent, without a query."""
        self._account_limits.set_exclusive_from(hour)

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
            raise Refusal(_error_of(decision.refusal, decision, key), headers_of(decision))

    async def open(self, request: ReservationRequest) -> tuple[Reservation, Headers]:
        """Admits a request. Raises `Refusal`. The hold is written to the journal later: see `Reservation.written`."""
        account_limits = self._account_limits_of(request)
        if account_limits.charges:
            reservation, result = await self._reserve_within(request, account_limits)
        else:
            answer = request.output_tokens if request.output_tokens is not None else self._hold_tokens
            reservation = self._make_reservation(request, account_limits, Size(request.prompt_tokens, answer), None)
            result = await self._reserve(reservation)
        headers = headers_of(result.decision)
        code = result.decision.refusal or result.code
        if code is not None:
            raise Refusal(_error_of(code, result.decision, request.key), headers)
        reservation.handle = result.handle
        if self.writer is not None and not result.is_recorded:
            try:
                reservation.handle = self.writer.put(reservation.hold)
            except JournalUnavailable:
                self._limiter.release(request.request_id)
                raise Refusal(unavailable()) from None
        self._open[request.request_id] = reservation
        return reservation, headers

    def withdraw(self, reservation: Reservation) -> None:
        """Undoes `open`: the journal could not write the hold."""
        reservation.is_settled = True
        self._open.pop(reservation.hold.request_id, None)
        self._limiter.release(reservation.hold.request_id)

    async def extend(self, reservation: Reservation, needed: int) -> bool:
        """The answer exceeds its reservation, with `needed` tokens: reserves more, or as much as is available.

        False: not enough is available. True without an extension if the reservation already covers it.
        """
        covered = reservation.allowance or 0
        step = reservation.step or self._hold_tokens
        sizes = extension_sizes(covered, needed, step)
        for allowance in sizes:
            if reservation.is_settled:
                return False
            if await self._hold_more(reservation, allowance):
                reservation.allowance, reservation.step = allowance, min(step, allowance - covered)
                return True
        return not sizes

    async def _hold_more(self, reservation: Reservation, allowance: int) -> bool:
        request = reservation.request
        amount = (
            request.quote.hold(reservation.prompt_tokens, allowance, request.service_tier) or 0
        ) - reservation.held
        if amount <= 0:
            return True  # it is already reserved, even if the account is overspent by now
        reservation.extensions += 1
        entry = Extend(
            request_id=reservation.hold.request_id, at_ms=now_ms(), number=reservation.extensions, amount=amount
        )
        if not await self._limiter.extend(entry, self._renewed(reservation)):
            return False
        if self.writer is not None and not reservation.is_settled:
            self.writer.put(entry, required=True)
        reservation.held += amount
        return True

    def _renewed(self, reservation: Reservation) -> LimitRequest:
        """With the current limits: credit may have been added since, or the budget raised."""
        key = self.directory.newest(reservation.request.key)
        charges = {
            charge.account: charge
            for charge in charges_of(key, self.directory.workspace_of(key), reservation.request.at_ms)
        }
        return structs.replace(
            reservation.limit_request,
            charges=tuple([charges.get(charge.account, charge) for charge in reservation.limit_request.charges]),
        )

    def settle(self, reservation: Reservation, record: RequestRecord) -> None:
        """Exactly once. Adds cost and price to the record."""
        if reservation.is_settled:
            return
        reservation.is_settled = True
        reservation.progress = None  # it holds the attempt
        self._open.pop(reservation.hold.request_id, None)
        usage = record.usage
        record.held = reservation.held
        charge(reservation, record)
        record.settled_s = time.monotonic() - record.arrived_s
        record.workspace_id = reservation.workspace_id
        self._limiter.settle(
            reservation.hold.request_id, usage.total_tokens if usage is not None else 0, record.price or 0
        )
        if self.writer is not None:
            self.writer.put(self._settlement(reservation, record, usage), required=True)

    def refused(self, record: RequestRecord) -> None:
        """A request without a reservation. Without a valid key it has no row: it must not fill the database."""
        if self.writer is None or record.key_id is None:
            return
        record.workspace_id = self.directory.workspace_id(record.workspace_id)
        if record.id in self._cancelled:
            self._cancelled[record.id] = record
            return
        try:
            self.writer.put(Refused(row=row_of(record, self.instance)))
        except JournalUnavailable:
            self.refused_dropped += 1

    def note_progress(self) -> None:
        """Once a second: writes the progress that operators see and by which an orphan would be settled. It is written
        only if it has changed, and less and less often while the database is unavailable."""
        if self._progress is not None and self._progress.may_write(time.monotonic()):
            self._write_progress(self._progress)

    def _write_progress(self, interval: ProgressInterval) -> None:
        rows, times = [], []
        for request_id, reservation in self._open.items():
            progress = reservation.progress() if reservation.progress is not None else None
            if progress is not None and progress != reservation.written_progress:
                reservation.written_progress = progress
                rows.append((request_id, short(progress.target), progress.tokens))
                times.append((progress.first_ms, progress.last_ms))
        if rows and self.writer is not None:
            with suppress(JournalUnavailable):  # then an orphan is settled by older progress
                self.writer.put(Progress(at_ms=now_ms(), rows=rows, times=times))
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

    async def _reserve_within(
        self, request: ReservationRequest, account_limits: AccountLimits
    ) -> tuple[Reservation, LimitDecision]:
        """If money is limited: reserves the wanted size, or the size that fits, or returns the refusal."""
        need = self._need_of(request)
        remaining = await self._remaining(account_limits) if need.limit is None else None
        wanted = size = wanted_size(need, request.quote, remaining)
        prompt = need.prompt
        for is_last in (False, False, True):  # other requests may reserve what remains meanwhile
            reservation = self._make_reservation(request, account_limits, size, need)
            result = await self._reserve(reservation)
            if is_last or (result.decision.refusal or result.code) not in _BUDGET_REFUSALS:
                break
            remaining = await self._remaining(account_limits, exactly=True)
            min_prompt = prompt // MAX_BYTES_PER_TOKEN
            if remaining is None or fitting_size(need, wanted, request.quote, remaining, min_prompt) is None:
                break  # an exact count of the prompt would not help
            if prompt == need.prompt and request.measure is not None:
                prompt = min(prompt, await request.measure.count() or prompt)
            smaller = fitting_size(need, wanted, request.quote, remaining, prompt)
            if smaller is None:
                break
            size = smaller
        return reservation, result

    async def _remaining(self, account_limits: AccountLimits, *, exactly: bool = False) -> int | None:
        try:
            return await self._limiter.remaining(account_limits.charges, exactly=exactly)
        except GatewayFault as error:
            raise Refusal(error) from None

    def _need_of(self, request: ReservationRequest) -> Need:
        if request.measure is not None:
            return request.measure.need(self._hold_tokens)
        max_answer = request.output_tokens or self._hold_tokens
        return Need(
            prompt=request.prompt_tokens, limit=request.output_tokens, default=self._hold_tokens, max_answer=max_answer
        )

    def _account_limits_of(self, request: ReservationRequest) -> AccountLimits:
        """The accounts that the request is charged to. Raises `Refusal` if they are unknown or cannot be enforced."""
        key = request.key
        workspace = self.directory.workspace_of(key)
        if workspace.is_unresolved:
            raise Refusal(unavailable())
        account_limits = self._account_limits.of(key, workspace, request.at_ms)
        if account_limits.is_limited and not self.can_enforce_limits:
            raise Refusal(unavailable("Rate limits with several workers need [shared] (Valkey)."))
        return account_limits

    def _make_reservation(
        self, request: ReservationRequest, account_limits: AccountLimits, size: Size, need: Need | None
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
            account=charges[0].account if key.budget_nano is not None else None,
            prices=request.quote_text,
            prompt_tokens=request.prompt_tokens,
            idempotency=request.idempotency,
            body_digest=request.body_digest,
            end_user=request.attribution.end_user,
            session=request.attribution.session,
            tags=tags_text(request.attribution.tags),
        )
        expected = request.output_tokens if request.output_tokens is not None else self._hold_tokens
        limit_request = LimitRequest(
            request_id=request.request_id,
            key_id=key.id,
            tokens=request.prompt_tokens + min(expected, output_tokens),
            amount=hold.amount,
            charges=charges,
            other_accounts=account_limits.other_accounts,
            **account_limits.limits,
        )
        reservation = Reservation(
            request, hold, limit_request, hold.amount, None, size.prompt, decision_s=self._decision_s
        )
        if need is not None and request.quote.affords(0, 0, request.service_tier) is not None:
            reservation.allowance, reservation.choices = output_tokens, need.choices
            reservation.limit, reservation.flags = limit_of(need, size)
        return reservation

    async def _decide(self, reservation: Reservation) -> LimitDecision:
        """In its own task: if the caller disconnects meanwhile, the reservation must still be undone."""
        task = asyncio.get_running_loop().create_task(
            self._limiter.reserve(reservation.limit_request, reservation.hold)
        )
        try:
            return await asyncio.shield(task)
        except GatewayFault as error:
            raise Refusal(error) from None
        except asyncio.CancelledError:
            self._cancelled[reservation.hold.request_id] = None
            undo_task = asyncio.get_running_loop().create_task(self._undo(reservation, task))
            self._undo_tasks.add(undo_task)
            undo_task.add_done_callback(self._undo_tasks.discard)
            raise

    async def _undo(self, reservation: Reservation, task: "asyncio.Task[LimitDecision]") -> None:
        await asyncio.wait({task})
        record = self._cancelled.pop(reservation.hold.request_id)
        result = task.result() if not task.cancelled() and task.exception() is None else None
        if result is not None and result.decision.refusal is None and result.code is None:
            self._limiter.release(reservation.hold.request_id)
            if result.is_recorded and self.writer is not None:
                self.writer.put(self._settle_cancelled(reservation, record), required=True)
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
    return Settle(row=row, account=hold.account, frees_idempotency=True, has_price=True)


def _error_of(code: str, decision: Decision, key: Key) -> CallerError:
    kind = BY_COUNT.get(decision.limited_by) if decision.limited_by is not None else None
    message = kind.refusal.format(getattr(key, kind.name)) if kind is not None else _MESSAGES[code]
    return CallerError(code, message, retry_after_s=decision.retry_after_s or None)


def unavailable(message: str = "Accounting is unavailable at the moment. Try again later.") -> GatewayFault:
    return GatewayFault("ledger_unavailable", message)
