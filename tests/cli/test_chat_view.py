"""The last line of an answer, its cost, and what a terminal may be shown: without a terminal."""

import asyncio
from typing import Any

import pytest

from streamweir.cli.chat_cost import cost_nanousd, load_rates, read_rates
from streamweir.cli.view.chat import KEPT_CHARACTERS, RawView, Timing, summary
from streamweir.cli.view.table import for_terminal
from streamweir.client import StreamStarted, TextDelta, Usage
from streamweir.policy.pricing.prices import Rates
from support.script import Fin, Flood, Head, Script, whole
from support.scripted_upstream import ScriptedUpstream

PRICING: dict[str, Any] = {"currency": "USD", "unit": "1M tokens", "input": 2.5, "output": 10, "cache_read": 1.25}


def timed(*moments: float) -> Timing:
    """Asked, first word, end."""
    clock = iter(moments)
    timing = Timing(lambda: next(clock))
    timing.begin()
    timing.record_event(StreamStarted())
    timing.record_event(TextDelta(0, "a"))
    timing.record_event(TextDelta(0, "b"))
    timing.end()
    return timing


def test_the_last_line_says_what_is_known() -> None:
    usage = Usage(input_uncached=1200, output=41)
    line = summary(timed(10.0, 10.25, 12.25), usage, 1_234_000, "req_1")
    assert line == "first token after 0.25 s, 20.0 tokens/s, 1,200 + 41 tokens, $0.001234, req_1"
    assert summary(timed(10.0, 10.25, 12.25), None, None, None) == "first token after 0.25 s"
    assert summary(timed(10.0, 10.0, 10.0), Usage(output=5), None, None) == "first token after 0.00 s, 0 + 5 tokens"
    silent = Timing(lambda: 1.0)
    assert summary(silent, Usage(), 0, "r\x1b[1m") == "0 + 0 tokens, $0.00, r\ufffd[1m"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
        ("\x1b]0;title\x07", "\ufffd]0;title\ufffd"),
        ("\x9b2J \r \x08 \x7f", "\ufffd2J \ufffd \ufffd \ufffd"),
        ("\u202eabc\u2066", "\ufffdabc\ufffd"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
        ("\ud83d", "\ufffd"),
    ],
)
def test_control_sequences_are_not_shown(text: str, shown: str) -> None:
    assert for_terminal(text, KEPT_CHARACTERS) == shown


def test_raw_does_not_show_the_key(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    view = RawView(Timing(lambda: 1.5, started=1.0), is_terminal=False, secret="sk-a-key-of-mine")  # noqa: S106
    view.tap(b'data: {"error": "no sk-a-ke')
    view.tap(b'y-of-mine"}\n\n')
    view.leave()
    assert capfdbinary.readouterr().out == b'    0.500  data: {"error": "no ***"}\n'


def test_the_cost_is_exact() -> None:
    rates = read_rates(PRICING)
    assert rates == Rates(input=2_500_000_000, output=10_000_000_000, cache_read=1_250_000_000)
    assert cost_nanousd(Usage(input_uncached=3, cache_read=4, output=2), rates) == 7500 + 5000 + 20000
    assert cost_nanousd(None, rates) is None
    assert cost_nanousd(Usage(), None) is None


def test_long_prompts_have_their_own_rates() -> None:
    rates = read_rates({**PRICING, "tiers": [{"above_prompt_tokens": 10, "input": 5, "output": 20}], "per_request": 1})
    assert cost_nanousd(Usage(input_uncached=11, output=1), rates) == 55_000 + 20_000
    assert cost_nanousd(Usage(input_uncached=10), rates) == 25_000 + 1_000_000_000


@pytest.mark.parametrize(
    "change",
    [
        {"currency": "EUR"},
        {"unit": "1K tokens"},
        {"input": None},
        {"output": "10"},
        {"input": True},
        {"input": -1},
        {"tiers": {}},
        {"tiers": ["x"]},
        {"tiers": [{"above_prompt_tokens": "x", "input": 1, "output": 1}]},
    ],
)
def test_unreadable_prices_are_no_prices(change: dict[str, Any]) -> None:
    assert read_rates({**PRICING, **change}) is None


@pytest.mark.parametrize(
    "script",
    [
        [Fin()],
        whole(b"not found", 404),
        whole(b"<html>"),
        whole(b"[]"),
        whole(b'{"id": "m"}'),
        whole(b'{"id": "m", "pricing": null}'),
        [Head(), Flood(b" ")],
    ],
    ids=["no answer", "unknown", "no JSON", "no object", "no prices", "null", "no end"],
)
async def test_an_endpoint_without_prices(script: Script) -> None:
    async with ScriptedUpstream(script) as up:
        assert await asyncio.to_thread(load_rates, up.base_url, "sk-key", "a/b?c") is None
        seen = await up.seen(1)
    assert (seen.method, seen.path) == ("GET", "/v1/models/a/b%3Fc")
    assert seen.headers["authorization"] == "Bearer sk-key"
