"""Headers: the status line and the header fields, if they were recorded."""

from collections.abc import Iterator

from streamweir.conformance.parsed_answer import ParsedAnswer
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import RuleGroup, quote
from streamweir.frontends.chat.dialect import Dialect

HEADER = RuleGroup("header", kind=None)


def _no_headers(answer: ParsedAnswer, _: Dialect) -> str | None:
    return "headers were not recorded" if answer.recording.headers is None else None


def _not_a_stream(answer: ParsedAnswer, dialect: Dialect) -> str | None:
    return "no streamed answer" if answer.kind is not Kind.STREAM else _no_headers(answer, dialect)


def _not_a_document(answer: ParsedAnswer, dialect: Dialect) -> str | None:
    return "no whole answer" if answer.kind is Kind.STREAM else _no_headers(answer, dialect)


def _header_violation(answer: ParsedAnswer, name: str) -> Violation:
    value = answer.recording.header(name)
    return Violation(f"`{name}` is {quote(value)}", (value or "").encode("utf-8", "replace"))


def _media_type(answer: ParsedAnswer) -> str:
    return (answer.recording.header("content-type") or "").partition(";")[0].strip().lower()


@HEADER.rule(
    "stream-type",
    "A stream says that it is one",
    text="A streamed answer has `content-type: text/event-stream`.",
    why="Browsers' readers refuse anything else; proxies buffer what is no event stream.",
    source="docs/spec/quirks.md W11",
    skip_reason=_not_a_stream,
)
def stream_type(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    if _media_type(answer) != "text/event-stream":
        yield _header_violation(answer, "content-type")


@HEADER.rule(
    "json-type",
    "A document says that it is one",
    text="A whole answer and a failure have `content-type: application/json`.",
    why="SDKs parse a body as JSON where its type says so, and hand it on as text otherwise.",
    source="docs/spec/quirks.md W11",
    skip_reason=_not_a_document,
)
def json_type(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    if _media_type(answer) != "application/json":
        yield _header_violation(answer, "content-type")


@HEADER.rule(
    "charset",
    "The charset is UTF-8",
    text="A `charset` in the content type, where there is one, is `utf-8`.",
    why="A client that believes it reads the text wrongly.",
    source="the WHATWG event-stream format; RFC 8259 section 8.1",
    skip_reason=_no_headers,
)
def charset(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for parameter in (answer.recording.header("content-type") or "").split(";")[1:]:
        name, _equals, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8"):
            yield _header_violation(answer, "content-type")


@HEADER.rule(
    "stream-status",
    "A stream has status 200",
    text="A streamed answer has the status 200.",
    why="SDKs raise for every other status without reading the stream.",
    source="docs/spec/dialects.md A17",
    skip_reason=lambda answer, _: (
        "the status was not recorded"
        if answer.recording.status is None
        else None
        if answer.kind is Kind.STREAM
        else "no streamed answer"
    ),
)
def stream_status(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    status = answer.recording.status
    if status != 200:
        yield Violation(f"the status is {status}")


@HEADER.rule(
    "no-cache",
    "A stream is not cached",
    text="A streamed answer has `cache-control` with `no-cache` or `no-store`.",
    why="A cache between may keep it, or collect it before it sends it on.",
    source="docs/spec/quirks.md W11",
    severity=Severity.ODD,
    skip_reason=_not_a_stream,
)
def no_cache(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    value = (answer.recording.header("cache-control") or "").lower()
    if "no-cache" not in value and "no-store" not in value:
        yield _header_violation(answer, "cache-control")


@HEADER.rule(
    "no-content-length",
    "A stream has no length",
    text="A streamed answer has no `content-length`.",
    why="Its length is known only at the end: it was collected before it was sent.",
    source="docs/spec/dialects.md A17; RFC 9112 section 6",
    severity=Severity.ODD,
    skip_reason=_not_a_stream,
)
def no_content_length(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    if answer.recording.header("content-length") is not None:
        yield _header_violation(answer, "content-length")


@HEADER.rule(
    "no-encoding",
    "A stream is not compressed",
    text="A streamed answer has no `content-encoding`.",
    why="Compressors and decompressors hold back text until they have enough of it.",
    source="docs/spec/quirks.md W11",
    severity=Severity.ODD,
    skip_reason=_not_a_stream,
)
def no_encoding(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    value = answer.recording.header("content-encoding")
    if value is not None and value.strip().lower() != "identity":
        yield _header_violation(answer, "content-encoding")


@HEADER.rule(
    "request-id",
    "An answer can be named",
    text="Every answer has an `x-request-id` that is not empty.",
    why="It is what a user tells the service when something went wrong.",
    source="docs/spec/quirks.md W11",
    severity=Severity.ODD,
    skip_reason=_no_headers,
)
def request_id(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    if not answer.recording.header("x-request-id"):
        yield Violation("no `x-request-id`")
