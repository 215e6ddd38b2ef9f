"""An upstream that caches the beginnings of prompts for each account, as OpenAI does, and conversations that use it.

A prompt of at least `MIN_TOKENS` is cached in steps of `STEP_TOKENS`; each answer reports how much of its prompt was
known to the account (its `authorization`). A token is four characters. `PrefixCache` is a script for a
`ScriptedUpstream`; `Dialogue` makes the bodies of one conversation, turn by turn.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import Any

from support.answers import MODEL, error_body
from support.script import Seen, Step, whole

MIN_TOKENS = 1024
STEP_TOKENS = 128
_SYSTEM = "You are an agent. " + "Follow the rules of this house. " * 100
LIMITED = tuple(whole(error_body("Slow down."), 429, [("retry-after", "30")]))
BROKEN = tuple(whole(error_body("Something broke."), 500))


@dataclass
class PrefixCache:
    """`is_down`: whether an account refuses this request, with `refusal`."""

    is_down: Callable[[str], bool] = lambda _: False
    refusal: Sequence[Step] = LIMITED
    prompt_tokens: int = 0
    cached_tokens: int = 0
    accounts: list[str] = field(default_factory=list)
    """Of each request that was answered."""
    _known: dict[str, set[bytes]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Of all prompt tokens, those that were read from a cache."""
        return self.cached_tokens / self.prompt_tokens

    def __call__(self, request: Seen) -> Sequence[Step]:
        account = request.headers["authorization"]
        if self.is_down(account):
            return self.refusal
        self.accounts.append(account)
        prompt = json.dumps(request.json["messages"])
        tokens, cached = len(prompt) // 4, self._read(account, prompt)
        self.prompt_tokens += tokens
        self.cached_tokens += cached
        usage = {
            "prompt_tokens": tokens,
            "completion_tokens": 1,
            "total_tokens": tokens + 1,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        choice = {"index": 0, "message": {"role": "assistant", "content": "So."}, "finish_reason": "stop"}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL["openai"]}
        return whole(json.dumps({**head, "choices": [choice], "usage": usage}).encode())

    def _read(self, account: str, prompt: str) -> int:
        """The cached tokens. From now on the account knows this prompt."""
        known, cached, at = self._known.setdefault(account, set()), 0, 0
        digest = blake2b(digest_size=16)
        for end in range(MIN_TOKENS, len(prompt) // 4 + 1, STEP_TOKENS):
            digest.update(prompt[at : 4 * end].encode())
            at = 4 * end
            if digest.digest() in known:
                cached = end
            known.add(digest.digest())
        return cached


@dataclass
class Dialogue:
    """Turn by turn: each body repeats all that was said before. The system prompt is the same for all."""

    number: int
    turns: int = 0

    def next_body(self) -> dict[str, Any]:
        self.turns += 1
        messages = [{"role": "system", "content": _SYSTEM}]
        for turn in range(self.turns):
            if turn:
                messages.append({"role": "assistant", "content": "So."})
            messages.append({"role": "user", "content": f"Conversation {self.number}, turn {turn}. " + "word " * 300})
        return {"messages": messages}


def interleaved(conversations: int, turns: int, random: Random) -> Iterator[dict[str, Any]]:
    """The bodies of so many conversations, in a random order that keeps that of each."""
    dialogues = [Dialogue(number) for number in range(conversations) for _ in range(turns)]
    random.shuffle(dialogues)
    known = {each.number: each for each in dialogues}
    for each in dialogues:
        yield known[each.number].next_body()
