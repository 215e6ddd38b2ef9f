"""Foreign text is bounded, and says that it was cut."""

from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.text import cut


@given(st.text(max_size=30), st.integers(4, 20))
def test_a_text_is_at_most_so_long(text: str, max_length: int) -> None:
    bounded = cut(text, max_length)
    assert len(bounded) <= max_length
    assert (bounded == text) == (len(text) <= max_length)
    assert bounded == text or (bounded.endswith("...") and text.startswith(bounded[:-3]))
