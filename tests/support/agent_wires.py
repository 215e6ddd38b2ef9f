"""The wires of `support.agent_model`: OpenAI's (with `reasoning_content`), Anthropic's and Gemini's.

That of OpenAI's Responses API is in `support.agent_responses_wire`.

Each parses a request into a `ModelRequest` and writes a turn as its service does, with the same frames and members.
Nothing here depends on the task.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from support.agent_responses_wire import ResponsesWire
from support.agent_turn import AnswerId, ModelRequest, TokenCounts, ToolCall, ToolResult, Turn, Wire
from support.script import Seen

_KINDS = {400: "invalid_request_error", 429: "rate_limit_error", 529: "overloaded_error"}


class AnthropicWire:
    name = "anthropic"

    def read(self, request: Seen) -> ModelRequest:
        asked = request.json
        messages = [(each["role"], _blocks(each["content"])) for each in asked["messages"]]
        config = asked.get("output_config") or {}
        return ModelRequest(
            model=asked["model"],
            is_streamed=bool(asked.get("stream")),
            tools={tool["name"]: tool["input_schema"] for tool in asked.get("tools", ()) if "input_schema" in tool},
            turns=tuple(self._turn(blocks) for role, blocks in messages if role == "assistant"),
            results=tuple(
                ToolResult(block["tool_use_id"], _text(_blocks(block.get("content", ""))))
                for _, blocks in messages
                for block in blocks
                if block["type"] == "tool_result"
            ),
            texts=(
                *_texts(_blocks(asked.get("system") or "")),
                *(text for role, blocks in messages if role != "assistant" for text in _texts(blocks)),
            ),
            wants_json="format" in config or "output_format" in asked,
            max_tokens=asked.get("max_tokens"),
        )

    def frames(self, turn: Turn, tokens: TokenCounts, answer_id: AnswerId) -> list[bytes]:
        blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        if turn.reasoning:
            deltas = [{"type": "thinking_delta", "thinking": text} for text in turn.reasoning]
            sign = {"type": "signature_delta", "signature": turn.signature}
            blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, sign]))
        if turn.texts:
            blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in turn.texts]))
        for call in turn.calls:
            pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *_pieces(call))]
            blocks.append(({"type": "tool_use", "id": self._id(call), "name": call.name, "input": {}}, pieces))
        start = {**self._message(answer_id), "content": [], "stop_reason": None, "stop_sequence": None}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**start, "usage": {**self._input(tokens), "output_tokens": 1}}},
            {"type": "ping"},
        ]
        for index, (block, deltas) in enumerate(blocks):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        delta = {"stop_reason": self._stop(turn), "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": self._usage(tokens)})
        events.append({"type": "message_stop"})
        return [b"event: %b\ndata: %b\n\n" % (each["type"].encode(), _json(each)) for each in events]

    def whole(self, turn: Turn, tokens: TokenCounts, answer_id: AnswerId) -> bytes:
        content: list[dict[str, Any]] = []
        if turn.reasoning:
            content.append({"type": "thinking", "thinking": "".join(turn.reasoning), "signature": turn.signature})
        if turn.texts:
            content.append({"type": "text", "text": "".join(turn.texts)})
        content += [
            {"type": "tool_use", "id": self._id(call), "name": call.name, "input": call.arguments}
            for call in turn.calls
        ]
        end = {"stop_reason": self._stop(turn), "stop_sequence": None, "usage": self._usage(tokens)}
        return _json({**self._message(answer_id), "content": content, **end})

    def error(self, status: int, message: str) -> bytes:
        kind = _KINDS.get(status, "api_error")
        return _json({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"})

    def context_error(self) -> bytes:
        return self.error(400, "prompt is too long: 210000 tokens > 200000 maximum")

    def _turn(self, blocks: list[dict[str, Any]]) -> Turn:
        thinking = [block for block in blocks if block["type"] == "thinking"]
        return Turn(
            tuple(block["thinking"] for block in thinking),
            "".join(block["signature"] for block in thinking),
            tuple(_texts(blocks)),
            tuple(ToolCall(each["id"], each["name"], each["input"]) for each in blocks if each["type"] == "tool_use"),
        )

    def _id(self, call: ToolCall) -> str:
        return call.id.replace("call_", "toolu_")

    def _message(self, answer_id: AnswerId) -> dict[str, Any]:
        return {"model": answer_id.model, "id": f"msg_{answer_id.number:04d}", "type": "message", "role": "assistant"}

    def _stop(self, turn: Turn) -> str:
        return "tool_use" if turn.calls else "end_turn"

    def _input(self, tokens: TokenCounts) -> dict[str, Any]:
        new = tokens.prompt - tokens.cached
        return {"input_tokens": new, "cache_creation_input_tokens": 0, "cache_read_input_tokens": tokens.cached}

    def _usage(self, tokens: TokenCounts) -> dict[str, Any]:
        return {**self._input(tokens), "output_tokens": tokens.completion}


class OpenAIWire:
    """As DeepSeek has it: a list of texts is refused, where one text says the same."""

    name = "openai"

    def read(self, request: Seen) -> ModelRequest:
        asked = request.json
        messages = asked["messages"]
        assert not any(isinstance(each["content"], list) and _is_plain(each["content"]) for each in messages)
        return ModelRequest(
            model=asked["model"],
            is_streamed=bool(asked.get("stream")),
            tools={tool["function"]["name"]: tool["function"]["parameters"] for tool in asked.get("tools", ())},
            turns=tuple(self._turn(each) for each in messages if each["role"] == "assistant"),
            results=tuple(
                ToolResult(each["tool_call_id"], _text(_blocks(each["content"])))
                for each in messages
                if each["role"] == "tool"
            ),
            texts=tuple(
                text
                for each in messages
                if each["role"] in ("user", "system", "developer")
                for text in _texts(_blocks(each["content"]))
            ),
            wants_json="response_format" in asked,
            max_tokens=asked.get("max_completion_tokens", asked.get("max_tokens")),
        )

    def frames(self, turn: Turn, tokens: TokenCounts, answer_id: AnswerId) -> list[bytes]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": text} for text in turn.reasoning]
        deltas += [{"content": text} for text in turn.texts]
        for index, call in enumerate(turn.calls):
            named = {
                "index": index,
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": ""},
            }
            deltas.append({"tool_calls": [named]})
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in _pieces(call)]
        choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": self._finish(turn)})
        head = self._head("chat.completion.chunk", answer_id)
        chunks = [{**head, "choices": [choice], "usage": None} for choice in choices]
        chunks.append({**head, "choices": [], "usage": self._usage(tokens)})
        return [*(b"data: %b\n\n" % _json(chunk) for chunk in chunks), b"data: [DONE]\n\n"]

    def whole(self, turn: Turn, tokens: TokenCounts, answer_id: AnswerId) -> bytes:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(turn.texts) or None}
        if turn.reasoning:
            message["reasoning_content"] = "".join(turn.reasoning)
        if turn.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": "".join(_pieces(call))},
                }
                for call in turn.calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._finish(turn)}
        return _json({**self._head("chat.completion", answer_id), "choices": [choice], "usage": self._usage(tokens)})

    def error(self, status: int, message: str) -> bytes:
        kind = _KINDS.get(status, "server_error")
        return _json({"error": {"message": message, "type": kind, "param": None, "code": None}})

    def context_error(self) -> bytes:
        message = (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens."
        )
        told = {"message": message, "type": "invalid_request_error", "param": "messages"}
        return _json({"error": {**told, "code": "context_length_exceeded"}})

    def _turn(self, message: dict[str, Any]) -> Turn:
        thought = message.get("reasoning_content")
        return Turn(
            (thought,) if thought else (),
            "",
            tuple(_texts(_blocks(message.get("content") or ""))),
            tuple(
                ToolCall(each["id"], each["function"]["name"], json.loads(each["function"]["arguments"]))
                for each in message.get("tool_calls") or ()
            ),
        )

    def _head(self, kind: str, answer_id: AnswerId) -> dict[str, Any]:
        id = f"chatcmpl-Scripted{answer_id.number:08d}"
        return {"id": id, "object": kind, "created": 1_744_220_042, "model": answer_id.model}

    def _finish(self, turn: Turn) -> str:
        return "tool_calls" if turn.calls else "stop"

    def _usage(self, tokens: TokenCounts) -> dict[str, Any]:
        return {
            "prompt_tokens": tokens.prompt,
            "completion_tokens": tokens.completion,
            "total_tokens": tokens.prompt + tokens.completion,
            "prompt_tokens_details": {"cached_tokens": tokens.cached},
            "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
        }


class GeminiWire:
    """Its calls are sent without ids; those that come back are the gateway's."""

    name = "gemini"

    def read(self, request: Seen) -> ModelRequest:
        asked = request.json
        model, _, method = request.path.partition("?")[0].rpartition("/")[2].partition(":")
        config = asked.get("generationConfig") or {}
        declared = [each for tool in asked.get("tools", ()) for each in tool.get("functionDeclarations", ())]
        contents = asked["contents"]
        parts = [part for each in contents for part in each["parts"]]
        system = (asked.get("systemInstruction") or {"parts": []})["parts"]
        asking = [part for each in contents if each["role"] != "model" for part in each["parts"]]
        return ModelRequest(
            model=model,
            is_streamed=method == "streamGenerateContent",
            tools={each["name"]: each.get("parametersJsonSchema") or each.get("parameters") or {} for each in declared},
            turns=tuple(self._turn(each["parts"]) for each in contents if each["role"] == "model"),
            results=tuple(self._result(part["functionResponse"]) for part in parts if "functionResponse" in part),
            texts=tuple(part["text"] for part in [*system, *asking] if "text" in part),
            wants_json="responseMimeType" in config,
            max_tokens=config.get("maxOutputTokens"),
        )

    def frames(self, turn: Turn, tokens: TokenCounts, answer_id: AnswerId) -> list[bytes]:
        pieces: list[list[dict[str, Any]]] = [[part] for part in self._spoken(turn)]
        if turn.calls:
            pieces.append(self._calls(turn))
        last = len(pieces) - 1
        documents = [
            self._document(parts, tokens, answer_id, "STOP" if number == last else None)
            for number, parts in enumerate(pieces)
        ]
        return [b"data: %b\r\n\r\n" % _json(document) for document in documents]

    def whole(self, turn: Turn, tokens: TokenCounts, answer_id: AnswerId) -> bytes:
        return _json(self._document([*self._spoken(turn), *self._calls(turn)], tokens, answer_id, "STOP"))

    def error(self, status: int, message: str) -> bytes:
        word = {429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}.get(status, "INTERNAL")
        return _json({"error": {"code": status, "message": message, "status": word}})

    def context_error(self) -> bytes:
        message = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
        return _json({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})

    def _spoken(self, turn: Turn) -> list[dict[str, Any]]:
        return [*({"text": text, "thought": True} for text in turn.reasoning), *({"text": text} for text in turn.texts)]

    def _calls(self, turn: Turn) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = [
            {"functionCall": {"name": call.name, "args": call.arguments}} for call in turn.calls
        ]
        if parts and turn.signature:
            parts[0]["thoughtSignature"] = turn.signature
        return parts

    def _turn(self, parts: Sequence[dict[str, Any]]) -> Turn:
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        return Turn(
            tuple(part["text"] for part in parts if part.get("thought")),
            "".join(part.get("thoughtSignature", "") for part in parts),
            tuple(part["text"] for part in parts if "text" in part and not part.get("thought")),
            tuple(ToolCall(each.get("id", ""), each["name"], each.get("args", {})) for each in calls),
        )

    def _result(self, answer: dict[str, Any]) -> ToolResult:
        told = answer["response"]
        return ToolResult(answer.get("id", ""), str(told.get("result", told.get("error", told))))

    def _document(
        self, parts: list[dict[str, Any]], tokens: TokenCounts, answer_id: AnswerId, finish: str | None
    ) -> dict[str, Any]:
        candidate = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if finish is not None:
            candidate["finishReason"] = finish
        usage = {
            "promptTokenCount": tokens.prompt,
            "cachedContentTokenCount": tokens.cached,
            "candidatesTokenCount": tokens.completion - tokens.reasoning,
            "thoughtsTokenCount": tokens.reasoning,
            "totalTokenCount": tokens.prompt + tokens.completion,
        }
        identity = {"modelVersion": answer_id.model, "responseId": f"Scripted{answer_id.number:04d}"}
        return {"candidates": [candidate], "usageMetadata": usage, **identity}


WIRES: dict[str, Wire] = {wire.name: wire for wire in (OpenAIWire(), AnthropicWire(), GeminiWire(), ResponsesWire())}


def _pieces(call: ToolCall) -> list[str]:
    """The arguments in three pieces, as a service streams them."""
    text = json.dumps(call.arguments, separators=(",", ":"))
    third = max(len(text) // 3, 1)
    return [text[:third], text[third : 2 * third], text[2 * third :]]


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _is_plain(blocks: Iterable[dict[str, Any]]) -> bool:
    return all(block["type"] == "text" for block in blocks)


def _texts(blocks: Iterable[dict[str, Any]]) -> list[str]:
    return [block["text"] for block in blocks if block["type"] == "text"]


def _text(blocks: Iterable[dict[str, Any]]) -> str:
    return "".join(_texts(blocks))


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
