"""Reserves money for a request: at once, after a wait, less than it wants, or not at all; and more while it streams.

    fits beside everything that running requests hold and plan   reserved at once
    nobody else is running on the account                        reserved at once, with as much as there is
    does not fit because of others                               waits for them (`server.accounting.budget_line`), then
                                                                 reserved with as much as there is
    what is spent leaves no room for the smallest answer         refused at once

An answer is reserved whole, and its provider gets no higher limit than that: so a provider that keeps its limit cannot
overspend. A caller's limit that does not fit is first lowered to what the last answers of its key and model make
likely, then to what there is. Only an answer that can be cut is reserved in slices (`policy.limits.reserve`): of a
model that is documented to bill nothing that it does not show, and whose last answers have proved it
(`policy.limits.answer_memory`). Nothing here is a promise about money: the limiter decides about every amount, whatever
is planned.
"""

import time
from collections.abc import Awaitable, Callable

from msgspec import Struct, structs

from streamweir.core.errors import CallerError, GatewayFault
from streamweir.core.verdict import Verdict
from streamweir.pipeline.answer_count import MAX_BYTES_PER_TOKEN
from streamweir.pipeline.settlement import UsageSource
from streamweir.policy.limits.answer_memory import UNCOUNTED_TOKENS, AnswerMemory
from streamweir.policy.limits.limit_request import Decision, LimitRequest, headers_of
from streamweir.policy.limits.reserve import (
    Need,
    Size,
    extension_sizes,
    fitting_size,
    limit_of,
    shortened_size,
    smallest_size,
    wanted_size,
)
from streamweir.server.accounting.account_limits import AccountLimits
from streamweir.server.accounting.budget_line import BudgetLine, Turn
from streamweir.server.accounting.limit_refusal import BUDGET_REFUSALS, budget_refusal
from streamweir.server.accounting.limiter import AccountState, LimitDecision, Limiter
from streamweir.server.accounting.reservation import Reservation, ReservationRequest
from streamweir.server.http.answers import Refusal
from streamweir.server.telemetry.record import RequestRecord
from streamweir.store.db.clock import now_ms
from streamweir.store.journal.entries import Extend
from streamweir.store.ledger.writer import Writer

BUDGET_WAIT_S = 30.0
_MAX_LOWERED = 3
"""How often a smaller size is tried: others may reserve what is left meanwhile."""
_COMPLETE = (Verdict.COMPLETED, Verdict.LENGTH)

MakeReservation = Callable[[AccountLimits, Size, Need, bool], Reservation]
"""`bool`: it takes the rest, whatever others plan."""


class _Search(Struct):
    """What has been tried for one request."""

    need: Need
    wanted: Size
    prompt: int
    """The smallest upper bound of the prompt that is known."""
    is_counted: bool = False
    is_last: bool = False
    """It has waited for as long as it may."""
    is_shortened: bool = False
    """Less than the caller's limit is wanted, since that did not fit."""
    is_rechecked: bool = False
    lowered: int = 0
    states: list[AccountState] = []

    def sized(self) -> Size:
        return structs.replace(self.wanted, prompt=self.prompt)


class BudgetReserver:
    def __init__(
        self,
        limiter: Limiter,
        limits: Callable[[ReservationRequest], AccountLimits],
        writer: Writer | None,
        hold_tokens: int,
        wait_s: float,
    ) -> None:
        """`limits`: the present ones of a request."""
        self.line = BudgetLine()
        self.memory = AnswerMemory()
        self._limiter = limiter
        self._limits = limits
        self._writer = writer
        self._hold_tokens = hold_tokens
        self._wait_s = wait_s

    async def reserve(
        self,
        request: ReservationRequest,
        account_limits: AccountLimits,
        limits: Callable[[ReservationRequest], AccountLimits],
        make: MakeReservation,
        decide: Callable[[Reservation], Awaitable[LimitDecision]],
    ) -> tuple[Reservation, LimitDecision]:
        """Raises `Refusal` if there is too little money. `account_limits`: the present ones; `limits`: those after a
        wait."""
        measured = self._measured(request)
        need = self._informed(measured, request)
        available = await self._available(need, account_limits)
        wanted = wanted_size(need, request.quote, available)
        search, size = _Search(need, wanted, need.prompt), wanted
        blocked_by: str | None = None
        if self.line.waiting:
            blocked_by = self.line.has_waiting([charge.account for charge in account_limits.charges])
        turn: Turn | None = None
        began_at = time.monotonic()
        try:
            while True:
                if blocked_by is not None and not search.is_last:
                    turn = self._take_turn(turn, blocked_by, began_at, request)
                    search.is_last = turn is None or not await self.line.wait(turn)
                    account_limits = limits(request)
                    need = search.need = self._informed(measured, request)  # answers have ended meanwhile
                    available = await self._available(need, account_limits)
                    search.wanted, search.is_shortened = wanted_size(need, request.quote, available), False
                    size = search.sized()
                reservation = make(account_limits, size, need, search.is_last)
                result = await decide(reservation)
                code = result.decision.refusal or result.code
                if code not in BUDGET_REFUSALS:
                    self._apply_plan(reservation, need, result.decision, available)
                    return reservation, result
                search.states = await self._states(account_limits)
                blocked_by, smaller = await self._next(search, request, result.decision.limited_by)
                if blocked_by is None and smaller is None and await self._has_corrected(search, request):
                    smaller = search.sized()
                if blocked_by is None and smaller is None:
                    error = self._refusal(code, search, request, result.decision)
                    raise Refusal(error, headers_of(result.decision))
                size = smaller or size
        finally:
            if turn is not None:
                self.line.leave(turn)

    def _take_turn(self, turn: Turn | None, account: str, began_at: float, request: ReservationRequest) -> Turn | None:
        if turn is not None:
            if turn.account == account:
                return turn
            self.line.leave(turn)
        elif request.wait is not None:
            request.wait.begins()
        max_s = request.wait.max_s if request.wait is not None else None
        wait_s = self._wait_s if max_s is None else min(self._wait_s, max_s)
        return self.line.join(account, began_at + wait_s)

    async def _next(
        self, search: _Search, request: ReservationRequest, limited_by: str | None
    ) -> tuple[str | None, Size | None]:
        """After a refusal: the account to wait for, or the size to try now. Neither: it is refused."""
        need, wanted, quote = search.need, search.wanted, request.quote
        if not search.states:
            return None, None
        unspent = min(state.charge.limit - state.spent for state in search.states)
        if fitting_size(need, wanted, quote, unspent, search.prompt // MAX_BYTES_PER_TOKEN) is None:
            return None, None  # an exact count of the prompt would not help
        if not search.is_counted and request.measure is not None:
            search.is_counted = True
            counted = await request.measure.count()
            if counted is not None and counted < search.prompt:
                search.prompt = counted
                return None, search.sized()
        if fitting_size(need, wanted, quote, unspent, search.prompt) is None:
            return None, None
        tightest = min(search.states, key=lambda state: state.free)
        if not search.is_shortened and not need.is_cuttable:
            search.is_shortened = True
            need = search.need = structs.replace(need, expected=self._expected(need, request))
            shortened = shortened_size(need, quote, tightest.free, search.prompt)
            if shortened is not None:
                search.wanted = shortened
                return None, shortened
        blocking = next((state for state in search.states if state.charge.account == limited_by), tightest)
        if blocking.held > 0 and not search.is_last:
            return blocking.charge.account, None
        search.lowered += 1
        if search.lowered > _MAX_LOWERED:
            return None, None
        free = tightest.free
        half = None
        if tightest.held > 0 and not need.is_cuttable:  # all of it would cut the answers that are running
            half = fitting_size(need, wanted, quote, free // 2, search.prompt)
        return None, half or fitting_size(need, wanted, quote, free, search.prompt)

    async def _has_corrected(self, search: _Search, request: ReservationRequest) -> bool:
        """Whether to try once more, instead of refusing what the ledger says could be paid for."""
        free = min([state.free for state in search.states], default=-1)
        if search.is_rechecked or free < self._least(search, request):
            return False
        search.is_rechecked, search.lowered = True, 0
        return await self._limiter.recheck([state.charge for state in search.states])

    def _least(self, search: _Search, request: ReservationRequest) -> int:
        """In nano-dollars."""
        size = smallest_size(search.need, search.wanted, search.prompt)
        return request.quote.hold(size.prompt, size.answer + search.need.extra_output, request.service_tier) or 0

    def _refusal(self, code: str, search: _Search, request: ReservationRequest, decision: Decision) -> CallerError:
        return budget_refusal(code, search.states, decision.limited_by, self._least(search, request))

    def _apply_plan(self, reservation: Reservation, need: Need, decision: Decision, available: int | None) -> None:
        """The provider of an answer that can be cut gets a limit for what could be paid if nobody else were running; if
        less could be planned than wanted, for what can be paid now. Then it ends by itself, and is not cut."""
        request, limit_request = reservation.request, reservation.limit_request
        reservation.reasons = need.reasons
        if not need.is_cuttable or reservation.allowance is None:
            return
        amount = available
        if decision.planned < limit_request.planned:
            amount = limit_request.amount + decision.planned
        if amount is None:
            return
        payable = request.quote.affords(amount, reservation.prompt_tokens, request.service_tier)
        if payable is not None and payable < need.longest:
            covered = max(reservation.allowance, payable - payable % need.choices)
            reservation.limit, reservation.flags = limit_of(need, covered)
            reservation.longest = min(need.longest, covered)

    async def extend(
        self, reservation: Reservation, needed: int, wait_s: float | None = None, *, exactly: bool = False
    ) -> bool:
        """The answer needs a reservation for `needed` tokens: reserves more, or as much as is available. `exactly`: no
        more than that, because it is complete.

        False: not enough is available, also after a wait for others (`wait_s`; by default as for a new request). True
        without an extension if the reservation already covers it.
        """
        deadline = time.monotonic() + (self._wait_s if wait_s is None else wait_s)
        takes_rest = False
        try:
            while True:
                is_sliced, covered = reservation.is_sliced, reservation.allowance or 0
                step = 2 * (reservation.step or covered) if is_sliced else reservation.step or self._hold_tokens
                if exactly:
                    step = max(0, needed - covered)
                sizes = extension_sizes(covered, needed, step, reservation.longest if is_sliced else None)
                for allowance in sizes:
                    if reservation.is_settled:
                        return False
                    if await self._hold_more(reservation, allowance, takes_rest=takes_rest):
                        reservation.allowance, reservation.step = allowance, min(step, allowance - covered)
                        return True
                if not sizes or takes_rest or not is_sliced:
                    return not sizes
                takes_rest = not await self._wait_for_others(reservation, deadline)
        finally:
            if reservation.turn is not None:
                self.line.leave(reservation.turn)
                reservation.turn = None

    def limit_wait(self, reservation: Reservation, wait_s: float) -> None:
        """Its output is paused, until its extension has waited for so long."""
        if reservation.turn is not None:
            self.line.limit_wait(reservation.turn, time.monotonic() + wait_s)

    async def _wait_for_others(self, reservation: Reservation, deadline: float) -> bool:
        """Whether to try again as before. False: nobody else holds anything, or the time is over."""
        if reservation.turn is None:
            states = await self._limiter.states(self._renewed(reservation).charges)
            tightest = min(states, key=lambda state: state.free, default=None)
            if tightest is None or tightest.held <= reservation.held:
                return False
            reservation.turn = self.line.join(tightest.charge.account, deadline, is_running=True)
        return reservation.turn is not None and await self.line.wait(reservation.turn)

    async def _hold_more(self, reservation: Reservation, allowance: int, *, takes_rest: bool) -> bool:
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
        limit_request = self._renewed(reservation)
        if takes_rest:
            limit_request = structs.replace(limit_request, takes_rest=True)
        if not await self._limiter.extend(entry, limit_request):
            return False
        if self._writer is not None and not reservation.is_settled:
            self._writer.put(entry, required=True)
        reservation.held += amount
        return True

    def _renewed(self, reservation: Reservation) -> LimitRequest:
        """With the current limits: credit may have been added since, or the budget or a rule raised."""
        try:
            charges = {charge.account: charge for charge in self._limits(reservation.request).charges}
        except Refusal:  # a rule of now needs an end user
            charges = {}
        return structs.replace(
            reservation.limit_request,
            charges=tuple([charges.get(charge.account, charge) for charge in reservation.limit_request.charges]),
        )

    def note_answer(self, reservation: Reservation, record: RequestRecord) -> None:
        """Of a request that is over: what its answer says about the next ones."""
        shown_bytes, usage = reservation.shown_bytes, record.usage
        if (
            shown_bytes is None
            or usage is None
            or record.usage_source is not UsageSource.PROVIDER
            or record.verdict not in _COMPLETE
        ):
            return
        key_id, model, tokens = reservation.hold.key_id, reservation.request.model, record.tokens[1]
        if tokens <= UNCOUNTED_TOKENS or reservation.came_at_once or "over_reserved" in record.flags:
            seen_in_time = 0
        else:
            seen_in_time = shown_bytes()
        self.memory.note(key_id, model, tokens, seen_in_time, reasons=reservation.reasons)

    def _measured(self, request: ReservationRequest) -> Need:
        if request.measure is None:
            return Need(
                prompt=request.prompt_tokens,
                limit=request.output_tokens,
                default=self._hold_tokens,
                max_answer=request.output_tokens or self._hold_tokens,
            )
        return request.measure.need(self._hold_tokens)

    def _informed(self, need: Need, request: ReservationRequest) -> Need:
        """With what the last answers say about the next, if it can be cut. `need`: as measured."""
        may_cut = request.stream and need.never_hides and not need.extra_output
        if may_cut and self.memory.is_shown(request.model, reasons=need.reasons):
            return structs.replace(
                need, is_cuttable=True, first=self._hold_tokens, expected=self._expected(need, request)
            )
        return need

    def _expected(self, need: Need, request: ReservationRequest) -> int | None:
        return self.memory.expected_tokens(request.key.id, request.model, reasons=need.reasons)

    def bytes_per_token(self, model: str, *, reasons: bool) -> float:
        return self.memory.bytes_per_token(model, reasons=reasons)

    async def _available(self, need: Need, account_limits: AccountLimits) -> int | None:
        """What is neither spent nor held, for an answer that is a share of it; what is not spent, for one that can be
        cut. None: it does not matter, or is not known."""
        if need.is_cuttable:
            states = await self._states(account_limits)
            return min([state.charge.limit - state.spent for state in states], default=None)
        if need.limit is not None:
            return None
        try:
            return await self._limiter.remaining(account_limits.charges)
        except GatewayFault as error:
            raise Refusal(error) from None

    async def _states(self, account_limits: AccountLimits) -> list[AccountState]:
        try:
            return await self._limiter.states(account_limits.charges)
        except GatewayFault as error:
            raise Refusal(error) from None
