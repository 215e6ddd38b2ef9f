"""The `cost` in the usage of an answer that is passed on: the caller's price is written into it.

Encoders write `cost` themselves (`frontends.base.with_cost`). What is passed on gets it here, once per
answer: the last usage has the price, if the caller is shown that (`Record.price_of`). A provider's own `cost` is what
the request costs the operator, so it is never passed on.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from streamweir.pipeline.meter import Record
from streamweir.pipeline.plausibility import bounded
from streamweir.wire import jsonio, sse
from streamweir.wire.sse import Frame

_SIGNS = (b"cost", b'"is_byok"')
"""A document without these has none of them, unless it is written with escapes; those of no provider are."""


def has_provider_cost(usage: Mapping[str, Any]) -> bool:
    """Whether a usage says what the provider charges: in `cost` and `cost_details` (OpenRouter, Perplexity),
    `cost_in_usd_ticks` (xAI), `estimated_cost` (DeepInfra), and under other such names."""
    return any(map(_is_cost, usage))


def _is_cost(name: str) -> bool:
    return "cost" in name or name == "is_byok"


def settled_price(record: Record) -> float | None:
    """The price, in dollars, of what will be settled for a complete answer. None: not shown, or not known yet."""
    usage = record.usage
    if record.price_of is None or usage is None or record.is_interim:
        return None
    if record.bounds is not None and not record.is_plausible(usage):
        usage = bounded(usage, record.bounds.max_billed_tokens)
    return record.price_of(usage)


def frame_without_cost(frame: Frame, *path: str) -> Frame:
    """The frame without a provider's cost. `path`: of the object that has the usage."""
    data = frame.data
    if data is None or not _may_have_cost(data):
        return frame
    changed = _changed(data, path, None)
    return frame if changed is None else structs.replace(frame, raw=_written(frame, changed))


def frame_with_price(frame: Frame, price: float | None, *path: str) -> Frame:
    """The frame with the price, and without a provider's cost."""
    if price is None:
        return frame_without_cost(frame, *path)
    changed = _changed(frame.data or b"", path, price)
    return frame if changed is None else structs.replace(frame, raw=_written(frame, changed))


def body_with_price(body: bytes, record: Record) -> bytes:
    """A whole body with the price, if that is shown, and without a provider's cost."""
    price = settled_price(record)
    if price is None and not _may_have_cost(body):
        return body
    changed = _changed(body, (), price)
    return body if changed is None else changed


def has_usage(frame: Frame) -> bool:
    return frame.data is not None and b'"usage"' in frame.data


def _may_have_cost(data: bytes) -> bool:
    return any(sign in data for sign in _SIGNS)


def _changed(data: bytes, path: tuple[str, ...], price: float | None) -> bytes | None:
    """None: there is no usage in it, or nothing to change."""
    try:
        document = jsonio.decode(data)
    except jsonio.InvalidJson:
        return None
    holder = document
    for name in path:
        holder = holder.get(name) if isinstance(holder, dict) else None
    usage = holder.get("usage") if isinstance(holder, dict) else None
    if not isinstance(usage, dict) or (price is None and not has_provider_cost(usage)):
        return None
    holder["usage"] = _priced(usage, price)
    return jsonio.encode(document)


def _priced(usage: Mapping[str, Any], price: float | None) -> dict[str, Any]:
    kept = {name: value for name, value in usage.items() if not _is_cost(name)}
    return kept if price is None else {**kept, "cost": price}


def _written(frame: Frame, data: bytes) -> bytes:
    return sse.write_event(frame.event, data) if frame.event else sse.write_frame(data)
