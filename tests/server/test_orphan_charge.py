"""What is charged for a request that a dead process left behind: by what is known of it, and nothing else."""

from typing import Any

import pytest

from streamweir.policy.pricing.prices import Quote, Rates, encode_quote
from streamweir.server.accounting.maintenance import orphan
from streamweir.store.requests.live import OpenRequest

RATES = Rates(input=1_000_000, output=5_000_000, per_request=30, per_search=10_000_000)
QUOTE = Quote("v", {"p/sonar": RATES}, searches=10)
"""Of a model that searches without being asked to."""
PROMPT = 7 + 30


def opened(**more: Any) -> OpenRequest:
    members = dict.fromkeys(OpenRequest.__struct_fields__) | {
        "request_id": "req_1",
        "instance": "i",
        "at_ms": 1,
        "workspace_id": "default",
        "key_id": "k",
        "key_name": "ci",
        "dialect": "openai",
        "model": "sonar",
        "stream": True,
        "held": 500_000_000,
        "prices": encode_quote(QUOTE),
        "prompt_tokens": 7,
        "output_tokens": 0,
    }
    return OpenRequest(**{**members, **more})


@pytest.mark.parametrize(("more", "price"), [({}, PROMPT), ({"target": "p/sonar", "output_tokens": 2}, PROMPT + 10)])
def test_searches_of_which_nobody_knows_are_not_charged(more: dict[str, Any], price: int) -> None:
    assert orphan(opened(**more), 2).row.price == price
