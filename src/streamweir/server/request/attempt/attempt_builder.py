"""Makes the parts of each attempt of one request: the upstream's request, and the relay with its exchange and meter.

Everything comes from the request and the `RuntimeConfig` that it began with. A large request is built in a thread, as
it was parsed in one.
"""

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import Executor
from functools import partial

from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.frontends.base import Frontend
from streamweir.pipeline.meter import Meter
from streamweir.policy.access import Key
from streamweir.policy.routing.health import Candidate, TargetId
from streamweir.providers.base import UpstreamRequest
from streamweir.server.accounting.reservation import Reservation
from streamweir.server.accounting.token_count import Vocabularies, vocabulary_of
from streamweir.server.http.message import Headers, Response
from streamweir.server.relay.capture import Capture, CapturedRelay
from streamweir.server.relay.observer import AttemptObserver
from streamweir.server.relay.relay import AttemptParts, Relay
from streamweir.server.request.attempt.attempt_setup import build_request, make_exchange, timeouts_of
from streamweir.server.request.attempt.repair import Learn, repaired
from streamweir.server.request.attempt.routing_headers import cost_headers, routing_headers
from streamweir.server.request.body_parsing import MAX_BYTES_ON_LOOP
from streamweir.server.request.request_headers import read_timeout
from streamweir.server.request.request_size import estimate_prompt
from streamweir.server.request.runtime.config import RuntimeConfig
from streamweir.server.request.shown_cost import asks_for_cost, price_in_dollars, read_usage_option
from streamweir.server.request.tracing import traced
from streamweir.server.telemetry.record import RequestRecord


class AttemptBuilder:
    __slots__ = (
        "_frontend",
        "_observer",
        "_parser",
        "_record",
        "_response",
        "_runtime",
        "_shows_cost",
        "_shows_routing",
        "_vocabularies",
        "body_bytes",
        "capture",
        "timeout_s",
    )

    def __init__(
        self,
        runtime: RuntimeConfig,
        frontend: Frontend,
        record: RequestRecord,
        response: Response,
        observer: AttemptObserver,
        vocabularies: Vocabularies,
        parser: Executor,
        key: Key,
    ) -> None:
        self._runtime = runtime
        self._frontend = frontend
        self._record = record
        self._response = response
        self._observer = observer
        self._vocabularies = vocabularies
        self._parser = parser
        self._shows_routing = key.show_routing
        """The caller is told the target, the attempts and the cost."""
        self._shows_cost = key.show_cost
        """The price is in the usage, where the API allows it."""
        self.body_bytes = 0
        """The size of the caller's body."""
        self.capture: Capture | None = None
        self.timeout_s: float | None = None
        """The caller's own limit for the whole request."""

    def read_headers(self, headers: Mapping[str, str]) -> None:
        """Raises `CallerError`. `headers`: of the caller's request."""
        self.timeout_s = read_timeout(headers)
        if "x-streamweir-cost" in headers:
            self._shows_cost = self._shows_cost or asks_for_cost(headers)

    def read_options(self, chat: ChatRequest) -> ChatRequest:
        """What the body says about the answer, apart from its API. Returns the request without it."""
        if "usage" not in chat.body:
            return chat
        chat, wanted = read_usage_option(chat, shows_cost=self._frontend.shows_cost)
        self._shows_cost = self._shows_cost if wanted is None else wanted
        return chat

    def repair(
        self, chat: ChatRequest | None, target: TargetId, error: StreamweirError, *, is_folded: bool
    ) -> tuple[ChatRequest, Learn | None] | None:
        """See `repair.repaired`. Further requests to the target are built with it."""
        if chat is None:
            return None
        repair = repaired(self._runtime, chat, target, error, is_folded=is_folded)
        if repair is None:
            return None
        self._runtime = repair.runtime
        return repair.chat, repair.learn

    async def build_request(
        self, chat: ChatRequest, candidate: Candidate, limit: int | None, *, is_last: bool
    ) -> UpstreamRequest:
        """See `attempt_setup.build_request`."""
        build = partial(build_request, self._runtime, chat, candidate, limit, is_last=is_last)
        if self.body_bytes <= MAX_BYTES_ON_LOOP:
            request = build()
        else:
            request = await asyncio.get_running_loop().run_in_executor(self._parser, build)
        trace, runtime = self._record.trace, self._runtime
        if trace is None:
            return request
        number, provider = len(self._record.attempts), runtime.provider_for(candidate.target).config
        return traced(request, trace, number, chat, limit, runtime.tracing, provider)

    def make_relay(
        self,
        chat: ChatRequest,
        candidate: Candidate,
        request: UpstreamRequest,
        reservation: Reservation | None,
        headers: Headers,
        *,
        is_last: bool,
    ) -> tuple[Relay, Meter]:
        """`headers`: of the answer."""
        runtime, frontend, target, id = self._runtime, self._frontend, candidate.target, self._record.id
        prompt_tokens = reservation.request.prompt_tokens if reservation is not None else estimate_prompt(chat)
        tokenizer = self._vocabularies.tokenizer(target.model) if vocabulary_of(target.model).is_own else None
        if self._shows_routing:
            headers += routing_headers(self._record)
        if frontend.has_own_headers:
            headers = frontend.own_headers(headers, id, request.dropped, time.time())
        price_of = None
        if self._shows_cost and frontend.shows_cost and reservation is not None:
            price_of = partial(price_in_dollars, reservation, self._record)
        exchange, meter = make_exchange(
            runtime, chat, target, frontend, id, request, prompt_tokens, tokenizer, price_of
        )
        parts = AttemptParts(
            exchange,
            meter,
            runtime.chat_wire(target, request.wire).provider,
            self._response,
            timeouts_of(
                runtime,
                chat,
                target,
                frontend,
                self._record.arrived_s,
                is_last=is_last,
                has_events=chat.stream or request.is_folded,
                request_s=self.timeout_s,
            ),
            self._observer,
            id,
            (frontend.stream_headers if chat.stream else ()) + headers,
            partial(cost_headers, reservation, meter, self._record) if self._shows_routing else None,
        )
        return Relay(parts) if self.capture is None else CapturedRelay(self.capture, parts), meter
