"""One chat request from its body to its record: read, route, try targets until one has begun to answer.

Everything that waits is here, in one task per request: a large body being parsed, a retry, the
attempt itself. What flows is in `server.relay`. Another target, or the same again, is tried only
while nothing has been sent (`Relay.failure`), within the retry budget, and before the time at
which the status has to go out. However it ends, the facts are reported exactly once.
"""

import asyncio
import os
import time
from concurrent.futures import Executor
from math import ceil
from random import random

from msgspec import structs

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.core.message import TextPart
from streamweir.core.request import ChatRequest, read_request
from streamweir.core.verdict import Verdict, verdict_of_error
from streamweir.dialects.base import Dialect, Reply
from streamweir.policy.access import Key
from streamweir.policy.refusal import is_refusal_of_stream_options
from streamweir.policy.retry import MOST_EXTRA_ATTEMPTS, backoff_s, may_try_again, may_try_elsewhere
from streamweir.policy.route import Route, TargetId
from streamweir.providers.base import UpstreamRequest
from streamweir.server import respond
from streamweir.server.facts import Attempt, RequestFacts
from streamweir.server.message import Headers, Request, Response
from streamweir.server.patience import Timing
from streamweir.server.relay import Relay, Watch
from streamweir.server.setup import Setup
from streamweir.stages.exchange import Exchange, WholeExchange
from streamweir.stages.meter import BYTES_PER_TOKEN, Meter
from streamweir.stages.plan import plan
from streamweir.wire.jsonio import decode_body

LARGEST_ON_LOOP = 64 * 1024
"""Bodies beyond it are parsed in a thread: 3.8 MiB of small objects take 220 ms, 140 KiB of messages 37 (G19)."""


class Conversation:
    """One request. `run` is its task; `stop` and the caller's leaving may come at any time."""

    def __init__(
        self,
        setup: Setup,
        request: Request,
        response: Response,
        dialect: Dialect,
        key: Key,
        headers: Headers,
        watch: Watch,
        parser: Executor,
    ) -> None:
        self._setup = setup
        self._request = request
        self._response = response
        self._dialect = dialect
        self._key = key
        self._headers = headers
        self._watch = watch
        self._parser = parser
        self._loop = asyncio.get_running_loop()
        self._relay: Relay | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop_reason: StreamweirError | None = None
        self.facts = RequestFacts(
            id=request.id,
            method=request.method,
            path=request.path,
            peer=request.peer,
            dialect=dialect.name,
            key=key.name,
        )

    async def run(self) -> None:
        if self._response.gone:  # closed right behind its request, before this task had its turn
            self._settle_early(Verdict.CLIENT_GONE, 499)
            return
        self._task = asyncio.current_task()
        self._response.on_gone = self._caller_gone
        try:
            await self._converse()
        except StreamweirError as error:
            self._refuse(error)
            error.__traceback__ = None  # its frames would keep the whole request until cycles are collected
        except asyncio.CancelledError:
            # Our own, from `stop` or the caller's leaving: nothing was under way that could be told.
            if self._stop_reason is not None:
                self._refuse(self._stop_reason)
            elif self._response.gone:
                self._settle_early(Verdict.CLIENT_GONE, 499)
            else:
                raise
        except Exception as reason:  # noqa: BLE001 (a bug of ours: it ends this request, and is reported)
            self._watch.fault(reason, self._request.id)
            fault = GatewayFault("internal_error", "The gateway failed to answer.", event_id=self._request.id)
            self._refuse(fault)

    def stop(self, error: StreamweirError) -> None:
        """End it now: an error frame where a stream runs, a status where none was sent yet."""
        relay = self._relay
        if self._stop_reason is not None or (relay is not None and relay.ended.done() and relay.failure is None):
            return  # it is over: only its record is still to be written
        self._stop_reason = error
        if relay is not None and not relay.ended.done():
            relay.stop(error)
        elif self._task is not None:
            self._task.cancel()

    def cut(self) -> None:
        """Not even a refusal could be sent."""
        self._response.cut()

    @property
    def held_bytes(self) -> int:
        """About how much memory it holds: what it has read, and what it keeps of the answer."""
        return self._relay.held_bytes if self._relay is not None else len(self._request.body)

    def _caller_gone(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _refuse(self, error: StreamweirError) -> None:
        answer = respond.failure_answer(error, self._dialect, self._headers)
        self.facts.error = error.code
        self._settle_early(verdict_of_error(error), answer.status)
        if self._response.started:  # only a bug gets here: the caller must not take what it has for the whole
            self._response.cut()
        else:
            self._response.send(answer)

    def _settle_early(self, verdict: Verdict, status: int) -> None:
        """The record of a request whose last attempt left nothing to be counted."""
        facts = self.facts
        facts.verdict, facts.status = verdict, status
        facts.duration_s = time.monotonic() - self._request.arrived_s

    async def _converse(self) -> None:
        chat = await self._read()
        facts, setup = self.facts, self._setup
        facts.model, facts.stream = chat.model, chat.stream
        route = self._find_route(chat)
        now = time.monotonic()
        targets = setup.router.order(route, now, random)
        if not targets:
            raise setup.router.unavailable(route, now)
        setup.budget.note_request(now)
        await self._try_targets(chat, targets)

    async def _read(self) -> ChatRequest:
        body, self._request.body = self._request.body, b""
        if len(body) <= LARGEST_ON_LOOP:
            return read_request(decode_body(body), self._dialect.request)
        return await self._loop.run_in_executor(self._parser, _parse, body, self._dialect)

    def _find_route(self, chat: ChatRequest) -> Route:
        asked = chat.model or self._setup.default_model
        if asked is None:
            raise CallerError("missing_required_parameter", "Missing required parameter: 'model'.", param="model")
        route = self._setup.router.resolve(asked)
        if route is None or not self._key.may_use(asked):
            raise CallerError("model_not_found", f'model "{asked}" not found', param="model")
        return route

    async def _try_targets(self, chat: ChatRequest, targets: list[TargetId]) -> None:
        """The first of `targets` is taken; another one, or the same again, must be taken before it is tried."""
        target, *untried = targets
        extra = 0
        while True:
            relay, meter = await self._attempt(chat, target, is_last=self._is_last(untried, extra))
            error = relay.failure
            if error is None or relay.verdict is not None or self._stop_reason is not None:
                self._settle(relay, meter)
                return
            if self._response.gone:  # in the moment between two attempts
                self._settle_early(Verdict.CLIENT_GONE, 499)
                return
            if is_refusal_of_stream_options(error) and not self._setup.refusals.refuses(target):
                self._setup.refusals.note(target)  # not asked for again: this is the same attempt, put right
                target = self._setup.router.take(target, time.monotonic()) or target
                continue
            target = await self._next_target(error, target, untried, extra)
            extra += 1

    def _is_last(self, untried: list[TargetId], extra: int) -> bool:
        """Nobody can be asked after this one."""
        now = time.monotonic()
        if extra >= MOST_EXTRA_ATTEMPTS or not self._setup.budget.has_room(now):
            return True
        return all(self._setup.router.is_away(target, now) for target in untried)

    async def _next_target(
        self, error: StreamweirError, target: TargetId, untried: list[TargetId], extra: int
    ) -> TargetId:
        """Raises the error where nothing more may be tried."""
        setup, now = self._setup, time.monotonic()
        may_move, may_repeat = bool(untried) and may_try_elsewhere(error), may_try_again(error)
        if extra >= MOST_EXTRA_ATTEMPTS or not (may_move or may_repeat) or not setup.budget.may_retry(now):
            raise error
        while may_move and untried:
            taken = setup.router.take(untried.pop(0), now)
            if taken is not None:
                return taken
        wait_s = backoff_s(extra, random, error.retry_after_s)
        if not may_repeat or now + wait_s >= self._commit_at(target):
            raise error
        await self._sleep(wait_s)
        # The loop counts in whole milliseconds, and may wake us just before the target's own pause is over.
        taken = setup.router.take(target, max(time.monotonic(), now + wait_s))
        if taken is None:
            raise error
        return taken

    async def _sleep(self, wait_s: float) -> None:
        self._relay = None
        self._response.on_gone = self._caller_gone
        await asyncio.sleep(wait_s)

    async def _attempt(self, chat: ChatRequest, target: TargetId, is_last: bool) -> tuple[Relay, Meter]:
        began_at = time.monotonic()
        attempt = Attempt(target=str(target))
        self.facts.attempts.append(attempt)
        try:
            request = self._build(chat, target)
            relay, meter = self._relay_for(chat, target, is_last)
        except BaseException:
            self._setup.router.abandoned(target)
            raise
        if chat.stream:  # a whole answer shows nothing of when it began
            answered = self._setup.router.answered
            relay.on_first_token = lambda: answered(target, time.monotonic(), time.monotonic() - began_at)
        self._relay = relay
        try:
            await relay.run(self._setup.providers[target.provider].upstream, request)
        finally:
            attempt.duration_s = time.monotonic() - began_at
            attempt.resends = relay.resends
            self._report(relay, meter, target, attempt)
        return relay, meter

    def _build(self, chat: ChatRequest, target: TargetId) -> UpstreamRequest:
        place = self._setup.providers[target.provider]
        asks = not self._setup.refusals.refuses(target)
        request = place.provider.build_request(
            chat, structs.replace(place.target, model=target.model, asks_for_usage=asks)
        )
        self.facts.dropped = request.dropped
        return request

    def _relay_for(self, chat: ChatRequest, target: TargetId, is_last: bool) -> tuple[Relay, Meter]:
        place, dialect = self._setup.providers[target.provider], self._dialect
        reply = Reply(
            id=dialect.id_form.make(os.urandom(24)),
            now=_now,
            model=chat.model,
            target_model=target.model,
            include_usage=chat.include_usage,
            exclude_reasoning=bool(chat.reasoning and chat.reasoning.exclude),
        )
        meter = Meter(_estimate_prompt(chat))
        exchange: Exchange | WholeExchange
        if chat.stream:
            exchange = Exchange(place.provider, dialect, reply, plan(place.canonical_for, dialect, reply), meter)
        else:
            exchange = WholeExchange(place.provider, dialect, reply, meter)
        relay = Relay(
            exchange,
            meter,
            place.provider,
            self._response,
            self._timing(target, chat, is_last),
            self._watch,
            self._request.id,
            (respond.EVENT_STREAM if chat.stream else ()) + self._headers,
        )
        relay.abort_stops_billing = place.abort_stops_billing
        return relay, meter

    def _report(self, relay: Relay, meter: Meter, target: TargetId, attempt: Attempt) -> None:
        """What the attempt says of the target's health."""
        router, now = self._setup.router, time.monotonic()
        error = relay.failure or meter.record.error
        if relay.verdict is None and error is not None and self._stop_reason is None:
            attempt.error = error.code
            if router.failed(target, now, error):
                self._watch.ejected(attempt.target)
        elif relay.first_token_at is not None:
            router.succeeded(target, now)
        else:
            router.abandoned(target)
        outcome = attempt.error or relay.verdict or ("stopped" if self._stop_reason is not None else None)
        self._watch.attempt_ended(attempt.target, outcome)

    def _settle(self, relay: Relay, meter: Meter) -> None:
        facts = self.facts
        verdict = relay.verdict
        error = relay.failure
        if error is not None and verdict is None:
            raise error
        if verdict is Verdict.CLIENT_GONE and not relay.is_billable:
            self._settle_early(verdict, 499)
            return
        settlement = meter.settle(verdict)
        facts.verdict = settlement.verdict
        facts.status = 200 if verdict is None or self._response.started else 499
        facts.error = settlement.error.code if settlement.error is not None else None
        facts.completion_id = settlement.completion_id
        if relay.is_billable:
            facts.usage, facts.usage_source = settlement.usage, settlement.usage_source
        facts.finish = next(iter(settlement.finishes.values()), None)
        facts.bytes_out = relay.bytes_out
        if facts.stream and relay.first_token_at is not None:
            facts.ttft_s = relay.first_token_at - self._request.arrived_s
        facts.duration_s = time.monotonic() - self._request.arrived_s

    def _commit_at(self, target: TargetId) -> float:
        return self._request.arrived_s + self._setup.providers[target.provider].timeouts.commit_s

    def _timing(self, target: TargetId, chat: ChatRequest, is_last: bool) -> Timing:
        server = self._setup.timeouts
        own = self._setup.providers[target.provider].timeouts
        first_event_s = own.first_event_s if chat.stream else server.first_event_s
        if is_last:
            # Nobody else can answer: a short patience that was meant for failing over must not kill a slow answer.
            # A buffered answer shows nothing until it is whole, so only the total time bounds it.
            first_event_s = max(first_event_s, server.first_event_s) if chat.stream else own.total_s
        return Timing(
            commit_at=self._commit_at(target),
            total_at=self._request.arrived_s + own.total_s,
            first_event_s=first_event_s,
            idle_s=own.idle_s,
            assembly_s=own.assembly_s,
            keepalive_s=own.keepalive_s,
            silence_s=own.silence_s,
            abandoned_s=own.abandoned_s,
            most_bytes=self._setup.most_response_bytes,
            most_output_tokens=chat.max_output_tokens * chat.n if chat.max_output_tokens is not None else None,
        )


def _parse(body: bytes, dialect: Dialect) -> ChatRequest:
    return read_request(decode_body(body), dialect.request)


def _now() -> int:
    return int(time.time())


def _estimate_prompt(chat: ChatRequest) -> int:
    """By the rule of thumb of `stages.meter`: the text of the messages alone."""
    size = 0
    for message in chat.messages:
        content = message.content
        if isinstance(content, str):
            size += len(content)
        elif content is not None:
            size += sum(len(part.text) for part in content if isinstance(part, TextPart))
    return ceil(size / BYTES_PER_TOKEN)
