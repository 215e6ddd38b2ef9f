"""`POST .../count_tokens`: the tokens of a prompt, for an API that has such a path.

Nothing is reserved, billed or logged: agents send dozens of these requests at once, and clients estimate if one fails.
A provider of the same API is asked for its own count, and so is one that has an API of its own (Bedrock's Converse); if
it does not answer with one, and for every other provider, the gateway counts: with a tokenizer in a thread. At most
`MAX_AT_ONCE` run at the same time, the others wait.
"""

import asyncio
import time
from concurrent.futures import Executor
from functools import partial
from random import random

from msgspec import structs

from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.core.usage import member_count
from streamweir.policy.routing.health import TargetId
from streamweir.providers.base import Provider, Target, UpstreamRequest, can_count, count_request
from streamweir.server.accounting.token_count import Vocabularies
from streamweir.server.http.answers import failure_answer, json_answer
from streamweir.server.http.message import Answer, Request, Response
from streamweir.server.request.admission import Admission
from streamweir.server.request.attempt.body_changes import with_rules
from streamweir.server.request.body_parsing import MAX_BYTES_ON_LOOP
from streamweir.server.request.request_route import find_route
from streamweir.server.request.runtime.config import ProviderRuntime, RuntimeConfig
from streamweir.upstream.fetch import read_whole
from streamweir.wire import jsonio

MAX_AT_ONCE = 8
_PROVIDER_S = 5.0
"""The timeout for a provider's own count."""


class TokenCounting:
    def __init__(self, vocabularies: Vocabularies, threads: Executor) -> None:
        self._vocabularies = vocabularies
        self._threads = threads
        self._free = asyncio.Semaphore(MAX_AT_ONCE)

    async def run(self, request: Request, response: Response, admission: Admission) -> None:
        frontend = admission.frontend
        try:
            async with self._free:
                answer = await self._answer(request, admission)
        except StreamweirError as error:
            answer = failure_answer(error, frontend, (), request.id)
        if not response.gone:
            response.send(answer)

    async def _answer(self, request: Request, admission: Admission) -> Answer:
        loop, frontend, body = asyncio.get_running_loop(), admission.frontend, request.body
        if len(body) <= MAX_BYTES_ON_LOOP:
            chat = frontend.parse_count(jsonio.decode_body(body), request.headers)
        else:
            chat = await loop.run_in_executor(self._threads, _parse, request, admission)
        target = find_route(admission.runtime, admission.key, chat).targets[0].target
        tokens = await self._ask_provider(admission.runtime, chat, target, len(body))
        if tokens is None:
            tokenizer = self._vocabularies.tokenizer(target.model)
            tokens = (await loop.run_in_executor(self._threads, tokenizer.count_prompt, chat.prompt))[0]
        headers = frontend.own_headers((), request.id, (), 0.0)
        return json_answer(frontend.write_count(tokens, chat), 200, headers)

    async def _ask_provider(
        self, runtime: RuntimeConfig, chat: ChatRequest, target: TargetId, body_bytes: int
    ) -> int | None:
        """None: it has no such count, or did not send one."""
        provider, provider_wire = runtime.provider_for(target), runtime.chat_wire(target)
        if chat.native is None or provider_wire.native_wire not in (None, chat.native.wire):
            return None
        if not can_count(provider_wire.provider):
            return None
        secret = provider.secrets[runtime.router.pick(target, time.monotonic(), random).credential]
        known = structs.replace(provider.target, model=target.model, api_key=secret)
        build = partial(_build_count, provider, provider_wire.provider, chat, known)
        if body_bytes <= MAX_BYTES_ON_LOOP:
            count = build()
        else:
            count = await asyncio.get_running_loop().run_in_executor(self._threads, build)
        if count is None:
            return None
        try:
            answer = await read_whole(provider.upstream, count, timeout_s=_PROVIDER_S)
            document = jsonio.decode(answer.body) if answer.status == 200 else None
        except (StreamweirError, jsonio.InvalidJson):
            return None
        if not isinstance(document, dict):
            return None
        tokens = member_count(document, "input_tokens")
        return tokens if tokens is not None else member_count(document, "inputTokens")  # Bedrock's


def _parse(request: Request, admission: Admission) -> ChatRequest:
    return admission.frontend.parse_count(jsonio.decode_body(request.body), request.headers)


def _build_count(
    runtime: ProviderRuntime, provider: Provider, chat: ChatRequest, target: Target
) -> UpstreamRequest | None:
    request = provider.build_request(chat, target)
    if runtime.rules is not None and chat.native is not None:
        request = with_rules(request, runtime.rules.for_counting, chat.native.body)
    return count_request(provider, request, target)
