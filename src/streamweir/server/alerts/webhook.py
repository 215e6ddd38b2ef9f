"""Sends one alert to one webhook: a signed POST, by the gateway's own client.

That client runs in the event loop with a deadline for everything, so that a receiver that hangs, or a name that cannot
be resolved, holds no thread and can be cancelled; it verifies certificates and never follows a redirect. Only the head
of the answer counts. Its body is not read: the connection is closed if it does not end at once. What the receiver says
is not stored either, but for its status.
"""

import asyncio
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from streamweir.config.model import Webhook
from streamweir.core.errors import StreamweirError
from streamweir.policy.webhook_signature import signed_headers
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.base import Endpoint
from streamweir.upstream.http1 import Http1Upstream

_REASONS = {
    "upstream_timeout": "could not be reached in time",
    "upstream_dns_failed": "its name could not be looked up",
    "upstream_tls_failed": "no trusted TLS connection",
    "upstream_connect_failed": "could not be reached",
    "upstream_stream_reset": "closed the connection",
    "upstream_bad_response": "its answer is not HTTP",
}


class Outcome(Struct, frozen=True, kw_only=True):
    """Of one attempt."""

    status: int | None = None
    """None: there was no answer."""
    error: str = ""
    """Empty: it is delivered."""
    retry_after_s: float | None = None

    @property
    def is_delivered(self) -> bool:
        return not self.error


class WebhookClient:
    def __init__(self, webhook: Webhook, clock_s: Callable[[], float]) -> None:
        """Raises `ValueError` for a URL that cannot be used."""
        self.webhook = webhook
        self._clock_s = clock_s
        parts = urlsplit(webhook.url)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._upstream = Http1Upstream(
            Endpoint(
                base_url=f"{parts.scheme}://{parts.netloc}",
                proxy=webhook.proxy,
                ca_file=webhook.ca_file,
                max_connections=2,
                connect_s=webhook.timeout_s,
            )
        )

    async def send(self, id: str, body: str) -> Outcome:
        webhook, encoded = self.webhook, body.encode()
        secrets = [webhook.secret] if webhook.old_secret is None else [webhook.secret, webhook.old_secret]
        headers = signed_headers(secrets, id, int(self._clock_s()), encoded)
        request = UpstreamRequest(
            path=self._path, headers=(("content-type", "application/json"), *headers), body=encoded
        )
        answer = _Answer()
        call = None
        try:
            async with asyncio.timeout(webhook.timeout_s):
                call = await self._upstream.open(request, answer)
                outcome = await answer.outcome
        except TimeoutError:
            if call is not None:
                call.abort()
            return Outcome(error=f"no answer within {webhook.timeout_s:g} s")
        except StreamweirError as error:
            return _failure(error)
        except BaseException:  # cancelled: the process ends
            if call is not None:
                call.abort()
            raise
        call.release()
        return outcome

    async def close(self) -> None:
        await self._upstream.close()


class _Answer:
    """A `Receiver` that waits for the head alone."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def head_received(self, status: int, headers: Mapping[str, str], /) -> None:
        error = ""
        if 300 <= status < 400:
            error = f"answered {status}: redirects are not followed"
        elif not 200 <= status < 300:
            error = f"answered {status}"
        self._set(Outcome(status=status, error=error, retry_after_s=_seconds(headers.get("retry-after"))))

    def body_received(self, data: bytes, /) -> None: ...

    def body_ended(self) -> None: ...

    def call_failed(self, error: StreamweirError, /) -> None:
        self._set(_failure(error))

    def _set(self, outcome: Outcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


def _failure(error: StreamweirError) -> Outcome:
    reason = _REASONS.get(error.code, error.code)
    detail = error.report.message() if error.report is not None else ""
    return Outcome(error=f"{reason} ({detail})" if detail else reason)


def _seconds(text: str | None) -> float | None:
    """A date is not used: the own schedule is good enough."""
    return float(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 8 else None
