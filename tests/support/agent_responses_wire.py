"""The wire of OpenAI's Responses API for `support.agent_model`, as the service streams it to Codex.

A turn is a list of items: reasoning (its summary, and the signature as `encrypted_content`), a message, calls. Events
have sequence numbers without a gap, and each item is repeated whole at its end and in `response.completed`. Tools may
stand in `tools` or in an item `additional_tools`, alone or in a namespace; a custom tool has text and no schema.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from support.agent_turn import AnswerId, ModelRequest, TokenCounts, ToolCall, ToolResult, Turn, Wire
from support.script import End, Head, Seen, Send, Step

Item = dict[str, Any]
_KINDS = {401: "invalid_request_error", 429: "requests"}
_BETWEEN = "__"
_CUSTOM = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
"""The schema that a custom tool has on the other wires."""


class ResponsesWire:
    name = "responses"

    def read(self, request: Seen) -> ModelRequest:
        asked = request.json
        given = asked["input"]
        items: list[Item] = [{"role": "user", "content": given}] if isinstance(given, str) else given
        added = [tool for item in items if item.get("type") == "additional_tools" for tool in item["tools"]]
        tools = list(_flat([*asked.get("tools", ()), *added]))
        messages = [item for item in items if item.get("type", "message") == "message"]
        return ModelRequest(
            model=asked["model"],
            is_streamed=bool(asked.get("stream")),
            tools={tool["name"]: tool["parameters"] if tool["type"] == "function" else _CUSTOM for tool in tools},
            custom_tools=frozenset(tool["name"] for tool in tools if tool["type"] == "custom"),
            turns=tuple(_turns(items)),
            results=tuple(
                ToolResult(item["call_id"], _text(item["output"]))
                for item in items
                if item.get("type", "").endswith("_call_output")
            ),
            texts=(
                *([asked["instructions"]] if asked.get("instructions") else ()),
                *(_text(item["content"]) for item in messages if item["role"] != "assistant"),
            ),
            wants_json=(asked.get("text") or {}).get("format", {}).get("type", "text") != "text",
            max_tokens=asked.get("max_output_tokens"),
        )

    def frames(self, turn: Turn, tokens: TokenCounts, answer_id: AnswerId) -> list[bytes]:
        response = self._response(answer_id, "in_progress", [], None)
        events: list[Item] = [{"type": f"response.{each}", "response": response} for each in ("created", "in_progress")]
        items = self._items(turn, answer_id)
        for index, item in enumerate(items):
            place = {"output_index": index}
            events.append({"type": "response.output_item.added", **place, "item": _begun(item)})
            events += [{**event, "item_id": item["id"], **place} for event in self._parts(item, turn)]
            events.append({"type": "response.output_item.done", **place, "item": item})
        events.append({"type": "response.completed", "response": self._response(answer_id, "completed", items, tokens)})
        return _sse_frames(events)

    def whole(self, turn: Turn, tokens: TokenCounts, answer_id: AnswerId) -> bytes:
        return _json(self._response(answer_id, "completed", self._items(turn, answer_id), tokens))

    def error(self, status: int, message: str) -> bytes:
        kind = _KINDS.get(status, "server_error")
        code = "rate_limit_exceeded" if status == 429 else None
        return _json({"error": {"message": message, "type": kind, "param": None, "code": code}})

    def context_error(self) -> bytes:
        message = "Your input exceeds the context window of this model. Please adjust your input and try again."
        told = {"message": message, "type": "invalid_request_error", "param": "input"}
        return _json({"error": {**told, "code": "context_length_exceeded"}})

    def _items(self, turn: Turn, answer_id: AnswerId) -> list[Item]:
        number = f"{answer_id.number:04d}"
        items: list[Item] = []
        if turn.reasoning:
            summary = [{"type": "summary_text", "text": "".join(turn.reasoning)}]
            signed = {"encrypted_content": turn.signature}
            items.append({"id": f"rs_{number}", "type": "reasoning", "summary": summary, **signed})
        if turn.texts:
            part = {"type": "output_text", "annotations": [], "logprobs": [], "text": "".join(turn.texts)}
            message = {"id": f"msg_{number}", "type": "message", "status": "completed"}
            items.append({**message, "content": [part], "role": "assistant"})
        for index, call in enumerate(turn.calls):
            namespace, _, name = call.name.rpartition(_BETWEEN)
            named: Item = {"status": "completed", "call_id": call.id, "name": name}
            if namespace:
                named["namespace"] = namespace
            if call.is_custom:
                text = {"type": "custom_tool_call", "input": call.arguments["input"]}
                items.append({"id": f"ctc_{number}{index}", **named, **text})
            else:
                text = {"type": "function_call", "arguments": "".join(_pieces(_arguments(call)))}
                items.append({"id": f"fc_{number}{index}", **named, **text})
        return items

    def _parts(self, item: Item, turn: Turn) -> Iterator[Item]:
        """The events between the start of an item and its end."""
        if item["type"] == "reasoning":
            place = {"summary_index": 0}
            whole = item["summary"][0]
            kind = "response.reasoning_summary"
            yield {"type": f"{kind}_part.added", **place, "part": {**whole, "text": ""}}
            for text in turn.reasoning:
                yield {"type": f"{kind}_text.delta", **place, "delta": text}
            yield {"type": f"{kind}_text.done", **place, "text": whole["text"]}
            yield {"type": f"{kind}_part.done", **place, "part": whole}
        elif item["type"] == "message":
            place = {"content_index": 0}
            whole = item["content"][0]
            yield {"type": "response.content_part.added", **place, "part": {**whole, "text": ""}}
            for text in turn.texts:
                yield {"type": "response.output_text.delta", **place, "delta": text, "logprobs": []}
            yield {"type": "response.output_text.done", **place, "text": whole["text"], "logprobs": []}
            yield {"type": "response.content_part.done", **place, "part": whole}
        else:
            is_custom = item["type"] == "custom_tool_call"
            member = "input" if is_custom else "arguments"
            kind = "response.custom_tool_call_input" if is_custom else "response.function_call_arguments"
            for piece in _pieces(item[member]):
                yield {"type": f"{kind}.delta", "delta": piece}
            yield {"type": f"{kind}.done", member: item[member]}

    def _response(self, answer_id: AnswerId, status: str, output: list[Item], tokens: TokenCounts | None) -> Item:
        return {
            "id": f"resp_{answer_id.number:04d}",
            "object": "response",
            "created_at": 1_765_552_659,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "model": answer_id.model,
            "output": output,
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "store": False,
            "tool_choice": "auto",
            "tools": [],
            "usage": None if tokens is None else _usage(tokens),
            "user": None,
            "metadata": {},
        }


def context_exceeded_in_stream(wire: Wire, frames: Sequence[bytes]) -> Sequence[Step]:
    """A fault: the error is told in a stream that has begun, as the service does with what it finds out late."""
    created, in_progress, *_ = frames
    response = json.loads(created.partition(b"data: ")[2])["response"]
    error = {"code": "context_length_exceeded", "message": json.loads(wire.context_error())["error"]["message"]}
    told = [
        {"type": "error", "error": {"type": "invalid_request_error", **error, "param": "input"}},
        {"type": "response.failed", "response": {**response, "status": "failed", "error": error}},
    ]
    return [Head(), *(Send(frame) for frame in (created, in_progress, *_sse_frames(told, 2))), End()]


def _sse_frames(events: Iterable[Item], first_number: int = 0) -> list[bytes]:
    return [
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), _json({**event, "sequence_number": number}))
        for number, event in enumerate(events, first_number)
    ]


def _flat(tools: Iterable[Item], namespace: str = "functions") -> Iterator[Item]:
    """The tools that a model can call; those of the service itself are left out."""
    for tool in tools:
        if tool["type"] == "namespace":
            yield from _flat(tool["tools"], tool["name"])
        elif tool["type"] in ("function", "custom"):
            yield {**tool, "name": _flat_name(namespace, tool["name"])}


def _flat_name(namespace: str, name: str) -> str:
    """As the other wires have it. In the namespace `functions` are also those that are in none."""
    return name if namespace == "functions" else f"{namespace}{_BETWEEN}{name}"


def _turns(items: Iterable[Item]) -> Iterator[Turn]:
    """Items of the model in a row are one turn."""
    row: list[Item] = []
    for item in (*items, {"type": "end"}):
        if item.get("type") in ("reasoning", "function_call", "custom_tool_call") or item.get("role") == "assistant":
            row.append(item)
        elif row:
            yield _turn(row)
            row = []


def _turn(row: list[Item]) -> Turn:
    thoughts = [item for item in row if item.get("type") == "reasoning"]
    return Turn(
        tuple(part["text"] for item in thoughts for part in item.get("summary", ())),
        "".join(item.get("encrypted_content") or "" for item in thoughts),
        tuple(_text(item["content"]) for item in row if item.get("role") == "assistant"),
        tuple(_call(item) for item in row if item.get("type", "").endswith("_call")),
    )


def _call(item: Item) -> ToolCall:
    name = _flat_name(item.get("namespace", "functions"), item["name"])
    if item["type"] == "custom_tool_call":
        return ToolCall(item["call_id"], name, {"input": item["input"]}, is_custom=True)
    return ToolCall(item["call_id"], name, json.loads(item["arguments"]))


def _begun(item: Item) -> Item:
    """As it is when nothing of it was sent yet."""
    empty: Item = {"arguments": "", "input": "", "summary": [], "content": [], "status": "in_progress"}
    return {name: empty.get(name, value) for name, value in item.items()}


def _arguments(call: ToolCall) -> str:
    return json.dumps(call.arguments, separators=(",", ":"))


def _pieces(text: str) -> list[str]:
    third = max(len(text) // 3, 1)
    return [text[:third], text[third : 2 * third], text[2 * third :]]


def _text(content: str | list[Item]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _usage(tokens: TokenCounts) -> Item:
    return {
        "input_tokens": tokens.prompt,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": 0},
        "output_tokens": tokens.completion,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.prompt + tokens.completion,
    }


def _json(document: Item) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
