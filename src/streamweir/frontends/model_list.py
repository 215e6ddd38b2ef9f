"""The list of models in the formats of OpenAI and Anthropic.

OpenAI's format has one list, Anthropic's has pages (`limit`, `after_id`, `before_id`). Without `limit` the page has all
models. Unknown values are null. Clients require a date, and providers do not tell when a model was released: it is
the start of the epoch, as Anthropic's own API writes an unknown one.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

from msgspec import Struct

from streamweir.core.errors import CallerError

MAX_PAGE_SIZE = 1000
_MAX_DIGITS = 9
_MAX_PARAMETERS = 100
_UNKNOWN_TIME = "1970-01-01T00:00:00Z"


class ListedModel(Struct, frozen=True, kw_only=True):
    id: str
    owner: str
    pricing: dict[str, Any] | None = None
    """None: no price is known."""
    context_window: int | None = None
    """The smallest of its targets, in tokens. None: unknown."""
    max_output_tokens: int | None = None
    """The highest limit that a target accepts. None: unknown."""


def openai_list(models: Sequence[ListedModel]) -> dict[str, Any]:
    return {"object": "list", "data": [openai_model(model) for model in models]}


def openai_model(model: ListedModel) -> dict[str, Any]:
    return {"id": model.id, "object": "model", "created": 0, "owned_by": model.owner, "pricing": model.pricing}


def anthropic_list(models: Sequence[ListedModel], query: str) -> dict[str, Any]:
    """The page that `query` asks for. Raises `CallerError`."""
    page, has_more = _page(models, _read_query(query))
    return {
        "data": [anthropic_model(model) for model in page],
        "has_more": has_more,
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
    }


def anthropic_model(model: ListedModel) -> dict[str, Any]:
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": _UNKNOWN_TIME,
        "lifecycle": "active",
        "max_input_tokens": model.context_window,
        "max_tokens": model.max_output_tokens,
    }


def _read_query(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS))
    except ValueError:
        raise CallerError("invalid_value", f"The query has more than {_MAX_PARAMETERS} parameters.") from None


def _page(models: Sequence[ListedModel], asked: dict[str, str]) -> tuple[Sequence[ListedModel], bool]:
    """The page, and whether there are more models: after it, or with `before_id` before it."""
    start, end = 0, len(models)
    limit = _read_limit(asked["limit"]) if "limit" in asked else end
    places = {model.id: place for place, model in enumerate(models)}
    for name in ("after_id", "before_id"):
        if name in asked and asked[name] not in places:
            raise CallerError("invalid_value", f"{name} is not the id of a listed model.", param=name)
    if "after_id" in asked:
        start = places[asked["after_id"]] + 1
    if "before_id" in asked:
        end = places[asked["before_id"]]
        return models[max(start, end - limit) : end], end - limit > start
    return models[start : min(end, start + limit)], start + limit < end


def _read_limit(text: str) -> int:
    if len(text) > _MAX_DIGITS or not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_PAGE_SIZE:
        raise CallerError("invalid_value", f"limit must be a whole number from 1 to {MAX_PAGE_SIZE}.", param="limit")
    return int(text)
