"""Google's errors, in addition to the common mapping in `providers.failure`.

Two things are in the details of the error, which the mapping does not read: whether a 400 is about the API key, which
is the gateway's and so never the caller's fault; and how long to wait (`RetryInfo`).
"""

from collections.abc import Mapping
from typing import Any

from streamweir.core.errors import StreamweirError
from streamweir.providers import failure
from streamweir.wire import jsonio

_KEY_REASONS = (
    "CONSUMER_SUSPENDED",
    "API_KEY_INVALID",
    "API_KEY_EXPIRED",
    "API_KEY_SERVICE_BLOCKED",
    "ACCESS_TOKEN_EXPIRED",
)


def classify(value: object, status: int | None = None, retry_after_s: float | None = None) -> StreamweirError:
    """The error for `value`, a body or an `error` object. `status`: of a failed response."""
    if isinstance(value, list) and value:  # quirk: without alt=sse the error is in an array
        value = value[0]
    error_details = failure.ErrorDetails(value)
    details = _details(value)
    if any(detail.get("reason") in _KEY_REASONS for detail in details):
        error = failure.auth_failed(is_of_account=True)
        error.report = error_details.report()
        return error
    delay_s = _retry_delay_s(details) if retry_after_s is None else retry_after_s
    return failure.classify(error_details, status, delay_s)


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> StreamweirError:
    try:
        value = jsonio.decode(body)
    except jsonio.InvalidJson:
        value = None
    return classify(value, status, failure.retry_after_s(headers))


def _details(value: object) -> list[Mapping[str, Any]]:
    error = value.get("error", value) if isinstance(value, Mapping) else None
    details = error.get("details") if isinstance(error, Mapping) else None
    return [detail for detail in details if isinstance(detail, Mapping)] if isinstance(details, list) else []


def _retry_delay_s(details: list[Mapping[str, Any]]) -> float | None:
    """`{"retryDelay": "26s"}`, a protobuf Duration; treated like the header `Retry-After`."""
    for detail in details:
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            return failure.retry_after_s({"retry-after": delay[:-1]})
    return None
