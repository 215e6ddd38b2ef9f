"""The size of a reservation: an upper bound of the prompt, and a first slice of the answer or all of it.

An answer is reserved whole. That is an upper bound of the cost only if the provider gets a limit for the answer that
the reservation covers: the caller's own, or a smaller one that can be paid for. Without a caller's limit it is a share
of the available amount, so that one request does not use all of it. A caller's limit that does not fit beside others is
lowered to what an answer hardly ever needs, so that many short answers with a large limit run at once.

An answer that can be cut (it is streamed, and its whole cost is seen meanwhile) is reserved in slices: the first before
it begins, further ones while it is streamed. Its provider gets the caller's limit. What it may still need is its plan,
which is counted but not held.

Every series of sizes here is finite and strictly decreasing, so trying one after the other ends. This module knows
prices, but neither accounts nor their owners.
"""

from msgspec import Struct

from streamweir.policy.pricing.prices import Quote

MIN_ANSWER_TOKENS = 64
"""Tokens per choice: a request that could have fewer is not sent."""
_SHARE = 16
"""The reservation for an answer without a limit is this fraction of the available amount, if that is more than the
default."""
_PART = 4
"""A caller's limit that does not fit is not lowered below this part of the available amount."""
_STEP_DIVISOR = 4
"""If an extension does not fit, it is divided by this and tried again, down to what is needed at once."""


class Need(Struct, frozen=True, kw_only=True):
    """What is known of a request before its reservation."""

    prompt: int
    """The maximum number of tokens of the prompt."""
    limit: int | None
    """The caller's limit of the answer, for all choices together."""
    default: int
    """Per choice, if the caller set no limit and the available amount is not known."""
    max_answer: int
    """The longest answer that is requested from the model, per choice, if the caller set no limit."""
    choices: int = 1
    extra_output: int = 0
    """Tokens that are billed as output and are not bounded by the limit, such as an unused prediction."""
    service_tier: str | None = None
    reasons: bool = False
    """The caller asks for reasoning."""
    never_hides: bool = False
    """No model that may answer bills what it does not show, as documented."""
    is_cuttable: bool = False
    """It is streamed, and what it costs is seen while it is."""
    first: int = 0
    """The first slice of an answer that can be cut, per choice."""
    expected: int | None = None
    """How long its answer will hardly ever be, for all choices together. None: not known."""

    @property
    def longest(self) -> int:
        """The limit that an answer has in any case, for all choices together."""
        return self.limit if self.limit is not None else self.max_answer * self.choices


class Size(Struct, frozen=True):
    """What is reserved, in tokens."""

    prompt: int
    answer: int
    """Of all choices together."""
    planned: int = 0
    """What the answer may need beyond that."""


def wanted_size(need: Need, quote: Quote, available: int | None) -> Size:
    """What to reserve if it fits. `available`: nano-dollars; None: not known."""
    if need.is_cuttable:
        first = min(need.longest, need.first * need.choices)
        expected = need.longest if need.expected is None else min(need.longest, need.expected)
        return Size(need.prompt, first, max(0, expected - first))
    if need.limit is not None:
        return Size(need.prompt, need.limit)
    per_choice = min(need.default, need.max_answer)
    if available is not None:
        share = quote.affords(max(0, available) // _SHARE, 0, need.service_tier)
        per_choice = need.max_answer if share is None else min(need.max_answer, max(per_choice, share // need.choices))
    return Size(need.prompt, per_choice * need.choices)


def fitting_size(need: Need, wanted: Size, quote: Quote, available: int, prompt: int) -> Size | None:
    """The part of `wanted` that `available` pays for, with a prompt of at most `prompt` tokens. None: too little."""
    affordable = quote.affords(available, prompt, need.service_tier)
    if affordable is None or (wanted.answer == 0 and affordable >= 0):
        return Size(prompt, wanted.answer, wanted.planned)
    per_choice = min(affordable - need.extra_output, wanted.answer) // need.choices
    minimum = min(MIN_ANSWER_TOKENS, wanted.answer // need.choices)
    if per_choice < max(1, minimum):
        return None
    return Size(prompt, per_choice * need.choices, wanted.planned)


def shortened_size(need: Need, quote: Quote, available: int, prompt: int) -> Size | None:
    """What to reserve whole if the caller's limit does not fit beside other requests: as much as the answer will hardly
    ever need. None: that is not known, or no less than the limit."""
    if need.limit is None or need.expected is None:
        return None
    part = quote.affords(max(0, available) // _PART, 0, need.service_tier)
    if part is None:
        return None
    per_choice = max(need.default, -(-need.expected // need.choices), part // need.choices)
    answer = per_choice * need.choices
    return Size(prompt, answer) if answer < need.limit else None


def smallest_size(need: Need, wanted: Size, prompt: int) -> Size:
    """What is needed at least, with a prompt of `prompt` tokens."""
    per_choice = min(MIN_ANSWER_TOKENS, wanted.answer // need.choices)
    return Size(prompt, per_choice * need.choices)


def limit_of(need: Need, covered: int) -> tuple[int | None, tuple[str, ...]]:
    """The limit per choice that is sent to the provider instead of the caller's, and its name in the request record.
    `covered`: the longest answer that can be paid for, for all choices. None: the caller's limit is sent."""
    if need.limit is not None and covered >= need.limit:
        return None, ()
    return covered // need.choices, ("max_tokens_set" if need.limit is None else "max_tokens_lowered",)


def extension_sizes(covered: int, needed: int, step: int, longest: int | None = None) -> tuple[int, ...]:
    """The sizes to which a reservation of `covered` tokens may be extended for an answer that already has `needed`.
    `longest`: no more than that is reserved, unless it is needed.

    The last is `needed`. Empty: the reservation covers it.
    """
    if needed <= covered:
        return ()
    sizes = []
    if longest is not None:
        step = min(step, max(longest, needed) - covered)
    while covered + step > needed:
        sizes.append(covered + step)
        step //= _STEP_DIVISOR
    return (*sizes, needed)
