"""What a recording carries, as values: what any dialect's output of it is compared with.

Filled by the plain readings (`reading_openai`, `reading_anthropic`, `reading_gemini`), which
are written without the engine, so that the corpus test does not ask the engine to judge
itself. Words and counts are OpenAI's: finish reasons `stop`, `length`, `tool_calls`,
`content_filter`, `function_call`; cached input inside the prompt, reasoning inside the completion.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

Ending = Literal["complete", "truncated", "error"]

MOST_TOKENS = 2**53


@dataclass
class Call:
    id: str | None
    name: str
    arguments: str | dict[str, Any]
    """An object where the wire sent one: then any JSON text that means the same will do."""
    legacy: bool = False
    index: object = None
    """The vendor's own index, by which its pieces are told apart."""


@dataclass
class Choice:
    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    spoken: str = ""
    """Text and refusal in the order in which they came: some dialects have only one place for both."""
    calls: list[Call] = field(default_factory=list)
    finish: str | None = None
    logprobs: dict[str, list[Any]] = field(default_factory=dict)
    signatures: list[str] = field(default_factory=list)
    """What must come back on the next turn: signatures, and reasoning that is encrypted."""

    def say(self, text: object) -> None:
        if isinstance(text, str):
            self.text += text
            self.spoken += text

    def think(self, text: object) -> None:
        if isinstance(text, str):
            self.reasoning += text

    def refuse(self, text: object) -> None:
        if isinstance(text, str):
            self.refusal += text
            self.spoken += text

    def sign(self, signature: object) -> None:
        if isinstance(signature, str) and signature:
            self.signatures.append(signature)


@dataclass
class Counts:
    prompt: int
    completion: int
    cached: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    is_openai: bool = False
    prompt_details: dict[str, Any] = field(default_factory=dict)
    """The two objects of details as an OpenAI-style wire sent them."""
    completion_details: dict[str, Any] = field(default_factory=dict)
    flat: dict[str, int] = field(default_factory=dict)
    """`cached`, `cache_write`, `reasoning` where a vendor put them beside the details: may be shown, need not."""


@dataclass
class Expected:
    ended: Ending = "truncated"
    choices: dict[int, Choice] = field(default_factory=dict)
    usage: Counts | None = None
    id: str | None = None
    """The upstream's id, where it is of the form that goes through."""
    created: int | None = None
    model: str | None = None
    labels: dict[str, list[Any]] = field(default_factory=dict)
    """Every value of `system_fingerprint` and `service_tier` that was sent."""
    frames: int = 0
    """In how many frames these could have stood."""
    sent_logprobs: bool = False

    def choice(self, index: object) -> Choice:
        return self.choices.setdefault(index if isinstance(index, int) else 0, Choice())


def count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS:
        return value
    return None


def with_cached(prompt: int, cached: int | None) -> int:
    """The whole prompt: cached input of which there is more than that is no part of it (docs/spec/quirks.md Q42)."""
    return prompt + cached if cached is not None and cached > prompt else prompt


def completion_within(total: object, prompt: int, completion: int) -> int:
    """Where a total says more than its parts, the difference belongs to the completion."""
    whole = count(total)
    return completion if whole is None else max(completion, whole - prompt)
