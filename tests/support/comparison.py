"""Whether an output carries what the recording carries, as far as its dialect has a place for it.

`differences` gives one line per difference, none where all is well. An answer that failed must
still show everything that came before the failure; only a call that was cut may be missing or
short.
"""

import json
from typing import Any

from support.dialect_output import Output
from support.dialect_rules import ALL_COMPLETION_DETAILS, ALL_PROMPT_DETAILS, LABELS, Rules
from support.expected import Call, Choice, Counts, Expected


def differences(expected: Expected, output: Output, rules: Rules, asked_model: str | None) -> list[str]:
    """For a streamed answer, and for a whole one that completed."""
    has_failed = expected.ended != "complete"
    if has_failed != (output.error is not None):
        return [f"the recording is {expected.ended}, the output's error is {output.error}"]
    found = _envelope(expected, output, rules, asked_model) if output.chunks or not has_failed else []
    wanted = {index: choice for index, choice in expected.choices.items() if not rules.is_bitseek or index == 0}
    if not has_failed and set(output.choices) != set(wanted):
        found.append(f"choices: expected {sorted(wanted)}, got {sorted(output.choices)}")
    for index, choice in wanted.items():
        got = output.choices.get(index, Choice())
        found += [f"choice {index}: {line}" for line in _choice(choice, got, rules, has_failed)]
    if not has_failed and expected.usage and output.usage:
        found += _usage(expected.usage, output.usage, rules)
    if rules.is_openai and output.has_logprobs and not expected.sent_logprobs:
        found.append("logprobs, though the upstream sent none")
    return found


def _envelope(expected: Expected, output: Output, rules: Rules, asked_model: str | None) -> list[str]:
    found = []
    if rules.keeps_upstream_id and expected.id:
        if output.id != expected.id:
            found.append(f"id: expected the upstream's {expected.id}, got {output.id}")
    elif not rules.id_format.fullmatch(output.id):
        found.append(f"id: {output.id} is not of the form {rules.id_format.pattern}")
    if rules.shows_asked_model and (asked_model is not None or rules.is_bitseek):
        model = asked_model or ""
    else:
        model = expected.model or output.model
    if output.model != model:
        found.append(f"model: expected {model}, got {output.model}")
    created = expected.created or 0
    if not rules.is_bitseek and output.created and output.created[0] != created:
        found.append(f"created: expected {created}, got {output.created[0]}")
    for name in LABELS if rules.is_openai else ():
        sent, got = expected.labels.get(name, []), output.labels.get(name, [])
        if any(value not in sent for value in got):
            found.append(f"{name}: the upstream sent {sent[:3]}, the output has {got[:3]}")
        is_constant = bool(sent) and len(sent) == expected.frames and all(value == sent[0] for value in sent)
        if is_constant and len(got) != output.chunks:
            found.append(f"{name}: the upstream's {sent[0]} stands on {len(got)} of {output.chunks} chunks")
    return found


def _choice(expected: Choice, got: Choice, rules: Rules, has_failed: bool) -> list[str]:
    found = []
    if rules.is_openai:
        found += _text("text", expected.text, got.text) + _text("refusal", expected.refusal, got.refusal)
    elif joined(got.text) != joined(expected.text + expected.refusal):
        found += _text("content", expected.spoken, got.text)
    found += _text("reasoning", "" if rules.is_bitseek else expected.reasoning, got.reasoning)
    found += _calls(expected.calls, got.calls, rules, has_failed)
    word = rules.finish_reasons.get(expected.finish or "")
    if got.finish != word and not (has_failed and got.finish is None):
        found.append(f"finish_reason: expected {word}, got {got.finish}")
    if rules.has_reasoning_details and not has_failed and expected.signatures:
        lost = [signature for signature in expected.signatures if signature not in "".join(got.signatures)]
        if lost:
            found.append(f"reasoning_details: {len(lost)} signatures are lost, first {lost[0][:40]}")
    if rules.is_openai and {name: entries for name, entries in got.logprobs.items() if entries} != {
        name: entries for name, entries in expected.logprobs.items() if entries
    }:
        found.append("logprobs: entries differ")
    return found


def _text(what: str, expected: str, got: str) -> list[str]:
    expected, got = joined(expected), joined(got)
    if expected == got:
        return []
    same = next((i for i in range(len(expected)) if got[i : i + 1] != expected[i]), len(expected))
    return [
        f"{what}: {len(expected)} characters expected, {len(got)} got, the same up to {same}: "
        f"expected {expected[same : same + 60]!r}, got {got[same : same + 60]!r}"
    ]


def joined(text: str) -> str:
    """An emoji that was cut in two is one character again."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _calls(expected: list[Call], got: list[Call], rules: Rules, has_failed: bool) -> list[str]:
    if rules.is_bitseek:
        # An unfinished call may not be sent: one whose arguments were cut may be missing, no other.
        sent = {call.id for call in got}
        expected = expected[: len(got)] if has_failed else [c for c in expected if _is_whole(c) or c.id in sent]
    if len(expected) != len(got):
        return [f"tool calls: expected {[c.name for c in expected]}, got {[c.name for c in got]}"]
    found = []
    for number, (call, told) in enumerate(zip(expected, got, strict=True)):
        if told.name != call.name:
            found.append(f"call {number}: name expected {call.name}, got {told.name}")
        if not _is_same_arguments(call.arguments, str(told.arguments), has_failed):
            found.append(f"call {number}: arguments expected {call.arguments!r}, got {told.arguments!r}")
        if told.legacy != (call.legacy and rules.is_openai):
            found.append(f"call {number}: legacy expected {call.legacy}, got {told.legacy}")
        if not told.legacy and call.id is not None and told.id != call.id:
            found.append(f"call {number}: id expected {call.id}, got {told.id}")
        if not told.legacy and call.id is None and not str(told.id).startswith("call_"):
            found.append(f"call {number}: a made id begins with call_, got {told.id}")
    ids = [call.id for call in got if not call.legacy]
    if len(set(ids)) != len(ids) and len({call.id for call in expected if call.id}) == len(expected):
        found.append(f"tool calls: ids repeat: {ids}")
    return found


def _is_whole(call: Call) -> bool:
    return _parsed(call.arguments) is not None


def _is_same_arguments(expected: str | dict[str, Any], got: str, has_failed: bool) -> bool:
    if isinstance(expected, dict):
        return _parsed(got) == expected or (has_failed and (not got or _parsed(got) is None))
    return got == expected or (got or "{}") == (expected or "{}") or (has_failed and expected.startswith(got))


def _parsed(arguments: str | dict[str, Any]) -> Any:
    try:
        return json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
    except ValueError:
        return None


def _usage(expected: Counts, got: dict[str, Any], rules: Rules) -> list[str]:
    found = []
    if (got["prompt_tokens"], got["completion_tokens"]) != (expected.prompt, expected.completion):
        found.append(f"usage: expected {expected}, got {got}")
    inputs, outputs = got.get("prompt_tokens_details") or {}, got.get("completion_tokens_details") or {}
    if rules.is_openai:
        return found + _full_details(expected, inputs, outputs, got)
    shown = {
        "cached_tokens": ("cached", expected.cached, inputs),
        "cache_creation_tokens": ("cache_write", expected.cache_write, inputs),
        "cache_write_tokens": ("cache_write", expected.cache_write, inputs),
        "reasoning_tokens": ("reasoning", expected.reasoning, outputs),
    }
    for name in (*rules.prompt_details, *rules.completion_details):
        bucket, value, details = shown[name]
        sent = value if value is not None else expected.flat.get(bucket)
        # quirk: vendors report more reasoning than completion; a part may be cut to fit
        whole = expected.completion if bucket == "reasoning" else expected.prompt
        allowed = {sent, None if sent is None else min(sent, whole)} | ({None} if value is None else set())
        if details.get(name) not in allowed:
            found.append(f"usage: {name} expected {value}, got {got}")
    return found


def _full_details(expected: Counts, inputs: dict[str, Any], outputs: dict[str, Any], got: dict[str, Any]) -> list[str]:
    found = []
    sent: tuple[dict[str, Any], dict[str, Any]]
    if expected.is_openai:
        sent = (expected.prompt_details, expected.completion_details)
    else:
        sent = (
            {**dict.fromkeys(ALL_PROMPT_DETAILS, 0), "cached_tokens": expected.cached or 0},
            {**dict.fromkeys(ALL_COMPLETION_DETAILS, 0), "reasoning_tokens": expected.reasoning or 0},
        )
    for wanted, details in zip(sent, (inputs, outputs), strict=True):
        for name, value in wanted.items():
            is_unknown = name == "audio_tokens" and not expected.is_openai
            if isinstance(value, int) and details.get(name) != value and not (is_unknown and name in details):
                found.append(f"usage: {name} expected {value}, got {got}")
    return found
