"""An answer of OpenAI's Responses API, streamed or whole, read the plain way into `Expected`.

Complete means `response.completed` or `response.incomplete`. Of each part of an item the deltas count, and what its
`done` frames say beyond them. Only calls of tools that the response lists are the caller's, where it lists any: what
the provider runs itself is neither text nor a call. Usage is that of the last frame.
"""

from typing import Any

from support.expected import Call, Choice, Counts, Ending, Expected, count, with_cached
from support.sse_reading import DONE, documents_of

REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
ENDS = ("response.completed", "response.incomplete", "response.failed")
CALLS = ("function_call", "custom_tool_call")


class _Item:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.parts: dict[Any, str] = {}
        self.call: Call | None = None

    def grow(self, part: Any, text: Any) -> None:
        self.parts[part] = self.parts.get(part, "") + (text if isinstance(text, str) else "")

    def settle(self, part: Any, text: Any) -> None:
        known = self.parts.get(part, "")
        if isinstance(text, str) and len(text) > len(known):
            self.parts[part] = known + text[len(known) :]


class _Reader:
    def __init__(self) -> None:
        self.expected = Expected()
        self.items: dict[int, _Item] = {}
        self.order: list[_Item] = []
        self.signatures: list[str] = []
        self.logprobs: list[Any] = []
        self.tools: list[Any] = []
        self.last = -1

    def start(self, response: dict[str, Any]) -> None:
        self.expected.model = response.get("model") or None
        self.expected.created = response.get("created_at") or None
        self.label(response)
        self.tools = response.get("tools") or []

    def label(self, response: dict[str, Any]) -> None:
        if response.get("service_tier"):
            self.expected.labels.setdefault("service_tier", []).append(response["service_tier"])

    def item(self, index: Any, kind: str) -> _Item:
        index = self.last if index is None else index
        if index not in self.items:
            self.add(index, kind, {})
        return self.items[index]

    def add(self, index: Any, kind: str, sent: dict[str, Any]) -> _Item:
        self.last = self.last + 1 if index is None else index
        item = self.items[self.last] = _Item(kind)
        self.order.append(item)
        self.begin_call(item, sent)
        return item

    def begin_call(self, item: _Item, sent: dict[str, Any]) -> None:
        names = [tool.get("name") for tool in self.tools if tool.get("type") in ("function", "custom")]
        is_own = not self.tools or sent.get("name") in names or (names and item.kind == "function_call")
        if item.kind in CALLS and sent.get("name") and is_own and item.call is None:
            item.call = Call(sent.get("call_id") or None, sent["name"], "")

    def done(self, index: Any, sent: dict[str, Any]) -> None:
        item = self.item(index, sent["type"])
        self.begin_call(item, sent)
        for i, part in enumerate(sent.get("content") or []):
            name = "refusal" if part.get("type") == "refusal" else "text"
            item.settle((name, i), part.get(name))
        if not any(name == "text" for name, _ in item.parts):
            for i, part in enumerate(sent.get("summary") or []):
                item.settle(("summary", i), part.get("text"))
        item.settle(("call", 0), sent.get("arguments") or sent.get("input"))
        if sent["type"] == "reasoning" and sent.get("encrypted_content"):
            self.signatures.append(sent["encrypted_content"])

    def piece(self, kind: str, event: dict[str, Any], grows: bool) -> None:
        at, text = event.get("output_index"), event.get("delta")
        take = _Item.grow if grows else _Item.settle
        if kind == "output_text":
            take(self.item(at, "message"), ("text", event.get("content_index", 0)), text or event.get("text"))
            self.logprobs += event.get("logprobs") or [] if grows else []
        elif kind == "refusal":
            take(self.item(at, "message"), ("refusal", event.get("content_index", 0)), text or event.get("refusal"))
        elif kind == "reasoning_summary_text":
            take(self.item(at, "reasoning"), ("summary", event.get("summary_index", 0)), text or event.get("text"))
        elif kind == "reasoning_text":
            take(self.item(at, "reasoning"), ("text", event.get("content_index", 0)), text or event.get("text"))
        elif kind in ("function_call_arguments", "custom_tool_call_input"):
            told = text or event.get("arguments") or event.get("input")
            take(self.item(at, "function_call"), ("call", 0), told)

    def ended(self, ending: Ending, response: dict[str, Any] | None = None) -> Expected:
        expected, choice = self.expected, self.expected.choice(0)
        expected.ended = ending
        for item in self.order:
            _tell(item, choice)
        choice.signatures = self.signatures
        choice.logprobs = {"content": self.logprobs} if self.logprobs else {}
        expected.sent_logprobs = bool(self.logprobs)
        expected.frames = 2  # its labels can change once, with the last frame
        if response is None:
            return expected
        self.label(response)
        reason = (response.get("incomplete_details") or {}).get("reason")
        choice.finish = "tool_calls" if choice.calls else "stop"
        if response.get("status") == "incomplete":
            choice.finish = REASONS.get(str(reason), choice.finish)
        expected.usage = _counts(response.get("usage"))
        return expected


def _tell(item: _Item, choice: Choice) -> None:
    texts = {name: [text for (kind, _), text in sorted(item.parts.items()) if kind == name] for name, _ in item.parts}
    if item.kind == "message":
        for (name, _), text in sorted(item.parts.items()):
            choice.refuse(text) if name == "refusal" else choice.say(text)
    elif item.kind == "reasoning":
        choice.think("".join(texts.get("text", [])) or "\n\n".join(texts.get("summary", [])))
    elif item.call is not None:
        item.call.arguments = item.parts.get(("call", 0), "")
        choice.calls.append(item.call)


def _counts(usage: Any) -> Counts | None:
    usage = usage if isinstance(usage, dict) else {}
    prompt, completion = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    if prompt is None or completion is None:
        return None
    read, written = (usage.get(f"{name}_tokens_details") or {} for name in ("input", "output"))
    cached = count(read.get("cached_tokens"))
    return Counts(
        with_cached(prompt, cached),
        completion,
        cached=cached,
        cache_write=count(read.get("cache_write_tokens")),
        reasoning=count(written.get("reasoning_tokens")),
    )


def read_stream(body: bytes) -> Expected:
    reader = _Reader()
    for event, ending in documents_of(body):
        if ending is not None:
            return reader.ended(ending)
        if event is DONE:
            continue
        kind = str(event.get("type"))
        name, _, tail = kind.removeprefix("response.").rpartition(".")
        if kind in ("error", "response.failed") or (event.get("error") and not kind.startswith("response.")):
            return reader.ended("error")
        if kind in ENDS:
            return reader.ended("complete", event["response"])
        if kind == "response.created":
            reader.start(event["response"])
        elif kind == "response.output_item.added":
            reader.add(event.get("output_index"), event["item"]["type"], event["item"])
        elif kind == "response.output_item.done":
            reader.done(event.get("output_index"), event["item"])
        elif tail in ("delta", "done"):
            reader.piece(name, event, tail == "delta")
    return reader.ended("truncated")


def read_whole(document: Any) -> Expected:
    reader = _Reader()
    if not isinstance(document, dict) or document.get("error") or not isinstance(document.get("output"), list):
        return reader.ended("error")
    reader.start(document)
    for index, item in enumerate(document["output"]):
        reader.add(index, item["type"], item)
        reader.done(index, item)
    return reader.ended("complete", document)
