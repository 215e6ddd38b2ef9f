"""The playground over the API: the available models and keys, and a chat with one of the keys.

The user needs no secret of the key, but must have access to it; the request then has the key's own rights, limits and
budget (`server.request.playground`). The inner body for the model is passed on unchanged, and its errors are those
of `/v1`. The use of the key is recorded in the audit log before its request begins; the content is not.
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
from streamweir.policy.permission import Permission
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.control.api.authentication import CSRF, cookie_of
from streamweir.server.control.api.operation import JSON, Call, Delegated, Nothing, Operation, decode_members
from streamweir.server.http.answers import Refusal
from streamweir.server.request.lookup.models import model_ids
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
    """Ids, or prefixes of ids with a `*` after them. None: every model."""
    dialect: str | None
    log_content: bool


class PlaygroundView(Struct, kw_only=True):
    keys: list[PlayKeyView]
    """The keys that can be used for a chat now, by name; if there are many, those that changed last."""
    models: list[str]
    default_model: str | None
    dialects: list[str]
    """The values of `dialect`: the names of all frontends, as in the log."""


class PlayedChat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Annotated[str, Meta(max_length=256, description="The id of the key to chat as.")]
    dialect: Annotated[
        str | None,
        Meta(description="A dialect of chat completions, or `messages` or `responses`. Default: the key's dialect."),
    ] = None
    body: Annotated[
        Raw,
        Meta(
            extra_json_schema={"type": "object"},
            description="As for `/v1/chat/completions`, or for `/v1/messages` or `/v1/responses`.",
        ),
    ]


class _ModelMember(Struct):
    """The member of a body that the audit log records."""

    model: str | None = None


async def show_playground(call: Call[Nothing, Nothing]) -> PlaygroundView:
    runtime, directory = call.context.runtime(), call.context.accounting.directory
    # In a thread, because there may be very many keys.
    keys = await asyncio.to_thread(_usable, directory, call.actor.allowed_workspace, call.at_ms / 1000)
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
        dialects=FRONTENDS.in_playground,
    )


def _usable(directory: KeyDirectory, workspace_id: str | None, now: float) -> list[Key]:
    """The first of the usable keys."""

    def is_usable(key: Key) -> bool:
        is_within = workspace_id is None or directory.workspace_id(key.workspace_id) == workspace_id
        return is_within and "chat" in key.scopes and check(key, now) is None

    return list(islice(filter(is_usable, directory), MAX_KEYS))


async def chat_as_key(call: Call[Nothing, PlayedChat]) -> Delegated:
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
        return Delegated(handler=playground.refuse(played, refusal))
    model = _model_of(body) or admission.runtime.default_model
    # It can be anything, even a key in the wrong place, and rows of the audit log are never deleted.
    detail = {"request_id": request.id, "model": clean(model, MAX_NAME_LENGTH) if model is not None else None}
    workspace_id = context.accounting.directory.workspace_of(key).id
    await context.write(
        lambda conn: audit.append(conn, call.actor.name, "key.use", key.id, detail, workspace_id, call.at_ms)
    )
    return Delegated(handler=playground.begin(played, admission))


def read_played(body: bytes, _: type[Struct]) -> PlayedChat:
    """Reads only what is around the inner body. The inner body is parsed later, by the chosen API."""
    try:
        members = decode_members(body, PlayedChat)
    except RecursionError:
        raise CallerError("json_too_deep", "The request body is nested too deep.") from None
    inner = bytes(members.body)
    for found in _BODY.finditer(body):
        if body.startswith(inner, found.end()):
            body = b"%bnull%b" % (body[: found.end()], body[found.end() + len(inner) :])
            break
    decode_body(body)  # refuses a body that two parsers could read differently
    return members


def _find_key(call: Call[Nothing, PlayedChat]) -> Key:
    directory, id = call.context.accounting.directory, call.body.key
    key = directory.find_id(id)
    if key is None or call.actor.allowed_workspace not in (None, directory.workspace_of(key).id):
        raise CallerError("not_found", f"There is no key {quoted(id)}.", param="key")
    return key


def _frontend(name: str | None) -> Frontend | None:
    if name is None:
        return None
    if name not in FRONTENDS.in_playground:
        raise CallerError("invalid_value", f"Expected one of {', '.join(FRONTENDS.in_playground)}.", param="dialect")
    return FRONTENDS.by_name[name]


def _model_of(body: bytes) -> str | None:
    """None: it has none, or is invalid, which the chat's answer reports."""
    try:
        return msgspec.json.decode(body, type=_ModelMember).model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/playground",
        access=Permission.PLAYGROUND,
        about="List models and keys for the playground",
        handler=show_playground,
        answer=PlaygroundView,
    ),
    Operation(
        method="POST",
        path="/api/playground/chat",
        access=Permission.PLAYGROUND,
        about="Chat with a key, answered and billed as on `/v1`; recorded in the audit log",
        handler=chat_as_key,
        body=PlayedChat,
        answer=dict[str, Any],
        media=(JSON, "text/event-stream"),
        max_body_bytes=None,
        read=read_played,
    ),
)
