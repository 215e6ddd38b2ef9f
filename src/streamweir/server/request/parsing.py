"""A request's body to a `ChatRequest`: on the loop, or in a thread where it is large.

A body of many small things takes long at every step: to read, to check, to translate. How many there may
be is bounded (`wire.jsonio`); those that take longer than a turn of the loop may are worked on elsewhere.
"""

import asyncio
from concurrent.futures import Executor

from streamweir.core.request import ChatRequest, read_request
from streamweir.frontends.chat.dialect import Dialect
from streamweir.wire.jsonio import decode_body

LARGEST_ON_LOOP = 64 * 1024
"""Bodies beyond it are parsed in a thread (docs/spec/failures.md G19): 3.8 MiB of small objects take 220 ms, 140 KiB of
messages 37."""


async def read_chat(body: bytes, dialect: Dialect, thread: Executor) -> ChatRequest:
    if len(body) <= LARGEST_ON_LOOP:
        return read_request(decode_body(body), dialect.request)
    return await asyncio.get_running_loop().run_in_executor(thread, _parse, body, dialect)


def _parse(body: bytes, dialect: Dialect) -> ChatRequest:
    return read_request(decode_body(body), dialect.request)
