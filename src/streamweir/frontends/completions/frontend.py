"""OpenAI's legacy text completions as a frontend: `POST /v1/completions`."""

from collections.abc import Mapping
from typing import Any

from streamweir.core.completion import Completion
from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.frontends.base import ErrorResponse, Frontend, Reply, WholeBody
from streamweir.frontends.completions.encoder import CompletionsEncoder, encode_whole, make_id
from streamweir.frontends.completions.request import read_completions_request
from streamweir.frontends.error import write_openai_error

_PATH = "/v1/completions"


class CompletionsFrontend(Frontend):
    name = "completions"
    paths = (_PATH, f"/openai{_PATH}")
    in_playground = False

    def parse(self, document: dict[str, Any], _: Mapping[str, str], /) -> ChatRequest:
        return read_completions_request(document)

    def make_id(self, entropy: bytes, /) -> str:
        return make_id(entropy)

    def encoder(self, reply: Reply, /) -> CompletionsEncoder:
        return CompletionsEncoder(reply)

    def write_whole(self, completion: Completion, reply: Reply, /) -> WholeBody:
        return WholeBody(*encode_whole(completion, reply))

    def write_error(self, error: StreamweirError, _: str = "", /) -> ErrorResponse:
        return write_openai_error(error)


COMPLETIONS = CompletionsFrontend()
