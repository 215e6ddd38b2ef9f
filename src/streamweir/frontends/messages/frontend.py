"""Anthropic's Messages API as a frontend.

It is served at `/v1/messages`, where Anthropic's clients post, and below its own prefix.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from streamweir.core.completion import Completion
from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.frontends.base import ErrorResponse, Frontend, Headers, Reply, WholeBody
from streamweir.frontends.identifier import ALNUM, digest_text
from streamweir.frontends.members import dropped_header
from streamweir.frontends.messages.encoder import PING, MessagesEncoder
from streamweir.frontends.messages.errors import document_of, words_of
from streamweir.frontends.messages.request import end_user_of, read_messages_request, session_of
from streamweir.frontends.messages.whole import encode_whole
from streamweir.frontends.model_list import ListedModel, anthropic_list, anthropic_model
from streamweir.wire import jsonio
from streamweir.wire.native import NativeWire

_PATH = "/v1/messages"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LIMIT_KINDS = ("requests", "tokens")


class MessagesFrontend(Frontend):
    name = "messages"
    prefix = "anthropic"
    paths = (_PATH, f"/anthropic{_PATH}")
    count_paths = (f"{_PATH}/count_tokens", f"/anthropic{_PATH}/count_tokens")
    client_header = "anthropic-version"
    logged_headers = tuple(f"x-claude-code-{name}-id" for name in ("session", "agent", "parent-agent"))
    session_headers = ("x-claude-code-session-id", *Frontend.session_headers)
    native_wire = NativeWire.ANTHROPIC_MESSAGES
    always_includes_usage = True
    keep_alive = PING
    max_quiet_s = 10.0  # an agent reports a stall after twice that time
    has_own_headers = True
    body_factor = 4  # images and documents are in the body: with the default limit this is Anthropic's own limit

    def parse(self, document: dict[str, Any], headers: Mapping[str, str], /) -> ChatRequest:
        return read_messages_request(document, headers)

    def session_in(self, request: ChatRequest, /) -> str | None:
        return session_of(request.native.body.get("metadata")) if request.native is not None else None

    def end_user_in(self, request: ChatRequest, /) -> str | None:
        """Not `safety_identifier` of the translated body, which is a digest of it."""
        return end_user_of(request.native.body.get("metadata")) if request.native is not None else None

    def parse_count(self, document: dict[str, Any], headers: Mapping[str, str], /) -> ChatRequest:
        return read_messages_request(document, headers, needs_limit=False)

    def write_count(self, tokens: int, request: ChatRequest, /) -> dict[str, Any]:
        count: dict[str, Any] = {"input_tokens": tokens}
        if request.native is not None and request.native.body.get("context_management") is not None:
            count["context_management"] = {"original_input_tokens": tokens}
        return count

    def make_id(self, entropy: bytes, /) -> str:
        return "msg_" + digest_text(entropy, ALNUM, 24)

    def write_models(self, models: Sequence[ListedModel], query: str, /) -> dict[str, Any]:
        return anthropic_list(models, query)

    def write_model(self, model: ListedModel, /) -> dict[str, Any]:
        return anthropic_model(model)

    def encoder(self, reply: Reply, /) -> MessagesEncoder:
        return MessagesEncoder(reply)

    def write_whole(self, completion: Completion, reply: Reply, /) -> WholeBody:
        return WholeBody(reply.id, encode_whole(completion, reply))

    def write_error(self, error: StreamweirError, request_id: str = "", /) -> ErrorResponse:
        return ErrorResponse(words_of(error).status, jsonio.encode(document_of(error, request_id)))

    def own_headers(self, headers: Headers, request_id: str, dropped: Sequence[str], now: float, /) -> Headers:
        made: Headers = (("request-id", request_id),) if request_id else ()
        made += dropped_header(dropped)
        return made + tuple(_own_limit(name, value, now) for name, value in headers)


def _own_limit(name: str, value: str, now: float) -> tuple[str, str]:
    what, _, kind = name.removeprefix("x-ratelimit-").partition("-")
    if not name.startswith("x-ratelimit-") or kind not in _LIMIT_KINDS:
        return name, value
    written = _time_of(now, float(value.removesuffix("s"))) if what == "reset" else value
    return f"anthropic-ratelimit-{kind}-{what}", written


def _time_of(now: float, wait_s: float) -> str:
    at = _EPOCH + timedelta(seconds=now + wait_s)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


MESSAGES = MessagesFrontend()
