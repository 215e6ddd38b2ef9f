"""The answer to a request that failed before anything was sent: mostly an error status, sometimes a stream.

Clients of some APIs look for certain errors inside the stream that they asked for (`Frontend.write_streamed_error`).
"""

import time

from msgspec import structs

from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.frontends.base import Frontend
from streamweir.policy.access import Key
from streamweir.server.http.answers import failure_answer
from streamweir.server.http.message import Answer, Headers
from streamweir.server.request.attempt.attempt_setup import make_reply
from streamweir.server.request.attempt.routing_headers import routing_headers
from streamweir.server.request.sent_parameters import refusal_of
from streamweir.server.telemetry.record import RequestRecord


def error_answer(
    error: StreamweirError,
    chat: ChatRequest | None,
    frontend: Frontend,
    headers: Headers,
    record: RequestRecord,
    key: Key,
) -> Answer:
    """`chat`: None if the body could not be read. The record gets the reason, if no provider was asked."""
    if not record.attempts:
        record.refusal = refusal_of(error, has_content=key.log_content)
    if key.show_routing:
        headers += routing_headers(record)
    if chat is not None and chat.stream:
        reply = make_reply(chat, "", record.id, 0)
        body = frontend.write_streamed_error(error, structs.replace(reply, id=frontend.make_id(reply.entropy)))
        if body is not None:
            own = frontend.own_headers(headers, record.id, record.dropped, time.time())
            return Answer(status=200, headers=frontend.stream_headers + own, body=body)
    return failure_answer(error, frontend, headers, record.id)
