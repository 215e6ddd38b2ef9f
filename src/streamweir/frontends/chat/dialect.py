"""A dialect is data: one `Dialect` value declares every difference between the services.

The encoder (`frontends.chat.encoder`), the writer of whole bodies (`frontends.chat.whole`), the error writer
(`frontends.chat.errors`) and the conformance checker use the same value, so writer and checker always agree.
A new dialect is one module with one value. It does not depend on providers.
"""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from streamweir.core.events import FinishReason, StreamStarted
from streamweir.core.request import RequestRules
from streamweir.frontends.base import Reply
from streamweir.frontends.identifier import ALNUM, LOWER, digest_text, is_unique
from streamweir.wire.native import NativeWire


class UsageRule(StrEnum):
    """When a streamed answer contains usage. A whole body always does."""

    ON_REQUEST = "on_request"
    ALWAYS = "always"
    ON_FINISH = "on_finish"
    """In the finish chunk, if requested."""


class ModelRule(StrEnum):
    """Which model name an answer shows."""

    REPORTED = "reported"
    """The upstream's, else the target's name."""
    REQUESTED = "requested"
    """The name in the request."""


class IdFormat(StrEnum):
    CHATCMPL = "chatcmpl"
    ILBS = "ilbs"
    STREAM_CHAT = "stream_chat"

    def make(self, entropy: bytes) -> str:
        """An id in this format, made from at least 24 random bytes."""
        if self is IdFormat.CHATCMPL:
            return "chatcmpl-" + digest_text(entropy, ALNUM, 29)
        if self is IdFormat.ILBS:
            return "ilbs_" + digest_text(entropy, LOWER, 24)
        digits = bytearray(hashlib.sha256(entropy).digest()[:16])
        digits[6] = digits[6] & 0x0F | 0x40  # RFC 9562: version 4
        digits[8] = digits[8] & 0x3F | 0x80  # and its variant
        text = digits.hex()
        return "stream:chat:" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def accepts(self, upstream_id: str | None) -> bool:
        """Whether the upstream's id can be used in the gateway's chunks."""
        return self is IdFormat.CHATCMPL and upstream_id is not None and is_unique(upstream_id, "chatcmpl-")


def call_id(completion_id: str, choice: int, call: int) -> str:
    """The id for a tool call that has none: always the same for the same call."""
    return "call_" + digest_text(hashlib.sha256(f"{completion_id}/{choice}/{call}".encode()).digest(), ALNUM, 24)


class ErrorFields(NamedTuple):
    """Status, type and code of an error in a dialect."""

    status: int
    type: str
    code: str | None


class Dialect(Struct, frozen=True, kw_only=True):
    name: str
    id_format: IdFormat
    chunk_object: str
    whole_object: str | None
    """None: this dialect always streams."""
    request: RequestRules = RequestRules()
    native_wire: NativeWire | None = None
    """The provider's wire format that is identical to this dialect, byte for byte."""

    model: ModelRule
    created_per_chunk: bool = False
    labels: bool = False
    """`system_fingerprint` and `service_tier`, as the upstream sent them."""

    first_delta: Mapping[str, str] | None
    """The first delta of each choice. None: no such delta."""
    finish_delta: Mapping[str, str]
    finish_reasons: Mapping[FinishReason, str]
    """`FinishReason.OTHER` is not in it: see `finish_reason`."""

    usage: UsageRule
    null_usage: bool = False
    """If usage is requested, every chunk before the usage chunk contains `"usage":null`."""
    prompt_details: Mapping[str, str] | None = None
    """Members of `prompt_tokens_details`, with the field of `Usage` for each. Only reported values are shown."""
    completion_details: Mapping[str, str] | None = None
    full_details: bool = False
    """Details as an OpenAI-style provider reported them; without such a report all members, 0 if unknown."""

    shows_cost: bool = True
    """`cost` in the usage, where the key or the request asks for it."""

    whole_tool_calls: bool = False
    """A call is one frame, sent when its arguments are complete."""
    legacy_function_call: bool = False
    """`function_call` is kept; otherwise it becomes a tool call."""
    custom_calls: bool = False
    """A free-form call has the type `custom`; otherwise it is written as that of a function, with its text."""
    reasoning: bool = True
    reasoning_details: bool = False
    refusal: bool = False
    """False: the text of a refusal goes into `content`."""
    logprobs: bool = False
    extras: frozenset[str] = frozenset()
    """Members outside the format that this dialect passes on."""

    error_members: tuple[str, ...]
    has_error_details: bool = False
    """Its error object may have further members (`StreamweirError.details`)."""
    error_in_chunk: bool = False
    """The error frame is a chunk with `choices: []`."""
    error_overrides: Mapping[str, ErrorFields] = {}
    """Before the stream starts: the gateway's codes that have other fields in this dialect."""
    error_messages: Mapping[str, str] = {}
    stream_error: ErrorFields | None = None
    """Inside a stream: the fields of every upstream failure. None: its own code, type `stream_error`."""
    stream_error_always: bool = False
    """`stream_error` is used for the gateway's own reasons, too."""
    terminator: bytes

    def finish_reason(self, reason: FinishReason, has_calls: bool) -> str:
        if reason is FinishReason.OTHER:
            reason = FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP
        return self.finish_reasons[reason]

    def includes_usage(self, requested: bool) -> bool:
        return requested or self.usage is UsageRule.ALWAYS


class Identity(NamedTuple):
    """The members at the start of every chunk of an answer, and of its whole body."""

    id: str
    created: int
    model: str


def identity_of(started: StreamStarted, dialect: Dialect, reply: Reply) -> Identity:
    """By the dialect's rules, from the upstream's own values and the parameters."""
    accepts_id = not reply.pinned and dialect.id_format.accepts(started.id)
    if dialect.created_per_chunk:
        created = 0  # each chunk has its own
    else:
        created = reply.created if reply.created is not None else started.created or reply.now()
    if dialect.model is ModelRule.REPORTED:
        model = started.model or reply.target_model or reply.model
    else:
        model = reply.model or (started.model if dialect.request.model_required else None)
    upstream_id = started.id if accepts_id else None
    return Identity(upstream_id or reply.id or dialect.id_format.make(reply.entropy), created, model or "")
