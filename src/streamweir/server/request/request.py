"""One chat request, from its body to its record: parse, find the route, reserve, try candidates until one answers.

One task per request does all that waits: parsing a large body, the reservation, a retry, the attempt. No upstream is
called before the reservation is written to the journal. Another attempt (`server.request.attempt.candidates`) is made
only while nothing has been sent to the caller (`Relay.failure`). However the request ends, its record is completed
exactly once; `server.accounting.settlement` does the rest.
"""

import asyncio
import time
from collections.abc import Coroutine
from concurrent.futures import Executor
from functools import partial
from random import random

from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.core.request import ChatRequest, Prompt
from streamweir.core.verdict import Verdict, verdict_of_error
from streamweir.frontends.base import Frontend
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.settlement import PendingSettlement
from streamweir.policy.access import Key
from streamweir.policy.routing.conversation import conversation_of
from streamweir.policy.routing.health import Candidate
from streamweir.policy.routing.route import Route
from streamweir.providers.base import UpstreamRequest
from streamweir.server.accounting.accounting import Accounting, unavailable
from streamweir.server.accounting.reservation import BudgetWait, Reservation, ReservationRequest
from streamweir.server.accounting.settlement import EndedRequest
from streamweir.server.accounting.token_count import Vocabularies
from streamweir.server.http import answers
from streamweir.server.http.message import Headers, Request, Response
from streamweir.server.relay.capture import Capture
from streamweir.server.relay.observer import AttemptObserver
from streamweir.server.relay.relay import Relay
from streamweir.server.request.allowance import OutputAllowance
from streamweir.server.request.attempt.attempt_builder import AttemptBuilder
from streamweir.server.request.attempt.attempt_end import (
    WORKED_ON,
    complete_record,
    report_answer,
    report_attempt,
    report_first_token,
)
from streamweir.server.request.attempt.attempt_setup import limit_for
from streamweir.server.request.attempt.candidates import Candidates
from streamweir.server.request.attempt.quota_hints import note_attempt
from streamweir.server.request.attempt.room import Room
from streamweir.server.request.body_parsing import read_chat
from streamweir.server.request.error_answer import error_answer
from streamweir.server.request.overload import OpeningSlot
from streamweir.server.request.request_route import find_route, fit_route, order_route
from streamweir.server.request.request_size import estimate_prompt, max_output_tokens
from streamweir.server.request.reservation_size import ReservationSize
from streamweir.server.request.runtime.config import RuntimeConfig
from streamweir.server.request.runtime.route_prices import cover_searches
from streamweir.server.request.settlement_jobs import content_of, count_pending
from streamweir.server.streams.replay import AnsweredElsewhere, Replay
from streamweir.server.streams.stream import ResumableStream
from streamweir.server.telemetry.record import AttemptRecord, RequestRecord
from streamweir.store.journal.handle import JournalUnavailable


class RequestHandler:
    """One request. `run` is its task; `stop` and a disconnect of the caller may come at any time."""

    __slots__ = (
        "_accounting",
        "_allowance",
        "_builder",
        "_chat",
        "_conversation",
        "_error_status_sent",
        "_frontend",
        "_headers",
        "_is_cut",
        "_observer",
        "_parser",
        "_pending",
        "_prompt",
        "_relay",
        "_request",
        "_response",
        "_room",
        "_route",
        "_runtime",
        "_stop_reason",
        "_task",
        "_vocabularies",
        "key",
        "meter",
        "record",
        "replay",
        "reservation",
        "slot",
        "stream",
    )

    def __init__(
        self,
        runtime: RuntimeConfig,
        request: Request,
        response: Response,
        frontend: Frontend,
        key: Key,
        record: RequestRecord,
        accounting: Accounting,
        vocabularies: Vocabularies,
        observer: AttemptObserver,
        parser: Executor,
        slot: OpeningSlot,
    ) -> None:
        self._runtime = runtime
        self.slot = slot
        self._request = request
        self._response = response
        self._frontend = frontend
        self._accounting = accounting
        self._vocabularies = vocabularies
        self._headers: Headers = ()
        self._observer = observer
        self._parser = parser
        self._builder = AttemptBuilder(runtime, frontend, record, response, observer, vocabularies, parser, key)
        self._relay: Relay | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop_reason: StreamweirError | None = None
        self._allowance: OutputAllowance | None = None
        self._chat: ChatRequest | None = None
        self._conversation: bytes | None = None
        """If it chooses among candidates, and is remembered with the one that answers."""
        self.meter: Meter | None = None
        self._prompt: Prompt | None = None
        """To count its tokens when the request is over."""
        self._is_cut = False
        """The caller's answer was cut; the upstream may still be drained."""
        self._error_status_sent: int | None = None
        """The status of the error that was sent to the caller."""
        self.key = key
        self._room: Room | None = None  # if a target has limits
        self.reservation: Reservation | None = None
        self._pending: PendingSettlement | None = None
        """What must still be counted when the request is over."""
        self.record = record
        self.stream: ResumableStream | None = None
        self.replay: Replay | None = None
        """Set before it runs: the response, if the caller can come back to it, and its `Idempotency-Key`, if any."""

    async def run(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._response.gone:  # it disconnected before this task was started
            self._settle_early(Verdict.CLIENT_GONE, 499)
            return
        if self._stop_reason is not None:  # likewise
            self._refuse(self._stop_reason)
            return
        self._task = asyncio.current_task(loop)
        self._response.on_gone = self._caller_gone
        try:
            await self._try_candidates(await self._admit())
        except AnsweredElsewhere:
            return
        except answers.Refusal as refusal:
            self._headers = refusal.headers
            self._refuse(refusal.error, Verdict.REJECTED)
            refusal.__traceback__ = None  # its frames would keep the whole request until cycles are collected
        except StreamweirError as error:
            self._refuse(error)
            error.__traceback__ = None  # as above
        except asyncio.CancelledError:
            relay, meter = self._relay, self.meter
            if relay is not None and meter is not None and (relay.is_delivered or self._is_cut):
                # The process ends after the end of the answer: it is recorded as it was sent.
                self._settle(relay, meter)
                raise
            if self._stop_reason is not None:  # cancelled by `stop` or by a disconnect, while there was no attempt
                self._refuse(self._stop_reason)
            elif self._response.gone:
                self._settle_early(Verdict.CLIENT_GONE, 499)
                self._record_usage()
            else:  # the process ends: what was sent until now is billed
                self._settle_early(Verdict.SHUTDOWN, 200 if self._response.started else 0)
                self._record_usage()
                raise
        except Exception as reason:  # noqa: BLE001 (a bug: it ends this request, and is reported)
            self._observer.fault(reason, self._request.id)
            fault = GatewayFault("internal_error", "The gateway failed to answer.", event_id=self._request.id)
            self._refuse(fault)

    def stop(self, error: StreamweirError, *, drain: bool = False) -> None:
        """Ends it now: with an error frame if a stream has begun, else with an error status.

        `drain`: reads the upstream to its end for the usage, if it still bills.
        """
        relay = self._relay
        if self._stop_reason is not None or (relay is not None and relay.is_over and relay.failure is None):
            return  # it is over: only its record must still be written
        self._stop_reason = error
        if relay is None or relay.is_over:
            if self._task is not None:
                self._task.cancel()
        elif drain:
            self._cut(relay, error)
        else:
            relay.stop(error)

    def cut(self) -> None:
        """Ends the connection: no error could be sent."""
        self._response.cut()

    @property
    def memory_bytes(self) -> int:
        """About how much memory it uses: for the body, and for the answer."""
        if self._relay is None:
            return len(self._request.body)
        return self._relay.memory_bytes + (self.stream.memory_bytes if self.stream is not None else 0)

    def _caller_gone(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def ended(self) -> EndedRequest:
        """After `run` has ended."""
        self._allowance = None  # it refers to this object
        if self._room is not None:
            self._room.release()
        record, pending, capture, meter = self.record, self._pending, self._builder.capture, self.meter
        reservation = self.reservation
        content = count = estimate = None
        if capture is not None and meter is not None:
            content = partial(content_of, capture, meter, self._request.id, self.key, reservation, record.at_ms)
        if pending is not None:
            model = (record.target or "").partition("/")[2]
            count, estimate = partial(count_pending, pending, self._vocabularies, model, self._prompt), pending.count
        return EndedRequest(record=record, reservation=reservation, count=count, estimate=estimate, content=content)

    def _refuse(self, error: StreamweirError, verdict: Verdict | None = None) -> None:
        answer = error_answer(error, self._chat, self._frontend, self._headers, self.record, self.key)
        self.record.error = error.code
        if error.is_of_target_limits and not self.record.attempts:  # no upstream was called
            verdict = Verdict.REJECTED
        self._settle_early(verdict or verdict_of_error(error), answer.status)
        if error.code in WORKED_ON or error is self._stop_reason or self._response.started:
            self._record_usage()
        if self.stream is not None and self._pending is None:
            self.stream.is_replayable = False  # it has cost nothing: the same request may be tried again
        if self._response.started:  # only after a bug: the answer must not look complete
            self._response.cut()
        else:
            self._response.send(answer)

    def _settle_early(self, verdict: Verdict, status: int) -> None:
        """Completes the record of a request without a usage to count."""
        self.record.verdict, self.record.status = verdict, status
        self.record.duration_s = time.monotonic() - self._request.arrived_s

    def _record_usage(self) -> None:
        """Records the usage of the last attempt, if its upstream received the request and did not refuse it."""
        relay, meter = self._relay, self.meter
        if relay is not None and relay.is_billable and meter is not None:
            self._pending = meter.close(self.record.verdict)
            self.record.completion_id = self._pending.settlement.completion_id
            self.record.service_tier = meter.record.service_tier

    async def _admit(self) -> Candidates:
        """Parses the body, finds the targets and makes the reservation."""
        headers = self._request.headers
        chat = self._chat = await self._parse_body()
        self._prompt = chat.prompt
        record, runtime, now = self.record, self._runtime, time.monotonic()
        record.model, record.stream = chat.model or runtime.default_model, chat.stream
        record.attribution = runtime.attribution.read(chat, self._frontend, headers)
        self._route = route = find_route(runtime, self.key, chat)
        if runtime.router.uses_affinity(route):
            self._conversation = conversation_of(self.key.id, route.id, chat, self._frontend, headers)
        order = partial(order_route, runtime, chat, record.at_ms, random, self._conversation)
        candidates = order(route)
        if not candidates:
            raise runtime.router.unavailable(fit_route(runtime, route, chat), now)
        try:
            await self._reserve(chat, route)
        except BaseException:  # refused, or cancelled: the candidate is not asked
            runtime.router.abandoned(candidates[0])
            raise
        runtime.budget.note_request(now)
        if runtime.target_limits is not None and self.reservation is not None:
            self._room = Room(runtime, self._accounting.targets, self._observer, self.reservation)
        has_room = self._room.has_room if self._room is not None else None
        return Candidates(runtime, route, candidates, order, self._builder.timeout_s, has_room)

    async def _reserve(self, chat: ChatRequest, route: Route) -> None:
        """When it returns, the reservation is in the journal. Raises `Refusal`."""
        group = self._accounting.directory.price_group_of(self.key)
        quote, quote_text = (runtime := self._runtime).quotes.of(route, self.record.at_ms, group)
        measure = ReservationSize(runtime, self._vocabularies, self._parser, route, chat, self._builder.body_bytes)
        reservation_request = ReservationRequest(
            self._request.id,
            self.record.at_ms,
            self.key,
            dialect=self._frontend.name,
            model=route.id,
            stream=chat.stream,
            quote=cover_searches(quote, chat),
            quote_text=quote_text,
            prompt_tokens=estimate_prompt(chat),
            output_tokens=max_output_tokens(chat, measure.limits.longest),
            service_tier=chat.service_tier,
            idempotency=None if self.replay is None else self.replay.idempotency.digests,
            attribution=self.record.attribution,
            wait=BudgetWait(self.slot.opened, self._builder.timeout_s),
            measure=measure,
        )
        open_ = self._accounting.open
        if self.replay is not None:
            open_ = partial(self.replay.open, open_, self._builder.timeout_s)
        self.reservation, headers = await open_(reservation_request)
        self._headers += headers
        try:
            await self.reservation.written()
        except (JournalUnavailable, TimeoutError) as reason:
            if isinstance(reason, JournalUnavailable):
                self._accounting.withdraw(self.reservation)
                self.reservation = None
            raise answers.Refusal(unavailable(), headers) from None
        self.record.admitted_s = time.monotonic() - self._request.arrived_s
        self._allowance = OutputAllowance(
            self._accounting, self.reservation, self._observer, self._cut, self._request.arrived_s, self._vocabularies
        )

    async def _parse_body(self) -> ChatRequest:
        request = self._request
        body, request.body = request.body, b""
        self._builder.body_bytes = len(body)
        self._builder.read_headers(request.headers)
        headers, request.headers, request.admitted = request.headers, {}, None
        if self.key.log_content:
            self._builder.capture = Capture(body, self._request.arrived_s)
        return self._builder.read_options(await read_chat(body, headers, self._frontend, self._parser, self.record))

    async def _try_candidates(self, candidates: Candidates) -> None:
        while True:
            if self._room is not None:
                await self._wait(self._room.find(candidates, self._request.arrived_s, self._sleep))
            candidate, chat = candidates.candidate, self._chat
            relay, meter = await self._attempt(candidate, is_last=candidates.is_last)
            if self._allowance is not None:
                await self._allowance.wait_extended()
            error = relay.failure
            if (candidates.refused or candidates.repairs) and relay.first_token_at is not None:
                report_answer(self._runtime, self._observer, candidates)
            if error is None or relay.verdict is not None or self._stop_reason is not None or self._is_cut:
                self._settle(relay, meter)
                return
            if self._response.gone:  # between two attempts
                self._settle_early(Verdict.CLIENT_GONE, 499)
                return
            repair = self._builder.repair(chat, candidate.target, error, is_folded=relay.is_folded)
            if repair is not None:
                self._chat, learn = repair
                candidates.repeat(learn)
            else:
                await candidates.advance(error, self._request.arrived_s, self._sleep)

    async def _sleep(self, wait_s: float) -> None:
        await self._wait(asyncio.sleep(wait_s))

    async def _wait(self, waiting: Coroutine[None, None, None]) -> None:
        """Between two attempts."""
        self._relay, self._response.on_gone = None, self._caller_gone
        await waiting

    async def _attempt(self, candidate: Candidate, is_last: bool) -> tuple[Relay, Meter]:
        self.slot.opened()
        began_at = time.monotonic()
        attempt = AttemptRecord(
            target=str(candidate.target), credential=candidate.credential, start_s=began_at - self._request.arrived_s
        )
        self.record.attempts.append(attempt)
        try:
            request = await self._build_upstream_request(candidate, is_last)
            relay, meter, running = self._prepare_attempt(candidate, is_last, request)
            del request  # only `Relay.run` keeps it
        except BaseException:  # a bug, or cancelled: the candidate is not asked
            self._runtime.router.abandoned(candidate)
            raise
        try:
            await running
        finally:
            attempt.duration_s = time.monotonic() - began_at
            relay.complete_attempt(attempt)
            self._report(relay, meter, candidate, attempt)
        return relay, meter

    async def _build_upstream_request(self, candidate: Candidate, is_last: bool) -> UpstreamRequest:
        chat = self._chat
        assert chat is not None  # noqa: S101 (for the type checker)
        limit, self.record.flags = limit_for(self._runtime, self._route, chat, candidate.target, self.reservation)
        self._response.on_gone = self._caller_gone
        return await self._builder.build_request(chat, candidate, limit, is_last=is_last)

    def _prepare_attempt(
        self, candidate: Candidate, is_last: bool, request: UpstreamRequest
    ) -> tuple[Relay, Meter, Coroutine[None, None, None]]:
        """The relay of an attempt, ready to run. Only `Relay.run` keeps the upstream request: it may be large."""
        target, chat, reservation = candidate.target, self._chat, self.reservation
        assert chat is not None  # noqa: S101 (for the type checker)
        provider_runtime = self._runtime.provider_for(target)
        self.record.dropped = request.dropped
        relay, meter = self._builder.make_relay(chat, candidate, request, reservation, self._headers, is_last=is_last)
        relay.abort_stops_billing = provider_runtime.abort_stops_billing or bool(request.more)  # no further calls
        relay.on_cut = self._send_cut_error
        if self.record.stream or request.is_folded:  # else the start of a whole answer is not known
            began_at = time.monotonic()
            relay.on_first_token = partial(report_first_token, self._runtime, self._observer, candidate, began_at)
        self._relay, self.meter = relay, meter
        if self._runtime.reported_quotas is not None:
            note_attempt(self._runtime.reported_quotas, candidate, relay, reservation)
        if self._allowance is not None:
            self._allowance.bind(relay, meter, target, self.stream)
        return relay, meter, relay.run(provider_runtime.upstream_for(request, meter), request)

    def _cut(self, relay: Relay, error: StreamweirError) -> None:
        self._is_cut = True
        relay.cut(error)

    def _send_cut_error(self, error: StreamweirError) -> None:
        """For a caller that has received nothing yet. The usage is settled when the upstream has reported it."""
        answer = error_answer(error, self._chat, self._frontend, self._headers, self.record, self.key)
        self._is_cut, self._error_status_sent = True, answer.status
        self._response.send(answer)

    def _report(self, relay: Relay, meter: Meter, candidate: Candidate, attempt: AttemptRecord) -> None:
        if self._room is not None:
            self._room.ended(relay, meter)
        asked = (self._chat, self._prompt, self._conversation)
        parts = (self._runtime, self._observer, relay, meter, candidate, attempt, *asked)
        is_stopped = self._stop_reason is not None or (self._is_cut and not relay.is_late)
        report_attempt(*parts, is_stopped=is_stopped, has_content=self.key.log_content)

    def _settle(self, relay: Relay, meter: Meter) -> None:
        record, verdict, error = self.record, relay.verdict, relay.failure
        if error is not None and verdict is None:
            if not self._is_cut:
                raise error
            if self._error_status_sent is None and not self._response.started:
                self._send_cut_error(error)
        if verdict is Verdict.CLIENT_GONE and not relay.is_billable:
            self._settle_early(verdict, 499)
            return
        record.status = self._error_status_sent or (200 if verdict is None or self._response.started else 499)
        self._pending = complete_record(record, relay, meter)
        record.duration_s = time.monotonic() - self._request.arrived_s
