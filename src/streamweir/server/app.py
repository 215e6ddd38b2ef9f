"""The gateway: the HTTP layer's application, with everything it needs wired together.

    connection -> begin (route, key, limits) -> serve -> Conversation (a task) -> facts -> log, metrics
                                                 \\--> models, and everything that is not hot: the ASGI bridge

It owns what lives as long as the process: the listener, the conversations, the pools, the thread
that parses large bodies. What the operator may change lives in a `Setup`; requests keep the one
they began with. The life of the process around it (signals, reloads, workers) is `server.life`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from socket import socket
from ssl import SSLContext
from urllib.parse import unquote

from streamweir.config.model import Config
from streamweir.config.model import Provider as ProviderConfig
from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.core.verdict import Verdict, verdict_of_error
from streamweir.dialects.base import Dialect
from streamweir.policy.access import Key
from streamweir.server import log
from streamweir.server.admit import (
    Admission,
    Refusal,
    Resource,
    admit,
    authenticate,
    client_id_of,
    dialect_of,
    find,
    is_local,
    key_of,
    peer_of,
)
from streamweir.server.asgi import Bridge
from streamweir.server.chat import Conversation
from streamweir.server.control import control_app
from streamweir.server.facts import RequestFacts
from streamweir.server.http import HttpLimits, HttpServer
from streamweir.server.lag import LagProbe
from streamweir.server.message import UNREAD, Answer, Headers, Request, Response
from streamweir.server.metrics import Metrics
from streamweir.server.models import list_models, show_model
from streamweir.server.pressure import Level, Pressure, come_back_s, memory_limit_bytes, used_memory_bytes
from streamweir.server.respond import failure_answer
from streamweir.server.setup import Setup, build_setup
from streamweir.upstream.base import Upstream
from streamweir.upstream.http1 import Http1Upstream


class Gateway:
    """See `server.message.Application`, `server.relay.Watch` and `server.life`."""

    def __init__(
        self,
        config: Config,
        open_local: Callable[[ProviderConfig], Upstream],
        report: Callable[[RequestFacts], None] = log.log_request,
        workers: int = 1,
    ) -> None:
        """`report` is told of every request, once, when it is over. `workers` share the machine's memory."""
        self._report_facts = report
        self._open_local = open_local
        self._setup = build_setup(config, open_local)
        self._retired: set[asyncio.Task[None]] = set()
        self._conversations: dict[Conversation, asyncio.Task[None]] = {}
        self._abandoned = 0
        self._is_draining = False
        self._all_over = asyncio.Event()
        self._all_over.set()
        self._parser = ThreadPoolExecutor(2, "parse")
        self.metrics = Metrics(connections=self._connections)
        self.gather_metrics: Callable[[], Awaitable[bytes]] | None = None
        """Where this is one worker of several: how to have the sum over all of them."""
        self.chunk_gap = self.metrics.chunk_gap.observe
        self._tell_names()
        self._bridge = Bridge(
            control_app(state=self._state, metrics=self._all_metrics, may_read_metrics=self._may_read_metrics),
            self._fault_answer,
            on_answer=self._bridge_answered,
            scheme="https" if config.server.tls is not None else "http",
        )
        self._lag = LagProbe(self._sample)
        self._pressure = _pressure(config, workers)
        self._workers = workers
        self.server = HttpServer(self, _http_limits(config))

    @property
    def open_streams(self) -> int:
        return len(self._conversations)

    @property
    def drain_s(self) -> float:
        return self._setup.timeouts.drain_s

    @property
    def is_ready(self) -> bool:
        return not self._is_draining

    @property
    def abandoned(self) -> int:
        """Upstreams that are read on without a caller."""
        return self._abandoned

    @property
    def setup(self) -> Setup:
        return self._setup

    # Life.

    async def open(self) -> None:
        self._lag.start()

    async def listen(self, listener: socket, tls: SSLContext | None = None) -> None:
        await self.server.listen(listener, tls)

    def reload(self, config: Config) -> None:
        """New requests see the new configuration; those under way keep theirs, and their connections."""
        old, self._setup = self._setup, build_setup(config, self._open_local, self._setup)
        kept = {id(place.upstream) for place in self._setup.providers.values()}
        self.server.limits = _http_limits(config)
        self._pressure = _pressure(config, self._workers)
        self._tell_names()
        for place in old.providers.values():
            if id(place.upstream) not in kept:
                task = asyncio.get_running_loop().create_task(place.upstream.close())
                self._retired.add(task)
                task.add_done_callback(self._retired.discard)

    def _tell_names(self) -> None:
        models = self._setup.config.models
        targets = [f"{target.provider}/{target.model}" for model in models for target in model.targets]
        self.metrics.know([model.id for model in models], targets)

    def stop_admitting(self) -> None:
        self._is_draining = True
        self.server.stop_admitting()

    def stop_listening(self) -> None:
        self.server.close_listeners()

    async def drained(self) -> None:
        await self._all_over.wait()

    def end_streams(self, error: StreamweirError) -> None:
        for conversation in list(self._conversations):
            conversation.stop(error)

    async def close(self, grace_s: float = 0.0, /) -> None:
        """Everything that is still open ends here; what callers have not read yet gets so long."""
        self._lag.stop()
        tasks = list(self._conversations.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._bridge.close()
        await self.server.close(grace_s)
        for place in self._setup.providers.values():
            await place.upstream.close()
        await asyncio.gather(*self._retired)
        self._parser.shutdown(wait=False, cancel_futures=True)

    # What the HTTP layer asks.

    def begin(self, request: Request, response: Response, /) -> None:
        where = find(request.path)
        if where is None:
            return
        loop_now = asyncio.get_running_loop().time()
        try:
            request.admitted = admit(request, where, self._setup, self._why_closed(), loop_now, time.time())
        except Refusal as refusal:
            response.send(self._refusal(request, refusal.error, refusal.headers))
        except Exception as reason:  # noqa: BLE001 (a bug of ours: it ends this request, and is reported)
            response.send(self._fault_answer(request, reason))
        else:
            response.on_gone = partial(self._left_within_body, request)

    def serve(self, request: Request, response: Response, /) -> None:
        response.on_gone = None
        admission = request.admitted
        try:
            if not isinstance(admission, Admission):
                self._bridge.serve(request, response)
            elif admission.where.resource is Resource.CHAT:
                self._converse(request, response, admission)
            else:
                self._show_models(request, response, admission)
        except Exception as reason:  # noqa: BLE001 (as above)
            answer = self._fault_answer(request, reason)
            if response.started:
                response.cut()
            else:
                response.send(answer)

    def refuse(self, request: Request, error: StreamweirError, /) -> Answer:
        return self._refusal(request, error, ())

    def _left_within_body(self, request: Request) -> None:
        admission = request.admitted
        assert isinstance(admission, Admission)  # noqa: S101 (for the type checker)
        self._report(self._facts_of(request, admission.dialect, admission.key, status=499, verdict=Verdict.CLIENT_GONE))

    def _refusal(
        self, request: Request, error: StreamweirError, headers: Headers, dialect: Dialect | None = None
    ) -> Answer:
        key = key_of(request, self._setup) if dialect is None else None  # after a fault not even keys are asked
        dialect = dialect or dialect_of(request, self._setup)
        answer = failure_answer(error, dialect, headers)
        facts = self._facts_of(request, dialect, key, status=answer.status, verdict=verdict_of_error(error))
        facts.error = error.code
        if request.path == UNREAD and error.code == "overloaded":
            self.metrics.request_ended(facts)  # counted alone: a line for each would be a flood when it hurts most
        else:
            self._report(facts)
        return answer

    def _show_models(self, request: Request, response: Response, admission: Admission) -> None:
        setup, model = admission.setup, unquote(admission.where.rest)
        try:
            answer = show_model(setup, admission.key, model) if model else list_models(setup, admission.key)
        except StreamweirError as error:
            response.send(self._refusal(request, error, ()))
            return
        response.send(answer)
        self._report(
            self._facts_of(request, admission.dialect, admission.key, status=answer.status, verdict=Verdict.COMPLETED)
        )

    def _facts_of(
        self, request: Request, dialect: Dialect, key: Key | None, *, status: int, verdict: Verdict
    ) -> RequestFacts:
        """Of a request that needed no conversation."""
        facts = RequestFacts(
            id=request.id,
            method=request.method,
            path=request.path,
            dialect=dialect.name,
            key=key.name if key is not None else None,
            status=status,
            verdict=verdict,
        )
        self._complete(facts, request)
        return facts

    def _converse(self, request: Request, response: Response, admission: Admission) -> None:
        conversation = Conversation(
            admission.setup,
            request,
            response,
            admission.dialect,
            admission.key,
            admission.headers,
            self,
            self._parser,
        )
        self._complete(conversation.facts, request)
        task = asyncio.get_running_loop().create_task(conversation.run())
        self._conversations[conversation] = task
        self._all_over.clear()
        self.metrics.stream_opened()
        task.add_done_callback(partial(self._conversation_ended, conversation))

    def _conversation_ended(self, conversation: Conversation, task: asyncio.Task[None]) -> None:
        del self._conversations[conversation]
        if not self._conversations:
            self._all_over.set()
        self.metrics.stream_closed()
        facts = conversation.facts
        if facts.verdict is None:  # the task itself was cancelled: only the end of the process does that
            facts.verdict = Verdict.SHUTDOWN
        if not task.cancelled() and (reason := task.exception()) is not None:
            self.fault(reason, facts.id)
            facts.verdict, facts.error = Verdict.GATEWAY_FAULT, "internal_error"
            conversation.cut()
        self._report(facts)

    def _complete(self, facts: RequestFacts, request: Request) -> None:
        facts.client_id = client_id_of(request)
        facts.peer = peer_of(request, self._setup)
        if not facts.duration_s:
            facts.duration_s = asyncio.get_running_loop().time() - request.arrived_s

    def _report(self, facts: RequestFacts) -> None:
        self._report_facts(facts)
        self.metrics.request_ended(facts)

    def _why_closed(self) -> GatewayFault | None:
        if self._is_draining:
            return GatewayFault("server_shutting_down", "The gateway is shutting down.", retry_after_s=come_back_s())
        if self._pressure.level:
            return GatewayFault("overloaded", "The gateway is overloaded.", retry_after_s=come_back_s())
        return None

    def _sample(self, lag_s: float) -> None:
        self.metrics.loop_lag.observe(lag_s)
        if self._pressure.sample(used_memory_bytes(), lag_s) is Level.CUT and self._conversations:
            largest = max(self._conversations, key=lambda conversation: conversation.held_bytes)
            largest.stop(GatewayFault("overloaded", "The gateway is overloaded.", retry_after_s=come_back_s()))

    # What relays ask and tell.

    def fault(self, reason: BaseException, request_id: str, /) -> None:
        log.log_fault(reason, request_id)

    def may_abandon(self) -> bool:
        if self._abandoned >= self._setup.config.server.limits.abandoned:
            return False
        self._abandoned += 1
        return True

    def abandoned_ended(self) -> None:
        self._abandoned -= 1

    def attempt_ended(self, target: str, code: str | None, /) -> None:
        self.metrics.attempt_ended(target, code)

    def ejected(self, target: str, /) -> None:
        self.metrics.ejected(target)
        log.logger.warning("target ejected", target=target)

    # What the control plane asks.

    def _state(self) -> str:
        return "draining" if self._is_draining else "ok"

    def metrics_text(self) -> bytes:
        return self.metrics.text()

    async def _all_metrics(self) -> bytes:
        return await self.gather_metrics() if self.gather_metrics is not None else self.metrics_text()

    def _may_read_metrics(self, request: Request) -> StreamweirError | None:
        if self._setup.config.server.metrics_public or is_local(request):
            return None
        try:
            key = authenticate(request.headers, self._setup, time.time())
        except Refusal as refusal:
            return refusal.error
        if "admin" not in key.scopes:
            return CallerError("insufficient_permissions", "This key has no scope 'admin'.")
        return None

    def _connections(self) -> Iterator[tuple[str, int, int]]:
        for name, place in self._setup.providers.items():
            if isinstance(place.upstream, Http1Upstream):
                yield name, place.upstream.in_use, place.upstream.idle

    def _bridge_answered(self, request: Request, status: int) -> None:
        """What was refused is on record; to say of every probe that it was answered would only bury the rest."""
        if 400 <= status < 500:
            self._report(self._facts_of(request, self._setup.dialect, None, status=status, verdict=Verdict.REJECTED))

    def _fault_answer(self, request: Request, reason: BaseException) -> Answer:
        if isinstance(reason, StreamweirError):
            return self._refusal(request, reason, ())
        self.fault(reason, request.id)
        fault = GatewayFault("internal_error", "The gateway failed to answer.", event_id=request.id)
        where = find(request.path)  # by its path alone: whatever else tells the dialect may be what is broken
        return self._refusal(request, fault, (), (where and where.dialect) or self._setup.dialect)


def _pressure(config: Config, workers: int) -> Pressure:
    limits = config.server.limits
    memory_bytes = limits.memory_bytes
    if memory_bytes is None and (found := memory_limit_bytes()) is not None:
        memory_bytes = found // workers
    return Pressure(memory_bytes, limits.lag_s)


def _http_limits(config: Config) -> HttpLimits:
    limits, timeouts = config.server.limits, config.server.timeouts
    return HttpLimits(
        header_bytes=limits.header_bytes,
        header_fields=limits.header_fields,
        body_bytes=limits.body_bytes,
        connections=limits.connections,
        header_s=timeouts.header_s,
        body_s=timeouts.body_s,
        keep_s=timeouts.keep_s,
        write_stall_s=timeouts.write_stall_s,
    )
