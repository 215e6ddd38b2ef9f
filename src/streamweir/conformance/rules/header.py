"""Headers: what the status line and the fields around a body say. Only where they were recorded."""

from collections.abc import Iterator

from streamweir.conformance.parsed_answer import Reading
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import Chapter, shown
from streamweir.frontends.chat.dialect import Dialect

HEADER = Chapter("header", kind=None)


def _headers(reading: Reading, _: Dialect) -> str | None:
    return "headers were not recorded" if reading.recording.headers is None else None


def _of_stream(reading: Reading, dialect: Dialect) -> str | None:
    return "no streamed answer" if reading.kind is not Kind.STREAM else _headers(reading, dialect)


def _of_document(reading: Reading, dialect: Dialect) -> str | None:
    return "no whole answer" if reading.kind is Kind.STREAM else _headers(reading, dialect)


def _said(reading: Reading, name: str) -> Violation:
    value = reading.recording.header(name)
    return Violation(f"`{name}` is {shown(value)}", (value or "").encode("utf-8", "replace"))


def _media_type(reading: Reading) -> str:
    return (reading.recording.header("content-type") or "").partition(";")[0].strip().lower()


@HEADER.rule(
    "stream-type",
    "A stream says that it is one",
    text="A streamed answer has `content-type: text/event-stream`.",
    why="Browsers' readers refuse anything else; proxies buffer what is no event stream.",
    source="docs/spec/quirks.md W11",
    needs=_of_stream,
)
def stream_type(reading: Reading, _: Dialect) -> Iterator[Violation]:
    if _media_type(reading) != "text/event-stream":
        yield _said(reading, "content-type")


@HEADER.rule(
    "json-type",
    "A document says that it is one",
    text="A whole answer and a failure have `content-type: application/json`.",
    why="SDKs parse a body as JSON where its type says so, and hand it on as text otherwise.",
    source="docs/spec/quirks.md W11",
    needs=_of_document,
)
def json_type(reading: Reading, _: Dialect) -> Iterator[Violation]:
    if _media_type(reading) != "application/json":
        yield _said(reading, "content-type")


@HEADER.rule(
    "charset",
    "The charset is UTF-8",
    text="A `charset` in the content type, where there is one, is `utf-8`.",
    why="A client that believes it reads the text wrongly.",
    source="the WHATWG event-stream format; RFC 8259 section 8.1",
    needs=_headers,
)
def charset(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for parameter in (reading.recording.header("content-type") or "").split(";")[1:]:
        name, _equals, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8"):
            yield _said(reading, "content-type")


@HEADER.rule(
    "stream-status",
    "A stream has status 200",
    text="A streamed answer has the status 200.",
    why="SDKs raise for every other status without reading the stream.",
    source="docs/spec/dialects.md A17",
    needs=lambda reading, _: (
        "the status was not recorded"
        if reading.recording.status is None
        else None
        if reading.kind is Kind.STREAM
        else "no streamed answer"
    ),
)
def stream_status(reading: Reading, _: Dialect) -> Iterator[Violation]:
    status = reading.recording.status
    if status != 200:
        yield Violation(f"the status is {status}")


@HEADER.rule(
    "no-cache",
    "A stream is not cached",
    text="A streamed answer has `cache-control` with `no-cache` or `no-store`.",
    why="A cache between may keep it, or collect it before it sends it on.",
    source="docs/spec/quirks.md W11",
    severity=Severity.ODD,
    needs=_of_stream,
)
def no_cache(reading: Reading, _: Dialect) -> Iterator[Violation]:
    value = (reading.recording.header("cache-control") or "").lower()
    if "no-cache" not in value and "no-store" not in value:
        yield _said(reading, "cache-control")


@HEADER.rule(
    "no-content-length",
    "A stream has no length",
    text="A streamed answer has no `content-length`.",
    why="Its length is known only at the end: it was collected before it was sent.",
    source="docs/spec/dialects.md A17; RFC 9112 section 6",
    severity=Severity.ODD,
    needs=_of_stream,
)
def no_content_length(reading: Reading, _: Dialect) -> Iterator[Violation]:
    if reading.recording.header("content-length") is not None:
        yield _said(reading, "content-length")


@HEADER.rule(
    "no-encoding",
    "A stream is not compressed",
    text="A streamed answer has no `content-encoding`.",
    why="Compressors and decompressors hold back text until they have enough of it.",
    source="docs/spec/quirks.md W11",
    severity=Severity.ODD,
    needs=_of_stream,
)
def no_encoding(reading: Reading, _: Dialect) -> Iterator[Violation]:
    value = reading.recording.header("content-encoding")
    if value is not None and value.strip().lower() != "identity":
        yield _said(reading, "content-encoding")


@HEADER.rule(
    "request-id",
    "An answer can be named",
    text="Every answer has an `x-request-id` that is not empty.",
    why="It is what a user tells the service when something went wrong.",
    source="docs/spec/quirks.md W11",
    severity=Severity.ODD,
    needs=_headers,
)
def request_id(reading: Reading, _: Dialect) -> Iterator[Violation]:
    if not reading.recording.header("x-request-id"):
        yield Violation("no `x-request-id`")
