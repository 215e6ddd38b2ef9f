"""Rules for one answer of the embeddings API: its members, its vectors, its usage; and all rules, in their order."""

from collections.abc import Iterator, Sequence

from streamweir.conformance.api_group import ApiGroup, lacking, shared
from streamweir.conformance.embeddings.answer import EmbeddingsAnswer, parse_embeddings_answer
from streamweir.conformance.embeddings.api import EMBEDDINGS_API, EmbeddingsApi
from streamweir.conformance.evaluate import Report, apply_rules
from streamweir.conformance.parsed_answer import is_count
from streamweir.conformance.recording import Kind, Recording
from streamweir.conformance.rule import Rule, Violation
from streamweir.conformance.rules.error import FAILURE
from streamweir.conformance.rules.group import quote, quote_names
from streamweir.conformance.rules.header import HEADER

EmbeddingsRule = Rule[EmbeddingsAnswer, EmbeddingsApi]

LIST = ApiGroup[EmbeddingsAnswer, EmbeddingsApi]("list", Kind.WHOLE, source="docs/spec/embeddings.md V1")
VECTOR = ApiGroup[EmbeddingsAnswer, EmbeddingsApi]("vector", Kind.WHOLE, source="docs/spec/embeddings.md V4, V5")
COUNT = ApiGroup[EmbeddingsAnswer, EmbeddingsApi]("count", Kind.WHOLE, source="docs/spec/embeddings.md V2")

_NO_ENTRY = "no entry in it"


def _violation(answer: EmbeddingsAnswer, message: str) -> Violation:
    return Violation(message, answer.recording.body, 0)


@LIST.rule(
    "members",
    "An answer has its members",
    text="An answer is an object with `object` `list`, a list `data` and a text `model`.",
    why="SDKs read each of them.",
)
def members(answer: EmbeddingsAnswer, _: EmbeddingsApi) -> Iterator[Violation]:
    missing = lacking(answer.parsed.body.value, {"object": "", "data": [], "model": ""})
    if missing:
        yield _violation(answer, f"{quote_names(missing)} missing, or of another type")
    elif answer.document["object"] != "list":
        yield _violation(answer, f"`object` is {quote(answer.document['object'])}")


@LIST.rule(
    "entries",
    "An entry has its members",
    text="`data` has at least one entry; each is an object with `object` `embedding`, `index` and `embedding`.",
    why="Clients read the first one without a check.",
    needs=lambda answer: isinstance(answer.document.get("data"), list),
    lacks="no `data` in it",
)
def entries(answer: EmbeddingsAnswer, _: EmbeddingsApi) -> Iterator[Violation]:
    data = answer.document["data"]
    if not data:
        yield _violation(answer, "`data` is empty")
    for number, entry in enumerate(data):
        missing = lacking(entry, {"object": "", "index": 0, "embedding": None})
        if missing:
            yield _violation(answer, f"entry {number}: {quote_names(missing)} missing, or of another type")
        elif entry["object"] != "embedding":
            yield _violation(answer, f"entry {number}: `object` is {quote(entry['object'])}")


@LIST.rule(
    "index",
    "Entries are in order",
    text="The indexes are 0, 1, 2 and so on, in this order.",
    why="Clients read the vectors by position, and ignore the index.",
    needs=lambda answer: answer.entries and all(type(entry.get("index")) is int for entry in answer.entries),
    lacks="no entries with an index in it",
)
def index(answer: EmbeddingsAnswer, _: EmbeddingsApi) -> Iterator[Violation]:
    indexes = [entry["index"] for entry in answer.entries]
    if indexes != list(range(len(indexes))):
        yield _violation(answer, f"the indexes are {quote(indexes)}")


@VECTOR.rule(
    "numbers",
    "A vector is numbers",
    text="`embedding` is a list of finite numbers, or the base64 of 32-bit floats; it is not empty.",
    why="A vector that cannot be read, or has an infinite number in it, makes every comparison with it meaningless.",
    needs=lambda answer: answer.entries,
    lacks=_NO_ENTRY,
)
def numbers(answer: EmbeddingsAnswer, _: EmbeddingsApi) -> Iterator[Violation]:
    for number, (entry, vector) in enumerate(zip(answer.entries, answer.vectors, strict=True)):
        if vector is None and "embedding" in entry:
            yield _violation(answer, f"the vector of entry {number} is {quote(entry['embedding'])}")


@VECTOR.rule(
    "length",
    "Vectors have one length",
    text="All vectors of an answer have the same number of numbers.",
    why="They are stored in one column of a database, which has one length.",
    needs=lambda answer: len([vector for vector in answer.vectors if vector is not None]) > 1,
    lacks="fewer than two vectors in it",
)
def length(answer: EmbeddingsAnswer, _: EmbeddingsApi) -> Iterator[Violation]:
    lengths = {len(vector) for vector in answer.vectors if vector is not None}
    if len(lengths) > 1:
        yield _violation(answer, f"vectors of {' and '.join(map(str, sorted(lengths)))} numbers")


@COUNT.rule(
    "usage",
    "The answer has usage",
    text="`usage` has `prompt_tokens` and `total_tokens`, which are counts, and equal: there is no other output.",
    why="Clients bill by it.",
)
def usage(answer: EmbeddingsAnswer, _: EmbeddingsApi) -> Iterator[Violation]:
    found = answer.document.get("usage")
    counts = [found.get(name) for name in ("prompt_tokens", "total_tokens")] if isinstance(found, dict) else [None]
    if not all(map(is_count, counts)):
        yield _violation(answer, "no `usage` with `prompt_tokens` and `total_tokens`")
    elif counts[0] != counts[1]:
        yield _violation(answer, f"{counts[0]} tokens of the prompt, {counts[1]} in total")


OWN: tuple[EmbeddingsRule, ...] = (*LIST.rules, *VECTOR.rules, *COUNT.rules)
RULES: tuple[EmbeddingsRule, ...] = (*shared(HEADER.rules, without=()), *OWN, *shared(FAILURE.rules, without=()))


def check_embeddings(recordings: Recording | Sequence[Recording]) -> Report:
    """Checks one recording, or several answers of one endpoint, against every rule of the embeddings API."""
    if isinstance(recordings, Recording):
        recordings = [recordings]
    answers = [parse_embeddings_answer(recording) for recording in recordings]
    return Report(dialect=EMBEDDINGS_API, verdicts=tuple(apply_rules(RULES, answers, EMBEDDINGS_API, _name_of)))


def _name_of(answer: EmbeddingsAnswer) -> str:
    return answer.recording.name
