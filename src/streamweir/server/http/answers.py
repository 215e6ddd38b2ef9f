"""What goes out besides streams: a JSON document, an error as the caller's API writes it, an error of our own API.

One place decides which headers an error carries, so that every refusal, whoever makes it, tells a
client the same: whether to try again (`x-should-retry`), when (`retry-after`), and what is wrong.
"""

from math import ceil

from streamweir.core.errors import StreamweirError
from streamweir.frontends.base import JSON, Frontend
from streamweir.server.http.message import Answer, Headers
from streamweir.wire import jsonio

LONGEST_RETRY_AFTER_S = 120
"""The openai SDKs do not wait for longer."""
_DEFAULT_RETRY_AFTER_S = {409: 1.0, 503: 2.0}


class Refusal(Exception):
    """Why a request is not let in, with the headers that go with it."""

    def __init__(self, error: StreamweirError, headers: Headers = ()) -> None:
        super().__init__(error)
        self.error = error
        self.headers = headers


def json_answer(document: object, status: int = 200, headers: Headers = ()) -> Answer:
    return Answer(status=status, headers=JSON + headers, body=jsonio.encode(document))


def failure_answer(error: StreamweirError, frontend: Frontend, headers: Headers = ()) -> Answer:
    """`headers`: what the case adds, `allow` say."""
    status, body, own = frontend.write_error(error)
    return Answer(status=status, headers=own + _advice(error, status) + headers, body=body)


def api_failure_answer(error: StreamweirError, headers: Headers = ()) -> Answer:
    """As our own API answers, whatever the dialect of the configuration."""
    spec = error.spec
    members = {"message": error.message, "type": spec.type, "param": error.param, "code": error.code}
    if error.event_id is not None:
        members["event_id"] = error.event_id
    return json_answer({"error": members}, spec.status, _advice(error, spec.status) + headers)


def _advice(error: StreamweirError, status: int) -> Headers:
    if status == 401:
        return (("www-authenticate", "Bearer"), ("x-should-retry", "false"))
    if not error.spec.may_retry:
        return (("x-should-retry", "false"),)
    wait_s = error.retry_after_s if error.retry_after_s is not None else _DEFAULT_RETRY_AFTER_S.get(status)
    retry: Headers = (("x-should-retry", "true"),) if status >= 500 else ()
    if wait_s is None:
        return retry
    return (*retry, ("retry-after", str(min(ceil(wait_s), LONGEST_RETRY_AFTER_S))))
