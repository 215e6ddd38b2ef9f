"""The list of models in the shapes that OpenAI's and Anthropic's clients read."""

import pytest

from streamweir.core.errors import CallerError
from streamweir.frontends.model_list import (
    ListedModel,
    anthropic_list,
    anthropic_model,
    openai_list,
)

MODELS = [ListedModel(id=name, owner="streamweir") for name in "abcdef"]


def test_openai_reads_one_list() -> None:
    priced = ListedModel(id="p/m", owner="p", pricing={"currency": "USD"})
    assert openai_list([priced]) == {
        "object": "list",
        "data": [{"id": "p/m", "object": "model", "created": 0, "owned_by": "p", "pricing": {"currency": "USD"}}],
    }


def test_anthropic_reads_of_a_model_what_is_known() -> None:
    assert anthropic_model(ListedModel(id="claude-x", owner="p", context_window=200_000, max_output_tokens=64_000)) == {
        "type": "model",
        "id": "claude-x",
        "display_name": "claude-x",
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
    }
    assert anthropic_model(MODELS[0])["max_tokens"] is None


@pytest.mark.parametrize(
    ("query", "ids", "has_more"),
    [
        ("", "abcdef", False),
        ("limit=1000", "abcdef", False),
        ("limit=6", "abcdef", False),
        ("limit=2", "ab", True),
        ("limit=2&after_id=b", "cd", True),
        ("limit=2&after_id=d", "ef", False),
        ("after_id=f", "", False),
        ("before_id=d", "abc", False),
        ("limit=2&before_id=d", "bc", True),
        ("limit=3&before_id=d", "abc", False),
        ("before_id=a", "", False),
        ("limit=1&after_id=a&before_id=d", "c", True),
        ("limit=9&after_id=a&before_id=d", "bc", False),
        ("after_id=d&before_id=b", "", False),
        ("beta=true&other=1", "abcdef", False),
        ("after_id=%62", "cdef", False),
    ],
)
def test_a_page_and_whether_there_is_another(query: str, ids: str, has_more: bool) -> None:
    page = anthropic_list(MODELS, query)
    assert "".join(model["id"] for model in page["data"]) == ids
    assert page["has_more"] is has_more
    assert (page["first_id"], page["last_id"]) == ((ids[0], ids[-1]) if ids else (None, None))


def test_pages_one_after_the_other_are_the_whole_list() -> None:
    seen, query = "", "limit=4"
    for _ in range(2):
        page = anthropic_list(MODELS, query)
        seen += "".join(model["id"] for model in page["data"])
        query = f"limit=4&after_id={page['last_id']}"
    assert (seen, page["has_more"]) == ("abcdef", False)


def test_there_may_be_no_model() -> None:
    assert anthropic_list([], "limit=5") == {"data": [], "has_more": False, "first_id": None, "last_id": None}


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=-1", "limit"),
        ("limit=", "limit"),
        ("limit=x", "limit"),
        ("limit=%C2%B2", "limit"),
        ("limit=" + "9" * 5000, "limit"),
        ("after_id=zz", "after_id"),
        ("before_id=", "before_id"),
        ("&".join(["a=1"] * 101), None),
    ],
)
def test_a_page_that_cannot_be_is_refused(query: str, param: str | None) -> None:
    with pytest.raises(CallerError) as refused:
        anthropic_list(MODELS, query)
    assert (refused.value.code, refused.value.param) == ("invalid_value", param)
