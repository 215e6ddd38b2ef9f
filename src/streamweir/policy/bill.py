"""The arithmetic of a cost, line by line, for whoever wants to follow it: tokens times rate, and what was rounded.

Pure, and never what anything is charged by: that is `policy.prices.cost_of`, and the lines add up to
it exactly. A rate is nano-dollars for a million tokens, so a token at a rate costs so many millionths
of a nano-dollar (1e-15 dollars, a femto-dollar): in these every line is exact, and what rounding to a
nano-dollar has added or taken stands in a line of its own at the end.
"""

from decimal import Decimal

from msgspec import Struct

from streamweir.core.usage import Usage
from streamweir.policy.prices import Rates, cost_of

FEMTO = 1_000_000
"""In a nano-dollar."""
ROUNDING = "rounding"


class BillLine(Struct, frozen=True, kw_only=True):
    what: str
    """As the members of `Rates` are called, or `rounding`."""
    tokens: int | None = None
    """None: not for tokens, as is the next."""
    rate: int | None = None
    """Nano-dollars for a million."""
    amount: int
    """Femto-dollars. Less than nothing where a cost was rounded down."""


def bill_of(usage: Usage, rates: Rates, service_tier: str | None = None) -> list[BillLine]:
    """Arguments as of `cost_of`. What was not used has no line."""
    if not usage.total_tokens:
        return []
    found = rates.in_force(usage.prompt_tokens, service_tier)
    parts = (
        ("input", usage.input_uncached, found.input),
        ("cache_read", usage.cache_read, found.of_cache_read()),
        ("cache_write", usage.cache_write_5m, found.of_cache_write()),
        ("cache_write_1h", usage.cache_write_1h, found.of_cache_write_1h()),
        ("audio_input", usage.audio_input, found.of_audio_input()),
        ("output", usage.output, found.output),
        ("reasoning", usage.reasoning, found.of_reasoning()),
        ("audio_output", usage.audio_output, found.of_audio_output()),
    )
    lines = [
        BillLine(what=what, tokens=tokens, rate=rate, amount=tokens * rate) for what, tokens, rate in parts if tokens
    ]
    if found.per_request:
        lines.append(BillLine(what="per_request", amount=found.per_request * FEMTO))
    rounded = cost_of(usage, rates, service_tier) * FEMTO - sum(line.amount for line in lines)
    if rounded:
        lines.append(BillLine(what=ROUNDING, amount=rounded))
    return lines


def dollars_of_femto(amount: int) -> Decimal:
    return Decimal(f"{amount}e-15")
