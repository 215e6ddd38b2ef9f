"""The frames of a stream without what a provider charges for it, which callers are not shown."""

import json
from typing import Any


def frames_without_cost(body: bytes) -> list[Any]:
    """The documents of its frames, in order."""
    data = [line[5:].strip() for line in body.split(b"\n") if line.startswith(b"data:")]
    return [_without_cost(json.loads(each)) for each in data if each.startswith(b"{")]


def _without_cost(document: dict[str, Any]) -> dict[str, Any]:
    found = dict(document)
    for name in ("response", "message"):
        if isinstance(found.get(name), dict):
            found[name] = _without_cost(found[name])
    if isinstance(found.get("usage"), dict):
        usage = found["usage"].items()
        found["usage"] = {name: value for name, value in usage if "cost" not in name and name != "is_byok"}
    return found
