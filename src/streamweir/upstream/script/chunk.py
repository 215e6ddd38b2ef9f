"""The wire format of the simulated provider: frames and whole answers as OpenAI writes them.

The members, their order and the nulls are those of the real service (fixture openai/text_and_usage), so that the frames
can be passed on unchanged to an `openai` caller. The position of the usage is a parameter, so that other vendors can be
simulated too. This module does not know the content of an answer.
"""

from typing import Any

from streamweir.upstream.script.deltas import TokenTally
from streamweir.wire import jsonio
from streamweir.wire.sse import write_frame

_SEPARATE_FRAME = ("own", "zero", "absurd")
"""The usage has its own frame, if it was requested, and is null on the frames before it."""

_ABSURD = {"prompt_tokens": -1, "completion_tokens": 10**18, "total_tokens": "plenty"}

_ERROR_OF_STATUS: dict[int, tuple[str, str | None]] = {
    # type and code
    400: ("invalid_request_error", "invalid_value"),
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("permission_error", "insufficient_permissions"),
    404: ("invalid_request_error", "model_not_found"),
    408: ("timeout_error", "request_timeout"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", None),
    503: ("server_error", "overloaded"),
    504: ("server_error", "request_timeout"),
    529: ("overloaded_error", "overloaded"),
}


class ChunkWriter:
    """Encodes one answer."""

    def __init__(
        self, *, id: str, created: int, model: str, usage: str, include_usage: bool, tally: TokenTally
    ) -> None:
        self._id = id
        self._source = {"created": created, "model": model}
        self._labels = {"service_tier": "default", "system_fingerprint": "fp_simulator"}
        self._usage = usage
        self._has_own_frame = usage == "twice" or (include_usage and usage in _SEPARATE_FRAME)
        self._has_nulls = self._has_own_frame and usage != "twice"
        self._tally = tally

    def chunk(self, index: int, delta: dict[str, Any], finish: str | None, *, is_last: bool) -> bytes:
        """The frame of one delta. `is_last`: every choice has finished with this one."""
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
        if self._usage == "every" or (is_last and self._usage in ("finish", "twice")):
            return self._frame([choice], {"usage": self._report()})
        return self._frame([choice], {"usage": None} if self._has_nulls else {})

    def usage_chunk(self) -> bytes:
        """The frame with the usage only; empty if there is none."""
        return self._frame([], {"usage": self._report()}) if self._has_own_frame else b""

    def whole(self, choices: list[tuple[dict[str, Any], str | None]]) -> bytes:
        """An answer that is not streamed, from each choice's message and finish reason."""
        listed = [
            {"index": index, "message": message, "logprobs": None, "finish_reason": finish}
            for index, (message, finish) in enumerate(choices)
        ]
        usage = {} if self._usage == "none" else {"usage": self._report()}
        return jsonio.encode(self._document("chat.completion", {"choices": listed, **usage, **self._labels}))

    def _frame(self, choices: list[dict[str, Any]], usage: dict[str, Any]) -> bytes:
        document = self._document("chat.completion.chunk", {**self._labels, "choices": choices, **usage})
        return write_frame(jsonio.encode(document))

    def _document(self, kind: str, members: dict[str, Any]) -> dict[str, Any]:
        return {"id": self._id, "object": kind, **self._source, **members}

    def _report(self) -> dict[str, Any]:
        if self._usage == "absurd":
            return _ABSURD
        tally = TokenTally() if self._usage == "zero" else self._tally
        return {
            "prompt_tokens": tally.prompt,
            "completion_tokens": tally.completion,
            "total_tokens": tally.prompt + tally.completion,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": tally.reasoning,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        }


def write_error(status: int, message: str, code: str | None = None, param: str | None = None) -> bytes:
    """The body of a failed response. In a stream, the same document is an error frame."""
    otherwise = ("server_error" if status >= 500 else "invalid_request_error", str(status))
    kind, word = _ERROR_OF_STATUS.get(status, otherwise)
    return jsonio.encode({"error": {"message": message, "type": kind, "param": param, "code": code or word}})
