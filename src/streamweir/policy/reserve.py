"""The size of a reservation: an upper bound of the prompt, and as much answer as can be paid for.

A reservation is an upper bound of the cost only if the provider gets a limit for the answer that the reservation
covers. So if money is limited, every answer has a limit: the caller's own, or a smaller one that can be paid for.
Without a caller's limit it is a share of the available amount, so that one request does not use all of it. Every
series of sizes here is finite and strictly decreasing, so trying one after the other ends. This module knows prices,
but neither accounts nor their owners.
"""

from msgspec import Struct

from streamweir.policy.prices import Quote

MIN_ANSWER_TOKENS = 64
"""Tokens per choice: a request that could have fewer is not sent."""
_SHARE = 16
"""The reservation for an answer without a limit is this fraction of the available amount, if that is more than the
default."""
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


class Size(Struct, frozen=True):
    """What is reserved, in tokens."""

    prompt: int
    answer: int
    """Of all choices together."""


def wanted_size(need: Need, quote: Quote, available: int | None) -> Size:
    """What to reserve if it fits. `available`: nano-dollars; None: not known."""
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
        return Size(prompt, wanted.answer)
    per_choice = min(affordable - need.extra_output, wanted.answer) // need.choices
    minimum = min(MIN_ANSWER_TOKENS, wanted.answer // need.choices)
    return Size(prompt, per_choice * need.choices) if per_choice >= max(1, minimum) else None


def limit_of(need: Need, size: Size) -> tuple[int | None, tuple[str, ...]]:
    """The limit per choice that is sent to the provider instead of the caller's, and its name in the request record.
    None: the caller's limit is sent."""
    if need.limit is not None and size.answer >= need.limit:
        return None, ()
    return size.answer // need.choices, ("max_tokens_set" if need.limit is None else "max_tokens_lowered",)


def extension_sizes(covered: int, needed: int, step: int) -> tuple[int, ...]:
    """The sizes to which a reservation of `covered` tokens may be extended for an answer that already has `needed`.

    The last is `needed`. Empty: the reservation covers it.
    """
    if needed <= covered:
        return ()
    sizes = []
    while covered + step > needed:
        sizes.append(covered + step)
        step //= _STEP_DIVISOR
    return (*sizes, needed)
