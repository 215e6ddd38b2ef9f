"""Bodies for OpenAI-style vendors, from the body that a caller would send."""

from typing import Any

from streamweir.core.request import read_request
from streamweir.providers.base import Target
from streamweir.providers.compatible import VENDORS, Vendor
from streamweir.providers.openai.request import write_body
from streamweir.wire import jsonio

HELLO: dict[str, Any] = {"role": "user", "content": "hello"}


def sent_by(vendor: Vendor | str, body: dict[str, Any], **target: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The body that goes to a vendor for a caller's body, and what was dropped."""
    row = VENDORS[vendor] if isinstance(vendor, str) else vendor
    request = read_request({"model": "asked/for", "messages": [HELLO], **body})
    before = jsonio.encode(request.body)
    written, dropped = write_body(request, Target(model="their-name", **target), row)
    assert jsonio.encode(request.body) == before, "the caller's body is never touched"
    return jsonio.decode(written), dropped


def plain(**fields: Any) -> Vendor:
    return Vendor(name="x", base_url="https://x.example/v1", **fields)
