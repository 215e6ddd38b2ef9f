"""The record of a request as its row: what is kept to the letter, and what is taken out of what callers chose."""

from typing import Any

import pytest

from streamweir.core.verdict import Verdict
from streamweir.server.accounting.request_row import row_of
from streamweir.server.telemetry.record import AttemptRecord, RequestRecord
from streamweir.store.db.request_log import Row

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
