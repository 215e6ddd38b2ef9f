"""Rules for a whole response, and for the body of a failed request."""

from collections.abc import Iterator

from streamweir.conformance.api_group import lacking
from streamweir.conformance.recording import Kind
from streamweir.conformance.responses.answer import ResponsesAnswer
from streamweir.conformance.responses.api import END_STATUSES, ResponsesApi
from streamweir.conformance.responses.group import ERRORS, REFERENCE, ResponsesGroup
from streamweir.conformance.responses.item import wrong_item
from streamweir.conformance.responses.part import CALLS, wrong_arguments
from streamweir.conformance.responses.response import wrong_counts, wrong_details, wrong_error, wrong_reason, wrong_sum
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import quote, quote_names

WHOLE = ResponsesGroup("whole", Kind.WHOLE)
FAILURE = ResponsesGroup("failure", Kind.FAILURE)


def _violation(answer: ResponsesAnswer, message: str) -> Violation:
    return Violation(message, answer.recording.body, 0)


def _has_output(answer: ResponsesAnswer) -> bool:
    return isinstance(answer.document.get("output"), list)


@WHOLE.rule(
    "members",
    "A response has its members",
    text="A whole answer is an object with the members that the API requires, of the right types; its `object` is "
    "`response`.",
    why="Typed clients refuse an answer without them.",
    source=REFERENCE,
)
def members(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    missing = lacking(answer.parsed.body.value, dict(api.response))
    if missing:
        yield _violation(answer, f"{quote_names(missing)} missing, or of another type")
    elif answer.document["object"] != "response":
        yield _violation(answer, f"`object` is {quote(answer.document['object'])}")


@WHOLE.rule(
    "id",
    "The id has its form",
    text="The id of a response begins with `resp_`.",
    why="Clients recognise the kind of an id by its prefix.",
    source=REFERENCE,
    severity=Severity.ODD,
    needs=lambda answer: isinstance(answer.document.get("id"), str),
    lacks="no id in it",
)
def id_form(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    if not answer.document["id"].startswith(api.response_prefix):
        yield _violation(answer, f"the id is {quote(answer.document['id'])}")


@WHOLE.rule(
    "status",
    "The status is final",
    text="`status` is `completed`, `incomplete` with its reason, or `failed` with its error.",
    why="Clients treat any other status as an answer that is still running.",
    source=REFERENCE,
    needs=lambda answer: isinstance(answer.document.get("status"), str),
    lacks="no `status` in it",
)
def status(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    if answer.document["status"] not in END_STATUSES:
        yield _violation(answer, f"`status` is {quote(answer.document['status'])}")
    elif wrong := wrong_reason(answer.document, api) or wrong_error(answer.document):
        yield _violation(answer, wrong)


@WHOLE.rule(
    "some",
    "An answer has an item",
    text="`output` of a completed response has at least one item.",
    why="Clients read the first one without a check.",
    source=REFERENCE,
    severity=Severity.ODD,
    needs=lambda answer: _has_output(answer) and answer.document.get("status") == "completed",
    lacks="no `output` in it, or the response is not completed",
)
def some(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    if not answer.document["output"]:
        yield _violation(answer, "`output` is empty")


@WHOLE.rule(
    "items",
    "Items have their members",
    text="Every item has a type, and one of a known kind the members of its kind.",
    why="Typed clients refuse an item without them.",
    source=REFERENCE,
    needs=_has_output,
    lacks="no `output` in it",
)
def items(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    for number, item in enumerate(answer.document["output"]):
        if wrong := wrong_item(item, api):
            yield _violation(answer, f"item {number}: {wrong}")


@WHOLE.rule(
    "calls",
    "Calls can be executed",
    text="Every call has a name and a `call_id` of its own; arguments of a complete call are one JSON object.",
    why="Clients execute the call and send the result back under its id.",
    source=REFERENCE,
    needs=lambda answer: any(item.get("type") in CALLS for item in answer.output),
    lacks="no call in it",
)
def calls(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    seen: list[object] = []
    for item in (item for item in answer.output if item.get("type") in CALLS):
        id, name = item.get("call_id"), item.get("name")
        if id == "" or name == "" or (isinstance(id, str) and id in seen):
            yield _violation(answer, f"`call_id` {quote(id)}, name {quote(name)}")
        elif item.get("type") == "function_call" and (wrong := wrong_arguments(item)):
            yield _violation(answer, wrong)
        seen.append(id)


@WHOLE.rule(
    "usage",
    "The response has usage",
    text="`usage` of a response that did not fail has its three counts with their details, and the total is the sum.",
    why="Clients bill by it.",
    source=REFERENCE,
    needs=lambda answer: answer.document.get("status") != "failed",
    lacks="the response failed",
)
def usage(answer: ResponsesAnswer, api: ResponsesApi) -> Iterator[Violation]:
    found = answer.document.get("usage")
    if wrong := wrong_counts(found, api) or wrong_details(answer.usage, api) or wrong_sum(answer.usage):
        yield _violation(answer, wrong)


@FAILURE.rule(
    "object",
    "A failure has a message and a type",
    text="The body of a failure is an object with an `error` that has a `message` and a `type`, both texts.",
    why="SDKs show them in their exception.",
    source=ERRORS,
)
def failure_object(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    error = answer.document.get("error")
    found = [error.get(name) for name in ("message", "type")] if isinstance(error, dict) else [None]
    if not all(isinstance(each, str) and each for each in found):
        yield _violation(answer, "no `error` with a `message` and a `type`")


@FAILURE.rule(
    "code",
    "A failure has a code and a param",
    text="`error` has a `code` and a `param`, each a text or null.",
    why="They name the member of the request that is wrong.",
    source=ERRORS,
    needs=lambda answer: isinstance(answer.document.get("error"), dict),
    lacks="no `error` in it",
)
def failure_code(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    error = answer.document["error"]
    wrong = [name for name in ("code", "param") if name not in error or not isinstance(error[name], str | None)]
    if wrong:
        yield _violation(answer, f"{quote_names(wrong)} missing, or neither a text nor null")


@FAILURE.rule(
    "status",
    "A failure has the status of one",
    text="A failure that is neither a stream nor a response has a status of 400 or more.",
    why="SDKs raise by the status: with 200 they treat the error as a response.",
    source=ERRORS,
    needs=lambda answer: answer.recording.status is not None,
    lacks="the status was not recorded",
)
def failure_status(answer: ResponsesAnswer, _: ResponsesApi) -> Iterator[Violation]:
    if (answer.recording.status or 0) < 400:
        yield _violation(answer, f"the status is {answer.recording.status}")
