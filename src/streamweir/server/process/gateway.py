"""The gateway: the application of the HTTP layer, with everything it needs wired together.

    connection -> begin (path, key, limits) -> serve -> RequestRegistry (one task each) -> record -> log, metrics
                                                 \\--> the list of models; everything else: the ASGI bridge

It owns what lives as long as the process: the listener, the running requests, the connection pools, the thread that
parses large bodies. What a reload can change is in a `RuntimeConfig`; a request keeps the one that it began with.
Signals, reloads and workers are in `server.process.lifecycle`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from socket import socket
from ssl import SSLContext

from streamweir.background import BackgroundTasks
from streamweir.config.model import Config
from streamweir.config.model import Provider as ProviderConfig
from streamweir.config.source import ConfigSource
from streamweir.console.assets import Assets
from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.policy.access import Key
from streamweir.policy.pricing.pricebook import PriceBook
from streamweir.server.accounting.accounting import without_store
from streamweir.server.accounting.key_lookup import KeyLookup
from streamweir.server.accounting.settlement import Settlements
from streamweir.server.accounting.token_count import Vocabularies
from streamweir.server.control.api.authentication import actor_of
from streamweir.server.control.api.context import Context
from streamweir.server.control.api.live_feed import LiveFeed
from streamweir.server.control.app import control_plane
from streamweir.server.control.health_port import HealthPort
from streamweir.server.control.metrics_access import MetricsAccess
from streamweir.server.control.probes import PROBES, plain_probe, probe_answer
from streamweir.server.control.readiness import Readiness
from streamweir.server.http.acceptor import BATCH
from streamweir.server.http.answers import Refusal
from streamweir.server.http.asgi import Bridge
from streamweir.server.http.body_memory import SMALL_BODY, BodyMemory
from streamweir.server.http.cors import begin_cors
from streamweir.server.http.limits import body_memory_bytes, http_limits_of, pressure_of
from streamweir.server.http.listener import HttpServer
from streamweir.server.http.message import Answer, Request, Response
from streamweir.server.http.pressure import LagProbe, Level, retry_after_s, used_memory_bytes
from streamweir.server.process.background import background_tasks, connect_readiness
from streamweir.server.process.bootstrap import AccountingRuntime, as_stream_owner, redactor_of
from streamweir.server.process.periodic import PeriodicWork
from streamweir.server.relay.observer import GatewayObserver
from streamweir.server.request.admission import (
    WITHOUT_BODY,
    Admission,
    Resource,
    admit,
    parse_path,
)
from streamweir.server.request.early_responses import EarlyResponses
from streamweir.server.request.key_wait import KeyWaits
from streamweir.server.request.lookup.lookups import Lookups
from streamweir.server.request.lookup.model_refresh import refresh_models
from streamweir.server.request.overload import Overload
from streamweir.server.request.playground import Playground
from streamweir.server.request.registry import RequestRegistry
from streamweir.server.request.runtime.config import RuntimeConfig, build_runtime_config, close_idle, connections_of
from streamweir.server.request.runtime.file_keys import limit_rules_of
from streamweir.server.streams.setup import Streams
from streamweir.server.telemetry import log
from streamweir.server.telemetry.metrics import Metrics
from streamweir.server.telemetry.record import RequestRecord
from streamweir.server.telemetry.reporting import Reporting
from streamweir.upstream.base import Upstream

_BODY_CHECK_S = 0.05
_WITHOUT_VALID_KEY = ("invalid_api_key", "missing_api_key")
_RESERVED = ("/health", "/ready", "/metrics", "/api/", "/console")


class Gateway:
    """See `server.http.message.Application` and `server.process.lifecycle`."""

    def __init__(
        self,
        config: Config,
        open_local: Callable[[ProviderConfig], Upstream],
        report: Callable[[RequestRecord], None] = log.log_request,
        workers: int = 1,
        storage: AccountingRuntime | None = None,
        prices: PriceBook | None = None,
        source: ConfigSource | None = None,
        page: Assets | None = None,
        background: BackgroundTasks | None = None,
    ) -> None:
        """`report` is called once for every request, when it is over. `workers` share the machine's memory.

        `storage` is closed with the gateway; None: there is no accounting. `source`: for the API.
        `page`: the console's files; None: those that were built. `background`: that of the process, used if there is
        no `storage`, which has it.
        """
        self._open_local = open_local
        self._runtime = build_runtime_config(config, open_local, prices=prices)
        self.storage = storage
        self.accounting = storage.accounting if storage is not None else without_store(self._runtime.keys, workers)
        self._retired: set[asyncio.Task[None]] = set()
        self._is_draining, self.readiness = False, Readiness()
        self.background = storage.background if storage is not None else background or background_tasks()
        connect_readiness(self.background, self.readiness, storage.journal if storage is not None else None)
        contents = storage.contents if storage is not None else None
        self._parser, self.bodies = ThreadPoolExecutor(2, "parse"), BodyMemory(body_memory_bytes(config, workers))
        self.metrics = Metrics(
            connections=lambda: connections_of(self._runtime),
            router=lambda: self._runtime.router,
            accounting=storage.reading if storage is not None else None,
            task_ends=self.background.ends,
            body_bytes=lambda: self.bodies.held_bytes,
        )
        redactor = (lambda: contents.redactor) if contents is not None else None
        self._reporting = Reporting(report, self.metrics, self.background, self._parser, redactor)
        self._settlements = Settlements(self.accounting, contents, self._parser, self._reporting, log.log_fault)
        self._observer = GatewayObserver(self.metrics, lambda: self._runtime.config.server.limits.abandoned)
        self._is_secure = config.server.tls is not None
        self._early_responses = EarlyResponses(
            self._settlements,
            self.metrics,
            self.accounting.directory,
            lambda: self._runtime,
            is_secure=self._is_secure,
        )
        self._overload = Overload(
            target_s=config.server.limits.turn_s,
            find_key=self.accounting.directory.find,
            frontend=lambda: self._runtime.frontend,
            free_files=lambda: close_idle(self._runtime),
            limit_changed=lambda is_on: self.server.set_early_refusal(self._overload.refusal_of if is_on else None),
        )
        self.metrics.overload = lambda: self._overload.reading
        self._streams = Streams(config, workers, self.metrics, as_stream_owner(storage), self.background)
        self._requests = RequestRegistry(
            accounting=self.accounting,
            vocabularies=Vocabularies(self._parser),
            parser=self._parser,
            settlements=self._settlements,
            metrics=self.metrics,
            observer=self._observer,
            overload=self._overload,
            streams=self._streams,
        )
        self._lookups = Lookups(
            self.accounting,
            storage.store if storage is not None else None,
            self._early_responses,
            self._requests.run,
            self._requests.find_running,
        )
        maintenance = self._maintenance = self._make_periodic(storage, config) if storage is not None else None
        look_up = partial(KeyLookup, self.accounting.directory, fault=self._observer.fault)
        lookup = look_up(maintenance.load_changes) if maintenance is not None else None
        self._late_keys = KeyWaits(lookup, self, self._early_responses.caller_gone)
        self._feed = (
            LiveFeed(storage.store, storage.accounting, intervals=storage.intervals, background=self.background)
            if storage is not None
            else None
        )
        self.gather_metrics: Callable[[], Awaitable[bytes]] | None = None
        """If this is one of several workers: returns the sum over all of them."""
        self.on_close: list[Callable[[], Awaitable[None]]] = []  # called before anything is closed
        self._update_metric_names()
        control = control_plane(
            self._api(source),
            page if page is not None else Assets(),
            readiness=self.readiness,
            metrics=self._all_metrics,
            metrics_access=MetricsAccess(lambda: self._runtime, self.accounting.directory),
            is_secure=self._is_secure,
        )
        self._bridge = Bridge(
            control,
            self._early_responses.fault,
            on_answer=self._early_responses.answered,
            on_body=lambda request, scope: self.bodies.hold(request, actor_of(scope).name),
            scheme="https" if self._is_secure else "http",
        )
        self._lag = LagProbe(self._sample)
        self._health: HealthPort | None = None
        self._workers, self._pressure = workers, pressure_of(config, workers)
        batch = max(BATCH // workers, 1)  # connections that one worker accepts are not available to the others
        self.server = self._overload.files = HttpServer(
            self, http_limits_of(config), reserved_paths=_RESERVED, batch=batch
        )
        self.server.upstream_files, self.server.refusal = self._upstream_files, self._overload.no_files_refusal
        self.server.probe = lambda data: plain_probe(data, self.readiness)
        self.metrics.queued = lambda: self.server.queued
        self._observer.timers = self.server.timers

    def _api(self, source: ConfigSource | None) -> Context | None:
        if self.storage is None or self._maintenance is None or self._feed is None:
            return None
        context = Context(
            store=self.storage.store,
            accounting=self.accounting,
            runtime=lambda: self._runtime,
            is_secure=self._is_secure,
            playground=Playground(
                accounting=self.accounting,
                runtime=lambda: self._runtime,
                why_closed=self._why_closed,
                refuse=self._early_responses.answer,
                begin=self._requests.begin,
                is_secure=self._is_secure,
            ),
            feed=self._feed,
            refresh=self._maintenance.load_changes,
            find_key=self._late_keys.find,
            source=source,
        )
        self.metrics.others.append(context.logins.families)
        return context

    @property
    def open_streams(self) -> int:
        return len(self._requests)

    @property
    def lame_duck_s(self) -> float:
        return self._runtime.timeouts.lame_duck_s

    @property
    def drain_s(self) -> float:
        return self._runtime.timeouts.drain_s

    @property
    def abandoned(self) -> int:
        """Upstreams that are still read although the caller has disconnected."""
        return self._observer.draining

    @property
    def runtime(self) -> RuntimeConfig:
        return self._runtime

    # Start, reload and end.

    async def open(self) -> None:
        self._lag.start()
        self._reporting.start()
        self.on_close.append(refresh_models(lambda: self._runtime, self.background))
        await self._streams.start()
        if self._maintenance is not None:
            self._maintenance.start()

    def _make_periodic(self, storage: AccountingRuntime, config: Config) -> PeriodicWork:
        return PeriodicWork(
            storage,
            lambda: self._runtime,
            self.metrics,
            stop_key=self._requests.stop_key,
            stop_request=self._requests.stop_request,
            retention_days=config.store.retention_days,
        )

    async def listen(self, listener: socket, tls: SSLContext | None = None) -> None:
        await self.server.listen(listener, tls)

    def listen_for_probes(self, listener: socket) -> None:
        """In a thread: see `server.control.health_port`."""
        if self._health is None:
            self._health = HealthPort(self.readiness, self._lag.idle_s)
        self._health.start(listener)

    def reload(self, config: Config) -> None:
        """New requests use the new configuration; running ones keep theirs, and their connections."""
        old, self._runtime = self._runtime, build_runtime_config(config, self._open_local, self._runtime)
        kept = {id(upstream) for _, upstream in self._runtime.upstreams()}
        self.accounting.use_file(self._runtime.keys, limit_rules_of(config))
        if self.storage is not None:
            self.storage.contents.redactor = redactor_of(config, old.config)
        self.server.limits = http_limits_of(config)
        self._pressure = pressure_of(config, self._workers)
        self.bodies.total_bytes = body_memory_bytes(config, self._workers)
        self._overload.use_target(config.server.limits.turn_s)
        self._streams.reload(config)
        self._update_metric_names()
        for upstream in [each for _, each in old.upstreams() if id(each) not in kept]:
            task = asyncio.get_running_loop().create_task(upstream.close())
            self._retired.add(task)
            task.add_done_callback(self._retired.discard)

    def _update_metric_names(self) -> None:
        runtime = self._runtime
        self._reporting.use(runtime.config, list(map(str, runtime.routes.targets())), [key.id for key in runtime.keys])

    def begin_lame_duck(self) -> None:
        self.readiness.is_draining = True
        self.server.end_with_answers()

    async def unused(self, quiet_s: float, /) -> None:
        await self.server.unused(quiet_s, lambda: self.readiness.probed_at)

    def stop_admitting(self) -> None:
        self.readiness.is_draining = self._is_draining = True
        if self._feed is not None:
            self._feed.end()
        self.accounting.stop_waiting()
        self.server.stop_admitting()
        self._streams.hand_over()

    def stop_listening(self) -> None:
        self.server.close_listeners()

    async def drained(self) -> None:
        """Returns when no stream is open, and no admitted request is still sending its body."""
        await self._requests.wait_ended()
        while self.server.awaits_body:  # at most for `body_s`, and there are few at the end
            await asyncio.sleep(_BODY_CHECK_S)
            await self._requests.wait_ended()

    def end_streams(self, error: StreamweirError) -> None:
        self._requests.stop(error)

    async def close(self, grace_s: float = 0.0, /) -> None:
        """Ends everything that is still open; callers get `grace_s` to read what was written."""
        for end in self.on_close:
            await end()
        self._lag.stop()
        await self._requests.cancel()
        await self._bridge.close()
        await self.server.close(grace_s)
        await self._late_keys.close()
        await self._requests.cancel()  # a request whose body was still being received when admission ended
        await self._streams.close()
        self._early_responses.log_left_out(is_last=True)
        for _, upstream in self._runtime.upstreams():
            await upstream.close()
        await asyncio.gather(*self._retired)
        await self._reporting.close()
        await self._close_accounting()
        self._parser.shutdown(wait=False, cancel_futures=True)
        if self._health is not None:
            self._health.stop()

    async def _close_accounting(self) -> None:
        if self._maintenance is not None:
            await self._maintenance.stop()
        is_written = await self.accounting.close(self.storage.intervals.flush_s if self.storage is not None else 0.0)
        if self._maintenance is not None and is_written:
            await self._maintenance.retire()
        if self.storage is not None:
            await self.storage.close()

    # Called by the HTTP layer.

    def begin(self, request: Request, response: Response, /) -> bool:
        """Only the body of a chat is read without further conditions. Other resources read it after authentication."""
        where = parse_path(request.path)
        if where is None:
            self.serve(request, response)
            return True
        cors = self._runtime.config.server.cors
        if cors is not None and begin_cors(cors, request, response):
            return True
        try:
            closed = self._why_closed()
            admission = request.admitted = admit(request, where, self._runtime, self.accounting, closed, time.time())
            has_body = where.resource not in WITHOUT_BODY
            if has_body:
                self._check_capacity(admission.key)
            if has_body and (request.length is None or request.length > SMALL_BODY):
                self.bodies.hold(request, admission.key.id)
        except Refusal as refusal:
            if refusal.error.code in _WITHOUT_VALID_KEY:
                self._overload.measure()
            request.body = response.arrived_body()  # its record has the model
            if refusal.error.code != "invalid_api_key" or not self._late_keys.wait(request, response):
                response.send(self._early_responses.answer(request, refusal.error, refusal.headers))
            return True
        except Exception as reason:  # noqa: BLE001 (a bug: it ends this request, and is reported)
            response.send(self._early_responses.fault(request, reason))
            return True
        if not has_body:
            self.serve(request, response)
            return True
        response.on_gone = partial(self._early_responses.caller_gone, request)
        return False

    def serve(self, request: Request, response: Response, /) -> None:
        response.on_gone = None
        admission = request.admitted
        try:
            if request.path in PROBES and request.method == "GET":
                response.send(probe_answer(request.path, self.readiness))
            elif not isinstance(admission, Admission):
                self._bridge.serve(request, response)
            elif admission.where.resource is Resource.STREAMS:
                self._requests.read_stream(request, response, admission)
            elif admission.where.resource in WITHOUT_BODY:
                self._lookups.show(request, response, admission)
            else:
                if admission.generation != self.accounting.directory.generation:  # the key may have been revoked since
                    admission = admit(request, admission.where, admission.runtime, self.accounting, None, time.time())
                if request.length is None or request.length > SMALL_BODY:  # it may have been admitted a while ago
                    self._check_capacity(admission.key)
                is_count = admission.where.resource is Resource.COUNT
                (self._requests.count if is_count else self._requests.begin)(request, response, admission)
        except Refusal as refusal:
            response.send(self._early_responses.answer(request, refusal.error, refusal.headers))
        except Exception as reason:  # noqa: BLE001 (as above)
            answer = self._early_responses.fault(request, reason)
            if response.started:
                response.cut()
            else:
                response.send(answer)

    def refuse(self, request: Request, error: StreamweirError, /) -> Answer:
        if error.code == "overloaded":
            self._overload.count("connection")
        return self._early_responses.answer(request, error)

    def _why_closed(self) -> GatewayFault | None:
        if self._is_draining:
            return GatewayFault("server_shutting_down", "The gateway is shutting down.", retry_after_s=retry_after_s())
        if self._pressure.level:
            return self._overload.refused("memory_or_lag", "The gateway is overloaded.")
        return None

    def _check_capacity(self, key: Key) -> None:
        if (error := self._overload.why_refused(key)) is not None:
            raise Refusal(error)

    def _upstream_files(self) -> int:
        """Every request uses one file, now or soon."""
        return len(self._requests) + sum(idle for _, _, idle in connections_of(self._runtime))

    def _sample(self, lag_s: float) -> None:
        self.metrics.loop_lag.observe(lag_s)
        self._overload.log_refusals()
        self._early_responses.log_left_out()
        level = self._pressure.sample(used_memory_bytes(), lag_s, self.bodies.held_bytes)
        if level is Level.CUT and not self._streams.table.give_up_all():
            error = GatewayFault("overloaded", "The gateway is overloaded.", retry_after_s=retry_after_s())
            self._requests.stop_largest(error)

    # Called by the control plane.

    def metrics_text(self) -> bytes:
        return self.metrics.text()

    async def _all_metrics(self) -> bytes:
        return await self.gather_metrics() if self.gather_metrics is not None else self.metrics_text()
