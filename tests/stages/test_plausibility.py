"""Reports of usage that can be true of their request, and those that cannot."""

import pytest

from streamweir.core.usage import MOST_TOKENS, Usage
from streamweir.stages.plausibility import Scope, is_possible

TEXT = Scope(request_bytes=1000)
CAPPED = Scope(request_bytes=1000, max_output=100)
PICTURE = Scope(request_bytes=1000, has_media=True)


@pytest.mark.parametrize(
    ("usage", "scope"),
    [
        (Usage(), TEXT),
        (Usage(input_uncached=250, output=100), CAPPED),
        # A template, and what a provider's own search has found.
        (Usage(input_uncached=1000 + 30_000), TEXT),
        # Every byte a token, with the answer cut by its limit.
        (Usage(input_uncached=1000, output=100), CAPPED),
        # Reasoning that nobody sees, with a limit that does not count it, and without.
        (Usage(output=20, reasoning=128_000), CAPPED),
        (Usage(output=128_000), TEXT),
        # Reasoning that is shown, and not told apart from the answer.
        (Usage(output=4000), Scope(request_bytes=1000, max_output=1)),
        # A picture in an answer that was to be one token.
        (Usage(output=1290), Scope(request_bytes=1000, max_output=1)),
        # An hour of film, behind a link.
        (Usage(input_uncached=1_000_000), PICTURE),
        (Usage(cache_read=30_000, cache_write_5m=30_000, audio_input=1000), TEXT),
        (Usage(output=5, audio_output=5000), CAPPED),
    ],
)
def test_possible(usage: Usage, scope: Scope) -> None:
    assert is_possible(usage, scope, response_bytes=400)


@pytest.mark.parametrize(
    ("usage", "scope"),
    [
        (Usage(input_uncached=MOST_TOKENS), PICTURE),
        (Usage(input_uncached=3_000_000), PICTURE),
        (Usage(input_uncached=100_000), TEXT),
        (Usage(cache_read=100_000), TEXT),
        (Usage(cache_write_1h=100_000), TEXT),
        (Usage(audio_input=100_000), TEXT),
        (Usage(output=300_000), TEXT),
        (Usage(output=10_000), CAPPED),
        (Usage(reasoning=300_000), TEXT),
        (Usage(audio_output=300_000), CAPPED),
    ],
)
def test_not_possible(usage: Usage, scope: Scope) -> None:
    assert not is_possible(usage, scope, response_bytes=400)


def test_what_came_bears_out_what_is_reported() -> None:
    assert not is_possible(Usage(output=50_000), CAPPED, response_bytes=400)
    assert is_possible(Usage(output=50_000), CAPPED, response_bytes=200_000)
