"""The requests that a check sends to a Messages endpoint: small ones, the most informative ones first."""

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from streamweir.conformance.plan import (
    FORCED,
    FUNCTION,
    SHORT,
    TIGHT_LIMIT,
    UNKNOWN_MODEL,
    KeyUse,
    Plan,
    ProbeRequest,
    RequestOptions,
)
from streamweir.wire.messages import VERSION

_TOOL = {
    "name": FUNCTION,
    "description": "The weather in a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
_HEADERS = (("anthropic-version", VERSION),)
_THINKING = 1024
"""The smallest budget that the API allows."""


def _options(model: str) -> RequestOptions:
    return RequestOptions(model=model, deterministic=(("temperature", 0),))


def _plan(options: RequestOptions) -> list[ProbeRequest]:
    """All requests, in the order in which they are sent."""
    return [structs.replace(each, headers=_HEADERS) for each in _probe_requests(options)]


def _probe_requests(options: RequestOptions) -> Iterable[ProbeRequest]:
    streamed: dict[str, Any] = {"stream": True}
    yield ProbeRequest(name="streamed", body=options.body(SHORT, **streamed))
    yield ProbeRequest(name="x-api-key", body=options.body(SHORT, **streamed), key_header="x-api-key")
    yield ProbeRequest(name="buffered", body=options.body(SHORT))

    # Requests that must be refused. They cost nothing.
    unknown = structs.replace(options, model=UNKNOWN_MODEL)
    yield ProbeRequest(name="unknown-model", body=unknown.body(SHORT))
    yield ProbeRequest(name="unknown-model-streamed", body=unknown.body(SHORT, **streamed))
    yield ProbeRequest(name="wrong-key", body=options.body(SHORT, **streamed), key=KeyUse.WRONG)
    yield ProbeRequest(name="no-key", body=options.body(SHORT, **streamed), key=KeyUse.NONE)
    yield ProbeRequest(name="not-json", body=b'{"model": "')
    yield ProbeRequest(name="wrong-type", body={**options.body(SHORT), "messages": SHORT})
    yield ProbeRequest(name="no-messages", body={"model": options.model, options.limit: TIGHT_LIMIT})
    without_limit = options.body(SHORT, **streamed)
    del without_limit[options.limit]
    yield ProbeRequest(name="no-max-tokens", body=without_limit)

    yield ProbeRequest(name="limited", body=options.body(SHORT, TIGHT_LIMIT, **streamed))
    forced = {"type": "tool", "name": FUNCTION}
    yield ProbeRequest(name="tool", body=options.body(FORCED, tools=[_TOOL], tool_choice=forced, **streamed))
    yield ProbeRequest(name="tool-buffered", body=options.body(FORCED, tools=[_TOOL], tool_choice=forced))
    thinking = {"thinking": {"type": "enabled", "budget_tokens": _THINKING}}
    plain = structs.replace(options, deterministic=())  # thinking cannot be combined with a temperature
    yield ProbeRequest(name="thinking", body=plain.body(SHORT, 2 * _THINKING, **thinking, **streamed))


MESSAGES_PLAN = Plan("/messages", _plan, _options)
