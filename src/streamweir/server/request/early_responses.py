"""Requests that were not started: refused, malformed, or whose caller disconnected. The answer to each, and its record.

Each of them leaves one record, as every other request does. The answer has the format of the caller's API, by its
path, else by its key. A request that is refused for overload has no log line: there are most of them when the load is
highest. Of callers without a valid key a limited number is recorded (`policy.refusal_quota`): anyone can send them.
"""

import time
from collections.abc import Callable
from math import inf

from msgspec import structs

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.core.verdict import Verdict, verdict_of_error
from streamweir.frontends.base import Frontend
from streamweir.policy.access import Key
from streamweir.policy.refusal_quota import RefusalQuota
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.accounting.settlement import EndedRequest, Settlements
from streamweir.server.http.answers import failure_answer
from streamweir.server.http.message import Answer, Headers, Request
from streamweir.server.http.security_headers import with_security_headers
from streamweir.server.request.admission import Admission, frontend_of, key_of, new_record, parse_path
from streamweir.server.request.runtime.config import RuntimeConfig
from streamweir.server.request.sent_parameters import model_in, refusal_of
from streamweir.server.telemetry.log import log_fault, logger
from streamweir.server.telemetry.metrics import Metrics
from streamweir.server.telemetry.record import RequestRecord


class EarlyResponses:
    def __init__(
        self,
        settlements: Settlements,
        metrics: Metrics,
        directory: KeyDirectory,
        runtime: Callable[[], RuntimeConfig],
        *,
        is_secure: bool,
    ) -> None:
        """`is_secure`: callers come by TLS."""
        self._settlements = settlements
        self._metrics = metrics
        self._directory = directory
        self._runtime = runtime
        self._is_secure = is_secure
        self._quota = RefusalQuota()

    def answer(
        self,
        request: Request,
        error: StreamweirError,
        headers: Headers = (),
        frontend: Frontend | None = None,
        key: Key | None = None,
    ) -> Answer:
        """The answer to the caller. Also records the request."""
        if frontend is None:  # after a fault the key directory is not used
            key = key_of(request, self._directory)
        frontend = frontend or frontend_of(request, self._runtime(), self._directory)
        answer = failure_answer(error, frontend, headers, request.id)
        answer = structs.replace(
            answer, headers=with_security_headers(request.path, answer.headers, is_secure=self._is_secure)
        )
        # A revoked key ends running requests; this one was not started.
        verdict = Verdict.REJECTED if isinstance(error, CallerError) else verdict_of_error(error)
        record = self._record_of(request, frontend, key, answer.status, verdict)
        record.error = error.code
        record.refusal = refusal_of(error, has_content=key is not None and key.log_content)
        if error.code == "overloaded":
            self._metrics.request_ended(record)
        else:
            self._record(record)
        return answer

    def fault(self, request: Request, reason: BaseException) -> Answer:
        """The answer after an exception: one of our errors, or a bug, which is logged."""
        if isinstance(reason, StreamweirError):
            return self.answer(request, reason)
        log_fault(reason, request.id)
        fault = GatewayFault("internal_error", "The gateway failed to answer.", event_id=request.id)
        where = parse_path(request.path)  # only by its path: the key directory may be what failed
        return self.answer(request, fault, (), (where and where.frontend) or self._runtime().frontend)

    def settle(
        self, request: Request, status: int, verdict: Verdict, frontend: Frontend | None = None, key: Key | None = None
    ) -> None:
        """Records a request that was answered, or whose caller has disconnected."""
        self._record(self._record_of(request, frontend or self._runtime().frontend, key, status, verdict))

    def looked_up(self, request: Request, status: int, frontend: Frontend, key: Key) -> None:
        """A list of models was read. It has no row of the request log: programs read it all the time."""
        record = self._record_of(request, frontend, key, status, Verdict.COMPLETED)
        record.has_row = False
        self._record(record)

    def caller_gone(self, request: Request) -> None:
        """The caller disconnected before there was an answer."""
        admission = request.admitted
        if isinstance(admission, Admission):
            self.settle(request, 499, Verdict.CLIENT_GONE, admission.frontend, admission.key)
        else:
            self.settle(request, 499, Verdict.CLIENT_GONE)

    def answered(self, request: Request, status: int) -> None:
        """Answered by the control plane. Only refusals are recorded: lines for probes would hide other lines."""
        if 400 <= status < 500:
            self.settle(request, status, Verdict.REJECTED)

    def log_left_out(self, *, is_last: bool = False) -> None:
        """Logs the number of requests that were not recorded, once a minute. To be called from time to time, and at the
        end of the process (`is_last`)."""
        left_out = self._quota.take_left_out(inf if is_last else time.monotonic())
        if left_out is not None:
            logger.warning("requests without a valid key not recorded", count=left_out.count, most=left_out.most)

    def _record(self, record: RequestRecord) -> None:
        self.log_left_out()
        if record.key_id is None and not self._quota.admits(record.peer, time.monotonic()):
            self._metrics.request_ended(record)
        else:
            self._settlements.settle(EndedRequest(record=record))

    def _record_of(
        self, request: Request, frontend: Frontend, key: Key | None, status: int, verdict: Verdict
    ) -> RequestRecord:
        record = new_record(request, self._runtime(), frontend, key)
        record.status, record.verdict = status, verdict
        if key is not None:
            record.model = model_in(request.body)
        return record
