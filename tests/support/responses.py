"""The Responses API as a client sees it: requests, and a reading of its streams that is as strict as the SDKs are."""

import json
from typing import Any

from support import messages
from support.gateway import KEY, Gate, chat_request
from support.raw_client import Reply

PATH = "/v1/responses"
QUESTION: dict[str, Any] = {"model": "up/m", "input": "Say hello."}
TERMINAL = ("response.completed", "response.incomplete", "response.failed")
_TEXTS = {
    # The frames of a growing text: the kind of item, the list of parts that it is in, the member of the part.
    "response.output_text": ("message", "content", "text"),
    "response.refusal": ("message", "content", "refusal"),
    "response.reasoning_text": ("reasoning", "content", "text"),
    "response.reasoning_summary_text": ("reasoning", "summary", "text"),
}
_PARTS = {"response.content_part": "content", "response.reasoning_summary_part": "summary"}
_INPUTS = {
    "response.function_call_arguments": ("function_call", "arguments"),
    "response.custom_tool_call_input": ("custom_tool_call", "input"),
}
_ID_PREFIXES = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "custom_tool_call": "ctc_"}


def responses_request(
    *, path: str = PATH, key: str | None = KEY, headers: tuple[tuple[str, str], ...] = (), **members: Any
) -> bytes:
    return chat_request(path=path, key=key, headers=headers, body=json.dumps({**QUESTION, **members}).encode())


async def ask(gate: Gate, *, stream: bool = True, **members: Any) -> Reply:
    async with await gate.connect() as client:
        await client.send(responses_request(stream=stream, **members))
        return await client.response()


def documents_of(body: bytes) -> list[Any]:
    """Of the frames, each of which must have its `event` line, and the next number."""
    documents = messages.documents_of(body)
    for number, document in enumerate(documents):
        assert document["sequence_number"] == number, "numbers have no gaps"
    return documents


def read_stream(body: bytes) -> dict[str, Any]:
    return read_documents(documents_of(body))


def read_documents(documents: list[Any]) -> dict[str, Any]:
    """The response at the end of a stream. Asserts the order of the frames, and that what the deltas say is what the
    items and the last frame say. The error of a failed one is in `error_frame`."""
    reading = _Reading()
    for document in documents:
        reading.feed(document)
    assert reading.terminal is not None, "a stream ends with a terminal frame"
    return reading.terminal


class _Reading:
    def __init__(self) -> None:
        self.terminal: dict[str, Any] | None = None
        self._created: dict[str, Any] | None = None
        self._is_in_progress = False
        self._error: dict[str, Any] | None = None
        self._items: list[Any] = []
        self._done: dict[int, dict[str, Any]] = {}
        self._open_parts: set[tuple[int, str, int]] = set()

    def feed(self, document: dict[str, Any]) -> None:
        assert self.terminal is None, "nothing follows the end"
        kind, _, change = document["type"].rpartition(".")
        if document["type"] == "response.created":
            assert self._created is None
            self._created = document["response"]
            assert self._created["status"] == "in_progress"
            assert (self._created["output"], self._created["usage"]) == ([], None)
            return
        assert self._created is not None, "nothing may stand before response.created"
        assert self._error is None or document["type"] == "response.failed"
        if document["type"] == "response.in_progress":
            assert document["response"] == self._created
            self._is_in_progress = True
        elif document["type"] == "keepalive":
            assert document.keys() == {"type", "sequence_number"}
        elif document["type"] == "error":
            self._error = document["error"]
            assert self._error.keys() == {"type", "code", "message", "param"}
        elif document["type"] in TERMINAL:
            self._end(document["response"], change)
        elif kind == "response.output_item":
            self._item(document, change)
        elif kind in _PARTS:
            self._part(document, _PARTS[kind], change)
        elif kind in _TEXTS:
            self._text(document, *_TEXTS[kind], change)
        elif kind in _INPUTS:
            self._input(document, *_INPUTS[kind], change)
        else:
            assert document["type"] == "response.output_text.annotation.added", document
            part = self._open_item(document)["content"][document["content_index"]]
            assert document["annotation_index"] == len(part["annotations"])
            part["annotations"].append(document["annotation"])

    def _open_item(self, document: dict[str, Any]) -> dict[str, Any]:
        index = document["output_index"]
        assert index not in self._done
        item: dict[str, Any] = self._items[index]
        assert item["id"] == document["item_id"]
        return item

    def _item(self, document: dict[str, Any], change: str) -> None:
        index, item = document["output_index"], document["item"]
        assert self._is_in_progress
        assert item["id"].startswith(_ID_PREFIXES[item["type"]])
        if change == "added":
            assert index == len(self._items), "indices have no gaps"
            self._items.append(json.loads(json.dumps(item)))
            return
        assert index not in self._done
        assert not any(place[0] == index for place in self._open_parts)
        joined = self._items[index]
        if item["type"] == "reasoning":
            joined = {**joined, "encrypted_content": item["encrypted_content"]}
        else:
            assert joined["status"] == "in_progress"
            assert item["status"] in ("completed", "incomplete")
            joined = {**joined, "status": item["status"]}
        assert item == joined, "the item is what its deltas said"
        self._done[index] = item

    def _part(self, document: dict[str, Any], member: str, change: str) -> None:
        number = document["summary_index" if member == "summary" else "content_index"]
        item = self._open_item(document)
        place = (document["output_index"], member, number)
        if change == "added":
            assert not any(open_[0] == place[0] for open_ in self._open_parts)
            parts = item.setdefault(member, [])
            assert number == len(parts)
            parts.append(json.loads(json.dumps(document["part"])))
            self._open_parts.add(place)
        else:
            self._open_parts.remove(place)
            assert _without_bytes(document["part"]) == item[member][number]
            item[member][number] = document["part"]

    def _text(self, document: dict[str, Any], owner: str, member: str, name: str, change: str) -> None:
        number = document["summary_index" if member == "summary" else "content_index"]
        item = self._open_item(document)
        assert item["type"] == owner
        assert (document["output_index"], member, number) in self._open_parts
        part = item[member][number]
        if change == "delta":
            assert document["delta"]
            part[name] = _joined(part[name], document["delta"])
            for logprob in document.get("logprobs", ()):
                part["logprobs"].append(logprob)
            return
        assert document[name] == part[name]
        assert document.get("logprobs", []) == part.get("logprobs", [])

    def _input(self, document: dict[str, Any], owner: str, member: str, change: str) -> None:
        item = self._open_item(document)
        assert item["type"] == owner
        if change == "delta":
            assert document["delta"]
            item[member] = _joined(item[member], document["delta"])
        else:
            assert document[member] == item[member]

    def _end(self, response: dict[str, Any], change: str) -> None:
        created = self._created
        assert created is not None
        assert response["id"] == created["id"]
        assert response["status"] == change
        assert (self._error is not None) == (change == "failed")
        assert response["output"] == [item for _, item in sorted(self._done.items())]
        if change == "failed":
            assert self._error is not None
            assert response["error"] == {name: self._error[name] for name in ("code", "message")}
            self.terminal = {**response, "error_frame": self._error}
            return
        assert len(self._done) == len(self._items), "all items are done"
        usage = response["usage"]
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
        self.terminal = response


def _without_bytes(part: dict[str, Any]) -> dict[str, Any]:
    """A part as its deltas show it."""
    if not part.get("logprobs"):
        return part
    tops = [
        {**token, "top_logprobs": [{k: top[k] for k in ("token", "logprob")} for top in token["top_logprobs"]]}
        for token in part["logprobs"]
    ]
    return {**part, "logprobs": [{k: v for k, v in token.items() if k != "bytes"} for token in tops]}


def _joined(text: str, piece: str) -> str:
    """Two halves of a character that came in two pieces are one again."""
    return (text + piece).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def text_so_far(body: bytes) -> str:
    """Of a stream, by its deltas: one that fails repeats only the items that were done."""
    pieces = [each["delta"] for each in documents_of(body) if each["type"] == "response.output_text.delta"]
    return "".join(pieces)


def said_in(response: dict[str, Any]) -> str:
    """The text of its messages."""
    return "".join(
        part.get("text") or part.get("refusal", "")
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
    )
