"""The calculation of a cost, line by line, for display: tokens times rate, and the rounding.

Pure. Nothing is charged by it: charges are computed by `policy.pricing.prices.cost_of`, and the lines add up to that
exactly. A rate is in nano-dollars per million tokens, so the cost of a token is a multiple of a millionth of a
nano-dollar (1e-15 dollars, a femto-dollar). In these units every line is exact. The difference from rounding to a
nano-dollar is the last line.
"""

from decimal import Decimal

from msgspec import Struct

from streamweir.core.usage import Usage
from streamweir.policy.pricing.prices import Rates, cost_of

FEMTO = 1_000_000
"""Per nano-dollar."""
ROUNDING = "rounding"


class BillLine(Struct, frozen=True, kw_only=True):
    what: str
    """A member of `Rates`, or `rounding`."""
    tokens: int | None = None
    """None, like the rate, for a line without tokens."""
    count: int | None = None
    """Of a line for other things than tokens: searches."""
    rate: int | None = None
    """Nano-dollars per million tokens."""
    amount: int
    """Femto-dollars. Negative if a cost was rounded down."""


def bill_of(usage: Usage, rates: Rates, service_tier: str | None = None) -> list[BillLine]:
    """The same arguments as `cost_of`. Unused categories have no line."""
    if not usage.total_tokens and not usage.searches:
        return []
    found = rates.in_force(usage.prompt_tokens, service_tier)
    parts = (
        ("input", usage.input_uncached, found.input),
        ("cache_read", usage.cache_read, found.of_cache_read()),
        ("cache_write", usage.cache_write_5m, found.of_cache_write()),
        ("cache_write_1h", usage.cache_write_1h, found.of_cache_write_1h()),
        ("audio_input", usage.audio_input, found.of_audio_input()),
        ("image_input", usage.image_input, found.of_image_input()),
        ("output", usage.output, found.output),
        ("reasoning", usage.reasoning, found.of_reasoning()),
        ("audio_output", usage.audio_output, found.of_audio_output()),
        ("image_output", usage.image_output, found.of_image_output()),
    )
    lines = [
        BillLine(what=what, tokens=tokens, rate=rate, amount=tokens * rate) for what, tokens, rate in parts if tokens
    ]
    if found.per_request:
        lines.append(BillLine(what="per_request", amount=found.per_request * FEMTO))
    if usage.searches and found.per_search:
        amount = usage.searches * found.per_search * FEMTO
        lines.append(BillLine(what="per_search", count=usage.searches, amount=amount))
    rounded = cost_of(usage, rates, service_tier) * FEMTO - sum(line.amount for line in lines)
    if rounded:
        lines.append(BillLine(what=ROUNDING, amount=rounded))
    return lines


def dollars_of_femto(amount: int) -> Decimal:
    return Decimal(f"{amount}e-15")
