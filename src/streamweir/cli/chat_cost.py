"""The cost of an answer, by the prices in the endpoint's list of models (if it is a gateway like ours).

The prices of a model are requested once, with a short timeout; if there are none, no cost is shown. The price is the
highest that may have applied, as in the list.
"""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx2
from msgspec import structs

from streamweir.core.usage import Usage
from streamweir.policy.pricing.prices import PER_UNIT, TOKEN_RATES, Rates, Tier, cost_of, rate_of
from streamweir.wire import jsonio

TIMEOUT_S = 2.0
_MAX_BYTES = 1024 * 1024


def load_rates(root: str, key: str, model: str) -> Rates | None:
    """`root`: the base URL of `/models`."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx2.stream(
            "GET", f"{root}/models/{quote(model, safe='/')}", headers=headers, timeout=TIMEOUT_S
        ) as response:
            document = jsonio.decode(_read_bounded(response)) if response.is_success else None
    except (httpx2.RequestError, httpx2.InvalidURL, jsonio.InvalidJson):
        return None
    pricing = document.get("pricing") if isinstance(document, Mapping) else None
    return read_rates(pricing) if isinstance(pricing, Mapping) else None


def _read_bounded(response: httpx2.Response) -> bytes:
    """The body, limited in size and time."""
    body, began = b"", time.monotonic()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > _MAX_BYTES or time.monotonic() - began > TIMEOUT_S:
            break
    return body


def read_rates(pricing: Mapping[str, Any]) -> Rates | None:
    """In the format of `GET /v1/models`. None if they are incomplete or not in dollars per million tokens."""
    if pricing.get("currency") != "USD" or pricing.get("unit") != "1M tokens":
        return None
    rates = _read(pricing)
    tiers = pricing.get("tiers", [])
    if rates is None or not isinstance(tiers, list):
        return None
    found = []
    for tier in tiers:
        inner = _read(tier) if isinstance(tier, Mapping) else None
        above = tier.get("above_prompt_tokens") if isinstance(tier, Mapping) else None
        if inner is None or not isinstance(above, int):
            return None
        found.append(Tier(above, inner))
    return structs.replace(rates, tiers=tuple(found))


def cost_nanousd(usage: Usage | None, rates: Rates | None) -> int | None:
    return None if usage is None or rates is None else cost_of(usage, rates)


def _read(pricing: Mapping[str, Any]) -> Rates | None:
    known = {name: pricing[name] for name in (*TOKEN_RATES, *PER_UNIT) if pricing.get(name) is not None}
    if not {"input", "output"} <= known.keys() or not all(_is_amount(value) for value in known.values()):
        return None
    amounts: dict[str, Any] = {name: rate_of(value) for name, value in known.items()}
    return Rates(**amounts)


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
