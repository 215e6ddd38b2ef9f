"""OpenAI's legacy text completions as a `Provider`: `POST /completions` of vendors that have it.

The caller's own body is sent, with the model replaced and without the members that the vendor's row refuses. An answer
differs from a chat completion only in its choices, which have a `text` instead of a message; the same decoder reads it.
A tool call in it is `upstream_bad_response`.
"""

from collections.abc import Mapping
from typing import Any

from streamweir.core.errors import CallerError
from streamweir.core.events import Event, StreamFailed
from streamweir.core.request import ChatRequest
from streamweir.providers.base import Target, UpstreamRequest, call_in_text, is_default, json_headers
from streamweir.providers.openai.choice import ChoiceState
from streamweir.providers.openai.chunk import Choice, Chunk, Delta, read_chunk
from streamweir.providers.openai.decoder import OpenAIDecoder
from streamweir.providers.openai.embedding import PathAndKey, bearer
from streamweir.providers.openai.provider import OpenAIProvider
from streamweir.providers.openai.vendor import Vendor
from streamweir.wire import jsonio

PREFIX = "text/"
"""Of the names of these providers in `registry`."""
PATH = "/completions"


class _TextChoice(Choice, gc=False):
    text: str | None = None


class _TextChunk(Chunk, gc=False):
    choices: list[_TextChoice] | None = None  # type: ignore[assignment]  # a list of more exact choices


def _read_text_chunk(value: Any) -> Chunk:
    """From an untyped document, with wrong types in it."""
    if isinstance(value, Mapping) and isinstance(value.get("choices"), list):
        value = {**value, "choices": [_as_chat(choice) for choice in value["choices"]]}
    return read_chunk(value)


def _as_chat(choice: Any) -> Any:
    if not isinstance(choice, Mapping) or not isinstance(choice.get("text"), str):
        return choice
    sent = choice.get("message") or choice.get("delta")
    return {
        **choice,
        "message": None,
        "delta": {**(sent if isinstance(sent, Mapping) else {}), "content": choice["text"]},
    }


_decode = jsonio.typed(_TextChunk, _read_text_chunk)  # type: ignore[arg-type]  # the slow path gives plain chunks


def decode_text_chunk(data: bytes) -> Chunk:
    chunk: Chunk = _decode(data)
    for choice in chunk.choices or ():
        if isinstance(choice, _TextChoice) and choice.text is not None:
            delta = choice.delta = choice.message or choice.delta or Delta()
            delta.content = choice.text
            choice.message = None
    return chunk


class TextDecoder(OpenAIDecoder):
    decode_chunk = staticmethod(decode_text_chunk)

    def _read_choice(self, choice: Choice, state: ChoiceState | None, events: list[Event]) -> StreamFailed | None:
        delta = choice.delta or choice.message
        if delta is not None and (delta.tool_calls or delta.function_call is not None):
            return call_in_text()
        return super()._read_choice(choice, state, events)


class TextProvider(OpenAIProvider):
    """See `providers.base.Provider`."""

    decoder_type = TextDecoder

    def __init__(self, vendor: Vendor, path_and_key: PathAndKey = bearer) -> None:
        super().__init__(vendor)
        self.name = PREFIX + vendor.name
        self._path_and_key = path_and_key

    def refusal_of(self, request: ChatRequest, model: str, /) -> CallerError | None:
        sent = request.native.body.get("n") if request.native is not None else None
        if isinstance(sent, int) and sent > 1 and "n" in self.vendor.refused_by(model):
            return CallerError("invalid_value", "This model gives one choice per prompt. Leave n out.", param="n")
        return None

    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        native = request.native
        assert native is not None  # noqa: S101 (the requests of this API have one)
        refused = self.vendor.refused_by(target.model)
        sent = {name: value for name, value in native.body.items() if value is not None}
        dropped = [name for name in sent if name in refused and not is_default(name, sent[name])]
        body = {name: value for name, value in sent.items() if name not in refused}
        body["model"] = target.model
        options = body.pop("stream_options", None)
        if request.stream and self.vendor.takes_stream_options and target.requests_usage:
            body["stream_options"] = {**(options or {}), "include_usage": True}
        path, key = self._path_and_key(target, PATH)
        return UpstreamRequest(
            path=path, headers=(*key, *json_headers(request)), body=jsonio.encode(body), dropped=tuple(dropped)
        )
