"""The end of an attempt: what the router, the memory of conversations and the metrics learn of it, and the records."""

import time

from streamweir.core.request import ChatRequest, Prompt
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.settlement import PendingSettlement
from streamweir.policy.pricing.quotation import OF_CREDENTIAL, may_be_quoted
from streamweir.policy.routing.health import Candidate
from streamweir.server.relay.observer import AttemptObserver
from streamweir.server.relay.relay import Relay
from streamweir.server.request.attempt.attempt_report import note_error
from streamweir.server.request.attempt.candidates import Candidates
from streamweir.server.request.runtime.config import RuntimeConfig
from streamweir.server.telemetry.record import AttemptRecord, RequestRecord

_BAD_REQUEST = 400

WORKED_ON = frozenset({"upstream_timeout", "stream_idle_timeout", "stream_deadline_exceeded"})
"""Errors of an upstream that had received the request: it may bill for the prompt."""


def report_first_token(
    runtime: RuntimeConfig, observer: AttemptObserver, candidate: Candidate, began_at: float
) -> None:
    router, now = runtime.router, time.monotonic()
    router.answered(candidate, now, now - began_at)
    if router.changes:
        observer.credentials_changed(router.changes)


def report_answer(runtime: RuntimeConfig, observer: AttemptObserver, candidates: Candidates) -> None:
    """A candidate has answered: credentials that the same target refused for this request are of no use, and what the
    target refused of the request itself was the reason."""
    router, now, answered = runtime.router, time.monotonic(), candidates.candidate
    for candidate, error in candidates.refused:
        is_other = candidate.target == answered.target and candidate.credential != answered.credential
        if is_other and router.confirmed(candidate, now, error):
            observer.ejected(str(candidate.target))
    for target, learn in candidates.repairs:
        if target == answered.target:
            learn()
    if router.changes:
        observer.credentials_changed(router.changes)


def report_attempt(
    runtime: RuntimeConfig,
    observer: AttemptObserver,
    relay: Relay,
    meter: Meter,
    candidate: Candidate,
    attempt: AttemptRecord,
    chat: ChatRequest | None,
    prompt: Prompt | None,
    conversation: bytes | None,
    *,
    is_stopped: bool,
    has_content: bool,
) -> None:
    """`conversation`: that of the request, if it chooses candidates. `is_stopped`: the gateway has ended the attempt.
    `has_content`: the key stores prompts and answers."""
    router, now = runtime.router, time.monotonic()
    error = relay.failure or meter.record.error
    attempt.model = meter.record.model
    if conversation is not None and relay.first_token_at is not None:
        router.affinity.note(conversation, candidate, now)  # however it ends, the prompt was read
    if relay.verdict is None and error is not None and not is_stopped:
        note_error(attempt, error, runtime.config, prompt, has_content=has_content)
        if error.is_only_in_text and attempt.status == _BAD_REQUEST:
            error.is_of_caller = chat is None or may_be_quoted(chat, OF_CREDENTIAL)
        if router.failed(candidate, now, error):
            observer.ejected(attempt.target)
    elif relay.first_token_at is not None:
        router.succeeded(candidate, now)
    else:
        router.abandoned(candidate)
    if router.changes:
        observer.credentials_changed(router.changes)
    outcome = attempt.error or relay.verdict or ("stopped" if is_stopped else None)
    observer.attempt_ended(attempt.target, outcome)


def complete_record(record: RequestRecord, relay: Relay, meter: Meter) -> PendingSettlement | None:
    """The record of a request whose last attempt was this. Returns what must still be counted."""
    pending = meter.close(relay.verdict)
    settlement = pending.settlement
    record.verdict = settlement.verdict
    record.error = settlement.error.code if settlement.error is not None else None
    record.completion_id = settlement.completion_id
    record.service_tier = meter.record.service_tier
    record.flags += settlement.flags
    record.finish = next(iter(settlement.finishes.values()), None)
    relay.complete_record(record)
    if not relay.is_billable:
        return None
    if pending.needs_count:
        return pending
    record.usage, record.usage_source = settlement.usage, settlement.usage_source
    record.delivered = settlement.delivered
    return None
