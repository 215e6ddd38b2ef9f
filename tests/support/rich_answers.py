"""One answer on each wire that has everything: reasoning, text and two calls side by side.

Frame by frame, so that a test can stop between any two. What is said in them is the same on each wire.
"""

import json
from typing import Any

from support.responses_body import ResponsesAnswer

REASONING = ("Let me ", "think.")
TEXT = ("I will ", "look ", "at both.")
CALLS = (("call_1", "look", {"path": "a.txt"}), ("call_2", "look", {"path": "b.txt"}))
USAGE = (7, 40)
MESSAGE_ID = "msg_01Rich"


def openai() -> list[bytes]:
    head = {
        "id": "chatcmpl-RichAnswer000001",
        "object": "chat.completion.chunk",
        "created": 1744220042,
        "model": "gpt-5.1",
    }

    def frame(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _sse({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None})

    frames = [frame({"role": "assistant", "content": ""})]
    frames += [frame({"reasoning_content": piece}) for piece in REASONING]
    frames += [frame({"content": piece}) for piece in TEXT]
    for index, (id, name, arguments) in enumerate(CALLS):
        function = {"name": name, "arguments": ""}
        frames.append(frame({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}))
        for piece in _halves(json.dumps(arguments)):
            frames.append(frame({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    frames.append(frame({}, "tool_calls"))
    usage = {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1], "total_tokens": sum(USAGE)}
    return [*frames, _sse({**head, "choices": [], "usage": usage}), b"data: [DONE]\n\n"]


def anthropic() -> list[bytes]:
    message = {"id": MESSAGE_ID, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": []}
    told = {"input_tokens": USAGE[0], "cache_read_input_tokens": 0, "output_tokens": 1}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": told}},
        *_block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            *({"type": "thinking_delta", "thinking": piece} for piece in REASONING),
            {"type": "signature_delta", "signature": "EqQBCgIYAg=="},
        ),
        {"type": "ping"},
        *_block(1, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in TEXT)),
    ]
    for index, (id, name, arguments) in enumerate(CALLS, start=2):
        pieces = ({"type": "input_json_delta", "partial_json": piece} for piece in _halves(json.dumps(arguments)))
        events += _block(index, {"type": "tool_use", "id": id, "name": name, "input": {}}, *pieces)
    delta = {"stop_reason": "tool_use", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": USAGE[1]}})
    events.append({"type": "message_stop"})
    return [b"event: %b\n%b" % (event["type"].encode(), _sse(event)) for event in events]


def gemini() -> list[bytes]:
    parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in REASONING]
    parts += [{"text": piece} for piece in TEXT]
    parts += [{"functionCall": {"name": name, "args": arguments}} for _, name, arguments in CALLS]
    frames = []
    for number, part in enumerate(parts, start=1):
        is_last = number == len(parts)
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0}
        tokens = USAGE[1] if is_last else number
        usage = {"promptTokenCount": USAGE[0], "candidatesTokenCount": tokens, "totalTokenCount": USAGE[0] + tokens}
        told = {"candidates": [{**candidate, **({"finishReason": "STOP"} if is_last else {})}], "usageMetadata": usage}
        frames.append(_sse({**told, "modelVersion": "gemini-2.5-flash", "responseId": "Rich"}, b"\r\n"))
    return frames


def responses() -> list[bytes]:
    """On the fourth wire, in the words of which the Responses API answers."""
    answer = ResponsesAnswer(usage=(*USAGE, 0, 0), tools=[{"type": "function", "name": "look"}])
    answer.reasoning(REASONING, encrypted="ZW5j").text(*TEXT)
    return answer.calls(*((name, _halves(json.dumps(arguments)), id) for id, name, arguments in CALLS)).frames()


def _block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _sse(document: dict[str, Any], newline: bytes = b"\n") -> bytes:
    return b"data: %b%b%b" % (json.dumps(document, separators=(",", ":")).encode(), newline, newline)


FRAMES = {"openai": openai(), "anthropic": anthropic(), "gemini": gemini()}
