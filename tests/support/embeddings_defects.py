"""Right answers of the embeddings API, each spoiled in one way, with the rule that must say so.

`DEFECTS` has at least one for every rule over a recorded answer, `SESSION_DEFECTS` for every rule over an endpoint.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from streamweir.conformance import Recording, RequestInfo
from streamweir.conformance.embeddings.plan import DIMENSIONS, EMBEDDINGS_PLAN, TEXTS
from streamweir.conformance.probe_session import FailureKind, ObservedExchange
from streamweir.core.errors import CallerError
from streamweir.wire import floats
from support.answer_changes import Change, drop, put

HEADERS = (("content-type", "application/json"), ("x-request-id", "req_1"))
RIVER, PRIMES = (0.6, 0.8, 0.0, 0.0), (0.0, 0.0, 0.8, -0.6)
REFUSED = {
    "unknown-model": ("model_not_found", "model"),
    "wrong-key": ("invalid_api_key", None),
    "no-key": ("missing_api_key", None),
    "not-json": ("invalid_json", None),
    "wrong-type": ("invalid_type", "input"),
    "no-input": ("missing_required_parameter", "input"),
    "empty": ("invalid_value", "input"),
}
SessionChange = Callable[[dict[str, ObservedExchange]], None]


@dataclass(frozen=True)
class Defect:
    rule: str
    recording: Recording


def body(*vectors: Sequence[float] | str) -> dict[str, Any]:
    """Of numbers, or of their base64."""
    data = [
        {"object": "embedding", "index": number, "embedding": vector if isinstance(vector, str) else list(vector)}
        for number, vector in enumerate(vectors)
    ]
    return {"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 5, "total_tokens": 5}}


def packed(vector: Sequence[float]) -> str:
    return b64encode(floats.pack(vector)).decode()


def recorded(value: Any, status: int = 200) -> Recording:
    return Recording(body=json.dumps(value).encode(), status=status, headers=HEADERS, request=RequestInfo(stream=False))


def refusal(code: str, param: str | None = None) -> Recording:
    spec = CallerError(code, "").spec
    return recorded({"error": {"message": "No.", "type": spec.type, "param": param, "code": code}}, spec.status)


def spoiled(rule: str, *changes: Change) -> Defect:
    value = body(RIVER, PRIMES)
    for change in changes:
        change(value)
    return Defect(rule, recorded(value))


DEFECTS = [
    spoiled("list.members", drop("model")),
    spoiled("list.members", put("object", "vectors")),
    spoiled("list.entries", put("data", [])),
    spoiled("list.entries", drop("data.1.object")),
    spoiled("list.entries", put("data.0.object", "vector")),
    spoiled("list.index", put("data.0.index", 1)),
    spoiled("vector.numbers", put("data.0.embedding", [])),
    spoiled("vector.numbers", put("data.0.embedding", [0.5, None, 1, 2])),
    spoiled("vector.numbers", put("data.0.embedding", "not base64")),
    spoiled("vector.numbers", put("data.0.embedding", "AAAA")),
    spoiled("vector.numbers", put("data.0.embedding", [10**400])),
    spoiled("vector.length", put("data.1.embedding", [1.0])),
    spoiled("count.usage", drop("usage")),
    spoiled("count.usage", put("usage.total_tokens", 6)),
]


def right_exchanges() -> dict[str, ObservedExchange]:
    """What a right endpoint answers to the whole plan."""
    answers = {
        "single": recorded(body(RIVER)),
        "batch": recorded(body(*(RIVER if text == TEXTS[0] else PRIMES for text in TEXTS))),
        "base64": recorded(body(packed(RIVER))),
        "dimensions": recorded(body([0.1] * DIMENSIONS)),
    }
    made = {}
    for number, request in enumerate(EMBEDDINGS_PLAN.requests(EMBEDDINGS_PLAN.options("m"))):
        recording = answers[request.name] if request.name in answers else refusal(*REFUSED[request.name])
        headers = (HEADERS[0], ("x-request-id", f"req_{number}"))
        recording = structs.replace(recording, headers=headers, name=request.name)
        made[request.name] = ObservedExchange(name=request.name, probe_request=request, recording=recording)
    return made


def becomes(name: str, recording: Recording) -> SessionChange:
    def change(exchanges: dict[str, ObservedExchange]) -> None:
        before = exchanges[name].recording
        assert before is not None
        answer = structs.replace(recording, name=name, headers=before.headers)
        exchanges[name] = structs.replace(exchanges[name], recording=answer)

    return change


def known(name: str, **members: Any) -> SessionChange:
    def change(exchanges: dict[str, ObservedExchange]) -> None:
        exchanges[name] = structs.replace(exchanges[name], **members)

    return change


def same_request_id(exchanges: dict[str, ObservedExchange]) -> None:
    for name, each in exchanges.items():
        assert each.recording is not None
        exchanges[name] = structs.replace(each, recording=structs.replace(each.recording, headers=HEADERS))


SESSION_DEFECTS: dict[str, SessionChange] = {
    "refused.unknown-model": becomes("unknown-model", refusal("invalid_value", "model")),
    "refused.wrong-key": becomes("wrong-key", refusal("model_not_found")),
    "refused.no-key": becomes("no-key", refusal("model_not_found")),
    "refused.not-json": becomes("not-json", refusal("model_not_found")),
    "refused.wrong-type": becomes("wrong-type", refusal("model_not_found", "input")),
    "refused.no-input": becomes("no-input", refusal("model_not_found", "input")),
    "refused.empty": becomes("empty", recorded(body(RIVER))),
    "refused.param": becomes("no-input", refusal("missing_required_parameter")),
    "refused.keeps-secrets": known("wrong-key", leaked_key=True),
    "asked.count": becomes("batch", recorded(body(RIVER))),
    "asked.order": becomes("batch", recorded(body(PRIMES, RIVER, RIVER))),
    "asked.encoding": becomes("base64", recorded(body(RIVER))),
    "asked.base64": becomes("base64", recorded(body(packed(PRIMES)))),
    "asked.dimensions": becomes("dimensions", recorded(body(RIVER))),
    "connection.complete": known("base64", failure_kind=FailureKind.CUT, failure="the endpoint broke off"),
    "connection.request-ids": same_request_id,
}
