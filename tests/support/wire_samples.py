"""The three wires side by side, for tests that say the same of each: how it begins, goes wrong and ends.

Bodies come from `answers`. What is expected of the gateway does not stand here.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from support.answers import (
    TEXTS,
    anthropic_error_body,
    anthropic_frames,
    anthropic_whole,
    error_body,
    error_frame,
    gemini_error_body,
    gemini_frames,
    gemini_whole,
    openai_frames,
    openai_whole,
)

BEGUN = "".join(TEXTS[:2])
"""The text of a stream that has begun."""


class Voice(NamedTuple):
    kind: str
    speak: Callable[[Sequence[str]], list[bytes]]
    """The frames of a whole stream."""
    begun: bytes
    """The frames of `BEGUN`, and nothing that says how it ends."""
    unfinished: bytes
    """All the text, and no word of its end."""
    whole: bytes
    """The same, not streamed."""
    error: Callable[[str, str], bytes]
    """The body of a failed response: its message, and one of this wire's own words for what failed."""
    overloaded: str
    """That word for too much load; the next for a fault of the provider's own."""
    failed: str

    @property
    def frames(self) -> list[bytes]:
        return self.speak(TEXTS)

    @property
    def stream(self) -> bytes:
        return b"".join(self.frames)

    def error_frame(self, message: str, word: str) -> bytes:
        body = self.error(message, word)
        return b"event: error\n" + error_frame(body) if self.kind == "anthropic" else error_frame(body)


def _gemini_error(message: str, word: str) -> bytes:
    return gemini_error_body(message, {"UNAVAILABLE": 503, "INTERNAL": 500}[word], word)


OPENAI = Voice(
    "openai",
    openai_frames,
    b"".join(openai_frames(TEXTS[:2], usage=None, finish=None, done=False)),
    b"".join(openai_frames(usage=None, finish=None, done=False)),
    openai_whole(),
    error_body,
    "overloaded",
    "server_error",
)
ANTHROPIC = Voice(
    "anthropic",
    anthropic_frames,
    b"".join(anthropic_frames(TEXTS[:2], finish=None, stop=False)[:-1]),
    b"".join(anthropic_frames(finish=None, stop=False)),
    anthropic_whole(),
    anthropic_error_body,
    "overloaded_error",
    "api_error",
)
GEMINI = Voice(
    "gemini",
    gemini_frames,
    b"".join(gemini_frames(TEXTS[:2], finish=None)),
    b"".join(gemini_frames(finish=None)),
    gemini_whole(),
    _gemini_error,
    "UNAVAILABLE",
    "INTERNAL",
)
VOICES = (OPENAI, ANTHROPIC, GEMINI)
