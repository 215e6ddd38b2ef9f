"""A dialect's output, read the plain way and held to every rule of docs/spec/dialects.md on the way.

`read_stream` takes the bytes of a streamed answer, `read_whole` those of a buffered one; both
give an `Output`, or fail an assertion that names the rule and shows the frame. In the openai
dialect a frame may be the upstream's own bytes: such a frame (one of `passed`) may have its
own order of members and members of its own, and nothing else.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from support.dialect_rules import (
    CHOICE_ORDER,
    CHUNK_ORDER,
    LABELS,
    STREAM_CODES,
    USAGE_ORDER,
    WHOLE_CHOICE_ORDER,
    Rules,
)
from support.expected import Call, Choice

STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
NEEDLESS_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*\\u(?!00[01][0-9a-f]|007f|[dD][89a-fA-F])")


@dataclass
class Output:
    id: str = ""
    model: str = ""
    created: list[int] = field(default_factory=list)
    choices: dict[int, Choice] = field(default_factory=dict)
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    labels: dict[str, list[Any]] = field(default_factory=dict)
    chunks: int = 0
    has_logprobs: bool = False


@dataclass
class _Frame:
    document: dict[str, Any]
    is_passed: bool

    def __str__(self) -> str:
        return json.dumps(self.document, ensure_ascii=False)[:400]


def passed_frames(recording: bytes) -> frozenset[bytes]:
    """The upstream's own documents, each also without its `usage` of null (the one splice that is allowed)."""
    lines = [line[6:] for line in recording.split(b"\n") if line.startswith(b"data: {")]
    return frozenset(lines) | {line.replace(b',"usage":null', b"") for line in lines}


def read_stream(data: bytes, rules: Rules, asked: bool, passed: Collection[bytes] = ()) -> Output:
    output = Output()
    frames = [_document(payload, rules, passed) for payload in _payloads(data, rules)]
    assert frames, "a stream has a frame"
    if "error" in frames[-1].document:
        output.error = _stream_error(frames.pop(), rules)
    chunks = [frame for frame in frames if _is_chunk(frame)]
    output.chunks = len(chunks)
    _read_usage_frames(chunks, output, rules, asked)
    for frame in chunks:
        _check_envelope(frame, output, rules, rules.chunk_object)
        for choice in frame.document["choices"]:
            _read_choice(frame, choice, output, rules)
    if rules.is_bitseek:
        assert output.created == sorted(output.created), "time does not run backwards"
    else:
        assert len(set(output.created)) <= 1, f"created changes: {sorted(set(output.created))}"
    if output.error is None:
        assert output.choices, "a complete answer has a choice"
        unfinished = [index for index, choice in output.choices.items() if choice.finish is None]
        assert not unfinished, f"choices {unfinished} never finish"
    return output


def read_whole(data: bytes, rules: Rules, passed: Collection[bytes] = ()) -> Output:
    output = Output()
    frame = _document(data.removesuffix(b"\n"), rules, passed)
    document = frame.document
    if "error" in document:
        assert list(document) == ["error"], f"an envelope holds the error alone: {frame}"
        output.error = document["error"]
        _check_error_members(document["error"], rules)
        return output
    output.chunks = 1
    _check_envelope(frame, output, rules, "chat.completion")
    assert document["choices"], "a whole answer has a choice"
    for sent in document["choices"]:
        _check_order(frame, sent, WHOLE_CHOICE_ORDER)
        _read_message(frame, sent, output, rules)
    output.usage = document["usage"]
    _check_usage(frame, document["usage"], rules)
    return output


def _payloads(data: bytes, rules: Rules) -> list[bytes]:
    assert data.endswith(b"\n\n"), f"the last frame has no blank line: {data[-80:]!r}"
    frames = data[:-2].split(b"\n\n")
    for frame in frames:
        assert frame.startswith(b"data: "), f"only data lines: {frame[:80]!r}"
        assert b"\n" not in frame, f"one line per frame: {frame[:200]!r}"
        assert b"\r" not in frame, f"LF only: {frame[:200]!r}"
    payloads = [frame[6:] for frame in frames]
    if rules.has_terminator:
        assert payloads.pop() == b"[DONE]", f"the terminator is last: {data[-80:]!r}"
    assert b"[DONE]" not in payloads, "one terminator, and nothing after it"
    return payloads


def _document(payload: bytes, rules: Rules, passed: Collection[bytes]) -> _Frame:
    document = json.loads(payload)
    assert isinstance(document, dict), f"a document is an object: {payload[:80]!r}"
    is_passed = rules.is_openai and payload in passed
    if json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") != payload:
        bare = STRING.sub(b"", payload)
        assert not re.search(rb"\s", bare), f"JSON is compact: {payload[:200]!r}"
        assert is_passed or not NEEDLESS_ESCAPE.search(payload), f"JSON is raw UTF-8: {payload[:200]!r}"
    return _Frame(document, is_passed)


def _is_chunk(frame: _Frame) -> bool:
    assert "error" not in frame.document, f"nothing but the terminator follows an error: {frame}"
    return True


def _stream_error(frame: _Frame, rules: Rules) -> dict[str, Any]:
    document = frame.document
    if rules.is_bitseek:
        assert list(document) == ["id", "object", "created", "model", "choices", "error"], f"{frame}"
        assert document["choices"] == [], f"an error frame has no choice: {frame}"
    else:
        assert list(document) == ["error"], f"an error frame holds the error alone: {frame}"
    error: dict[str, Any] = document["error"]
    _check_error_members(error, rules)
    for name, word in rules.stream_error.items():
        assert error[name] == word, f"{name} of an upstream's failure is {word}: {frame}"
    if "code" in rules.error_members and "code" not in rules.stream_error:
        assert error["code"] in STREAM_CODES, f"the code of an upstream's failure in a stream: {frame}"
    assert error.get("param") is None, f"a frame of an error has no param: {frame}"
    return error


def _check_error_members(error: dict[str, Any], rules: Rules) -> None:
    assert tuple(error) == rules.error_members, f"members of an error: {error}"
    assert isinstance(error["message"], str), f"{error}"
    assert error["message"], f"{error}"
    assert isinstance(error["type"], str), f"{error}"


def _check_order(frame: _Frame, members: dict[str, Any], order: tuple[str, ...]) -> None:
    if not frame.is_passed:
        assert list(members) == [name for name in order if name in members], f"order of members: {frame}"


def _check_envelope(frame: _Frame, output: Output, rules: Rules, object_name: str) -> None:
    document = frame.document
    extras = {"citations", "search_results"} if rules.is_openai else set()
    _check_order(frame, {name: value for name, value in document.items() if name not in extras}, CHUNK_ORDER)
    for name in ("id", "object", "created", "model", "choices"):
        assert name in document, f"{name} is absent: {frame}"
    assert document["object"] == object_name, f"object: {frame}"
    output.id = output.id or document["id"]
    assert document["id"] == output.id, f"the id changes from {output.id}: {frame}"
    assert isinstance(document["created"], int), f"{frame}"
    output.created.append(document["created"])
    output.model = output.model or document["model"]
    assert document["model"] == output.model, f"the model changes from {output.model}: {frame}"
    for name in LABELS:
        if name in document:
            assert rules.is_openai, f"this dialect has no {name}: {frame}"
            output.labels.setdefault(name, []).append(document[name])


def _read_usage_frames(chunks: list[_Frame], output: Output, rules: Rules, asked: bool) -> None:
    told = [i for i, frame in enumerate(chunks) if frame.document.get("usage") is not None]
    is_due = rules.includes_usage(asked)
    if output.error is None:
        assert len(told) == (1 if is_due else 0), f"usage stands in {len(told)} frames"
    else:
        assert len(told) <= (1 if is_due else 0), f"usage stands in {len(told)} frames"
    for i, frame in enumerate(chunks):
        has_member = "usage" in frame.document
        if i in told:
            assert i == len(chunks) - 1, f"usage comes after everything else: {frame}"
            output.usage = frame.document["usage"]
            _check_usage(frame, frame.document["usage"], rules)
            if rules.usage_on_finish:
                assert frame.document["choices"][0]["finish_reason"], f"usage rides on the finish: {frame}"
            else:
                assert frame.document["choices"] == [], f"the usage frame has no choice: {frame}"
        else:
            assert has_member == (rules.null_usage and asked), f"usage member where none belongs, or none: {frame}"
            assert frame.document["choices"], f"only the usage frame has no choice: {frame}"


def _check_usage(frame: _Frame, usage: dict[str, Any], rules: Rules) -> None:
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert isinstance(usage[name], int), f"{name} is no count: {frame}"
        assert usage[name] >= 0, f"{name} is negative: {frame}"
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"], f"total: {frame}"
    if frame.is_passed:
        return
    if rules.is_openai:
        _check_order(frame, usage, USAGE_ORDER)
        return
    assert list(usage)[:3] == list(USAGE_ORDER[:3]), f"order of members: {frame}"
    allowed = {"prompt_tokens_details": rules.prompt_details, "completion_tokens_details": rules.completion_details}
    for name in list(usage)[3:]:
        details = usage[name]
        assert details, f"no empty objects: {frame}"
        assert set(details) <= set(allowed.get(name, ())), f"details that this dialect does not have: {frame}"
        assert None not in details.values(), f"only what was reported: {frame}"


def _read_choice(frame: _Frame, sent: dict[str, Any], output: Output, rules: Rules) -> None:
    index, delta, word = sent["index"], sent["delta"], sent["finish_reason"]
    _check_order(frame, sent, CHOICE_ORDER)
    if rules.is_bitseek:
        assert index == 0, f"choice 0 alone: {frame}"
    is_first = index not in output.choices
    choice = output.choices.setdefault(index, Choice())
    assert choice.finish is None, f"a frame after the choice finished: {frame}"
    _read_logprobs(frame, sent, choice, output, rules)
    if word is not None:
        assert delta == rules.finish_delta, f"the delta of a finish: {frame}"
        assert word in rules.finish_reasons.values(), f"a finish word of this dialect: {frame}"
        assert not is_first or rules.first_delta is None, f"a choice opens with its role: {frame}"
        choice.finish = word
    elif is_first and rules.first_delta is not None:
        _check_opening(frame, delta, choice, rules)
    else:
        assert "role" not in delta, f"the role stands once: {frame}"
        _read_delta(frame, delta, choice, rules, bool(sent.get("logprobs")))


def _check_opening(frame: _Frame, delta: dict[str, Any], choice: Choice, rules: Rules) -> None:
    if not frame.is_passed:
        assert delta == rules.first_delta, f"the first delta of a choice: {frame}"
        assert list(delta) == list(rules.first_delta or ()), f"order of the first delta: {frame}"
        return
    assert delta["role"] == "assistant", f"the first delta of a choice: {frame}"
    assert not delta.get("content"), f"no text beside the role: {frame}"
    assert delta.get("refusal") is None, f"no refusal beside the role: {frame}"
    others = set(delta) - {"role", "content", "refusal", "tool_calls", "function_call"}
    assert not others, f"what may stand beside the role: {frame}"
    _read_delta(frame, {name: delta[name] for name in delta if name != "role"}, choice, rules, False)


def _read_logprobs(frame: _Frame, sent: dict[str, Any], choice: Choice, output: Output, rules: Rules) -> None:
    if "logprobs" not in sent:
        return
    assert rules.is_openai, f"this dialect has no logprobs: {frame}"
    output.has_logprobs = True
    for name, entries in (sent["logprobs"] or {}).items():
        choice.logprobs.setdefault(name, []).extend(entries or [])


def _read_delta(frame: _Frame, delta: dict[str, Any], choice: Choice, rules: Rules, has_logprobs: bool) -> None:
    allowed = {"content", "tool_calls"} | rules.delta_members
    if not rules.is_bitseek:
        allowed.add("reasoning_content")
    assert set(delta) <= allowed, f"members of a delta: {frame}"
    if not frame.is_passed:
        assert delta, f"a delta without news: {frame}"
        empty = [name for name, value in delta.items() if not value]
        assert not empty or (empty == ["content"] and has_logprobs), f"{empty} without news: {frame}"
    choice.say(delta.get("content"))
    choice.think(delta.get("reasoning_content"))
    choice.refuse(delta.get("refusal"))
    for entry in delta.get("reasoning_details") or []:
        choice.sign(entry.get("signature"))
        choice.sign(entry.get("data"))
    for entry in delta.get("tool_calls") or []:
        _read_call(frame, entry, choice, rules)
    if delta.get("function_call"):
        _read_legacy_call(frame, delta["function_call"], choice)


def _as_function(entry: dict[str, Any], rules: Rules) -> dict[str, Any]:
    """A free-form call in the form of a function's: only `openai` has a form of its own for it."""
    custom = entry.get("custom")
    if not isinstance(custom, dict) or not rules.is_openai:
        return entry
    assert entry.get("type", "custom") == "custom", f"the type of a free-form call: {entry}"
    function = {"arguments" if name == "input" else name: value for name, value in custom.items()}
    told = {name: function if name == "custom" else value for name, value in entry.items()}
    told = {"function" if name == "custom" else name: value for name, value in told.items()}
    return {**told, "type": "function"} if "type" in told else told


def _read_call(frame: _Frame, entry: dict[str, Any], choice: Choice, rules: Rules) -> None:
    entry = _as_function(entry, rules)
    index, function = entry["index"], entry["function"]
    if index < len(choice.calls) and not rules.is_bitseek:
        assert set(entry) == {"index", "function"}, f"a piece of a call: {frame}"
        assert set(function) == {"arguments"}, f"a piece of a call: {frame}"
        assert function["arguments"] or frame.is_passed, f"an empty piece of a call: {frame}"
        choice.calls[index].arguments = str(choice.calls[index].arguments) + function["arguments"]
        return
    assert index == len(choice.calls), f"calls are counted 0, 1, 2: {frame}"
    order = ("index", "id", "type", "function")
    assert set(entry) == set(order), f"the opener of a call: {frame}"
    _check_order(frame, entry, order)
    assert entry["type"] == "function", f"the opener of a call: {frame}"
    assert set(function) == {"name", "arguments"}, f"the opener of a call: {frame}"
    assert isinstance(entry["id"], str), f"a call has an id: {frame}"
    assert entry["id"], f"a call has an id: {frame}"
    assert rules.is_bitseek or function["arguments"] == "", f"the opener of a call has no arguments: {frame}"
    choice.calls.append(Call(entry["id"], function["name"], function["arguments"]))


def _read_legacy_call(frame: _Frame, sent: dict[str, Any], choice: Choice) -> None:
    if choice.calls:
        assert set(sent) == {"arguments"}, f"a piece of a legacy call: {frame}"
        choice.calls[0].arguments = str(choice.calls[0].arguments) + sent["arguments"]
    else:
        assert list(sent) == ["name", "arguments"] or frame.is_passed, f"the opener of a legacy call: {frame}"
        assert sent["arguments"] == "", f"the opener of a legacy call has no arguments: {frame}"
        choice.calls.append(Call(None, sent["name"], "", legacy=True))


def _read_message(frame: _Frame, sent: dict[str, Any], output: Output, rules: Rules) -> None:
    message = sent["message"]
    assert sent["index"] not in output.choices, f"a choice stands once: {frame}"
    choice = output.choices.setdefault(sent["index"], Choice())
    allowed = {"role", "content", "reasoning_content", "tool_calls"} | rules.delta_members
    assert frame.is_passed or set(message) <= allowed, f"members of a message: {sorted(message)}"
    assert message["role"] == "assistant", f"{frame}"
    assert "content" in message, f"a message has content, if null: {frame}"
    choice.say(message["content"])
    choice.think(message.get("reasoning_content"))
    choice.refuse(message.get("refusal"))
    for entry in message.get("reasoning_details") or []:
        choice.sign(entry.get("signature"))
        choice.sign(entry.get("data"))
    for sent_call in message.get("tool_calls") or []:
        entry = _as_function(sent_call, rules)
        assert list(entry) == ["id", "type", "function"] or frame.is_passed, f"a call of a message: {entry}"
        function = entry["function"]
        choice.calls.append(Call(entry["id"], function["name"], function["arguments"]))
    legacy = message.get("function_call")
    if legacy:
        choice.calls.append(Call(None, legacy["name"], legacy["arguments"], legacy=True))
    _read_logprobs(frame, sent, choice, output, rules)
    assert sent["finish_reason"] in rules.finish_reasons.values(), f"a finish word of this dialect: {frame}"
    choice.finish = sent["finish_reason"]
