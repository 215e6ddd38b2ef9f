"""The chat requests that are running: started here, stopped from here, and waited for.

Requests are stopped here by the operator, by a revoked key, and by a process that stops or has no memory left. How a
request ends is decided in `server.request.request`. When it is over, its settlement begins.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Executor
from functools import partial
from typing import Any

from msgspec import structs

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.core.verdict import Verdict
from streamweir.policy.access import Key
from streamweir.server.accounting.accounting import Accounting
from streamweir.server.accounting.settlement import Settlements
from streamweir.server.accounting.token_count import Vocabularies
from streamweir.server.http.message import Request, Response
from streamweir.server.relay.observer import AttemptObserver
from streamweir.server.request.admission import Admission, new_record
from streamweir.server.request.overload import Overload
from streamweir.server.request.request import RequestHandler
from streamweir.server.request.request_headers import read_idempotency
from streamweir.server.request.token_counting import TokenCounting
from streamweir.server.streams.setup import Streams
from streamweir.server.telemetry.metrics import Metrics


class RequestRegistry:
    def __init__(
        self,
        *,
        accounting: Accounting,
        vocabularies: Vocabularies,
        parser: Executor,
        settlements: Settlements,
        metrics: Metrics,
        observer: AttemptObserver,
        overload: Overload,
        streams: Streams,
    ) -> None:
        self._accounting = accounting
        self._vocabularies = vocabularies
        self._parser = parser
        self._settlements = settlements
        self._metrics = metrics
        self._observer = observer
        self._overload = overload
        self._streams = streams.table
        self._make_replay = streams.replay
        self._stream_endpoint = streams.endpoint(self.run)
        self._tasks: dict[RequestHandler, asyncio.Task[None]] = {}
        self._counting = TokenCounting(vocabularies, parser)
        self._others: set[asyncio.Task[None]] = set()
        """Tasks of requests that are not chats."""
        self._all_over = asyncio.Event()
        self._all_over.set()

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, request: Request, response: Response, admission: Admission) -> None:
        """Raises `CallerError`."""
        key, headers, stream, idempotency = admission.key, request.headers, None, None
        if "idempotency-key" in headers:
            idempotency = read_idempotency(headers, admission.frontend.name, request.body)
            if idempotency is not None and self._streams.replay(request, response, key, idempotency):
                request.body = b""
                return
        if key.resumable or idempotency is not None or "x-streamweir-resumable" in headers:
            stream = self._streams.wrap(request, response, key, admission.frontend.name, idempotency)
            response = stream or response
        handler = RequestHandler(
            admission.runtime,
            request,
            response,
            admission.frontend,
            admission.key,
            new_record(request, admission.runtime, admission.frontend, admission.key),
            self._accounting,
            self._vocabularies,
            self._observer,
            self._parser,
            self._overload.enter(admission.key),
        )
        handler.stream = stream
        if idempotency is not None:
            longest_s = admission.runtime.timeouts.total_s
            handler.replay = self._make_replay(idempotency, stream, partial(self.run, request), longest_s)
        loop = asyncio.get_running_loop()
        task = loop.create_task(handler.run(loop))
        self._tasks[handler] = task
        self._all_over.clear()
        self._metrics.stream_opened()
        task.add_done_callback(partial(self._ended, handler))

    def count(self, request: Request, response: Response, admission: Admission) -> None:
        """Counts the tokens of a request. Nothing is settled."""
        self.run(request, response, self._counting.run(request, response, admission))

    def read_stream(self, request: Request, response: Response, admission: Admission) -> None:
        """For a caller that comes back to a stream, or ends it."""
        self._stream_endpoint.serve(request, response, admission.key, admission.frontend, admission.where.item)

    def run(self, request: Request, response: Response, work: Coroutine[Any, Any, None]) -> None:
        """Answers a request that is not a chat. It is cancelled if the caller disconnects."""
        task = asyncio.get_running_loop().create_task(work)
        self._others.add(task)
        response.on_gone = partial(_cancel, task)
        task.add_done_callback(partial(self._other_ended, request.id, response))

    def find_running(self, key_id: str, completion_id: str) -> str | None:
        """The id of the request of a key whose answer has this completion id."""
        for handler in self._tasks:
            meter = handler.meter if handler.key.id == key_id else None
            if meter is not None and meter.record.completion_id == completion_id:
                return handler.record.id
        return None

    def _other_ended(self, request_id: str, response: Response, task: asyncio.Task[None]) -> None:
        self._others.discard(task)
        if not task.cancelled() and (reason := task.exception()) is not None:
            self._observer.fault(reason, request_id)
            response.cut()

    async def wait_ended(self) -> None:
        """Waits until no request is running, and all are settled."""
        if self._others:
            await asyncio.wait(self._others)
        await self._all_over.wait()
        await self._settlements.wait_settled()

    async def cancel(self) -> None:
        """Cancels all requests, because the process ends."""
        tasks = [*self._tasks.values(), *self._others]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._settlements.wait_settled()

    def stop(self, error: StreamweirError) -> None:
        for handler in list(self._tasks):
            handler.stop(error)

    def stop_largest(self, error: StreamweirError) -> None:
        if self._tasks:
            max(self._tasks, key=lambda handler: handler.memory_bytes).stop(error)

    def stop_key(self, key: Key) -> None:
        """The key was revoked: its streams end."""
        error = CallerError("key_revoked", "The API key has been revoked.")
        for handler in list(self._tasks):
            if handler.key.id == key.id:
                handler.stop(error, drain=True)

    def stop_request(self, request_id: str) -> None:
        """Stopped by an operator."""
        error = GatewayFault("stopped_by_operator", "The request was stopped by the operator.")
        for handler in list(self._tasks):
            if handler.record.id == request_id:
                handler.stop(error, drain=True)

    def _ended(self, handler: RequestHandler, task: asyncio.Task[None]) -> None:
        del self._tasks[handler]
        if not self._tasks:
            self._all_over.set()
        self._metrics.stream_closed()
        handler.slot.end()
        if handler.stream is not None:
            self._streams.request_ended(handler.record.id)
        if handler.replay is not None and handler.replay.is_one:
            return
        record = handler.record
        if record.verdict is None:  # the task itself was cancelled: only the end of the process does that
            record.verdict = Verdict.SHUTDOWN
        if not task.cancelled() and (reason := task.exception()) is not None:
            self._observer.fault(reason, record.id)
            record.verdict, record.error = Verdict.GATEWAY_FAULT, "internal_error"
            handler.cut()
        if handler.stream is not None:
            handler.stream.complete_record(record)
        ended = handler.ended()
        if handler.stream is not None:
            ended = structs.replace(ended, settled=handler.stream.settled)
        self._settlements.settle(ended)


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
