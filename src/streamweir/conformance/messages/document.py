"""Rules for a whole message, for the body of a failed response, and for headers."""

from collections.abc import Iterator

from streamweir.conformance.api_group import lacking
from streamweir.conformance.messages.answer import MessagesAnswer
from streamweir.conformance.messages.api import MessagesApi
from streamweir.conformance.messages.group import ERRORS, REFERENCE, MessagesGroup
from streamweir.conformance.messages.stream import lacks_words, wrong_call_reason
from streamweir.conformance.parsed_answer import is_count
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import quote, quote_names

WHOLE = MessagesGroup("whole", Kind.WHOLE)
FAILURE = MessagesGroup("failure", Kind.FAILURE)
HEADER = MessagesGroup("header", Kind.STREAM, Kind.WHOLE, Kind.FAILURE)


def _violation(answer: MessagesAnswer, message: str) -> Violation:
    return Violation(message, answer.recording.body, 0)


@WHOLE.rule(
    "members",
    "A message has its members",
    text="A whole answer is an object with every member of a message, of the right types; its `type` is `message`.",
    why="SDKs read each of them.",
    source=REFERENCE,
)
def members(answer: MessagesAnswer, api: MessagesApi) -> Iterator[Violation]:
    wanted = {name: like for name, like in api.message.items() if name not in ("usage", "stop_reason")}
    missing = lacking(answer.parsed.body.value, wanted)
    if missing:
        yield _violation(answer, f"{quote_names(missing)} missing, or of another type")
    elif answer.document["type"] != "message" or answer.document["role"] != "assistant":
        yield _violation(answer, "`type` or `role` has another value")


@WHOLE.rule(
    "some",
    "A message has a block",
    text="`content` has at least one block.",
    why="Clients read the first one without asking whether it is there.",
    source=REFERENCE,
    severity=Severity.ODD,
    needs=lambda answer: isinstance(answer.document.get("content"), list),
    lacks="no `content` in it",
)
def some(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    if not answer.document["content"]:
        yield _violation(answer, "`content` is empty")


@WHOLE.rule(
    "content",
    "Blocks have their members",
    text="Every block has a type; blocks of a known kind have the members of their kind.",
    why="Clients read each member without asking whether it is there.",
    source=REFERENCE,
    needs=lambda answer: isinstance(answer.document.get("content"), list),
    lacks="no `content` in it",
)
def content(answer: MessagesAnswer, api: MessagesApi) -> Iterator[Violation]:
    for number, block in enumerate(answer.document["content"]):
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str):
            yield _violation(answer, f"block {number} has no `type`")
        elif kind in api.blocks and (missing := lacking(block, dict(api.blocks[kind]))):
            yield _violation(answer, f"block {number}: {quote_names(missing)} missing, or of another type")


@WHOLE.rule(
    "stop-reason",
    "The stop reason is known",
    text="`stop_reason` is one of the API's words; `tool_use` goes with a call.",
    why="Agents act on it.",
    source=REFERENCE,
)
def stop_reason(answer: MessagesAnswer, api: MessagesApi) -> Iterator[Violation]:
    if str(answer.stop_reason) not in api.stop_reasons:
        yield _violation(answer, f"the stop reason is {quote(answer.stop_reason)}")
    elif wrong := wrong_call_reason(answer):
        yield _violation(answer, wrong)


@WHOLE.rule(
    "usage",
    "Usage is there",
    text="`usage` has `input_tokens` and `output_tokens`, which are counts.",
    why="Clients bill by it.",
    source=REFERENCE,
)
def usage(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    wrong = [name for name in ("input_tokens", "output_tokens") if not is_count(answer.usage.get(name))]
    if wrong:
        yield _violation(answer, f"{quote_names(wrong)} missing, or no count")


@FAILURE.rule(
    "object",
    "A failure says what it is",
    text='The body of a failure is an object with `type` `"error"` and an `error` with a `type` and a `message`.',
    why="SDKs show them in their exception.",
    source=ERRORS,
)
def failure_object(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    if lacks_words(answer.document) or answer.document.get("type") != "error":
        yield _violation(answer, 'no `"type": "error"` with an `error`, its `type` and its `message`')


@FAILURE.rule(
    "type",
    "The type fits the status",
    text="The type of an error is the one of its status.",
    why="Some clients decide by the status whether to try again, some by the type: they must say the same.",
    source=ERRORS,
    needs=lambda answer: answer.recording.status is not None and not lacks_words(answer.document),
    lacks="the status was not recorded, or there is no type",
)
def failure_type(answer: MessagesAnswer, api: MessagesApi) -> Iterator[Violation]:
    status, reported = answer.recording.status or 0, answer.document["error"]["type"]
    types = api.error_types.get(status, api.error_types[500 if status >= 500 else 400])
    if status >= 400 and reported not in types:
        yield _violation(answer, f"status {status} with {quote(reported)}, not {quote_names(sorted(types))}")


@FAILURE.rule(
    "status",
    "A failure has the status of one",
    text="A failure that is no stream has a status of 400 or more.",
    why="SDKs raise by the status: with 200 they take the error for a message.",
    source=ERRORS,
    needs=lambda answer: answer.recording.status is not None,
    lacks="the status was not recorded",
)
def failure_status(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    if (answer.recording.status or 0) < 400:
        yield _violation(answer, f"the status is {answer.recording.status}")


@HEADER.rule(
    "request-id",
    "An answer can be named",
    text="Every answer has a `request-id` that is not empty.",
    why="SDKs show it in their exceptions: it is what a user tells the service.",
    source=ERRORS,
    severity=Severity.ODD,
    needs=lambda answer: answer.recording.headers is not None,
    lacks="headers were not recorded",
)
def request_id(answer: MessagesAnswer, _: MessagesApi) -> Iterator[Violation]:
    if not answer.recording.header("request-id"):
        yield Violation("no `request-id`")
