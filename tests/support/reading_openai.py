"""An OpenAI-style answer, streamed or whole, read the plain way into `Expected`.

Complete means: `[DONE]`, or a clean end, and every choice finished. A vendor that sends no
finish reasons at all is complete with `[DONE]` alone (docs/spec/quirks.md R18), any other if its
usage came behind the last content (Q41). A frame that cannot be read and a frame with `error` end
the stream as an error.
"""

import json
import re
from typing import Any

from support.expected import Call, Choice, Counts, Expected, completion_within, count, with_cached
from support.sse_reading import DONE, documents_of, is_failure

KNOWN_WORDS = ("stop", "length", "tool_calls", "content_filter", "function_call")
STOP_WORDS = ("eos", "eos_token", "end_turn", "STOP")
FLAT_CACHED = ("cached_tokens", "num_cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
LABELS = ("system_fingerprint", "service_tier")


def read_stream(body: bytes, sends_finish: bool = True) -> Expected:
    expected = Expected()
    raw_words: dict[int, str] = {}
    is_done = is_reported_early = is_reported_last = False
    for frame, ending in documents_of(body):
        if ending is not None:
            return _ended(expected, ending, raw_words)
        if frame is DONE:
            is_done = True
            break
        if isinstance(frame, dict):
            before = expected.usage
            _read_usage(expected, frame)
            if _has_content(frame):
                is_reported_early, is_reported_last = expected.usage is not None, False
            elif expected.usage is not before:
                is_reported_last = not is_reported_early or not frame.get("choices")
        if not isinstance(frame, dict) or is_failure(frame):
            return _ended(expected, "error", raw_words)
        _read_envelope(expected, frame)
        for choice in frame.get("choices") or []:
            _read_choice(expected, choice, choice.get("delta"), raw_words)
    unfinished = set(expected.choices) - set(raw_words)
    if is_done and (not sends_finish or is_reported_last) and _are_whole(expected, unfinished):
        raw_words.update(dict.fromkeys(unfinished, ""))
        unfinished = set()
    is_whole = bool(expected.choices) and not unfinished
    return _ended(expected, "complete" if is_whole else "truncated", raw_words)


def _has_content(frame: dict[str, Any]) -> bool:
    deltas = [choice.get("delta") or {} for choice in frame.get("choices") or [] if isinstance(choice, dict)]
    names = ("content", "reasoning", "reasoning_content", "reasoning_details", "refusal", "tool_calls", "function_call")
    return any(delta.get(name) for delta in deltas for name in names)


def _are_whole(expected: Expected, unfinished: set[int]) -> bool:
    for call in (call for index in unfinished for call in expected.choices[index].calls):
        try:
            json.loads(call.arguments or "{}") if isinstance(call.arguments, str) else None
        except ValueError:
            return False
    return True


def read_whole(document: Any) -> Expected:
    expected = Expected()
    raw_words: dict[int, str] = {}
    if not isinstance(document, dict) or is_failure(document) or not document.get("choices"):
        expected.ended = "error"
        return expected
    _read_usage(expected, document)
    _read_envelope(expected, document)
    for choice in document["choices"]:
        raw_words[choice.get("index") or 0] = ""
        _read_choice(expected, choice, choice.get("message"), raw_words)
    return _ended(expected, "complete", raw_words)


def _ended(expected: Expected, ending: Any, raw_words: dict[int, str]) -> Expected:
    expected.ended = ending
    for index, word in raw_words.items():
        choice = expected.choice(index)
        if word in KNOWN_WORDS:
            choice.finish = word
        else:
            choice.finish = "tool_calls" if choice.calls and word not in STOP_WORDS else "stop"
    return expected


def _read_envelope(expected: Expected, frame: dict[str, Any]) -> None:
    sent_id = frame.get("id")
    if expected.id is None and isinstance(sent_id, str) and re.match("chatcmpl-.{16}", sent_id):
        expected.id = sent_id
    if expected.created is None and isinstance(frame.get("created"), int):
        expected.created = frame["created"] or None
    expected.model = expected.model or frame.get("model") or None
    expected.frames += 1
    for name in LABELS:
        if name in frame:
            expected.labels.setdefault(name, []).append(frame[name])


def _read_choice(expected: Expected, sent: dict[str, Any], delta: Any, raw_words: dict[int, str]) -> None:
    index = sent.get("index") or 0
    choice = expected.choice(index)
    delta = delta if isinstance(delta, dict) else {}
    _read_text(choice, delta)
    for entry in delta.get("tool_calls") or []:
        _read_call(choice, entry)
    if delta.get("function_call"):
        _read_legacy_call(choice, delta["function_call"])
    if "logprobs" in sent:
        expected.sent_logprobs = True
    for name, entries in (sent.get("logprobs") or {}).items():
        if isinstance(entries, list):
            choice.logprobs.setdefault(name, []).extend(entries)
    if sent.get("finish_reason") is not None and not raw_words.get(index):
        raw_words[index] = str(sent["finish_reason"])


def _read_text(choice: Choice, delta: dict[str, Any]) -> None:
    details = [entry for entry in delta.get("reasoning_details") or [] if isinstance(entry, dict)]
    told = "".join(entry.get("text") or entry.get("summary") or "" for entry in details)
    for text in (delta.get("reasoning_content"), delta.get("reasoning"), told):
        if isinstance(text, str) and text:
            choice.think(text)
            break
    for entry in details:
        choice.sign(entry.get("signature"))
        choice.sign(entry.get("data"))
    content = delta.get("content")
    for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            for piece in inner if isinstance(inner, list) else [{"text": inner}]:
                choice.think(piece.get("text"))
        elif part.get("type") == "text":
            choice.say(part.get("text"))
    choice.refuse(delta.get("refusal"))


def _read_call(choice: Choice, entry: dict[str, Any]) -> None:
    function = entry.get("function") or {}
    arguments = function.get("arguments")
    index, call_id, name = entry.get("index"), entry.get("id") or None, function.get("name") or ""
    call = _known_call(choice, index, call_id, bool(name))
    if call is None:
        call = Call(call_id, name, "", index=index)
        choice.calls.append(call)
    call.id = call.id or call_id
    call.name = call.name or name
    if isinstance(arguments, dict):
        call.arguments = arguments
    elif isinstance(arguments, str) and isinstance(call.arguments, str):
        call.arguments += arguments


def _known_call(choice: Choice, index: object, call_id: str | None, is_named: bool) -> Call | None:
    """The call that an entry goes on with: of the same index, unless it brings another id and a name; else by id."""
    for call in reversed(choice.calls):
        if index is not None and call.index == index:
            is_other = call_id is not None and call.id is not None and call_id != call.id and is_named
            return None if is_other else call
        if index is None and (call.id == call_id if call_id else not is_named):
            return call
    return None


def _read_legacy_call(choice: Choice, sent: dict[str, Any]) -> None:
    if not choice.calls:
        choice.calls.append(Call(None, "", "", legacy=True))
    call = choice.calls[0]
    call.name = call.name or sent.get("name") or ""
    call.arguments = str(call.arguments) + (sent.get("arguments") or "")


def _read_usage(expected: Expected, frame: dict[str, Any]) -> None:
    groq = frame.get("x_groq")
    for usage in (groq.get("usage") if isinstance(groq, dict) else None, frame.get("usage")):
        if not isinstance(usage, dict):
            continue
        prompt, completion = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
        if prompt is None or completion is None:
            continue
        inputs, outputs = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
        flat = {
            "cached": _first({**(usage.get("prompt_token_details") or {}), **usage}, *FLAT_CACHED),
            "cache_write": _first(usage, "cache_creation_input_tokens"),
            "reasoning": _first({**(usage.get("completion_token_details") or {}), **usage}, "reasoning_tokens"),
        }
        cached = count(inputs.get("cached_tokens"))
        expected.usage = Counts(
            with_cached(prompt, flat["cached"] if cached is None else cached),
            completion_within(usage.get("total_tokens"), prompt, completion),
            cached=cached,
            cache_write=_first(inputs, "cache_write_tokens", "cache_creation_tokens"),
            reasoning=count(outputs.get("reasoning_tokens")),
            is_openai=True,
            prompt_details=inputs,
            completion_details=outputs,
            flat={name: value for name, value in flat.items() if value is not None},
        )


def _first(members: dict[str, Any], *names: str) -> int | None:
    return next((value for value in (count(members.get(name)) for name in names) if value is not None), None)
