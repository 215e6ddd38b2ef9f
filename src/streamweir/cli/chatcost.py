"""What an answer costs, as far as the endpoint says: its list of models has prices, if it is a gateway like ours.

Asked once for a model, with a short timeout; where nothing can be found out, nothing is shown. The price is the
dearest of those that may have applied, as the list itself shows it.
"""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx2
from msgspec import structs

from streamweir.core.usage import Usage
from streamweir.policy.prices import Rates, Tier, cost_of, rate_of
from streamweir.wire import jsonio

PATIENCE_S = 2.0
_MOST_BYTES = 1024 * 1024
_NAMES = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "audio_input", "audio_output", "reasoning")


def load_rates(root: str, key: str, model: str) -> Rates | None:
    """`root`: the address below which `/models` is."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx2.stream(
            "GET", f"{root}/models/{quote(model, safe='/')}", headers=headers, timeout=PATIENCE_S
        ) as response:
            document = jsonio.decode(_some(response)) if response.is_success else None
    except (httpx2.RequestError, httpx2.InvalidURL, jsonio.InvalidJson):
        return None
    pricing = document.get("pricing") if isinstance(document, Mapping) else None
    return read_rates(pricing) if isinstance(pricing, Mapping) else None


def _some(response: httpx2.Response) -> bytes:
    """Of a server that does not come to an end, what came in time."""
    body, began = b"", time.monotonic()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > _MOST_BYTES or time.monotonic() - began > PATIENCE_S:
            break
    return body


def read_rates(pricing: Mapping[str, Any]) -> Rates | None:
    """As `GET /v1/models` shows them. None: they are not in dollars for a million tokens, or not whole."""
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
    known = {name: pricing[name] for name in (*_NAMES, "per_request") if pricing.get(name) is not None}
    if not {"input", "output"} <= known.keys() or not all(_is_amount(value) for value in known.values()):
        return None
    amounts: dict[str, Any] = {name: rate_of(value) for name, value in known.items()}
    return Rates(**amounts)


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
