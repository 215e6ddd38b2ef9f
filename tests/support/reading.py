"""One recording to what it carries: which plain reading belongs to which family of the corpus."""

import json

from support import reading_anthropic, reading_gemini, reading_openai, reading_responses
from support.expected import Expected

WITHOUT_FINISH = frozenset({"snowflake"})
"""Vendors that send no finish reason at all (docs/spec/quirks.md R18)."""


def read_recording(family: str, body: bytes, provider: str = "") -> Expected:
    """`family`: of the corpus. The body shows whether it is streamed or whole."""
    first = body.lstrip()[:1]
    if first == b"{":
        try:
            document = json.loads(body)
        except ValueError:
            return Expected("error")
        if family == "openai-chat":
            return reading_openai.read_whole(document)
        if family == "anthropic-messages":
            return reading_anthropic.read_whole(document)
        if family == "openai-responses":
            return reading_responses.read_whole(document)
        return reading_gemini.read_whole(document)
    if family == "openai-chat":
        return reading_openai.read_stream(body, sends_finish=provider not in WITHOUT_FINISH)
    if family == "anthropic-messages":
        return reading_anthropic.read_stream(body)
    if family == "openai-responses":
        return reading_responses.read_stream(body)
    return reading_gemini.read_array(body) if first == b"[" else reading_gemini.read_stream(body)
