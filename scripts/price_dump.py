"""The price data inside the installed package genai-prices, as the JSON that the project publishes.

The package holds its data as Python code. This runs where it is installed (`make prices` sees to
that), knows nothing of Streamweir, and writes to its standard output what `scripts/prices.py` reads.
"""

import json
import sys
from dataclasses import fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from importlib import import_module
from importlib.metadata import distribution, version
from typing import Any

_LEFT_OUT = {"extractors", "description", "price_comments", "pricing_urls", "name"}


def plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if type(value).__name__ == "ModelPrice":
        return {name: plain(member) for name, member in vars(value).items() if member is not None}
    if is_dataclass(value):
        members = {field.name.rstrip("_"): getattr(value, field.name) for field in fields(value)}
        return {name: plain(member) for name, member in members.items() if member is not None and name not in _LEFT_OUT}
    return value


def main() -> None:
    providers = import_module("genai_prices.data").providers
    licence = next(str(file.read_text()) for file in distribution("genai-prices").files or () if file.name == "LICENSE")
    document = {"package": version("genai-prices"), "licence": licence, "providers": plain(providers)}
    json.dump(document, sys.stdout)


if __name__ == "__main__":
    main()
