"""A dialect is data: one `Dialect` value says everything in which the services differ.

The encoder (`frontends.chat.encoder`), the whole-body writer (`frontends.chat.whole`), the error writer
(`frontends.chat.errors`) and the conformance checker read the same value, so what is written and
what is checked always agree. A new dialect is one module that holds one value.
Nothing here knows a provider.
"""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from streamweir.core.events import FinishReason, StreamStarted
from streamweir.core.request import RequestRules
from streamweir.frontends.base import Reply
from streamweir.wire.native import NativeWire

_LOWER = "abcdefghijklmnopqrstuvwxyz0123456789"
_ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + _LOWER


class UsageRule(StrEnum):
    """When a streamed answer carries usage. A whole body always does."""

    ON_REQUEST = "on_request"
    ALWAYS = "always"
    ON_FINISH = "on_finish"
    """On the finish chunk, when asked for."""


class ModelRule(StrEnum):
    ANSWERED = "answered"
    """What the upstream reports, else the target's name."""
    ASKED = "asked"


class IdForm(StrEnum):
    CHATCMPL = "chatcmpl"
    ILBS = "ilbs"
    STREAM_CHAT = "stream_chat"

    def make(self, entropy: bytes) -> str:
        """An id of this form out of bytes that the caller of this code made up (at least 24 of them)."""
        if self is IdForm.CHATCMPL:
            return "chatcmpl-" + _spell(entropy, _ALNUM, 29)
        if self is IdForm.ILBS:
            return "ilbs_" + _spell(entropy, _LOWER, 24)
        digits = bytearray(hashlib.sha256(entropy).digest()[:16])
        digits[6] = digits[6] & 0x0F | 0x40  # RFC 9562: version 4
        digits[8] = digits[8] & 0x3F | 0x80  # and its variant
        text = digits.hex()
        return "stream:chat:" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def keeps(self, upstream_id: str | None) -> bool:
        """Whether the upstream's own id may stand in our chunks."""
        return self is IdForm.CHATCMPL and upstream_id is not None and upstream_id.startswith("chatcmpl-")


def call_id(completion_id: str, choice: int, call: int) -> str:
    """The id of a tool call that came without one: always the same for the same call."""
    return "call_" + _spell(hashlib.sha256(f"{completion_id}/{choice}/{call}".encode()).digest(), _ALNUM, 24)


class ErrorWords(NamedTuple):
    """How a dialect words one of our codes before the stream starts."""

    status: int
    type: str
    code: str | None


class Dialect(Struct, frozen=True, kw_only=True):
    name: str
    id_form: IdForm
    chunk_object: str
    whole_object: str | None
    """None: this dialect always streams."""
    request: RequestRules = RequestRules()
    native_wire: NativeWire | None = None
    """The provider's wire that is this dialect to the byte."""

    model: ModelRule
    created_per_chunk: bool = False
    labels: bool = False
    """`system_fingerprint` and `service_tier`, as the upstream sent them."""

    first_delta: Mapping[str, str] | None
    """The delta that opens each choice. None: no such delta."""
    finish_delta: Mapping[str, str]
    finish_words: Mapping[FinishReason, str]
    """`FinishReason.OTHER` is not in it: see `finish_word`."""

    usage: UsageRule
    null_usage: bool = False
    """With usage asked for, every chunk before the usage chunk carries `"usage":null`."""
    prompt_details: Mapping[str, str] | None = None
    """Member of `prompt_tokens_details` to the field of `Usage` it shows. Only what was reported is shown."""
    completion_details: Mapping[str, str] | None = None
    full_details: bool = False
    """Details as an OpenAI-style wire reported them; without such a report every member, 0 where unknown."""

    whole_tool_calls: bool = False
    """A call is one frame, sent when its arguments are complete."""
    legacy_function_call: bool = False
    """`function_call` stays what it is; elsewhere it becomes a tool call."""
    reasoning: bool = True
    reasoning_details: bool = False
    refusal: bool = False
    """False: the text of a refusal goes into `content`."""
    logprobs: bool = False
    extras: frozenset[str] = frozenset()
    """Members that no dialect describes but this one passes on."""

    error_members: tuple[str, ...]
    error_in_chunk: bool = False
    """The error frame is a chunk with `choices: []`."""
    error_words: Mapping[str, ErrorWords] = {}
    """Our codes that this dialect words differently before the stream starts."""
    error_texts: Mapping[str, str] = {}
    stream_error: ErrorWords | None = None
    """How every upstream failure is worded inside a stream. None: its own code, type `stream_error`."""
    stream_error_always: bool = False
    """`stream_error` also words the gateway's own reasons."""
    terminator: bytes

    def finish_word(self, reason: FinishReason, has_calls: bool) -> str:
        if reason is FinishReason.OTHER:
            reason = FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP
        return self.finish_words[reason]

    def is_due_usage(self, asked: bool) -> bool:
        return asked or self.usage is UsageRule.ALWAYS


class Identity(NamedTuple):
    """What every chunk of an answer, and its whole body, is headed with."""

    id: str
    created: int
    model: str


def identity_of(started: StreamStarted, dialect: Dialect, reply: Reply) -> Identity:
    """By the dialect's rules, from what the upstream says of itself and what was handed in."""
    keeps_id = not reply.pinned and dialect.id_form.keeps(started.id)
    if dialect.created_per_chunk:
        created = 0  # each chunk has its own
    else:
        created = reply.created if reply.created is not None else started.created or reply.now()
    if dialect.model is ModelRule.ANSWERED:
        model = started.model or reply.target_model or reply.model
    else:
        model = reply.model or (started.model if dialect.request.model_required else None)
    own_id = started.id if keeps_id else None
    return Identity(own_id or reply.id or dialect.id_form.make(reply.entropy), created, model or "")


def _spell(entropy: bytes, alphabet: str, length: int) -> str:
    number = int.from_bytes(hashlib.sha256(entropy).digest(), "big")
    letters = []
    for _ in range(length):
        number, digit = divmod(number, len(alphabet))
        letters.append(alphabet[digit])
    return "".join(letters)
