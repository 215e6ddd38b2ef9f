"""The messages between the gateway and the process that reads a large answer: typed values as JSON.

That process parses untrusted data. Whatever happens to it, it can send only the values declared here; anything else
raises an exception. The text of an answer may contain half of a surrogate pair, which msgspec neither reads nor
writes: the standard json module is used for such a message.
"""

import json
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from streamweir.core.errors import CallerError, ErrorReport, GatewayFault, StreamweirError, UpstreamError
from streamweir.pipeline.large_answer import MeteredEvent, ReplyData

T = TypeVar("T")

_ERRORS: dict[str, type[StreamweirError]] = {kind.__name__: kind for kind in (CallerError, UpstreamError, GatewayFault)}


class AnswerSource(Struct, frozen=True):
    """The provider, by its name in `providers.registry`, and the number of requested choices."""

    provider: str
    choices: int | None


class _Error(Struct, frozen=True):
    kind: str
    code: str
    message: str
    param: str | None
    retry_after_s: float | None
    event_id: str | None
    report: ErrorReport | None


class Message(Generic[T]):
    """One kind of message."""

    def __init__(self, type: Any) -> None:
        self._type = type
        self._encoder = msgspec.json.Encoder(enc_hook=_from_error)
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(type, dec_hook=_to_error)

    def encode(self, value: T) -> bytes:
        try:
            return self._encoder.encode(value)
        except UnicodeEncodeError:
            return json.dumps(msgspec.to_builtins(value, enc_hook=_from_error)).encode()

    def decode(self, data: bytes) -> T:
        try:
            return self._decoder.decode(data)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            value: T = msgspec.convert(json.loads(data), self._type, dec_hook=_to_error)
            return value


def _from_error(value: object) -> _Error:
    if not isinstance(value, StreamweirError):
        raise NotImplementedError(type(value).__name__)
    kind = type(value).__name__
    return _Error(kind, value.code, value.message, value.param, value.retry_after_s, value.event_id, value.report)


def _to_error(_: type, value: object) -> StreamweirError:
    """The one type that msgspec does not support by itself."""
    reported = msgspec.convert(value, _Error)
    if reported.kind not in _ERRORS:
        raise ValueError(f"there is no error of the kind {reported.kind!r}")
    error = _ERRORS[reported.kind](
        reported.code,
        reported.message,
        param=reported.param,
        retry_after_s=reported.retry_after_s,
        event_id=reported.event_id,
    )
    error.report = reported.report
    return error


ANSWER_SOURCE: Message[AnswerSource] = Message(AnswerSource)
EVENTS: Message[list[MeteredEvent]] = Message(list[MeteredEvent])
REPLY_DATA: Message[ReplyData] = Message(ReplyData)
COMPLETION_ID: Message[str] = Message(str)
