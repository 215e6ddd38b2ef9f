"""The requests that a check sends to an embeddings endpoint: short texts, the most informative ones first."""

from collections.abc import Iterable
from typing import Any

from streamweir.conformance.plan import UNKNOWN_MODEL, KeyUse, Plan, ProbeRequest, RequestOptions

TEXTS = ("The river is high today.", "Prime numbers have two divisors.", "The river is high today.")
"""The first and the last are the same."""
DIMENSIONS = 64


def _plan(options: RequestOptions) -> list[ProbeRequest]:
    """All requests, in the order in which they are sent."""
    return list(_probe_requests(options.model))


def _probe_requests(model: str) -> Iterable[ProbeRequest]:
    def body(**members: Any) -> dict[str, Any]:
        return {"model": model, "input": TEXTS[0], "encoding_format": "float", **members}

    yield ProbeRequest(name="single", body=body())
    yield ProbeRequest(name="batch", body=body(input=list(TEXTS)))
    yield ProbeRequest(name="base64", body=body(encoding_format="base64"))
    yield ProbeRequest(name="dimensions", body=body(dimensions=DIMENSIONS))

    # Requests that must be refused. They cost nothing.
    yield ProbeRequest(name="unknown-model", body=body(model=UNKNOWN_MODEL))
    yield ProbeRequest(name="wrong-key", body=body(), key=KeyUse.WRONG)
    yield ProbeRequest(name="no-key", body=body(), key=KeyUse.NONE)
    yield ProbeRequest(name="not-json", body=b'{"model": "')
    yield ProbeRequest(name="wrong-type", body=body(input=7))
    yield ProbeRequest(name="no-input", body={"model": model})
    yield ProbeRequest(name="empty", body=body(input=""))


EMBEDDINGS_PLAN = Plan("/embeddings", _plan, lambda model: RequestOptions(model=model, deterministic=()))
