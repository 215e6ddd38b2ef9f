"""Whether a provider's text can be the caller's own words."""

from typing import Any

import pytest

from streamweir.core.request import ChatRequest
from streamweir.frontends.table import FRONTENDS
from streamweir.policy.pricing.quotation import OF_CREDENTIAL, OF_WIRE, may_be_quoted
from streamweir.providers import failure


def chat(**members: Any) -> ChatRequest:
    said = [{"role": "user", "content": "Say hello."}]
    return FRONTENDS.by_name["openai"].parse({"model": "m", "messages": said, **members}, {})


def test_an_ordinary_request_has_no_such_words() -> None:
    assert not may_be_quoted(chat(stream=True, stream_options={"include_usage": True}), OF_CREDENTIAL)
    assert not may_be_quoted(chat(), OF_WIRE)


@pytest.mark.parametrize("text", [*failure._OUT_OF_CREDIT, *failure._BAD_KEY])
@pytest.mark.parametrize("make", [lambda text: {text: 1}, lambda text: {"x": [{"y": f"a {text.upper()}"}]}])
def test_every_text_by_which_a_refused_credential_is_recognised_is_found(text: str, make: Any) -> None:
    assert may_be_quoted(chat(**make(text)), OF_CREDENTIAL)


def test_what_is_too_large_to_be_read_counts_as_found() -> None:
    assert may_be_quoted(chat(x="x" * 100_000), OF_CREDENTIAL)
    assert may_be_quoted(chat(x=[[]] * 100_000), OF_CREDENTIAL)


def test_a_request_of_another_api_is_read_as_it_came() -> None:
    sent = {"model": "m", "input": "Say hello.", "insufficient_quota": 1}
    assert may_be_quoted(FRONTENDS.by_name["responses"].parse(sent, {}), OF_CREDENTIAL)
