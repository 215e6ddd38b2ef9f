"""The metrics about money, keys and workspaces, and the text of all metrics without them.

They are for the operator: nobody else is told what providers ask for, what all workspaces together pay, and what other
workspaces and their keys are called. `server.control.metrics_access` says who gets the text without them. The amounts
are counters, so there is none for the margin, which can fall: it is the difference of two of them.
"""

import re

from msgspec import Struct

from streamweir.policy.limits.budget import NANO


class MoneyMetric(Struct, frozen=True):
    name: str
    tally: str
    """The member of a tally that it shows."""
    about: str
    unit: int = 1


MONEY = (
    MoneyMetric("price_usd", "price", "What requests are sold for, in US dollars.", NANO),
    MoneyMetric("cost_usd", "cost", "What providers ask for requests, in US dollars.", NANO),
    MoneyMetric("unpriced_requests", "unpriced", "Settled requests of models without a price."),
    MoneyMetric("uncosted_requests", "uncosted", "Settled requests whose cost is not known."),
)

NAMES_OF_KEYS = (
    "key_requests_total",
    "key_price_usd_total",
    "key_cost_usd_total",
    "key_budget_used_ratio",
    "workspace_credit_used_ratio",
)
"""Those with names of keys and workspaces (`key_metrics`, `server.accounting.budget_use`)."""
OPERATORS = (*(f"{each.name}_total" for each in MONEY), *NAMES_OF_KEYS)
"""The names of all metrics that are for the operator."""

_LINE = re.compile(rf"(?:# (?:HELP|TYPE) )?streamweir_(?:{'|'.join(OPERATORS)})\b".encode())


def without_money(text: bytes) -> bytes:
    return b"".join(line for line in text.splitlines(keepends=True) if not _LINE.match(line))
