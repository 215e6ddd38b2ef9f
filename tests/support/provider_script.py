"""Scripts for a scripted upstream that answers in place of a provider.

A short question has a few words, a long one sixty; a limit of tokens is kept, and a tool that is offered with
force is called. Asked for several choices, it gives as many. The wires are those of `support.answers`; what a
gateway makes of them is for the tests to say.
"""

import json
from collections.abc import Sequence
from typing import Any

from support.answers import (
    MODEL,
    TEXTS,
    anthropic_frames,
    anthropic_whole,
    gemini_frames,
    gemini_whole,
    openai_frames,
    openai_whole,
    responses_frames,
    responses_whole,
)
from support.script import End, Head, Script, Seen, Send, Step, whole

_LONG = tuple(f" {number}," for number in range(1, 61))
_PROMPT = 9
_FINISHES = {
    "openai": ("stop", "length"),
    "anthropic": ("end_turn", "max_tokens"),
    "gemini": ("STOP", "MAX_TOKENS"),
    "responses": ("", "max_output_tokens"),
}
_ARGUMENTS = {"city": "Paris"}


def script_of(protocol: str) -> Script:
    """`protocol`: openai, anthropic, gemini or responses."""
    answer = {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini, "responses": _responses}[protocol]

    def play(request: Seen) -> Sequence[Step]:
        asked = request.json
        limit = _limit(asked)
        texts = (_LONG if "sixty" in json.dumps(asked) else TEXTS)[:limit]
        finish = _FINISHES[protocol][len(texts) == limit]
        return [_with_own_id(step, request.number) for step in answer(request, asked, texts, finish)]

    return play


def _with_own_id(step: Step, number: int) -> Step:
    """No two answers of a provider have the same id."""
    return Send(step.data.replace(b"Scripted", b"%08d" % number)) if isinstance(step, Send) else step


def _limit(asked: dict[str, Any]) -> int | None:
    config = asked.get("generationConfig") or {}
    names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
    found = [asked[name] for name in names if name in asked] + [config.get("maxOutputTokens")]
    return next((limit for limit in found if isinstance(limit, int)), None)


def _stream(frames: Sequence[bytes]) -> list[Step]:
    return [Head(), *(Send(frame) for frame in frames), End()]


def _openai(_: Seen, asked: dict[str, Any], texts: Sequence[str], finish: str) -> Sequence[Step]:
    usage = (_PROMPT, len(texts))
    if not asked.get("stream"):
        return whole(openai_whole("".join(texts), usage, finish))
    if asked.get("tools"):
        return _stream(_openai_call(asked))
    frames = openai_frames(texts, usage, finish)
    return _stream([*_of_each_choice(frames[:-2], asked.get("n", 1)), *frames[-2:]])


def _openai_call(asked: dict[str, Any]) -> list[bytes]:
    head = {"id": "chatcmpl-ScriptedCall0001", "object": "chat.completion.chunk", "created": 1_744_220_042}
    name = asked["tools"][0]["function"]["name"]
    opener = {"index": 0, "id": "call_scripted", "type": "function", "function": {"name": name, "arguments": ""}}
    deltas: list[tuple[dict[str, Any], str | None]] = [
        ({"role": "assistant", "content": None, "tool_calls": [opener]}, None),
        ({"tool_calls": [{"index": 0, "function": {"arguments": json.dumps(_ARGUMENTS)}}]}, None),
        ({}, "tool_calls"),
    ]
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None} for delta, finish in deltas
    ]
    usage = {"prompt_tokens": _PROMPT, "completion_tokens": 3, "total_tokens": _PROMPT + 3}
    chunks.append({"choices": [], "usage": usage})
    frames = [_frame({**head, "model": MODEL["openai"], **chunk}) for chunk in chunks]
    return [*frames, b"data: [DONE]\n\n"]


def _anthropic(_: Seen, asked: dict[str, Any], texts: Sequence[str], finish: str) -> Sequence[Step]:
    usage = (_PROMPT, len(texts))
    if not asked.get("stream"):
        return whole(anthropic_whole("".join(texts), usage).replace(b'"end_turn"', b'"%b"' % finish.encode()))
    return _stream(anthropic_frames(texts, usage, finish))


def _responses(_: Seen, asked: dict[str, Any], texts: Sequence[str], finish: str) -> Sequence[Step]:
    usage = (_PROMPT, len(texts))
    if not asked.get("stream"):
        return whole(responses_whole("".join(texts), usage, finish))
    return _stream(responses_frames(texts, usage, finish))


def _of_each_choice(frames: Sequence[bytes], choices: int) -> list[bytes]:
    return [frame.replace(b'"index":0', b'"index":%d' % index) for frame in frames for index in range(choices)]


def _gemini(request: Seen, asked: dict[str, Any], texts: Sequence[str], finish: str) -> Sequence[Step]:
    usage = (_PROMPT, len(texts))
    if "streamGenerateContent" not in request.path:
        return whole(gemini_whole("".join(texts), usage).replace(b'"STOP"', b'"%b"' % finish.encode()))
    choices = (asked.get("generationConfig") or {}).get("candidateCount", 1)
    return _stream(_of_each_choice(gemini_frames(texts, usage, finish), choices))


def _frame(document: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % json.dumps(document, separators=(",", ":")).encode()


KINDS = {
    "openai": "openai",
    "azure": "openai",
    "openai-compatible": "openai",
    "groq": "openai",
    "deepseek": "openai",
    "mistral": "openai",
    "openrouter": "openai",
    "vllm": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
"""Providers of the configuration, and whose wire each of them has."""
