"""Bodies as the providers send them, for a scripted upstream: a few lines of text, whole or as a stream.

The shapes are those of the fixtures, reduced to what every answer of the provider has. `*_frames`
are the frames one by one, so that a script can stop between two; `*_stream` is all of them in one
piece. Each text is one frame, and counts as one token where a usage is not given.
"""

import json
from collections.abc import Sequence
from typing import Any

from support.responses_body import ResponsesAnswer
from support.script import End, Head, Send, Step

TEXTS = ("Hello", " from", " the", " weir", ".")
PROMPT_TOKENS = 7
USAGE = (PROMPT_TOKENS, len(TEXTS))
MODEL = {
    "openai": "gpt-4o-mini-2024-07-18",
    "anthropic": "claude-sonnet-4-5-20250929",
    "gemini": "gemini-2.5-flash",
    "responses": "gpt-5.1-2026-02-11",
}

Usage = tuple[int, int] | None
"""Tokens of the prompt and of the answer; None: the provider reports none."""


def counted(texts: Sequence[str]) -> tuple[int, int]:
    return (PROMPT_TOKENS, len(texts))


def token_steps(frames: Sequence[bytes], head: Head | None = None) -> list[Step]:
    """One `Send` per frame, each worth one token."""
    return [head or Head(), *(Send(frame, tokens=1) for frame in frames), End()]


def openai_frames(
    texts: Sequence[str] = TEXTS, usage: Usage | bool = True, finish: str | None = "stop", done: bool = True
) -> list[bytes]:
    """The role, the texts, the finish, the usage (True: as counted), `[DONE]`; each but the texts can be left out."""
    told = counted(texts) if usage is True else usage or None
    frames = [_openai_frame({"role": "assistant", "content": "", "refusal": None}, None, told is not None)]
    frames += [_openai_frame({"content": text}, None, told is not None) for text in texts]
    if finish is not None:
        frames.append(_openai_frame({}, finish, told is not None))
    if told is not None:
        frames.append(_sse({**_openai_head("chat.completion.chunk"), "choices": [], "usage": _openai_usage(told)}))
    return [*frames, b"data: [DONE]\n\n"] if done else frames


def openai_stream(
    texts: Sequence[str] = TEXTS, usage: Usage | bool = True, finish: str | None = "stop", done: bool = True
) -> bytes:
    return b"".join(openai_frames(texts, usage, finish, done))


def openai_whole(text: str = "".join(TEXTS), usage: Usage = USAGE, finish: str = "stop") -> bytes:
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    told = {} if usage is None else {"usage": _openai_usage(usage)}
    return _json({**_openai_head("chat.completion"), "choices": [choice], **told})


def anthropic_frames(
    texts: Sequence[str] = TEXTS, usage: Usage = None, finish: str | None = "end_turn", stop: bool = True
) -> list[bytes]:
    """The start, the texts, the finish with its usage (as counted, where none is given), `message_stop`."""
    prompt, answer = usage or counted(texts)
    message = {"id": "msg_01Scripted", "type": "message", "role": "assistant", "model": MODEL["anthropic"]}
    empty: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {**message, **empty, "usage": {"input_tokens": prompt, "output_tokens": 1}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}} for text in texts),
        {"type": "content_block_stop", "index": 0},
    ]
    if finish is not None:
        delta = {"stop_reason": finish, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": answer}})
    if stop:
        events.append({"type": "message_stop"})
    return [b"event: %b\n%b" % (event["type"].encode(), _sse(event)) for event in events]


def anthropic_stream(
    texts: Sequence[str] = TEXTS, usage: Usage = None, finish: str | None = "end_turn", stop: bool = True
) -> bytes:
    return b"".join(anthropic_frames(texts, usage, finish, stop))


def anthropic_whole(text: str = "".join(TEXTS), usage: tuple[int, int] = USAGE) -> bytes:
    message = {"id": "msg_01Scripted", "type": "message", "role": "assistant", "model": MODEL["anthropic"]}
    content = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None}
    return _json({**message, **content, "usage": {"input_tokens": usage[0], "output_tokens": usage[1]}})


def responses_frames(
    texts: Sequence[str] = TEXTS, usage: Usage = None, finish: str = "", complete: bool = True
) -> list[bytes]:
    """On OpenAI's Responses wire. `finish`: why it is incomplete. Not `complete`: the last frame is missing."""
    frames = _responses(usage or counted(texts)).text(*texts).frames(incomplete=finish)
    return frames if complete else frames[:-1]


def responses_stream(
    texts: Sequence[str] = TEXTS, usage: Usage = None, finish: str = "", complete: bool = True
) -> bytes:
    return b"".join(responses_frames(texts, usage, finish, complete))


def responses_whole(text: str = "".join(TEXTS), usage: tuple[int, int] = USAGE, finish: str = "") -> bytes:
    return _responses(usage).text(text).whole(incomplete=finish)


def _responses(usage: tuple[int, int]) -> ResponsesAnswer:
    return ResponsesAnswer(id="resp_Scripted", model=MODEL["responses"], usage=(*usage, 0, 0))


def gemini_frames(texts: Sequence[str] = TEXTS, usage: Usage = None, finish: str | None = "STOP") -> list[bytes]:
    """The texts, with the finish on the last one. The usage grows from frame to frame, up to the one that is given."""
    prompt, answer = usage or counted(texts)
    frames = []
    for number, text in enumerate(texts, start=1):
        is_last = number == len(texts)
        told = {"finishReason": finish} if is_last and finish is not None else {}
        tokens = answer if is_last else min(number, answer)
        frames.append(_sse(_gemini_document(text, (prompt, tokens), told), newline=b"\r\n"))
    return frames


def gemini_stream(texts: Sequence[str] = TEXTS, usage: Usage = None, finish: str | None = "STOP") -> bytes:
    return b"".join(gemini_frames(texts, usage, finish))


def gemini_whole(text: str = "".join(TEXTS), usage: tuple[int, int] = USAGE) -> bytes:
    return _json(_gemini_document(text, usage, {"finishReason": "STOP"}))


def error_body(message: str, kind: str = "server_error", code: str | None = None, param: str | None = None) -> bytes:
    """As OpenAI words it."""
    return _json({"error": {"message": message, "type": kind, "param": param, "code": code}})


def anthropic_error_body(message: str, kind: str = "api_error") -> bytes:
    return _json({"type": "error", "error": {"type": kind, "message": message}})


def gemini_error_body(message: str, code: int = 500, status: str = "INTERNAL") -> bytes:
    return _json({"error": {"code": code, "message": message, "status": status}})


def error_frame(body: bytes) -> bytes:
    """An error's body as a frame in mid-stream."""
    return b"data: %b\n\n" % body


def _openai_head(kind: str) -> dict[str, Any]:
    identity = {"id": "chatcmpl-Scripted0123456789", "object": kind, "created": 1744220042, "model": MODEL["openai"]}
    return {**identity, "service_tier": "default", "system_fingerprint": "fp_44added55e"}


def _openai_frame(delta: dict[str, Any], finish: str | None, with_usage: bool) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    null = {"usage": None} if with_usage else {}
    return _sse({**_openai_head("chat.completion.chunk"), "choices": [choice], **null})


def _openai_usage(usage: tuple[int, int]) -> dict[str, int]:
    return {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}


def _gemini_document(text: str, usage: tuple[int, int], told: dict[str, str]) -> dict[str, Any]:
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, **told, "index": 0}
    tokens = {"promptTokenCount": usage[0], "candidatesTokenCount": usage[1], "totalTokenCount": sum(usage)}
    identity = {"modelVersion": MODEL["gemini"], "responseId": "Scripted0123456789"}
    return {"candidates": [candidate], "usageMetadata": tokens, **identity}


def _sse(document: dict[str, Any], newline: bytes = b"\n") -> bytes:
    return b"data: %b%b%b" % (_json(document), newline, newline)


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
