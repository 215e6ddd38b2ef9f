"""Answers of OpenAI's Responses wire, built item by item: `ResponsesAnswer().text("Hel", "lo").call("f", "{}")`.

`frames` are the frames of the stream, one by one and numbered, so that a script can stop between any two; `stream` is
all of them in one piece, `whole` the body of an answer that is not streamed. They say the same: what the items of the
stream are at their end is the `output` of the last frame and of the whole body. Nothing of our own code is used.
"""

import json
from collections.abc import Sequence
from typing import Any

MODEL = "gpt-5.1-2026-02-11"
Document = dict[str, Any]


class ResponsesAnswer:
    """In the order of the calls. `tools`: as the response repeats them. Usage: prompt, answer, cached, reasoning."""

    def __init__(
        self,
        *,
        id: str = "resp_Scripted0001",
        model: str = MODEL,
        tools: Sequence[Document] = (),
        usage: tuple[int, int, int, int] | None = (7, 5, 0, 0),
        event_lines: bool = True,
    ) -> None:
        self.id, self.model, self.tools, self.usage = id, model, list(tools), usage
        self.event_lines = event_lines
        self.output: list[Document] = []
        self._pieces: list[Document] = []  # of the items

    def text(self, *pieces: str, annotations: Sequence[Document] = ()) -> "ResponsesAnswer":
        item, at = self._item({"type": "message", "id": self._id("msg"), "role": "assistant"}, {"content": []})
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
        self._add("content_part.added", at, content_index=0, part=part)
        for piece in pieces:
            self._add("output_text.delta", at, content_index=0, delta=piece, logprobs=[])
        for number, annotation in enumerate(annotations):
            told = {"annotation_index": number, "annotation": annotation}
            self._add("output_text.annotation.added", at, content_index=0, **told)
        text = "".join(pieces)
        whole = {**part, "text": text, "annotations": list(annotations)}
        self._add("output_text.done", at, content_index=0, text=text, logprobs=[])
        self._add("content_part.done", at, content_index=0, part=whole)
        return self._end(item, at, {"content": [whole]})

    def refusal(self, *pieces: str) -> "ResponsesAnswer":
        item, at = self._item({"type": "message", "id": self._id("msg"), "role": "assistant"}, {"content": []})
        self._add("content_part.added", at, content_index=0, part={"type": "refusal", "refusal": ""})
        for piece in pieces:
            self._add("refusal.delta", at, content_index=0, delta=piece)
        whole = {"type": "refusal", "refusal": "".join(pieces)}
        self._add("refusal.done", at, content_index=0, refusal=whole["refusal"])
        self._add("content_part.done", at, content_index=0, part=whole)
        return self._end(item, at, {"content": [whole]})

    def reasoning(self, *parts: Sequence[str], encrypted: str | None = None) -> "ResponsesAnswer":
        """Each part of the summary in its pieces."""
        item, at = self._item({"type": "reasoning", "id": self._id("rs")}, {"summary": []}, with_status=False)
        summary: list[Document] = []
        for number, pieces in enumerate(parts):
            text = "".join(pieces)
            self._add("reasoning_summary_part.added", at, summary_index=number, part=_summary(""))
            for piece in pieces:
                self._add("reasoning_summary_text.delta", at, summary_index=number, delta=piece)
            self._add("reasoning_summary_text.done", at, summary_index=number, text=text)
            self._add("reasoning_summary_part.done", at, summary_index=number, part=_summary(text))
            summary.append(_summary(text))
        carried = {} if encrypted is None else {"encrypted_content": encrypted}
        return self._end(item, at, {"summary": summary, **carried}, with_status=False)

    def call(self, name: str, *pieces: str, call_id: str = "") -> "ResponsesAnswer":
        return self.calls((name, pieces, call_id))

    def calls(self, *calls: tuple[str, Sequence[str], str]) -> "ResponsesAnswer":
        """Several at once, piece by piece in turns: a name, the pieces of the arguments and an id, or ""."""
        begun = []
        for name, pieces, call_id in calls:
            own = {"type": "function_call", "id": self._id("fc"), "call_id": call_id or self._id("call"), "name": name}
            begun.append((*self._item(own, {"arguments": ""}), list(pieces)))
        for turn in range(max(len(pieces) for _, _, pieces in begun)):
            for _, at, pieces in begun:
                if turn < len(pieces):
                    self._add("function_call_arguments.delta", at, delta=pieces[turn])
        for item, at, pieces in begun:
            self._add("function_call_arguments.done", at, arguments="".join(pieces))
            self._end(item, at, {"arguments": "".join(pieces)})
        return self

    def custom(self, name: str, *pieces: str, call_id: str = "") -> "ResponsesAnswer":
        own = {"type": "custom_tool_call", "id": self._id("ctc"), "call_id": call_id or self._id("call"), "name": name}
        item, at = self._item(own, {"input": ""})
        for piece in pieces:
            self._add("custom_tool_call_input.delta", at, delta=piece)
        self._add("custom_tool_call_input.done", at, input="".join(pieces))
        return self._end(item, at, {"input": "".join(pieces)})

    def search(self) -> "ResponsesAnswer":
        """That the provider runs itself."""
        item, at = self._item({"type": "web_search_call", "id": self._id("ws")}, {})
        for state in ("in_progress", "searching", "completed"):
            self._add(f"web_search_call.{state}", at)
        return self._end(item, at, {"action": {"type": "search", "query": "weirs"}})

    def documents(self, incomplete: str = "", error: Document | None = None) -> list[Document]:
        """`incomplete`: the reason why the answer is not whole. `error`: it fails, with this error."""
        begun = self._response("in_progress")
        documents: list[Document] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
            *self._pieces,
        ]
        if error is not None:
            failed = {**self._response("failed"), "error": {"code": error.get("code"), "message": error["message"]}}
            documents += [{"type": "error", "error": error}, {"type": "response.failed", "response": failed}]
        else:
            documents.append(self._end_document(incomplete))
        return [{**each, "sequence_number": number} for number, each in enumerate(documents)]

    def frames(self, incomplete: str = "", error: Document | None = None) -> list[bytes]:
        return [frame_of(each, self.event_lines) for each in self.documents(incomplete, error)]

    def stream(self, incomplete: str = "", error: Document | None = None) -> bytes:
        return b"".join(self.frames(incomplete, error))

    def whole(self, incomplete: str = "") -> bytes:
        return _json(self._end_document(incomplete)["response"])

    def _end_document(self, incomplete: str) -> Document:
        status = "incomplete" if incomplete else "completed"
        response = {**self._response(status), "output": self.output, "usage": self._usage()}
        if incomplete:
            response["incomplete_details"] = {"reason": incomplete}
        return {"type": f"response.{status}", "response": response}

    def _response(self, status: str) -> Document:
        return {
            "id": self.id,
            "object": "response",
            "created_at": 1_771_000_000,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "model": self.model,
            "output": [],
            "parallel_tool_calls": True,
            "service_tier": "default",
            "store": False,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": self.tools,
            "top_p": 1.0,
            "usage": None,
            "metadata": {},
        }

    def _usage(self) -> Document | None:
        if self.usage is None:
            return None
        prompt, answer, cached, reasoning = self.usage
        return {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": answer,
            "output_tokens_details": {"reasoning_tokens": reasoning},
            "total_tokens": prompt + answer,
        }

    def _id(self, prefix: str) -> str:
        return f"{prefix}_Scripted{len(self.output):04}"

    def _item(self, own: Document, empty: Document, with_status: bool = True) -> tuple[Document, Document]:
        at = {"item_id": own["id"], "output_index": len(self.output)}
        self.output.append(own)
        status = {"status": "in_progress"} if with_status else {}
        item = {**own, **status, **empty}
        self._pieces.append({"type": "response.output_item.added", "output_index": at["output_index"], "item": item})
        return own, at

    def _add(self, kind: str, at: Document, **members: Any) -> None:
        self._pieces.append({"type": f"response.{kind}", **at, **members})

    def _end(self, own: Document, at: Document, members: Document, with_status: bool = True) -> "ResponsesAnswer":
        item = {**own, **({"status": "completed"} if with_status else {}), **members}
        self.output[at["output_index"]] = item
        self._pieces.append({"type": "response.output_item.done", "output_index": at["output_index"], "item": item})
        return self


def frame_of(document: Document, event_line: bool = True) -> bytes:
    line = b"event: %b\n" % str(document["type"]).encode() if event_line else b""
    return b"%bdata: %b\n\n" % (line, _json(document))


def _summary(text: str) -> Document:
    return {"type": "summary_text", "text": text}


def _json(document: Document) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
