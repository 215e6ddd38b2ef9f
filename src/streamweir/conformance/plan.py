"""The requests that a check sends to an endpoint: small ones, the most informative ones first.

They are the same for every dialect. Which answers are correct depends on the dialect, and is decided by the rules
(`conformance.endpoint`). So the nearest dialect is found from the same answers that are then checked, and a plan with
fewer requests (`--requests`) still has the most important ones. Every request has a name, by which rules find its
answer. This module sends nothing and knows no key: a `ProbeRequest` only says which key to use.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct, structs

LIMIT = 64
"""Maximum tokens of a short answer."""
LONG_LIMIT = 128
TIGHT_LIMIT = 4
"""Fewer tokens than any answer to the short prompt has."""

UNKNOWN_MODEL = "streamweir-check/no-such-model"
ORIGIN = "https://streamweir-check.invalid"
"""The origin of a web page that no endpoint knows."""

SHORT = "Say hello in one short sentence."
LONG = "Count from one to sixty in words, separated by commas, and write nothing else."
FORCED = "What is the weather in Paris? Use the tool."
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
    """Members of the requests that depend on the model: some models refuse members that others need."""

    model: str
    prompt: str = "messages"
    """The member that has the conversation."""
    limit: str = "max_tokens"
    deterministic: tuple[tuple[str, Any], ...] = (("temperature", 0), ("seed", 7))
    """Members that make the answers of most models deterministic."""

    def body(self, text: str, limit: int = LIMIT, **members: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        return {"model": self.model, self.prompt: messages, self.limit: limit, **dict(self.deterministic), **members}

    def without(self, message: str) -> "RequestOptions | None":
        """Without the members that an endpoint's error message names. None if it names none of them."""
        if self.limit == "max_tokens" and "max_completion_tokens" in message:
            return structs.replace(self, limit="max_completion_tokens")
        kept = tuple((name, value) for name, value in self.deterministic if name not in message)
        return structs.replace(self, deterministic=kept) if kept != self.deterministic else None


class ProbeRequest(Struct, frozen=True, kw_only=True):
    name: str
    body: dict[str, Any] | bytes | None = None
    method: str = "POST"
    is_unknown_path: bool = False
    """Sent to a path of the server that does not exist."""
    path: str = ""
    """Below the path of the API."""
    key: KeyUse = KeyUse.OWN
    cancels: bool = False
    """The connection is closed soon after the answer has begun."""
    origin: str | None = None
    """The `Origin` header, as sent by a web page."""
    headers: tuple[tuple[str, str], ...] = ()
    """Further ones, that the API needs."""
    key_header: str = "authorization"
    """The header that has the key: this one as a bearer token, any other as it is."""

    @property
    def is_streamed(self) -> bool:
        return isinstance(self.body, dict) and self.body.get("stream") is True

    @property
    def includes_usage(self) -> bool:
        options = self.body.get("stream_options") if isinstance(self.body, dict) else None
        return isinstance(options, dict) and options.get("include_usage") is True


class Plan(NamedTuple):
    """The requests for one API."""

    path: str
    """Of the API, below its base URL."""
    requests: Callable[[RequestOptions], list[ProbeRequest]]
    options: Callable[[str], RequestOptions]
    """For a model."""


def plan(options: RequestOptions) -> list[ProbeRequest]:
    """All requests, in the order in which they are sent."""
    return list(_probe_requests(options))


def _probe_requests(options: RequestOptions) -> Iterable[ProbeRequest]:
    streamed: dict[str, Any] = {"stream": True}
    counted: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    yield ProbeRequest(name="streamed", body=options.body(SHORT, **counted))
    yield ProbeRequest(name="plain", body=options.body(SHORT, **streamed))
    yield ProbeRequest(name="buffered", body=options.body(SHORT))

    # Requests that must be refused. They cost nothing. The connection is checked after each refusal.
    unknown = structs.replace(options, model=UNKNOWN_MODEL)
    yield ProbeRequest(name="unknown-model", body=unknown.body(SHORT))
    yield ProbeRequest(name="unknown-model-streamed", body=unknown.body(SHORT, **streamed))
    yield ProbeRequest(name="wrong-key", body=options.body(SHORT, **streamed), key=KeyUse.WRONG)
    yield ProbeRequest(name="no-key", body=options.body(SHORT, **streamed), key=KeyUse.NONE)
    yield ProbeRequest(name="not-json", body=b'{"model": "')
    yield ProbeRequest(name="wrong-type", body={**options.body(SHORT), "messages": SHORT})
    yield ProbeRequest(name="no-messages", body={"model": options.model})
    yield ProbeRequest(name="origin", body={"model": options.model}, origin=ORIGIN)
    yield ProbeRequest(name="wrong-method", method="GET")
    yield ProbeRequest(name="elsewhere", body=options.body(SHORT), is_unknown_path=True)

    yield ProbeRequest(name="long", body=options.body(LONG, LONG_LIMIT, **counted))
    yield ProbeRequest(name="limited", body=options.body(SHORT, TIGHT_LIMIT, **counted))
    yield ProbeRequest(name="cancelled", body=options.body(LONG, LONG_LIMIT, **streamed), cancels=True)
    yield ProbeRequest(name="after-cancel", body=options.body(SHORT, **counted))

    forced = {"type": "function", "function": {"name": FUNCTION}}
    yield ProbeRequest(name="tool", body=options.body(FORCED, tools=[_TOOL], tool_choice=forced, **counted))
    yield ProbeRequest(name="tools", body=options.body(_PARALLEL, tools=[_TOOL], tool_choice="required", **counted))
    yield ProbeRequest(name="choices", body=options.body(SHORT, n=2, **counted))
    yield ProbeRequest(name="reasoning", body=options.body(SHORT, LONG_LIMIT, reasoning_effort="low", **counted))

    # Valid in some dialects and invalid in others.
    without_model = options.body(SHORT, **streamed)
    del without_model["model"]
    yield ProbeRequest(name="no-model", body=without_model)
    yield ProbeRequest(name="lone-options", body={**options.body(SHORT), "stream_options": {"include_usage": True}})


CHAT_PLAN = Plan("/chat/completions", plan, lambda model: RequestOptions(model=model))
