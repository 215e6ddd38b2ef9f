"""What goes out besides streams: the head of an event stream, a whole answer, a failure in the dialect's words.

One place decides which headers an error carries, so that every refusal, whoever makes it, tells a
client the same: whether to try again (`x-should-retry`), when (`retry-after`), and what is wrong.
"""

from math import ceil

from streamweir.core.errors import StreamweirError
from streamweir.frontends.chat.dialect import Dialect
from streamweir.frontends.chat.errors import envelope, words_of
from streamweir.server.http.message import Answer, Headers
from streamweir.wire import jsonio

EVENT_STREAM: Headers = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
)
JSON: Headers = (("content-type", "application/json"),)

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


def failure_answer(error: StreamweirError, dialect: Dialect, headers: Headers = ()) -> Answer:
    """`headers`: what the case adds, `allow` say."""
    words = words_of(error, dialect)
    return Answer(
        status=words.status,
        headers=JSON + _advice(error, words.status) + headers,
        body=jsonio.encode(envelope(error, dialect)),
    )


def _advice(error: StreamweirError, status: int) -> Headers:
    if status == 401:
        return (("www-authenticate", "Bearer"), ("x-should-retry", "false"))
    if not error.facts.may_retry:
        return (("x-should-retry", "false"),)
    wait_s = error.retry_after_s if error.retry_after_s is not None else _DEFAULT_RETRY_AFTER_S.get(status)
    retry: Headers = (("x-should-retry", "true"),) if status >= 500 else ()
    if wait_s is None:
        return retry
    return (*retry, ("retry-after", str(min(ceil(wait_s), LONGEST_RETRY_AFTER_S))))
