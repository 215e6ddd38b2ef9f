"""The chat completions API as a frontend: one class for all dialects, configured by a `Dialect` value.

Every dialect has its own prefix. `/v1/chat/completions` is shared: the key's dialect is used there, else that of the
configuration.
"""

from collections.abc import Mapping
from typing import Any

from streamweir.core.completion import Completion
from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest, read_request
from streamweir.frontends.base import ErrorResponse, Frontend, Reply, WholeBody
from streamweir.frontends.chat.dialect import Dialect, UsageRule, identity_of
from streamweir.frontends.chat.encoder import Encoder
from streamweir.frontends.chat.errors import envelope, error_fields
from streamweir.frontends.chat.table import DIALECTS
from streamweir.frontends.chat.whole import encode_whole
from streamweir.wire import jsonio

_PATH = "/v1/chat/completions"


class ChatFrontend(Frontend):
    def __init__(self, dialect: Dialect) -> None:
        self.name = self.prefix = dialect.name
        self.paths = (_PATH, f"/{dialect.name}{_PATH}")
        self.native_wire = dialect.native_wire
        self.always_includes_usage = dialect.usage is UsageRule.ALWAYS
        self.shows_cost = dialect.shows_cost
        self._dialect = dialect

    def parse(self, document: dict[str, Any], _: Mapping[str, str], /) -> ChatRequest:
        return read_request(document, self._dialect.request)

    def make_id(self, entropy: bytes, /) -> str:
        return self._dialect.id_format.make(entropy)

    def encoder(self, reply: Reply, /) -> Encoder:
        return Encoder(self._dialect, reply)

    def write_whole(self, completion: Completion, reply: Reply, /) -> WholeBody:
        dialect = self._dialect
        return WholeBody(identity_of(completion.started, dialect, reply).id, encode_whole(completion, dialect, reply))

    def write_error(self, error: StreamweirError, _: str = "", /) -> ErrorResponse:
        dialect = self._dialect
        return ErrorResponse(error_fields(error, dialect).status, jsonio.encode(envelope(error, dialect)))


CHAT_FRONTENDS = tuple(ChatFrontend(dialect) for dialect in DIALECTS.values())
