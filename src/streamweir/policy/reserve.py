"""What a reservation covers: the most that a prompt can have, and as much answer as there is money for.

A reservation is a true bound only where the provider is asked for no longer an answer than it covers.
So where money is limited every answer has a limit: the caller's own, or a smaller one that can be
paid for. Without a caller's limit it is a share of what is left, so that one request does not take
all of it. Every series here is finite and falls strictly: whoever tries its members one by one comes
to an end, whatever is refused. Knows prices, and neither accounts nor whose money it is.
"""

from msgspec import Struct

from streamweir.policy.prices import Quote

LEAST_ANSWER = 64
"""Tokens for each choice: for less than that nobody is asked."""
_SHARE = 16
"""An answer without a limit is covered by one part in so many of what is left, where that is more than the default."""
_SMALLER = 4
"""Where an extension does not fit, one of this part of it is tried, down to what is needed at once."""


class Need(Struct, frozen=True, kw_only=True):
    """What is known of a request before it is reserved for."""

    prompt: int
    """The most tokens that it can have."""
    limit: int | None
    """Of the answer, of all choices together, as the caller set it."""
    default: int
    """For each choice, where the caller set none and nothing is known of what is left."""
    most: int
    """The longest answer that the model is asked for, for each choice, where the caller set no limit."""
    choices: int = 1
    besides: int = 0
    """Tokens that are billed as output and are not bounded by the limit: a prediction that was not used."""
    service_tier: str | None = None


class Size(Struct, frozen=True):
    """What is reserved, in tokens."""

    prompt: int
    answer: int
    """Of all choices together."""


def wanted_size(need: Need, quote: Quote, left: int | None) -> Size:
    """What to reserve if it fits. `left`: nano-dollars; None: nobody knows."""
    if need.limit is not None:
        return Size(need.prompt, need.limit)
    each = min(need.default, need.most)
    if left is not None:
        share = quote.affords(max(0, left) // _SHARE, 0, need.service_tier)
        each = need.most if share is None else min(need.most, max(each, share // need.choices))
    return Size(need.prompt, each * need.choices)


def fitting_size(need: Need, wanted: Size, quote: Quote, left: int, prompt: int) -> Size | None:
    """As much of what is wanted as `left` pays for, beside a prompt of at most `prompt` tokens. None: too little."""
    affordable = quote.affords(left, prompt, need.service_tier)
    if affordable is None:
        return Size(prompt, wanted.answer)
    each = min(affordable - need.besides, wanted.answer) // need.choices
    least = min(LEAST_ANSWER, wanted.answer // need.choices)
    return Size(prompt, each * need.choices) if each >= max(1, least) else None


def limit_of(need: Need, size: Size) -> tuple[int | None, tuple[str, ...]]:
    """What the provider is told in the place of the caller's limit, for each choice, and what that is called in the
    record. None: what the caller said holds."""
    if need.limit is not None and size.answer >= need.limit:
        return None, ()
    return size.answer // need.choices, ("max_tokens_set" if need.limit is None else "max_tokens_lowered",)


def extension_sizes(covered: int, needed: int, step: int) -> tuple[int, ...]:
    """What to extend a reservation of `covered` tokens to, for an answer that has `needed` tokens already.

    `needed` itself is the last. Empty: the reservation covers it.
    """
    if needed <= covered:
        return ()
    sizes = []
    while covered + step > needed:
        sizes.append(covered + step)
        step //= _SMALLER
    return (*sizes, needed)
