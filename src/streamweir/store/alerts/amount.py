"""Amounts as alerts say them, and how much of one counts as used up if requests are refused."""

from streamweir.policy.limits.budget import dollars_of

REFUSED_PERCENT = 90
"""If requests are refused and so much of a budget is spent, it is used up."""


def usd(nano: int) -> str:
    """Exact dollars as text, without trailing zeros."""
    return format(dollars_of(nano), "f").rstrip("0").rstrip(".")
