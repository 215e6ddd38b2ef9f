"""`make prices`: writes the built-in price list, from the data of the public project genai-prices.

    python scripts/price_dump.py | python scripts/prices.py [--date 2026-11-13] [--out FILE]

Reads what `scripts/price_dump.py` wrote. The day of the list is today unless it is given; where
nothing but the day would change, the file is left as it is, so that a second run changes nothing.
"""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct, json, structs

from streamweir.policy.pricing.pricelist import InvalidPrices, decode_list, encode_list
from streamweir.store.prices.data import read_data

OUT = Path(__file__).parents[1] / "src" / "streamweir" / "store" / "prices" / "prices.json"


class _Package(Struct):
    package: str
    licence: str


def write_list(data: bytes, out: Path, day: str) -> bool:
    """False: it was so already."""
    package = json.decode(data, type=_Package)
    made = read_data(
        data,
        version=day,
        source=f"genai-prices {package.package}, https://github.com/pydantic/genai-prices",
        licence=package.licence,
    )
    if out.exists():
        try:
            before = decode_list(out.read_bytes())
        except InvalidPrices:
            before = None  # of an older form
        if before is not None and structs.replace(before, version=day) == made:
            return False
    out.write_bytes(encode_list(made))
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description="The built-in price list anew.")
    parser.add_argument("--date", default=datetime.now(UTC).date().isoformat())
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    is_new = write_list(sys.stdin.buffer.read(), options.out, options.date)
    sys.stdout.write(f"{options.out.name}: {'written' if is_new else 'as it was'}\n")


if __name__ == "__main__":
    main()
