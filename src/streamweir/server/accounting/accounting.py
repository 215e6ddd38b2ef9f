"""Accounting in this process: a reservation before the upstream is called, one settlement when the request is over.

    RequestHandler -> open (prices, limits, reservation) -> ... -> settle (usage, cost) -> journal -> database

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
from streamweir.pipeline.answer_count import LONGEST_TOKEN
from streamweir.policy.access import Key
from streamweir.policy.key_limits import BY_COUNT
from streamweir.policy.limit_request import Decision, LimitRequest, headers_of
from streamweir.policy.limits import LEASE_S
from streamweir.policy.reserve import Need, Size, extension_sizes, fitting_size, limit_of, wanted_size
from streamweir.server.accounting.account_limits import AccountLimits, AccountLimitsCache, draws_of
from streamweir.server.accounting.intervals import ProgressInterval
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.accounting.limiter import LimitDecision, Limiter, MemoryLimiter
from streamweir.server.accounting.request_row import row_of, row_of_open
from streamweir.server.accounting.reservation import Reservation, ReservationRequest
from streamweir.server.http.answers import Refusal
from streamweir.server.http.message import Headers
from streamweir.server.telemetry.record import RequestRecord
from streamweir.store.db.clock import now_ms
from streamweir.store.db.request_log import Row
from streamweir.store.journal.entries import Extend, Hold, Progress, Refused, Settle, short
from streamweir.store.journal.handle import JournalUnavailable
from streamweir.store.ledger.writer import DECISION_S, Writer

_OF_MONEY = ("budget_exceeded", "insufficient_quota")
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
"""Said to callers; nothing but the operator's file can change it, so a retry is of no use."""
HOLD_TOKENS = 1024


class Accounting:
    def __init__(
        self,
        instance: str,
        directory: KeyDirectory,
        limiter: Limiter,
        writer: Writer | None = None,
        hold_tokens: int = HOLD_TOKENS,
        limits_are_kept: bool = True,
        renew_s: float = LEASE_S / 4,
        decision_s: float = DECISION_S,
    ) -> None:
        """`writer` is None without a database. `hold_tokens`: for an answer whose caller sets no limit.

        `limits_are_kept`: False for several processes that share nothing they could count in. `renew_s`: how often
        what is reserved is renewed. `decision_s`: how long a request waits until its hold is written.
        """
        self.instance = instance
        self.directory = directory
        self.writer = writer
        self._progress = None if writer is None else ProgressInterval(writer)
        self._limiter = limiter
        self._hold_tokens = hold_tokens
        self.limits_are_kept = limits_are_kept
        self._open: dict[str, Reservation] = {}
        self._account_limits = AccountLimitsCache(limiter.begin)
        self._renew_s = renew_s
        self._decision_s = decision_s
        self._renewed_at = time.monotonic()
        self._undoing: set[asyncio.Task[None]] = set()
        self._leaving: dict[str, RequestRecord | None] = {}
        """Requests that ended before it was decided about them, with their facts: their rows come with the decision."""
        self.refused_dropped = 0
        """Rows of refused requests that found no room."""

    def know_all_from(self, hour: int) -> None:
        """From this hour (Unix) on nobody but this process spends anything: of a period that begins then or later it
        knows what its keys have spent, without asking the database."""
        self._account_limits.know_all_from(hour)

    @property
    def open_count(self) -> int:
        return len(self._open)

    @property
    def is_degraded(self) -> bool:
        """Limits are counted here alone, though others serve as well and there is a Valkey to count in."""
        return self._limiter.is_degraded

    def peek(self, key: Key) -> None:
        """Refuses by the head alone what cannot be let in. Raises `Refusal`."""
        if not key.has_limits:
            return
        decision = self._limiter.peek(key)
        if decision is not None and decision.refusal is not None:
            raise Refusal(_error_of(decision.refusal, decision, key), headers_of(decision))

    async def open(self, asked: ReservationRequest) -> tuple[Reservation, Headers]:
        """Lets a request in. Raises `Refusal`. The hold is on its way to the journal: see `Reservation.written`."""
        account_limits = self._terms_of(asked)
        if account_limits.draws:
            reservation, ruling = await self._reserve_within(asked, account_limits)
        else:
            answer = asked.output_tokens if asked.output_tokens is not None else self._hold_tokens
            reservation = self._book(asked, account_limits, Size(asked.prompt_tokens, answer), None)
            ruling = await self._reserve(reservation)
        headers = headers_of(ruling.decision)
        code = ruling.decision.refusal or ruling.code
        if code is not None:
            raise Refusal(_error_of(code, ruling.decision, asked.key), headers)
        reservation.handle = ruling.handle
        if self.writer is not None and not ruling.is_booked:
            try:
                reservation.handle = self.writer.put(reservation.hold)
            except JournalUnavailable:
                self._limiter.release(asked.request_id)
                raise Refusal(unavailable()) from None
        self._open[asked.request_id] = reservation
        return reservation, headers

    def withdraw(self, reservation: Reservation) -> None:
        """The journal did not take its hold: it has never been opened."""
        reservation.is_settled = True
        self._open.pop(reservation.hold.request_id, None)
        self._limiter.release(reservation.hold.request_id)

    async def extend(self, reservation: Reservation, needed: int) -> bool:
        """The answer has outgrown its hold, with `needed` tokens so far: hold more, or as much as there is for it.

        False: what is needed cannot be held. True without a hold where the reservation covers it already.
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
        asked = reservation.asked
        amount = (asked.quote.hold(reservation.prompt_tokens, allowance, asked.service_tier) or 0) - reservation.held
        if amount <= 0:
            return True  # it is held already, even where the account is overspent by now
        reservation.extensions += 1
        entry = Extend(
            request_id=reservation.hold.request_id, at_ms=now_ms(), number=reservation.extensions, amount=amount
        )
        if not await self._limiter.extend(entry, self._renewed(reservation)):
            return False
        if self.writer is not None and not reservation.is_settled:
            self.writer.put(entry, must=True)
        reservation.held += amount
        return True

    def _renewed(self, reservation: Reservation) -> LimitRequest:
        """By the limits of this moment: there may have been credit since, or a larger budget."""
        key = self.directory.newest(reservation.asked.key)
        draws = {
            draw.account: draw for draw in draws_of(key, self.directory.workspace_of(key), reservation.asked.at_ms)
        }
        return structs.replace(
            reservation.claim, draws=tuple([draws.get(draw.account, draw) for draw in reservation.claim.draws])
        )

    def settle(self, reservation: Reservation, facts: RequestRecord) -> None:
        """Exactly once. Completes the facts by what it cost."""
        if reservation.is_settled:
            return
        reservation.is_settled = True
        reservation.progress = None  # it holds the attempt
        self._open.pop(reservation.hold.request_id, None)
        usage = facts.usage
        facts.held = reservation.held
        # What a provider could not be asked for it has not given; else it is what was asked, unless it says otherwise.
        if facts.service_tier is None and "service_tier" not in facts.dropped:
            facts.service_tier = reservation.asked.service_tier
        facts.cost, rates = reservation.reckon(facts.target, usage, facts.service_tier)
        facts.rates = rates.text if rates is not None else None
        facts.settled_s = time.monotonic() - facts.arrived_s
        facts.price_version = reservation.asked.quote.version
        facts.workspace_id = reservation.workspace_id
        self._limiter.settle(
            reservation.hold.request_id, usage.total_tokens if usage is not None else 0, facts.cost or 0
        )
        if self.writer is not None:
            self.writer.put(self._settlement(reservation, row_of(facts, self.instance), usage), must=True)

    def refused(self, facts: RequestRecord) -> None:
        """A request that held nothing. Without a valid key there is no row: it must not fill the database."""
        if self.writer is None or facts.key_id is None:
            return
        facts.workspace_id = self.directory.workspace_id(facts.workspace_id)
        if facts.id in self._leaving:
            self._leaving[facts.id] = facts
            return
        try:
            self.writer.put(Refused(row=row_of(facts, self.instance)))
        except JournalUnavailable:
            self.refused_dropped += 1

    def note_progress(self) -> None:
        """Once a second: what an orphan would be settled by, and what operators see of it. Of a request that stands
        still nothing is written; while the database is away, ever less often."""
        if self._progress is not None and self._progress.may_write(time.monotonic()):
            self._write_progress(self._progress)

    def _write_progress(self, interval: ProgressInterval) -> None:
        rows, times = [], []
        for request_id, reservation in self._open.items():
            stand = reservation.progress() if reservation.progress is not None else None
            if stand is not None and stand != reservation.told:
                reservation.told = stand
                rows.append((request_id, short(stand.target), stand.tokens))
                times.append((stand.first_ms, stand.last_ms))
        if rows and self.writer is not None:
            with suppress(JournalUnavailable):  # then an orphan would be settled by less
                self.writer.put(Progress(at_ms=now_ms(), rows=rows, times=times))
                interval.note_written(time.monotonic())

    def renew_leases(self) -> None:
        """Once a second: what is reserved stays so, and this process is known to be alive."""
        self._limiter.beat()
        if time.monotonic() - self._renewed_at >= self._renew_s:
            self._renewed_at = time.monotonic()
            self._limiter.renew(self._open)

    def instance_ended(self, instance: str) -> None:
        """Another process is known to be dead: what it has reserved is free again."""
        self._limiter.instance_ended(instance)

    async def correct(self) -> None:
        """From time to time: what is shared is held against the ledger. Raises `StoreUnavailable`."""
        await self._limiter.correct()

    async def close(self, timeout_s: float) -> bool:
        """Everything that is settled goes to the database. False: not in that time, and the journal has the rest."""
        await asyncio.gather(*self._undoing)
        await self._limiter.close()
        return self.writer is None or await self.writer.close(timeout_s)

    async def _reserve(self, reservation: Reservation) -> LimitDecision:
        decision = self._limiter.reserve_at_once(reservation.claim, reservation.hold)
        return LimitDecision(decision=decision) if decision is not None else await self._rule(reservation)

    async def _reserve_within(
        self, asked: ReservationRequest, account_limits: AccountLimits
    ) -> tuple[Reservation, LimitDecision]:
        """Where money is limited: as large as is wanted, or as large as fits, or what is refused."""
        need = self._need_of(asked)
        left = await self._left(account_limits) if need.limit is None else None
        wanted = size = wanted_size(need, asked.quote, left)
        prompt = need.prompt
        for is_last in (False, False, True):  # others may take what is left meanwhile
            reservation = self._book(asked, account_limits, size, need)
            ruling = await self._reserve(reservation)
            if is_last or (ruling.decision.refusal or ruling.code) not in _OF_MONEY:
                break
            left = await self._left(account_limits, exactly=True)
            if left is None or fitting_size(need, wanted, asked.quote, left, prompt // LONGEST_TOKEN) is None:
                break  # no count of the prompt could help
            if prompt == need.prompt and asked.measure is not None:
                prompt = min(prompt, await asked.measure.count() or prompt)
            smaller = fitting_size(need, wanted, asked.quote, left, prompt)
            if smaller is None:
                break
            size = smaller
        return reservation, ruling

    async def _left(self, account_limits: AccountLimits, *, exactly: bool = False) -> int | None:
        try:
            return await self._limiter.left(account_limits.draws, exactly=exactly)
        except GatewayFault as error:
            raise Refusal(error) from None

    def _need_of(self, asked: ReservationRequest) -> Need:
        if asked.measure is not None:
            return asked.measure.need(self._hold_tokens)
        most = asked.output_tokens or self._hold_tokens
        return Need(prompt=asked.prompt_tokens, limit=asked.output_tokens, default=self._hold_tokens, most=most)

    def _terms_of(self, asked: ReservationRequest) -> AccountLimits:
        """What it draws on. Raises `Refusal` where that cannot be told, or not kept."""
        key = asked.key
        workspace = self.directory.workspace_of(key)
        if workspace.is_awaited:
            raise Refusal(unavailable())
        account_limits = self._account_limits.of(key, workspace, asked.at_ms)
        if account_limits.is_limited and not self.limits_are_kept:
            raise Refusal(unavailable("Rate limits with several workers need [shared] (Valkey)."))
        return account_limits

    def _book(
        self, asked: ReservationRequest, account_limits: AccountLimits, size: Size, need: Need | None
    ) -> Reservation:
        """`need` is None where nothing limits the money."""
        key, workspace, draws = asked.key, account_limits.workspace, account_limits.draws
        output_tokens = size.answer + (need.besides if need is not None else 0)
        amount = asked.quote.hold(size.prompt, output_tokens, asked.service_tier)
        if amount is None and draws:
            raise Refusal(CallerError("model_unpriced", _UNPRICED.format(asked.model), param="model"))
        hold = Hold(
            request_id=asked.request_id,
            instance=self.instance,
            at_ms=asked.at_ms,
            workspace_id=workspace.id,
            key_id=key.id,
            key_name=key.name,
            dialect=asked.dialect,
            model=short(asked.model),
            stream=asked.stream,
            amount=amount or 0,
            account=draws[0].account if key.budget_nano is not None else None,
            prices=asked.quote_text,
            prompt_tokens=asked.prompt_tokens,
            idempotency=asked.idempotency,
            body_digest=asked.body_digest,
        )
        usual = asked.output_tokens if asked.output_tokens is not None else self._hold_tokens
        claim = LimitRequest(
            request_id=asked.request_id,
            key_id=key.id,
            tokens=asked.prompt_tokens + min(usual, output_tokens),
            amount=hold.amount,
            draws=draws,
            tallies=account_limits.tallies,
            **account_limits.limits,
        )
        reservation = Reservation(asked, hold, claim, hold.amount, None, size.prompt, decision_s=self._decision_s)
        if need is not None and asked.quote.affords(0, 0, asked.service_tier) is not None:
            reservation.allowance, reservation.choices = output_tokens, need.choices
            reservation.limit, reservation.flags = limit_of(need, size)
        return reservation

    async def _rule(self, reservation: Reservation) -> LimitDecision:
        """In a task of its own: a caller who leaves meanwhile must not leave a reservation that nobody knows of."""
        task = asyncio.get_running_loop().create_task(self._limiter.reserve(reservation.claim, reservation.hold))
        try:
            return await asyncio.shield(task)
        except GatewayFault as error:
            raise Refusal(error) from None
        except asyncio.CancelledError:
            self._leaving[reservation.hold.request_id] = None
            undoing = asyncio.get_running_loop().create_task(self._undo(reservation, task))
            self._undoing.add(undoing)
            undoing.add_done_callback(self._undoing.discard)
            raise

    async def _undo(self, reservation: Reservation, task: "asyncio.Task[LimitDecision]") -> None:
        await asyncio.wait({task})
        facts = self._leaving.pop(reservation.hold.request_id)
        ruling = task.result() if not task.cancelled() and task.exception() is None else None
        if ruling is not None and ruling.decision.refusal is None and ruling.code is None:
            self._limiter.release(reservation.hold.request_id)
            if ruling.is_booked and self.writer is not None:
                self.writer.put(self._settle_left(reservation, facts), must=True)
                return
        if facts is not None:
            self.refused(facts)

    def _settle_left(self, reservation: Reservation, facts: RequestRecord | None) -> Settle:
        if facts is None:
            return abandoned(reservation.hold)
        facts.held, facts.cost, facts.workspace_id = reservation.held, 0, reservation.workspace_id
        return self._settlement(reservation, row_of(facts, self.instance), None)

    def _settlement(self, reservation: Reservation, row: Row, usage: Usage | None) -> Settle:
        return Settle(
            row=row,
            account=reservation.hold.account,
            cached_tokens=(usage.cache_read or 0) if usage is not None else 0,
            reasoning_tokens=(usage.reasoning or 0) if usage is not None else 0,
            frees_idempotency=usage is None,
        )


def without_store(directory: KeyDirectory) -> Accounting:
    """Limits in memory, and no books."""
    return Accounting("", directory, MemoryLimiter(None, None))


def abandoned(hold: Hold) -> Settle:
    """Of a hold for which nobody waited any more: given back, as of a request that never reached an upstream."""
    row = row_of_open(
        hold,
        Verdict.REJECTED,
        status=503,
        error="ledger_unavailable",
        duration_ms=max(0, now_ms() - hold.at_ms),
        held=hold.amount,
        cost=0,
    )
    return Settle(row=row, account=hold.account, frees_idempotency=True)


def _error_of(code: str, decision: Decision, key: Key) -> CallerError:
    kind = BY_COUNT.get(decision.because) if decision.because is not None else None
    message = kind.refusal.format(getattr(key, kind.name)) if kind is not None else _MESSAGES[code]
    return CallerError(code, message, retry_after_s=decision.retry_after_s or None)


def unavailable(message: str = "Accounting is unavailable at the moment. Try again later.") -> GatewayFault:
    return GatewayFault("ledger_unavailable", message)
