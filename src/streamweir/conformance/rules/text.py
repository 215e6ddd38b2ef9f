"""Rules for the members of a delta besides its text: reasoning, a refusal, log probabilities."""

from collections.abc import Iterator

from streamweir.conformance.parsed_answer import ParsedAnswer, Part, choices_of
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import RuleGroup, SkipReason, quote, quote_names, violation_in
from streamweir.frontends.chat.dialect import Dialect

REASONING = RuleGroup("reasoning")
REFUSAL = RuleGroup("refusal")
LOGPROBS = RuleGroup("logprobs")

_OTHER_REASONING = ("reasoning", "reasoning_text", "thinking")


def _no_parts(answer: ParsedAnswer, _: Dialect) -> str | None:
    return None if answer.parts else "no choice in it"


def _without(*names: str) -> SkipReason:
    def skip_reason(answer: ParsedAnswer, _: Dialect) -> str | None:
        has_any = any(name in part.delta for part in answer.parts for name in names)
        return None if has_any else f"no {quote_names(names)} in it"

    return skip_reason


def _texts(answer: ParsedAnswer, name: str) -> Iterator[tuple[Part, object]]:
    for part in answer.parts:
        if part.delta.get(name) is not None:
            yield part, part.delta[name]


@REASONING.rule(
    "text",
    "Reasoning is text",
    text="`reasoning_content` is a string.",
    why="Clients append it to a text.",
    source="docs/spec/dialects.md D17",
    applies_to=lambda dialect: dialect.reasoning,
    skip_reason=_without("reasoning_content"),
)
def reasoning_text(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part, value in _texts(answer, "reasoning_content"):
        if not isinstance(value, str):
            yield violation_in(part.frame, f"`reasoning_content` is {quote(value)}", b'"reasoning_content"')


@REASONING.rule(
    "member",
    "Reasoning stands in `reasoning_content`",
    text="Reasoning text stands in `reasoning_content`, under no other name.",
    why="A client of this dialect looks there, and shows no reasoning.",
    source="docs/spec/dialects.md D17",
    odd_in=lambda dialect: dialect.labels,  # openai's document has no reasoning at all
    applies_to=lambda dialect: dialect.reasoning,
    skip_reason=_no_parts,
)
def reasoning_member(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part in answer.parts:
        names = [name for name in _OTHER_REASONING if part.delta.get(name)]
        if names and not part.delta.get("reasoning_content"):
            yield violation_in(part.frame, f"reasoning in {quote_names(names)}", f'"{names[0]}"'.encode())


@REASONING.rule(
    "not-in-content",
    "Reasoning is not in the text",
    text="`content` does not begin with `<think>`.",
    why="The user reads the model's reasoning as its answer, and it is sent back as part of the conversation.",
    source="docs/spec/dialects.md D17",
    severity=Severity.ODD,
    skip_reason=_no_parts,
)
def reasoning_not_in_content(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for parts in answer.parts_by_choice().values():
        text = ""
        for part in parts:
            piece = part.delta.get("content")
            text = (text + piece).lstrip()[:16] if isinstance(piece, str) else text
            if text.startswith("<think>"):
                yield violation_in(part.frame, "the text begins with `<think>`", b'"content"')
                break


@REASONING.rule(
    "none",
    "No reasoning",
    text="A delta has no reasoning: this dialect leaves it out.",
    why="A client of this dialect does not know the member.",
    source="docs/spec/dialects.md D17",
    severity=Severity.ODD,
    applies_to=lambda dialect: not dialect.reasoning,
    skip_reason=_no_parts,
)
def reasoning_none(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part in answer.parts:
        names = [name for name in ("reasoning_content", *_OTHER_REASONING) if part.delta.get(name)]
        if names:
            yield violation_in(part.frame, f"a member {quote_names(names)}", f'"{names[0]}"'.encode())


@REASONING.rule(
    "details",
    "Reasoning details are a list",
    text="`reasoning_details` is a list of objects.",
    why="It is sent back as it came, with its signatures; another form is refused by the model's service.",
    source="docs/spec/dialects.md D18",
    applies_to=lambda dialect: dialect.reasoning_details,
    skip_reason=_without("reasoning_details"),
)
def reasoning_details(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part, value in _texts(answer, "reasoning_details"):
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            yield violation_in(part.frame, f"`reasoning_details` is {quote(value)}", b'"reasoning_details"')


@REASONING.rule(
    "no-details",
    "No reasoning details",
    text="A delta has no `reasoning_details`: this dialect has none.",
    why="A client of this dialect does not know the member.",
    source="docs/spec/dialects.md D18",
    severity=Severity.ODD,
    applies_to=lambda dialect: not dialect.reasoning_details,
    skip_reason=_no_parts,
)
def no_reasoning_details(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part, _value in _texts(answer, "reasoning_details"):
        yield violation_in(part.frame, "a member `reasoning_details`", b'"reasoning_details"')


@REFUSAL.rule(
    "text",
    "A refusal is text",
    text="`refusal` of a delta is a string or null.",
    why="Clients append it to a text.",
    source="docs/spec/dialects.md D19",
    applies_to=lambda dialect: dialect.refusal,
    skip_reason=_without("refusal"),
)
def refusal_text(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part, value in _texts(answer, "refusal"):
        if not isinstance(value, str):
            yield violation_in(part.frame, f"`refusal` is {quote(value)}", b'"refusal"')


@REFUSAL.rule(
    "in-content",
    "A refusal is said in the text",
    text="The text of a refusal stands in `content`: this dialect has no `refusal`.",
    why="A client of this dialect shows nothing at all.",
    source="docs/spec/dialects.md D19",
    applies_to=lambda dialect: not dialect.refusal,
    skip_reason=_no_parts,
)
def refusal_in_content(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part, value in _texts(answer, "refusal"):
        if value:
            yield violation_in(part.frame, f"`refusal` is {quote(value)}", b'"refusal"')


@LOGPROBS.rule(
    "shape",
    "Log probabilities have their shape",
    text="`logprobs` is null or an object; `content` and `refusal` in it are null or lists of `token`, `logprob`, "
    "`bytes`, `top_logprobs`.",
    why="Clients go through the entries without asking.",
    source="docs/spec/dialects.md D20",
    applies_to=lambda dialect: dialect.logprobs,
    skip_reason=lambda answer, _: (
        None if any(part.choice.get("logprobs") is not None for part in answer.parts) else "no `logprobs` in it"
    ),
)
def logprobs_shape(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part in answer.parts:
        problem = _logprobs_problem(part.choice.get("logprobs"))
        if problem is not None:
            yield violation_in(part.frame, problem, b'"logprobs"')


def _logprobs_problem(found: object) -> str | None:
    if found is None:
        return None
    if not isinstance(found, dict):
        return f"`logprobs` is {quote(found)}"
    for name in ("content", "refusal"):
        entries = found.get(name)
        if entries is None:
            continue
        if not isinstance(entries, list):
            return f"`logprobs.{name}` is {quote(entries)}"
        for entry in entries:
            if not isinstance(entry, dict) or not isinstance(entry.get("token"), str):
                return f"an entry of `logprobs.{name}` is {quote(entry)}"
            number, top = entry.get("logprob"), entry.get("top_logprobs", [])
            if isinstance(number, bool) or not isinstance(number, int | float) or not isinstance(top, list):
                return f"an entry of `logprobs.{name}` is {quote(entry)}"
    return None


@LOGPROBS.rule(
    "none",
    "No log probabilities",
    text="A choice has no `logprobs`: this dialect has none.",
    why="A client of this dialect does not know the member.",
    source="docs/spec/dialects.md D20",
    severity=Severity.ODD,
    applies_to=lambda dialect: not dialect.logprobs,
    skip_reason=_no_parts,
)
def no_logprobs(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.chunks:
        if any("logprobs" in choice for choice in choices_of(frame)):
            yield violation_in(frame, "a member `logprobs`", b'"logprobs"')
