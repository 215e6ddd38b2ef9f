"""Rules for the response object in a stream, for its usage, and for errors."""

from collections.abc import Iterator
from typing import Any

from streamweir.conformance.api_group import lacking
from streamweir.conformance.parsed_answer import is_count
from streamweir.conformance.responses.answer import ResponseEvent, ResponsesAnswer
from streamweir.conformance.responses.api import BEGINNING, END_STATUSES, TERMINAL, ResponsesApi
from streamweir.conformance.responses.group import ERRORS, REFERENCE, ResponsesGroup
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import quote, quote_names, violation_in

RESPONSE = ResponsesGroup("response")
COUNT = ResponsesGroup("count")
ERROR = ResponsesGroup("error")

_STATUSES = {
    "response.created": ("in_progress", "queued"),
    "response.queued": ("queued",),
    "response.in_progress": ("in_progress",),
    **{event: (status,) for status, event in END_STATUSES.items()},
}
_NO_RESPONSE = "no response object in it"


def _responses(answer: ResponsesAnswer) -> list[ResponseEvent]:
    return answer.of_type(*BEGINNING, *TERMINAL)


def _early(answer: ResponsesAnswer) -> list[ResponseEvent]:
    return answer.of_type(*BEGINNING)


def _ended_well(answer: ResponsesAnswer) -> bool:
    return answer.has_ended_well


@RESPONSE.rule(
    "members",
    "A response has its members",
    text="Every `response` has the members that the API requires, of the right types; its `object` is `response`.",
    why="Typed clients refuse the event, and with it the whole answer: at the end, too.",
    source=REFERENCE,
    needs=_responses,
    lacks=_NO_RESPONSE,
)
def members(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    for event in _responses(answer):
        missing = lacking(event.document.get("response"), dict(api.response))
        if missing:
            yield violation_in(event.frame, f"{quote_names(missing)} missing, or of another type")
        elif event.response["object"] != "response":
            yield violation_in(event.frame, f"`object` is {quote(event.response['object'])}", b'"object"')


@RESPONSE.rule(
    "id",
    "The id has its form",
    text="The id of a response begins with `resp_`.",
    why="Clients recognise the kind of an id by its prefix.",
    source=REFERENCE,
    severity=Severity.ODD,
    needs=lambda answer: any(isinstance(event.response.get("id"), str) for event in _responses(answer)),
    lacks=_NO_RESPONSE,
)
def id_form(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    ids = [(event, event.response.get("id")) for event in _responses(answer)]
    event, id = next((event, id) for event, id in ids if isinstance(id, str))
    if not id.startswith(api.response_prefix):
        yield violation_in(event.frame, f"the id is {quote(id)}", b'"id"')


@RESPONSE.rule(
    "same-id",
    "A response keeps its id",
    text="`id` and `created_at` are the same in every `response` of a stream.",
    why="Clients store a response by its id: another id at the end is another response.",
    needs=lambda answer: len(_responses(answer)) > 1,
    lacks="fewer than two response objects in it",
)
def same_id(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    first, *rest = _responses(answer)
    for event in rest:
        for member in ("id", "created_at"):
            before, now = first.response.get(member), event.response.get(member)
            if before is not None and now is not None and before != now:
                yield violation_in(event.frame, f"`{member}` is {quote(now)}, it was {quote(before)}")


@RESPONSE.rule(
    "status",
    "The status fits the event",
    text="The `status` of a response is that of its event: `completed` in `response.completed` and so on.",
    why="Some clients read the status, others the event.",
    needs=_responses,
    lacks=_NO_RESPONSE,
)
def status(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for event in _responses(answer):
        found = event.response.get("status")
        if isinstance(found, str) and found not in _STATUSES[event.type]:
            yield violation_in(event.frame, f"`status` is {quote(found)}", b'"status"')


@RESPONSE.rule(
    "empty",
    "A response is empty at first",
    text="Before the end `output` is empty, and `usage`, `error` and `incomplete_details` are null.",
    why="Clients add the items that follow: items that are already there are doubled.",
    needs=_early,
    lacks="no `response.created` in it",
)
def empty(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for event in _early(answer):
        filled = [name for name in ("output", "usage", "error", "incomplete_details") if event.response.get(name)]
        if filled:
            yield violation_in(event.frame, f"{quote_names(filled)} set")


@RESPONSE.rule(
    "incomplete",
    "An incomplete response has a reason",
    text="`incomplete_details` has one of the API's values as `reason` if the response is incomplete, else it is null.",
    why="It decides whether agents shorten the conversation, request more, or stop.",
    source=REFERENCE,
    needs=lambda answer: answer.end,
    lacks="no end in it",
)
def incomplete(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    if answer.end is not None and (wrong := wrong_reason(answer.end.response, api)):
        yield violation_in(answer.end.frame, wrong, b"incomplete_details")


def wrong_reason(response: dict[str, Any], api: ResponsesApi) -> str:
    """What is wrong with `incomplete_details`; empty: nothing."""
    details, status = response.get("incomplete_details"), response.get("status")
    reason = details.get("reason") if isinstance(details, dict) else None
    if status == "incomplete":
        return "" if str(reason) in api.incomplete_reasons else f"the reason is {quote(reason)}"
    return f"`incomplete_details` is set, and the status is {quote(status)}" if details else ""


@RESPONSE.rule(
    "error",
    "A failed response has an error",
    text="`error` has a `code` and a `message`, both texts, if the response failed, else it is null.",
    why="The code decides whether agents shorten the conversation, stop or try again.",
    source=ERRORS,
    needs=lambda answer: answer.end,
    lacks="no end in it",
)
def response_error(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    if answer.end is not None and (wrong := wrong_error(answer.end.response)):
        yield violation_in(answer.end.frame, wrong, b'"error"')


def wrong_error(response: dict[str, Any]) -> str:
    """What is wrong with `error`; empty: nothing."""
    error = response.get("error")
    if response.get("status") != "failed":
        return "`error` is set, and the response did not fail" if error else ""
    found = [error.get(name) for name in ("code", "message")] if isinstance(error, dict) else [None]
    return "" if all(isinstance(each, str) and each for each in found) else "no `error` with a `code` and a `message`"


@COUNT.rule(
    "usage",
    "Usage is at the end",
    text="The last response of a complete answer has `usage` with `input_tokens`, `output_tokens` and `total_tokens`, "
    "which are counts.",
    why="Clients bill by it. Codex refuses the end, and sends the request again, if one of the three is missing.",
    needs=_ended_well,
    lacks="no complete answer in it",
)
def usage(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    if answer.end is not None and (wrong := wrong_counts(answer.response.get("usage"), api)):
        yield violation_in(answer.end.frame, wrong, b'"usage"')


def wrong_counts(usage: Any, api: ResponsesApi) -> str:
    if not isinstance(usage, dict):
        return f"`usage` is {quote(usage)}"
    wrong = [name for name in api.usage_counts if not is_count(usage.get(name))]
    return f"{quote_names(wrong)} missing, or no count" if wrong else ""


@COUNT.rule(
    "details",
    "Usage has its details",
    text="`usage` has counts in `input_tokens_details.cached_tokens` and `output_tokens_details.reasoning_tokens`.",
    why="Typed clients refuse usage without them.",
    needs=lambda answer: answer.has_ended_well and answer.usage,
    lacks="no usage in it",
)
def details(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    if answer.end is not None and (wrong := wrong_details(answer.usage, api)):
        yield violation_in(answer.end.frame, wrong, b'"usage"')


def wrong_details(usage: dict[str, Any], api: ResponsesApi) -> str:
    wrong = [
        f"{name}.{count}" for name, count in api.usage_details.items() if not is_count(_detail(usage, name, count))
    ]
    return f"{quote_names(wrong)} missing, or no count" if wrong else ""


def _detail(usage: dict[str, Any], name: str, count: str) -> Any:
    value = usage.get(name)
    return value.get(count) if isinstance(value, dict) else None


@COUNT.rule(
    "sum",
    "The total is the sum",
    text="`total_tokens` is the sum of `input_tokens` and `output_tokens`.",
    why="Costs are counted from either.",
    needs=lambda answer: answer.has_ended_well and answer.usage,
    lacks="no usage in it",
)
def total(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    if answer.end is not None and (wrong := wrong_sum(answer.usage)):
        yield violation_in(answer.end.frame, wrong, b'"usage"')


def wrong_sum(usage: dict[str, Any]) -> str:
    *parts, total = counts = [usage.get(name) for name in ("input_tokens", "output_tokens", "total_tokens")]
    if not all(map(is_count, counts)) or sum(filter(None, parts)) == total:
        return ""
    return f"{parts[0]} and {parts[1]} tokens, in total {total}"


@COUNT.rule(
    "parts",
    "Details are parts",
    text="Cached tokens are a part of the input, reasoning tokens a part of the output.",
    why="Clients subtract them, and get a number below 0.",
    severity=Severity.ODD,
    needs=lambda answer: answer.has_ended_well and answer.usage,
    lacks="no usage in it",
)
def parts(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    for name, count in api.usage_details.items():
        part, whole = _detail(answer.usage, name, count), answer.usage.get(name.removesuffix("_details"))
        if answer.end is not None and type(part) is int and type(whole) is int and 0 <= whole < part:
            yield violation_in(answer.end.frame, f"{part} `{count}` of {whole}", b'"usage"')


@ERROR.rule(
    "object",
    "An error has a code and a message",
    text="An `error` event has an `error` object with a `code` and a `message`, both texts that are not empty.",
    why="SDKs raise an exception if the members are in `error`. If they are next to `type`, one SDK raises nothing.",
    source=ERRORS,
    needs=lambda answer: answer.of_type("error"),
    lacks="no error in it",
)
def error_object(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    for event in answer.of_type("error"):
        found = [event.member("error").get(name) for name in ("code", "message")]
        if not all(isinstance(each, str) and each for each in found):
            yield violation_in(event.frame, "no `error` with a `code` and a `message`")


@ERROR.rule(
    "both",
    "An error is sent as two events",
    text="`error` and `response.failed` are sent together, in this order.",
    why="SDKs raise at `error` and not at `response.failed`; Codex reads only `response.failed`.",
    source=ERRORS,
    needs=lambda answer: answer.of_type("error", "response.failed") and not answer.parsed.was_cut,
    lacks="no error in it, or the recording was cut",
)
def both(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    errors, failed = answer.of_type("error"), answer.of_type("response.failed")
    if not failed:
        yield violation_in(errors[0].frame, "no `response.failed` after it")
    elif not errors or errors[0].frame.number > failed[0].frame.number:
        yield violation_in(failed[0].frame, "no `error` before it")


@ERROR.rule(
    "code",
    "The code of a failure is known",
    text="The code of `response.failed` is one of the API's.",
    why="The code decides whether they try again: with an unknown code they do.",
    source=ERRORS,
    severity=Severity.ODD,
    needs=lambda answer: any(isinstance(_code(event), str) for event in answer.of_type("response.failed")),
    lacks="no code of a failure in it",
)
def code(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    for event in answer.of_type("response.failed"):
        found = _code(event)
        if isinstance(found, str) and found and found not in api.stream_codes:
            yield violation_in(event.frame, f"no failure is named {quote(found)}", b'"error"')


def _code(event: ResponseEvent) -> object:
    error = event.response.get("error")
    return error.get("code") if isinstance(error, dict) else None
