"""What each caller and its upstream will do: drawn from a seed, by the number of the call.

The same seed gives the same plans, whatever happened in between. What is not repeated is the order in which the
kernel delivers bytes, so a seed that failed once may have to be tried several times.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from support.dialect_rules import NAMES

T = TypeVar("T")

CALLERS = {
    "reads": 8,
    "leaves while it asks": 1,
    "leaves when it has asked": 3,
    "leaves in the midst": 4,
    "leaves with the turn": 8,
    "asks several at once": 3,
    "asks one after the other": 2,
    "reads slowly": 2,
    "stalls its body": 1,
    "sends its body in chunks": 2,
    "has no right": 2,
}
"""What a caller does, and how often of all."""

UPSTREAMS = {
    "answers": 8,
    "outgrows its hold": 6,
    "reports more than was held": 9,
    "says nothing of usage": 2,
    "sends comments": 2,
    "sends a large frame": 2,
    "is slow": 3,
    "answers every choice": 2,
    "leaves a choice out": 1,
    "ends in the midst": 2,
    "resets in the midst": 2,
    "resets at once": 1,
    "sends an error in the midst": 1,
    "sends an error": 3,
    "sends no JSON": 1,
    "falls silent": 1,
    "never answers": 1,
}
BROKEN = frozenset(
    {"leaves a choice out", "ends in the midst", "resets in the midst", "sends an error in the midst", "falls silent"}
)
"""A stream of these never looks complete."""
CHOICES = frozenset({"answers every choice", "leaves a choice out"})
"""Asked for with n = 2, which of the wires of the test OpenAI's has."""

LEAVINGS = ("fin", "rst", "half-close")
DIALECTS = ("openai", "openai", *NAMES)
WIRES = ("openai", "openai", "anthropic", "gemini")
KEYS = {"plain": 6, "budget": 9, "prepaid": 6, "rpm": 1, "tpm": 1, "streams": 2, "kept": 1, "passing": 2}
"""What bounds the key. `passing`: some configurations have it, others do not."""
KEYS_EACH = 2
"""So many of each: few, so that several streams of one key are under way, and one of them exhausts it."""
ERRORS = {400: 8, 401: 8, 404: 8, 500: 8, 503: 8, 429: 1}
"""The last one seldom: for a second nobody else is served by that target."""


@dataclass(frozen=True)
class Plan:
    seed: str
    number: int
    caller: str
    upstream: str
    wire: str
    dialect: str
    key: str
    is_streamed: bool
    words: int
    prompt_words: int
    max_tokens: int | None
    leaving: str
    offset: float
    """How far it gets before it leaves, from 0 to 1."""
    pause_s: float
    status: int

    @property
    def mark(self) -> str:
        """By which the upstream knows whose request it has."""
        return f"call-{self.number}."

    @property
    def choices(self) -> int:
        return 2 if self.upstream in CHOICES else 1

    def chance(self, what: str) -> random.Random:
        """For whatever else is to be drawn."""
        return random.Random(f"{self.seed}/{self.number}/{what}")


def plan_of(seed: str, number: int) -> Plan:
    chance = random.Random(f"{seed}/{number}")
    upstream = _draw(chance, UPSTREAMS)
    wire = "openai" if upstream in CHOICES else chance.choice(WIRES)
    return Plan(
        seed=seed,
        number=number,
        caller=_draw(chance, CALLERS),
        upstream=upstream,
        wire=wire,
        dialect=chance.choice(DIALECTS),
        key=f"{_draw(chance, KEYS)}{chance.randrange(KEYS_EACH)}",
        is_streamed=chance.random() < 0.75,
        words=chance.randrange(2, 12),
        prompt_words=chance.choice((1, 1, 5, 200)),
        max_tokens=chance.choice((None, None, None, 5, 5000)),
        leaving=chance.choice(LEAVINGS),
        offset=chance.random(),
        pause_s=chance.choice((0.0, 0.0, 0.001, 0.01)),
        status=_draw(chance, ERRORS),
    )


def _draw(chance: random.Random, weights: Mapping[T, int]) -> T:
    return chance.choices(list(weights), list(weights.values()))[0]
