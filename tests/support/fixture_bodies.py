"""The recorded answers under `fixtures/<provider>/<case>`: `response.sse`, `response.json` or `response.frames`.

A `response.frames` is the text of an answer in Amazon's binary frames (`support.amazon_body`).
"""

from pathlib import Path

from support.amazon_body import binary_body

ROOT = Path(__file__).parents[1] / "fixtures"
BODIES = sorted(path for suffix in ("sse", "json", "frames") for path in ROOT.glob(f"*/*/response.{suffix}"))


def read_body(path: Path) -> bytes:
    """As the provider sends it."""
    body = path.read_bytes()
    return binary_body(body) if path.suffix == ".frames" else body


def body_in(case: Path) -> bytes:
    return read_body(next(case.glob("response.*")))
