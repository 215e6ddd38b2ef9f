"""What a check asks of an endpoint: small requests, each for a reason, the most telling ones first.

They are the same for every dialect: what is right to answer them differs, and is for the rules to say
(`conformance.endpoint`). So the nearest dialect can be found from the very answers that are then judged, and a
plan that is cut short (`--requests`) still has what matters most. Every request is named; rules look
answers up by these names. Nothing here sends anything, and no key is known here: an `ProbeRequest` only says which one.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from msgspec import Struct, structs

LIMIT = 64
"""Tokens of a short answer."""
LONG_LIMIT = 128
TIGHT_LIMIT = 4
"""Fewer than any answer to the short question has."""

UNKNOWN_MODEL = "streamweir-check/no-such-model"
ORIGIN = "https://streamweir-check.invalid"
"""Of a page that nobody has ever heard of."""

_SHORT = "Say hello in one short sentence."
_LONG = "Count from one to sixty in words, separated by commas, and write nothing else."
_FORCED = "What is the weather in Paris? Use the tool."
_PARALLEL = "What is the weather in Paris, and what is it in Tokyo? Call the tool once for each of the two cities."
FUNCTION = "get_weather"
_TOOL = {
    "type": "function",
    "function": {
        "name": FUNCTION,
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


class KeyUse(StrEnum):
    OWN = "own"
    WRONG = "wrong"
    NONE = "none"


class RequestOptions(Struct, frozen=True, kw_only=True):
    """How the model wants to be asked: some refuse members that others need."""

    model: str
    limit: str = "max_tokens"
    fixed: tuple[tuple[str, Any], ...] = (("temperature", 0), ("seed", 7))
    """What makes an answer the same each time, where a model can do that."""

    def body(self, text: str, limit: int = LIMIT, **members: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        return {"model": self.model, "messages": messages, self.limit: limit, **dict(self.fixed), **members}

    def without(self, complaint: str) -> "RequestOptions | None":
        """As an endpoint wants it that has refused a request with these words. None: it says nothing that helps."""
        if self.limit == "max_tokens" and "max_completion_tokens" in complaint:
            return structs.replace(self, limit="max_completion_tokens")
        kept = tuple((name, value) for name, value in self.fixed if name not in complaint)
        return structs.replace(self, fixed=kept) if kept != self.fixed else None


class ProbeRequest(Struct, frozen=True, kw_only=True):
    """One request."""

    name: str
    body: dict[str, Any] | bytes | None = None
    method: str = "POST"
    is_elsewhere: bool = False
    """At an address beside the endpoint where nothing is."""
    key: KeyUse = KeyUse.OWN
    leaves: bool = False
    """The connection is closed when the answer has begun."""
    origin: str | None = None
    """Asked as if from a page of that origin."""

    @property
    def is_streamed(self) -> bool:
        return isinstance(self.body, dict) and self.body.get("stream") is True

    @property
    def includes_usage(self) -> bool:
        options = self.body.get("stream_options") if isinstance(self.body, dict) else None
        return isinstance(options, dict) and options.get("include_usage") is True


def plan(manner: RequestOptions) -> list[ProbeRequest]:
    """All requests, in the order in which they are sent."""
    return list(_asks(manner))


def _asks(manner: RequestOptions) -> Iterable[ProbeRequest]:
    streamed: dict[str, Any] = {"stream": True}
    counted: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    yield ProbeRequest(name="streamed", body=manner.body(_SHORT, **counted))
    yield ProbeRequest(name="plain", body=manner.body(_SHORT, **streamed))
    yield ProbeRequest(name="buffered", body=manner.body(_SHORT))

    # What must be refused: it costs nothing, and the connection is looked at behind each refusal.
    unknown = structs.replace(manner, model=UNKNOWN_MODEL)
    yield ProbeRequest(name="unknown-model", body=unknown.body(_SHORT))
    yield ProbeRequest(name="unknown-model-streamed", body=unknown.body(_SHORT, **streamed))
    yield ProbeRequest(name="wrong-key", body=manner.body(_SHORT, **streamed), key=KeyUse.WRONG)
    yield ProbeRequest(name="no-key", body=manner.body(_SHORT, **streamed), key=KeyUse.NONE)
    yield ProbeRequest(name="not-json", body=b'{"model": "')
    yield ProbeRequest(name="wrong-type", body={**manner.body(_SHORT), "messages": _SHORT})
    yield ProbeRequest(name="no-messages", body={"model": manner.model})
    yield ProbeRequest(name="origin", body={"model": manner.model}, origin=ORIGIN)
    yield ProbeRequest(name="wrong-method", method="GET")
    yield ProbeRequest(name="elsewhere", body=manner.body(_SHORT), is_elsewhere=True)

    yield ProbeRequest(name="long", body=manner.body(_LONG, LONG_LIMIT, **counted))
    yield ProbeRequest(name="limited", body=manner.body(_SHORT, TIGHT_LIMIT, **counted))
    yield ProbeRequest(name="cancelled", body=manner.body(_LONG, LONG_LIMIT, **streamed), leaves=True)
    yield ProbeRequest(name="after-cancel", body=manner.body(_SHORT, **counted))

    forced = {"type": "function", "function": {"name": FUNCTION}}
    yield ProbeRequest(name="tool", body=manner.body(_FORCED, tools=[_TOOL], tool_choice=forced, **counted))
    yield ProbeRequest(name="tools", body=manner.body(_PARALLEL, tools=[_TOOL], tool_choice="required", **counted))
    yield ProbeRequest(name="choices", body=manner.body(_SHORT, n=2, **counted))
    yield ProbeRequest(name="reasoning", body=manner.body(_SHORT, LONG_LIMIT, reasoning_effort="low", **counted))

    # These are right in some dialects and wrong in others.
    without_model = manner.body(_SHORT, **streamed)
    del without_model["model"]
    yield ProbeRequest(name="no-model", body=without_model)
    yield ProbeRequest(name="lone-options", body={**manner.body(_SHORT), "stream_options": {"include_usage": True}})
