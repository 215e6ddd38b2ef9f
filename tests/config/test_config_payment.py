"""What `[payments]` needs: a database, and pages to return to if the gateway opens sessions itself."""

from typing import Any

import pytest

from streamweir.config.check import check
from streamweir.config.display.effective import sections_of
from streamweir.config.display.origin import Origins
from streamweir.config.model import Config, Payments, Store
from streamweir.config.secret import secrets_of

SECRETS = {"webhook_secret": "whsec_0123456789abcdef", "secret_key": "sk_test_0123456789abcdef"}
PAGES = {"success_url": "https://example.com/ok?a=b", "cancel_url": "http://127.0.0.1/no"}


def payments(**more: Any) -> Config:
    return Config(payments=Payments(**{**SECRETS, **PAGES, **more}))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, []),
        ({"secret_key": None, "success_url": None, "cancel_url": None}, []),
        ({"webhook_secret": ""}, ["payments.webhook_secret"]),
        ({"webhook_secret": "whsec_012345678"}, ["payments.webhook_secret"]),
        ({"success_url": None}, ["payments.success_url"]),
        ({"cancel_url": None}, ["payments.cancel_url"]),
        ({"success_url": "example.com"}, ["payments.success_url"]),
        ({"cancel_url": "javascript:alert(1)"}, ["payments.cancel_url"]),
        ({"api_url": "ftp://example.com"}, ["payments.api_url"]),
        ({"min_usd": 5.0, "max_usd": 4.0}, ["payments.min_usd"]),
        ({"min_usd": 0.07, "max_usd": 1_000_000.0}, []),
        ({"min_usd": 0.015}, ["payments.min_usd"]),
        ({"max_usd": 100.00000000001}, ["payments.max_usd"]),
    ],
)
def test_what_is_wrong(more: dict[str, Any], said: list[str]) -> None:
    assert [problem.where for problem in check(payments(**more))] == said


def test_it_needs_a_database() -> None:
    config = Config(payments=payments().payments, store=Store(url="none"))
    assert [problem.where for problem in check(config)] == ["payments"]


def test_its_secrets_are_known_and_masked() -> None:
    config = payments()
    assert set(SECRETS.values()) <= set(secrets_of(config))
    shown = repr(config) + repr(sections_of(config, Origins()))
    assert not any(secret in shown for secret in SECRETS.values())
