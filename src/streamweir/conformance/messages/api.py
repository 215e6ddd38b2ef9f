"""The requirements for a Messages endpoint, read from the tables that the gateway's own frontend uses.

Kinds of blocks and their members are those that `frontends.messages.block` opens, members of a message and of usage are
those of its whole body, and stop reasons and error types are its own. So the writer and the checker agree.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply
from streamweir.frontends.messages.block import Blocks
from streamweir.frontends.messages.encoder import message_document
from streamweir.frontends.messages.errors import WORDS
from streamweir.frontends.messages.stop import OWN_WORDS, Stop
from streamweir.frontends.messages.usage import usage_object
from streamweir.wire.messages import DELTAS, REASONING_FORMAT, Delta

_REPLY = Reply(id="msg_1", now=lambda: 0, model="m")


def _opened_blocks() -> dict[str, dict[str, Any]]:
    """Every kind of block, as it is opened."""
    blocks = Blocks(_REPLY)
    redacted = {"type": "reasoning.encrypted", "format": REASONING_FORMAT, "data": "x"}
    documents = [
        *blocks.text("x"),
        *blocks.reasoning("x", []),
        *blocks.reasoning("", [redacted]),
        *blocks.call(0, "toolu_1", "f"),
    ]
    opened = [document["content_block"] for document in documents if "content_block" in document]
    return {block["type"]: block for block in opened}


def _types_by_status() -> dict[int, frozenset[str]]:
    types: dict[int, set[str]] = {}
    for words in WORDS.values():
        types.setdefault(words.status, set()).add(words.type)
    return {status: frozenset(names) for status, names in types.items()}


class MessagesApi(Struct, frozen=True, kw_only=True):
    name: str = "messages"
    message: Mapping[str, Any]
    """A whole message: its members, with values of the right types."""
    usage_counts: tuple[str, ...]
    """The members of usage that are counts."""
    blocks: Mapping[str, Mapping[str, Any]]
    """By kind: the members that an opened block has, with values of the right types."""
    deltas: Mapping[str, Delta]
    stop_reasons: frozenset[str]
    error_types: Mapping[int, frozenset[str]]
    """By status."""


MESSAGES_API = MessagesApi(
    message=message_document(_REPLY, [], Stop("end_turn"), Usage()),
    usage_counts=tuple(usage_object(Usage(), with_buckets=False)),
    blocks=_opened_blocks(),
    deltas=DELTAS,
    stop_reasons=OWN_WORDS,
    error_types=_types_by_status(),
)
