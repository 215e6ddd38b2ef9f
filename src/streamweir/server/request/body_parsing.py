"""A request's body to a `ChatRequest`: on the loop, or in a thread where it is large.

A body of many small values takes long to parse, to check and to translate. Their number is bounded (`wire.jsonio`).
A body that would block the event loop is parsed in a thread.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor

from streamweir.core.errors import CallerError
from streamweir.core.request import ChatRequest
from streamweir.frontends.base import Frontend
from streamweir.server.request.sent_parameters import model_in, parameters_of
from streamweir.server.telemetry.record import RequestRecord
from streamweir.wire.jsonio import decode_body

MAX_BYTES_ON_LOOP = 64 * 1024
"""Bodies beyond it are parsed in a thread (docs/spec/failures.md G19): 3.8 MiB of small objects take 220 ms, 140 KiB of
messages 37."""


async def read_chat(
    body: bytes, headers: Mapping[str, str], frontend: Frontend, thread: Executor, record: RequestRecord
) -> ChatRequest:
    """`record` gets the parameters or, if `CallerError` is raised, the model that the body names."""
    try:
        if len(body) <= MAX_BYTES_ON_LOOP:
            chat = frontend.parse(decode_body(body), headers)
        else:
            chat = await asyncio.get_running_loop().run_in_executor(thread, _parse, body, headers, frontend)
    except CallerError:
        record.model = model_in(body)
        raise
    record.parameters = parameters_of(chat)
    return chat


def _parse(body: bytes, headers: Mapping[str, str], frontend: Frontend) -> ChatRequest:
    return frontend.parse(decode_body(body), headers)
