"""What callers can read about their own key: its models, its limits and budgets, and its requests.

    GET /v1/models, /v1/models/{id}    from memory; a long list in a task
    GET /v1/key, /v1/generations/{id}  from the database, in a task

A read of the database is bounded: `MAX_AT_ONCE` run at a time, the others wait, and beyond `MAX_WAITING` of them a
request is refused, so that callers cannot slow down the ledger by polling. A key runs half of them at most, and has
at most `MAX_OF_KEY` that run or wait, so that it does not keep others out. Entries of this process are written first,
so that an answer is followed by its numbers. Reads of the database leave no row in the request log.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any
from urllib.parse import unquote

from msgspec import structs

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.policy.access import Key
from streamweir.policy.limits.limit_rule import LimitRule
from streamweir.server.accounting.accounting import Accounting, unavailable
from streamweir.server.http.answers import failure_answer, json_answer
from streamweir.server.http.message import Answer, Request, Response
from streamweir.server.request.admission import Admission, Resource
from streamweir.server.request.early_responses import EarlyResponses
from streamweir.server.request.lookup.models import answer_many, answer_models, has_many
from streamweir.server.request.lookup.own_key import key_document, read_sums
from streamweir.server.request.lookup.own_request import find_own, request_document
from streamweir.server.request.runtime.file_keys import limit_rules_of
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.db.clock import now_ms

MAX_AT_ONCE = 4
MAX_WAITING = 64
MAX_OF_KEY = 8
FLUSH_S = 1.0
"""How long an answer waits until this process's entries are in the database."""
READING_S = 5.0

Start = Callable[[Request, Response, Coroutine[Any, Any, None]], None]
"""Runs the task of a request that is not a chat."""


class _KeyReads:
    """Of one key, while it has any."""

    __slots__ = ("free", "open")

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(MAX_AT_ONCE // 2)
        self.open = 0


class Lookups:
    def __init__(
        self,
        accounting: Accounting,
        store: Store | None,
        early_responses: EarlyResponses,
        start: Start,
        find_running: Callable[[str, str], str | None],
    ) -> None:
        """`find_running`: the id of the request of a key that this process is answering with a completion id."""
        self._accounting = accounting
        self._store = store
        self._early_responses = early_responses
        self._start = start
        self._find_running = find_running
        self._free = asyncio.Semaphore(MAX_AT_ONCE)
        self._open = 0
        self._keys: dict[str, _KeyReads] = {}

    def show(self, request: Request, response: Response, admission: Admission) -> None:
        if admission.where.resource is Resource.MODELS:
            if not admission.where.item and has_many(admission.runtime):
                self._start(request, response, self._show_many(request, response, admission))
            else:
                self._show_models(request, response, admission)
        else:
            self._start(request, response, self._show(request, response, admission))

    def _show_models(self, request: Request, response: Response, admission: Admission) -> None:
        runtime, key, frontend, model = admission.runtime, admission.key, admission.frontend, admission.where.item
        group = self._accounting.directory.price_group_of(key)
        try:
            answer = answer_models(runtime, key, group, frontend, model, request.query, now_ms())
        except StreamweirError as error:
            response.send(self._early_responses.answer(request, error))
            return
        self._send_models(request, response, admission, answer)

    async def _show_many(self, request: Request, response: Response, admission: Admission) -> None:
        runtime, key, frontend = admission.runtime, admission.key, admission.frontend
        group = self._accounting.directory.price_group_of(key)
        answer = await answer_many(runtime, key, group, frontend, request.query, now_ms())
        if not response.gone:
            self._send_models(request, response, admission, answer)

    def _send_models(self, request: Request, response: Response, admission: Admission, answer: Answer) -> None:
        frontend = admission.frontend
        headers = answer.headers + frontend.own_headers((), request.id, (), time.time())
        response.send(structs.replace(answer, headers=headers))
        self._early_responses.looked_up(request, answer.status, frontend, admission.key)

    async def _show(self, request: Request, response: Response, admission: Admission) -> None:
        frontend = admission.frontend
        try:
            document = await self._document(admission)
        except StreamweirError as error:
            answer = failure_answer(error, frontend, (), request.id)
        else:
            headers = frontend.own_headers((("cache-control", "no-store"),), request.id, (), time.time())
            answer = json_answer(document, 200, headers)
        if not response.gone:
            response.send(answer)

    async def _document(self, admission: Admission) -> dict[str, Any]:
        if self._open >= MAX_AT_ONCE + MAX_WAITING:
            raise GatewayFault("overloaded", "Too many of these requests at the moment. Try again later.")
        key_id = admission.key.id
        of_key = self._keys.setdefault(key_id, _KeyReads())
        if of_key.open >= MAX_OF_KEY:
            message = f"This key has {of_key.open} of these requests at the moment, and may have no more."
            raise CallerError("concurrency_limit_exceeded", message, retry_after_s=1)
        self._open += 1
        of_key.open += 1
        try:
            async with of_key.free, self._free:
                if admission.where.resource is Resource.KEY:
                    return await self._key_document(admission.key, limit_rules_of(admission.runtime.config))
                return await self._request_document(admission.key, unquote(admission.where.item))
        except StoreUnavailable:
            raise unavailable() from None
        finally:
            self._open -= 1
            of_key.open -= 1
            if not of_key.open:
                del self._keys[key_id]

    async def _key_document(self, key: Key, rules: Iterable[LimitRule]) -> dict[str, Any]:
        workspace, now_s = self._accounting.directory.workspace_of(key), now_ms() / 1000
        rates = await self._accounting.rates_used(key.id) if key.has_limits else None
        if self._store is None:
            return key_document(key, workspace, None, rates)
        await self._flush()
        sums = await self._store.read(lambda conn: read_sums(conn, key, workspace, rules, now_s), timeout_s=READING_S)
        return key_document(key, workspace, sums, rates)

    async def _request_document(self, key: Key, id: str) -> dict[str, Any]:
        if self._store is None:
            raise CallerError("not_found", "Requests are not recorded here: the gateway has no database.")
        await self._flush()
        running = self._find_running(key.id, id)
        found = await self._store.read(lambda conn: find_own(conn, key.id, running or id), timeout_s=READING_S)
        if found is None:
            raise CallerError("not_found", "No request of this key has this id.")
        return request_document(found, key)

    async def _flush(self) -> None:
        """If it takes too long, the answer is a little out of date."""
        if self._accounting.writer is not None:
            await self._accounting.writer.flush(FLUSH_S)
