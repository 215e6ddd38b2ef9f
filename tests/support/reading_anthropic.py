"""An answer of Anthropic's Messages API, streamed or whole, read the plain way into `Expected`.

Complete means `message_stop`. Only `tool_use` blocks are the caller's calls: what the provider
runs itself (server tools, their results) is neither text nor a call. Usage is the newest number
per field; the prompt is input, cache read and cache creation together.
"""

from typing import Any

from support.expected import Call, Choice, Counts, Expected, count
from support.sse_reading import DONE, documents_of, is_failure

WORDS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


class _Reader:
    def __init__(self) -> None:
        self.expected = Expected()
        self.usage: dict[str, int] = {}
        self.word: str | None = None
        self.calls: dict[int, Call] = {}

    @property
    def choice(self) -> Choice:
        return self.expected.choice(0)

    def start(self, message: dict[str, Any]) -> None:
        self.expected.model = message.get("model") or None
        self.word = message.get("stop_reason") or self.word
        self.count(message.get("usage"))
        for index, block in enumerate(message.get("content") or []):
            self.block(-1 - index, block)

    def block(self, index: int, block: dict[str, Any]) -> None:
        kind = block.get("type")
        if kind == "text":
            self.choice.say(block.get("text"))
        elif kind == "thinking":
            self.choice.think(block.get("thinking"))
            self.choice.sign(block.get("signature"))
        elif kind == "redacted_thinking":
            self.choice.sign(block.get("data"))
        elif kind == "tool_use":
            call = Call(block.get("id") or None, block.get("name") or "", block.get("input") or "")
            self.calls[index] = call
            self.choice.calls.append(call)

    def delta(self, index: int, delta: dict[str, Any]) -> None:
        kind = delta.get("type")
        if kind == "text_delta":
            self.choice.say(delta.get("text"))
        elif kind == "thinking_delta":
            self.choice.think(delta.get("thinking"))
        elif kind == "signature_delta":
            self.choice.sign(delta.get("signature"))
        elif kind == "input_json_delta" and index in self.calls and delta.get("partial_json"):
            call = self.calls[index]
            call.arguments = (call.arguments if isinstance(call.arguments, str) else "") + delta["partial_json"]

    def count(self, usage: Any) -> None:
        usage = usage if isinstance(usage, dict) else {}
        details = usage.get("output_tokens_details")
        thinking = details.get("thinking_tokens") if isinstance(details, dict) else None
        for name, value in {**usage, "thinking_tokens": thinking}.items():
            number = count(value)
            if number is not None:
                self.usage[name] = number

    def ended(self, ending: Any) -> Expected:
        self.expected.ended = ending
        if ending == "complete":
            word = self.word or ""
            self.choice.finish = WORDS.get(word) or ("tool_calls" if self.choice.calls else "stop")
        elif self.word:
            self.choice.finish = WORDS.get(self.word, "stop")
        told = self.usage
        if "input_tokens" in told and "output_tokens" in told:
            cached, written = told.get("cache_read_input_tokens"), told.get("cache_creation_input_tokens")
            prompt = told["input_tokens"] + (cached or 0) + (written or 0)
            self.expected.usage = Counts(
                prompt, told["output_tokens"], cached, written, reasoning=told.get("thinking_tokens")
            )
        return self.expected


def read_stream(body: bytes) -> Expected:
    reader = _Reader()
    for event, ending in documents_of(body):
        if ending is not None:
            return reader.ended(ending)
        if event is DONE:
            continue
        kind = event.get("type") if isinstance(event, dict) else "error"
        if kind == "error" or is_failure(event):
            return reader.ended("error")
        if kind == "message_start":
            reader.start(event["message"])
        elif kind == "content_block_start":
            reader.block(event["index"], event["content_block"])
        elif kind == "content_block_delta":
            reader.delta(event["index"], event["delta"])
        elif kind == "message_delta":
            reader.word = event["delta"].get("stop_reason") or reader.word
            reader.count(event.get("usage"))
        elif kind == "message_stop":
            return reader.ended("complete")
    return reader.ended("truncated")


def read_whole(document: Any) -> Expected:
    reader = _Reader()
    if not isinstance(document, dict) or is_failure(document) or document.get("type") != "message":
        return reader.ended("error")
    reader.start(document)
    return reader.ended("complete")
