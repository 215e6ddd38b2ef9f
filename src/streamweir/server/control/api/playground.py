"""The playground over the API: what can be tried and with which keys, and a chat as one of them.

Whoever asks needs no secret of the key, but must have it within reach; from there on it is the key that
asks, by its own rights, limits and money (`server.request.playground`). The body for the model is handed on as
it came: what is wrong with it is told as `/v1` tells it. That a key was used in this way stands in the
audit log before its request begins; what was said does not.
"""

import asyncio
import re
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from streamweir.core.errors import CallerError
from streamweir.frontends.base import Frontend
from streamweir.frontends.table import FRONTENDS
from streamweir.policy.access import Key, check, read_secret
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.control.api.authentication import CSRF, cookie_of
from streamweir.server.control.api.operation import JSON, Call, Handover, Nothing, Operation, decode_members
from streamweir.server.control.routing import Access
from streamweir.server.http.answers import Refusal
from streamweir.server.request.models import model_ids
from streamweir.server.request.playground import PlaygroundChat
from streamweir.server.telemetry.sanitize import clean
from streamweir.store.db.errors import quoted
from streamweir.store.db.request_log import MAX_NAME_LENGTH
from streamweir.store.keys import audit
from streamweir.wire.jsonio import decode_body

MAX_KEYS = 200
_BODY = re.compile(rb'"body"\s*:\s*')


class PlayKeyView(Struct, kw_only=True):
    id: str
    name: str
    workspace: str
    models: tuple[str, ...] | None
    """Ids, or beginnings of ids with a `*` after them. None: every model."""
    dialect: str | None
    log_content: bool


class PlaygroundView(Struct, kw_only=True):
    keys: list[PlayKeyView]
    """Those that may chat now, by name; of many, those that changed last."""
    models: list[str]
    default_model: str | None
    dialects: list[str]
    """What `dialect` may be: every API that callers speak, by its name in the log."""


class PlayedChat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Annotated[str, Meta(max_length=256, description="The id of the key to chat as.")]
    dialect: Annotated[
        str | None,
        Meta(description="The API: a dialect of chat completions, or `messages`. Default: the key's dialect."),
    ] = None
    body: Annotated[
        Raw,
        Meta(extra_json_schema={"type": "object"}, description="As for `/v1/chat/completions`, or for `/v1/messages`."),
    ]


class _ModelMember(Struct):
    """What the audit log wants to know of a body."""

    model: str | None = None


async def show_playground(call: Call[Nothing, Nothing]) -> PlaygroundView:
    runtime, directory = call.context.runtime(), call.context.accounting.directory
    # In a thread, for there may be very many, and nearly all of them out of reach.
    keys = await asyncio.to_thread(_usable, directory, call.actor.reach, call.at_ms / 1000)
    return PlaygroundView(
        keys=[
            PlayKeyView(
                id=key.id,
                name=key.name,
                workspace=directory.workspace_of(key).id,
                models=key.models,
                dialect=key.dialect,
                log_content=key.log_content,
            )
            for key in sorted(keys, key=lambda key: (key.name, key.id))
        ],
        models=model_ids(runtime),
        default_model=runtime.default_model,
        dialects=list(FRONTENDS.by_name),
    )


def _usable(directory: KeyDirectory, reach: str | None, now: float) -> list[Key]:
    """The first of them."""

    def is_usable(key: Key) -> bool:
        is_within = reach is None or directory.workspace_id(key.workspace_id) == reach
        return is_within and "chat" in key.scopes and check(key, now) is None

    return list(islice(filter(is_usable, directory), MAX_KEYS))


async def chat_as_key(call: Call[Nothing, PlayedChat]) -> Handover:
    context, request, playground = call.context, call.request, call.context.playground
    key, body = _find_key(call), bytes(call.body.body)
    secrets = (read_secret(request.headers), request.headers.get(CSRF), cookie_of(request, context.is_secure))
    played = PlaygroundChat(
        key=key,
        frontend=_frontend(call.body.dialect),
        body=body,
        secrets=tuple(secret for secret in secrets if secret),
    )
    try:
        admission = playground.admit(played, request)
    except Refusal as refusal:
        return Handover(take=playground.refuse(played, refusal))
    model = _model_of(body) or admission.runtime.default_model
    # It may be anything, a key in the wrong place too, and what the audit log has it keeps.
    detail = {"request_id": request.id, "model": clean(model, MAX_NAME_LENGTH) if model is not None else None}
    workspace_id = context.accounting.directory.workspace_of(key).id
    await context.write(
        lambda conn: audit.append(conn, call.actor.name, "key.use", key.id, detail, workspace_id, call.at_ms)
    )
    return Handover(take=playground.begin(played, admission))


def read_played(body: bytes, _: type[Struct]) -> PlayedChat:
    """Looks at what is around the inner body alone: that is read as the chosen API reads it, by whoever gets it."""
    try:
        members = decode_members(body, PlayedChat)
    except RecursionError:
        raise CallerError("json_too_deep", "The request body is nested too deep.") from None
    inner = bytes(members.body)
    for found in _BODY.finditer(body):
        if body.startswith(inner, found.end()):
            body = b"%bnull%b" % (body[: found.end()], body[found.end() + len(inner) :])
            break
    decode_body(body)  # refuses what two readers could read in two ways
    return members


def _find_key(call: Call[Nothing, PlayedChat]) -> Key:
    directory, id = call.context.accounting.directory, call.body.key
    key = directory.find_id(id)
    if key is None or call.actor.reach not in (None, directory.workspace_of(key).id):
        raise CallerError("not_found", f"There is no key {quoted(id)}.", param="key")
    return key


def _frontend(name: str | None) -> Frontend | None:
    if name is None:
        return None
    if name not in FRONTENDS.by_name:
        raise CallerError("invalid_value", f"Expected one of {', '.join(FRONTENDS.by_name)}.", param="dialect")
    return FRONTENDS.by_name[name]


def _model_of(body: bytes) -> str | None:
    """None: it names none, or cannot be read, which it will be told."""
    try:
        return msgspec.json.decode(body, type=_ModelMember).model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/playground",
        access=Access.ADMIN,
        about="List models and keys for the playground",
        handler=show_playground,
        answer=PlaygroundView,
    ),
    Operation(
        method="POST",
        path="/api/playground/chat",
        access=Access.ADMIN,
        about="Chat with a key, answered and billed as on `/v1`; recorded in the audit log",
        handler=chat_as_key,
        body=PlayedChat,
        answer=dict[str, Any],
        media=(JSON, "text/event-stream"),
        most_bytes=None,
        read=read_played,
    ),
)
