"""Rules for a probe session of an embeddings endpoint: what it refuses, and whether it follows the requests.

The expected status and type of a refusal are those that the gateway itself answers with (`core.errors`), so the gateway
and the checker use one table.
"""

from collections.abc import Iterator

from streamweir.conformance.api_session import (
    COMPLETE,
    INPUT_CASES,
    KEEPS_SECRETS,
    RefusalCase,
    answered,
    refuses,
    refuses_by_name,
    request_ids,
)
from streamweir.conformance.embeddings.answer import Vector, parse_embeddings_answer, similarity
from streamweir.conformance.embeddings.api import EMBEDDINGS_API, EmbeddingsApi
from streamweir.conformance.embeddings.plan import DIMENSIONS, TEXTS
from streamweir.conformance.embeddings.rules import check_embeddings
from streamweir.conformance.evaluate import Report, apply_rules
from streamweir.conformance.probe_session import ProbeSession
from streamweir.conformance.rule import Rule, Violation

SessionRule = Rule[ProbeSession, EmbeddingsApi]
_ERRORS = "docs/spec/embeddings.md V10"
_SAME = 0.99
"""How near two vectors of one text are at least. Services compute with little precision, and not always alike."""

_CASES = (
    RefusalCase(
        name="unknown-model",
        code="model_not_found",
        title="An unknown model is refused",
        text="A model that does not exist is refused as such.",
        why="Vectors of another model cannot be compared with those that are stored.",
    ),
    *INPUT_CASES,
    RefusalCase(
        name="empty",
        code="invalid_value",
        title="An empty text is refused",
        text="A text that is empty is refused.",
        why="It has no meaning, and its vector is near to anything.",
        param="input",
    ),
)


def _vectors(session: ProbeSession, name: str) -> list[Vector | None]:
    return parse_embeddings_answer(session.recording(name)).vectors


def _count(session: ProbeSession, _: EmbeddingsApi) -> Iterator[Violation]:
    for name, expected in (("single", 1), ("batch", len(TEXTS))):
        found = len(_vectors(session, name))
        if found != expected:
            yield Violation(f"{found} vectors for {expected} texts", session.recording(name).body, answer=name)


def _why_no_batch(session: ProbeSession, _: EmbeddingsApi) -> str | None:
    reason = session.why_unanswered("single", "batch")
    if reason is None and (len(_vectors(session, "batch")), len(_vectors(session, "single"))) != (len(TEXTS), 1):
        return "there are not as many vectors as texts"
    return reason


def _order(session: ProbeSession, _: EmbeddingsApi) -> Iterator[Violation]:
    batch, (single,) = _vectors(session, "batch"), _vectors(session, "single")
    if single is None or None in batch:
        return
    near = [vector is not None and similarity(single, vector) >= _SAME for vector in batch]
    if near != [text == TEXTS[0] for text in TEXTS]:
        message = "the vectors of a list are not those of its texts, one by one"
        yield Violation(message, session.recording("batch").body, answer="batch")


def _encoding(session: ProbeSession, _: EmbeddingsApi) -> Iterator[Violation]:
    for name, kind in (("single", list), ("base64", str)):
        answer = parse_embeddings_answer(session.recording(name))
        if any("embedding" in entry and not isinstance(entry["embedding"], kind) for entry in answer.entries):
            yield Violation("the vector is not encoded as requested", answer.recording.body, answer=name)


def _base64(session: ProbeSession, _: EmbeddingsApi) -> Iterator[Violation]:
    for one, other in zip(_vectors(session, "single"), _vectors(session, "base64"), strict=False):
        if one is not None and other is not None and similarity(one, other) < _SAME:
            yield Violation("the vector in base64 is another", session.recording("base64").body, answer="base64")


def _dimensions(session: ProbeSession, _: EmbeddingsApi) -> Iterator[Violation]:
    lengths = {len(vector) for vector in _vectors(session, "dimensions") if vector is not None}
    if lengths - {DIMENSIONS}:
        message = f"vectors of {max(lengths)} numbers, where {DIMENSIONS} were requested"
        yield Violation(message, session.recording("dimensions").body, answer="dimensions")


SESSION_RULES: tuple[SessionRule, ...] = (
    *[refuses(case, _ERRORS) for case in _CASES],
    refuses_by_name(_CASES, _ERRORS),
    KEEPS_SECRETS,
    Rule(
        id="asked.count",
        title="A vector for every text",
        text="An answer has as many vectors as the request has texts.",
        why="Clients combine the two lists by position.",
        source="docs/spec/embeddings.md V5",
        skip_reason=answered("single", "batch"),
        check=_count,
    ),
    Rule(
        id="asked.order",
        title="Vectors are in the order of the texts",
        text="The vector of a text is the same alone and in a list, at the position of the text.",
        why="Otherwise a search finds the wrong documents, without an error.",
        source="docs/spec/embeddings.md V1",
        skip_reason=_why_no_batch,
        check=_order,
    ),
    Rule(
        id="asked.encoding",
        title="Vectors are encoded as requested",
        text="With `encoding_format` `float` a vector is a list of numbers, with `base64` it is a text.",
        why="OpenAI's SDK for Python requests base64, and other clients cannot read it.",
        source="docs/spec/embeddings.md V4",
        skip_reason=answered("single", "base64"),
        check=_encoding,
    ),
    Rule(
        id="asked.base64",
        title="Base64 has the same vector",
        text="The vector in base64 (32-bit floats, the least significant byte first) is that of the numbers.",
        why="In another byte order, or as doubles, the numbers are meaningless.",
        source="docs/spec/embeddings.md V4",
        skip_reason=answered("single", "base64"),
        check=_base64,
    ),
    Rule(
        id="asked.dimensions",
        title="`dimensions` is followed",
        text="With `dimensions` a vector has that many numbers, or the request is refused.",
        why="The column of a database has one length.",
        source="docs/spec/embeddings.md V5",
        value=lambda _: f"{DIMENSIONS} numbers",
        skip_reason=answered("dimensions"),
        check=_dimensions,
    ),
    COMPLETE,
    request_ids("x-request-id", "docs/spec/failures.md K4"),
)


def evaluate_embeddings_session(session: ProbeSession) -> Report:
    """The rules for single answers on every answer, then the rules for the whole session."""
    recordings = [each.recording for each in session.exchanges if each.recording is not None]
    single = check_embeddings(recordings).verdicts
    together = apply_rules(SESSION_RULES, [session], EMBEDDINGS_API, lambda _: "")
    return Report(dialect=EMBEDDINGS_API, verdicts=(*single, *together))
