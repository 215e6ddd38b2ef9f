"""An answer of Gemini, as SSE, as a JSON array or whole, read the plain way into `Expected`.

Complete means: every candidate has a finishReason, and the body ended cleanly. STOP may come
more than once, and content may follow it; with function calls it means `tool_calls`. A blocked
prompt has no candidate: it is an answer that the filter ended. Usage is the newest report:
thoughts stand beside the candidates' tokens, tool prompts beside the prompt's.
"""

import json
import re
from datetime import datetime
from itertools import pairwise
from typing import Any

from support.expected import Call, Choice, Counts, Expected, completion_within, count, with_cached
from support.sse_reading import DONE, documents_of, is_failure

NUMBERED_WORDS = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: "OTHER"}
FILTERED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR")
COUNTS = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount")
STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\['([^']*)'\]")


class _Reader:
    def __init__(self) -> None:
        self.expected = Expected()
        self.words: dict[int, str] = {}
        self.open_calls: dict[int, Call] = {}

    @property
    def is_malformed(self) -> bool:
        return "MALFORMED_FUNCTION_CALL" in self.words.values()

    def frame(self, frame: dict[str, Any]) -> None:
        self.expected.model = self.expected.model or frame.get("modelVersion") or None
        if self.expected.created is None and frame.get("createTime"):
            self.expected.created = int(datetime.fromisoformat(frame["createTime"]).timestamp())
        for candidate in frame.get("candidates") or []:
            index = candidate.get("index") or 0
            choice = self.expected.choice(index)
            for part in (candidate.get("content") or {}).get("parts") or []:
                self.part(index, choice, part)
            word = candidate.get("finishReason")
            if word:
                self.words[index] = NUMBERED_WORDS.get(word, str(word))
        if (frame.get("promptFeedback") or {}).get("blockReason") and not self.expected.choices:
            self.block()
        self.count(frame.get("usageMetadata") or {})

    def block(self) -> None:
        self.expected.choice(0)
        self.words[0] = "SAFETY"

    def part(self, index: int, choice: Choice, part: dict[str, Any]) -> None:
        choice.sign(part.get("thoughtSignature"))
        if part.get("thought"):
            choice.think(part.get("text"))
        else:
            choice.say(part.get("text"))
        sent = part.get("functionCall")
        if sent is None:
            return
        call = self.open_calls.get(index)
        if sent.get("name") or call is None:
            call = Call(sent.get("id") or None, sent.get("name") or "", {})
            choice.calls.append(call)
        assert isinstance(call.arguments, dict)
        call.arguments.update(sent.get("args") or {})
        for piece in sent.get("partialArgs") or []:
            _put(call.arguments, piece)
        if sent.get("willContinue"):
            self.open_calls[index] = call
        else:
            self.open_calls.pop(index, None)

    def count(self, usage: dict[str, Any]) -> None:
        told = {name: count(value) for name, value in usage.items()}
        if all(told.get(name) is None for name in COUNTS):
            return
        prompt = (told.get("promptTokenCount") or 0) + (told.get("toolUsePromptTokenCount") or 0)
        thoughts = told.get("thoughtsTokenCount")
        completion = (told.get("candidatesTokenCount") or 0) + (thoughts or 0)
        self.expected.usage = Counts(
            with_cached(prompt, told.get("cachedContentTokenCount")),
            completion_within(told.get("totalTokenCount"), prompt, completion),
            cached=told.get("cachedContentTokenCount"),
            reasoning=thoughts,
        )

    def ended(self, ending: Any = None) -> Expected:
        if ending is None:
            is_whole = bool(self.words) and set(self.words) == set(self.expected.choices)
            ending = "complete" if is_whole else "truncated"
        if self.is_malformed:
            ending = "error"
        self.expected.ended = ending
        for index, word in self.words.items():
            choice = self.expected.choice(index)
            if word == "MAX_TOKENS":
                choice.finish = "length"
            elif word in FILTERED:
                choice.finish = "content_filter"
            else:
                choice.finish = "tool_calls" if choice.calls else "stop"
        return self.expected


def read_stream(body: bytes) -> Expected:
    reader = _Reader()
    for frame, ending in documents_of(body):
        if ending is not None:
            return reader.ended(ending)
        if frame is DONE:
            continue
        if is_failure(frame) or not isinstance(frame, dict):
            return reader.ended("error")
        reader.frame(frame)
        if reader.is_malformed:
            break
    return reader.ended()


def read_array(body: bytes) -> Expected:
    reader = _Reader()
    text = body.decode("utf-8-sig", "replace").strip()
    decoder = json.JSONDecoder()
    at = 1
    while True:
        at += len(text[at:]) - len(text[at:].lstrip(" \r\n\t,"))
        if text[at : at + 1] == "]":
            return reader.ended()
        try:
            frame, at = decoder.raw_decode(text, at)
        except ValueError:
            return reader.ended("truncated")
        if is_failure(frame) or not isinstance(frame, dict):
            return reader.ended("error")
        reader.frame(frame)
        if reader.is_malformed:
            return reader.ended()


def read_whole(document: Any) -> Expected:
    reader = _Reader()
    if not isinstance(document, dict) or is_failure(document):
        return reader.ended("error")
    reader.frame(document)
    if document.get("promptFeedback") and not document.get("candidates"):
        reader.block()
    for index in reader.expected.choices:
        reader.words.setdefault(index, "UNSAID")  # it was not streamed, so it cannot have been cut
    return reader.ended()


def _put(arguments: dict[str, Any], piece: dict[str, Any]) -> None:
    """One `partialArgs` entry: a string grows, anything else is set."""
    steps = [name or quoted or int(number) for name, number, quoted in STEP.findall(piece["jsonPath"])]
    place: Any = arguments
    for step, following in pairwise(steps):
        fresh: Any = [] if isinstance(following, int) else {}
        if isinstance(place, list):
            while len(place) <= int(step):
                place.append(type(fresh)())
            place = place[int(step)]
        else:
            place = place.setdefault(step, fresh)
    last = steps[-1]
    if isinstance(place, list):
        while len(place) <= int(last):
            place.append(None)
    if "stringValue" in piece:
        old = place[last] if isinstance(place, list) else place.get(last)
        place[last] = (old or "") + piece["stringValue"]
    else:
        place[last] = piece.get("numberValue", piece.get("boolValue"))
