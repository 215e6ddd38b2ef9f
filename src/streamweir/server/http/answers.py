"""Answers that are not streams: a JSON document, an error in the format of the caller's API, an error of our own API.

The headers of an error are chosen here and nowhere else. So every refusal has the same ones: whether to try again
(`x-should-retry`) and when (`retry-after`).
"""

import time
from math import ceil

from streamweir.core.errors import StreamweirError
from streamweir.frontends.base import JSON, Frontend
from streamweir.server.http.message import Answer, Headers
from streamweir.wire import jsonio

MAX_RETRY_AFTER_S = 120
"""The openai SDKs do not wait for longer."""
_DEFAULT_RETRY_AFTER_S = {409: 1.0, 503: 2.0, 529: 2.0}


class Refusal(Exception):
    """Why a request is not admitted, with the headers of the answer."""

    def __init__(self, error: StreamweirError, headers: Headers = ()) -> None:
        super().__init__(error)
        self.error = error
        self.headers = headers


def json_answer(document: object, status: int = 200, headers: Headers = ()) -> Answer:
    return Answer(status=status, headers=JSON + headers, body=jsonio.encode(document))


def failure_answer(
    error: StreamweirError, frontend: Frontend, headers: Headers = (), request_id: str = "", /
) -> Answer:
    """`headers`: further headers, for example `allow`. `request_id`: empty if one answer is sent to many requests."""
    status, body, own = frontend.write_error(error, request_id)
    headers = frontend.own_headers(headers, request_id, (), time.time())
    return Answer(status=status, headers=own + _retry_headers(error, status) + headers, body=body)


def api_failure_answer(error: StreamweirError, headers: Headers = ()) -> Answer:
    """The answer of our own API. It does not depend on the configured dialect."""
    spec = error.spec
    members = {"message": error.message, "type": spec.type, "param": error.param, "code": error.code}
    if error.event_id is not None:
        members["event_id"] = error.event_id
    return json_answer({"error": members}, spec.status, _retry_headers(error, spec.status) + headers)


def _retry_headers(error: StreamweirError, status: int) -> Headers:
    if status == 401:
        return (("www-authenticate", "Bearer"), ("x-should-retry", "false"))
    if not error.spec.may_retry and error.retry_after_s is None:
        return (("x-should-retry", "false"),)
    wait_s = error.retry_after_s if error.retry_after_s is not None else _DEFAULT_RETRY_AFTER_S.get(status)
    retry: Headers = (("x-should-retry", "true"),) if status >= 500 else ()
    if wait_s is None:
        return retry
    return (*retry, ("retry-after", str(min(ceil(wait_s), MAX_RETRY_AFTER_S))))
