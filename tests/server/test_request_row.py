"""The record of a request as its row: what is kept to the letter, and what is taken out of what callers chose."""

import json
from typing import Any

import msgspec
import pytest

from streamweir.core.call_trace import CallTrace
from streamweir.core.verdict import Verdict
from streamweir.server.accounting.request_row import row_of
from streamweir.server.telemetry.record import AttemptRecord, RequestRecord
from streamweir.store.db.request_log import AttemptView, Row

KEY = "sk-proj-0123456789abcdef"
UUID = "0af7651916cd43dd8448eb211c80319c"


def row(**members: Any) -> Row:
    record = RequestRecord(id="req_1", method="POST", path="/", verdict=Verdict.COMPLETED, **members)
    return row_of(record, "here")


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("OpenAI/Python 1.52.0", "OpenAI/Python 1.52.0"),
        (f"app/1.0 ({KEY})", "app/1.0 (***)"),
        (f"app/1.0 key={UUID}", "app/1.0 key=***"),
        ("Bearer abc", "***"),
        ("a\x1b[31m\x00b\ud800\u2028", "ab"),
        ("x" * 300, "x" * 253 + "..."),
        ("", ""),
        (None, None),
    ],
)
def test_a_client_is_named_without_its_key(sent: str | None, kept: str | None) -> None:
    assert row(client=sent).client == kept


@pytest.mark.parametrize(("sent", "kept"), [(UUID, UUID), ("trace-1", "trace-1"), (KEY, "***"), (None, None)])
def test_an_id_of_the_client_may_be_long_and_opaque(sent: str | None, kept: str | None) -> None:
    assert row(client_id=sent).client_id == kept


def test_a_model_that_was_routed_is_kept_to_the_letter() -> None:
    model = "up/hf_some-7b-instruct-0123456789"
    assert row(model=model, attempts=[AttemptRecord(target=model)]).model == model
    assert row(model=model, attempts=[AttemptRecord(target=model)]).target == model
    assert row(model=KEY, error="model_not_found").model == "***", "nobody has a model of that name"
    assert row(model="gpt-5o", error="model_not_found").model == "gpt-5o"
    assert row(completion_id=KEY).completion_id == KEY, "it stands in the chunks, and is what one looks for"


def test_names_of_dropped_members() -> None:
    assert row(dropped=("seed", f"x-{KEY}", "a\nb")).dropped == '["seed","x-***","ab"]'
    assert row(dropped=tuple(map(str, range(60)))).dropped.count(",") == 49  # type: ignore[union-attr]


def test_an_attempt_is_stored_without_what_is_not_known() -> None:
    (plain,) = json.loads(row(attempts=[AttemptRecord(target="up/m")]).attempts)
    assert plain == {"target": "up/m", "error": None, "start_s": 0.0, "duration_s": 0.0, "resends": 0}
    trace = CallTrace(address="192.0.2.1:443", via_proxy=True, dns_s=0.001, connect_s=0.0123456789, tls_s=0.03)
    full = AttemptRecord(
        target="up/m",
        credential="eu-2",
        error="upstream_rate_limited",
        status=429,
        provider_request_id=UUID,
        provider_code="limit",
        provider_message=f"of {KEY}\x1b[31m" + "x " * 300,
        trace=trace,
        first_byte_s=0.25,
    )
    (stored,) = msgspec.json.decode(row(attempts=[full]).attempts, type=list[AttemptView])
    assert (stored.credential, stored.status, stored.provider_request_id) == ("eu-2", 429, UUID)
    assert (stored.address, stored.via_proxy, stored.reused) == ("192.0.2.1:443", True, False)
    assert (stored.dns_s, stored.connect_s, stored.tls_s, stored.first_byte_s) == (0.001, 0.012346, 0.03, 0.25)
    assert isinstance(stored.provider_message, str)
    assert stored.provider_message.startswith("of ***x x")
    assert len(stored.provider_message) == 300


def test_an_entry_of_attempts_is_bounded() -> None:
    long = "x y" * 10_000
    worst = AttemptRecord(
        target=long,
        credential=long,
        error="upstream_rate_limited",
        provider_request_id=long,
        provider_code=long,
        provider_type=long,
        provider_param=long,
        provider_message=long,
    )
    assert len(row(attempts=[worst] * 100).attempts) < 50 * 3000
