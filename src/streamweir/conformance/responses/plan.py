"""The requests that a check sends to a Responses endpoint: small ones, the most informative ones first."""

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from streamweir.conformance.plan import (
    FORCED,
    FUNCTION,
    LIMIT,
    LONG,
    LONG_LIMIT,
    SHORT,
    UNKNOWN_MODEL,
    KeyUse,
    Plan,
    ProbeRequest,
    RequestOptions,
)

LEAST_LIMIT = 16
"""The smallest limit of tokens that OpenAI accepts."""
NOTE = "take_note"
UNKNOWN_RESPONSE = "resp_streamweir_check_none_has_this_id"
_TOOL = {
    "type": "function",
    "name": FUNCTION,
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
_CUSTOM = {"type": "custom", "name": NOTE, "description": "Keeps a note of one line, which is its input."}
_WEBSOCKET = (
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "c3RyZWFtd2Vpci1jaGVjaw=="),
)


def _options(model: str) -> RequestOptions:
    return RequestOptions(
        model=model, prompt="input", limit="max_output_tokens", deterministic=(("temperature", 0), ("store", False))
    )


def _plan(options: RequestOptions) -> list[ProbeRequest]:
    """All requests, in the order in which they are sent."""
    return list(_probe_requests(options))


def _probe_requests(options: RequestOptions) -> Iterable[ProbeRequest]:
    streamed: dict[str, Any] = {"stream": True}
    yield ProbeRequest(name="streamed", body=options.body(SHORT, **streamed))
    yield ProbeRequest(name="string", body=options.body(SHORT, **streamed, input=SHORT))
    yield ProbeRequest(name="buffered", body=options.body(SHORT))

    # Requests that must be refused. They cost nothing.
    unknown = structs.replace(options, model=UNKNOWN_MODEL)
    yield ProbeRequest(name="unknown-model", body=unknown.body(SHORT))
    yield ProbeRequest(name="unknown-model-streamed", body=unknown.body(SHORT, **streamed))
    yield ProbeRequest(name="wrong-key", body=options.body(SHORT, **streamed), key=KeyUse.WRONG)
    yield ProbeRequest(name="no-key", body=options.body(SHORT, **streamed), key=KeyUse.NONE)
    yield ProbeRequest(name="not-json", body=b'{"model": "')
    yield ProbeRequest(name="wrong-type", body={**options.body(SHORT), "input": 7})
    yield ProbeRequest(name="no-input", body={"model": options.model, options.limit: LIMIT})
    yield ProbeRequest(name="previous", body=options.body(SHORT, previous_response_id=UNKNOWN_RESPONSE))
    yield ProbeRequest(name="unknown-response", method="GET", path=f"/{UNKNOWN_RESPONSE}")

    yield ProbeRequest(name="long", body=options.body(LONG, LONG_LIMIT, **streamed))
    yield ProbeRequest(name="limited", body=options.body(LONG, LEAST_LIMIT, **streamed))
    forced = {"type": "function", "name": FUNCTION}
    yield ProbeRequest(name="tool", body=options.body(FORCED, tools=[_TOOL], tool_choice=forced, **streamed))
    yield ProbeRequest(name="tool-buffered", body=options.body(FORCED, tools=[_TOOL], tool_choice=forced))
    noted: dict[str, Any] = {"tools": [_CUSTOM], "tool_choice": {"type": "custom", "name": NOTE}}
    yield ProbeRequest(name="custom-tool", body=options.body(f"{SHORT} Keep it as a note.", **noted, **streamed))
    plain = structs.replace(
        options, deterministic=(("store", False),)
    )  # reasoning cannot be combined with a temperature
    reasoning = {"reasoning": {"effort": "low", "summary": "auto"}}
    yield ProbeRequest(name="reasoning", body=plain.body(SHORT, 1024, **reasoning, **streamed))

    yield ProbeRequest(name="websocket", method="GET", headers=_WEBSOCKET)  # the last: the connection may be closed


RESPONSES_PLAN = Plan("/responses", _plan, _options)
