"""What a client made of an answer, and what the tests' own reading of the same bytes makes of it, side by side."""

from typing import Any

from streamweir.client import Choice, ClientError, Completion, StreamError, Usage, parse
from support.dialect_output import Output
from support.expected import Choice as ReadChoice

Told = dict[str, Any]


def outcome(*chunks: bytes, dialect: str) -> tuple[Completion, ClientError | None]:
    """The whole answer, or what arrived of it and what went wrong."""
    stream = parse(chunks, dialect)
    try:
        return stream.final(), None
    except ClientError as error:
        return stream.so_far, error


def told(completion: Completion, error: ClientError | None = None) -> Told:
    """By a client."""
    return {
        "choices": {choice.index: _choice(choice) for choice in completion.choices},
        "usage": _counts(completion.usage),
        "error": (error.type, error.code, error.message) if isinstance(error, StreamError) else error and type(error),
    }


def told_by(output: Output) -> Told:
    """By the plain reading of a dialect's output."""
    usage, error = output.usage, output.error
    return {
        "choices": {index: _read(choice) for index, choice in output.choices.items() if _says(choice)},
        "usage": None if usage is None else (usage["prompt_tokens"], usage["completion_tokens"]),
        "error": None if error is None else (error["type"], error.get("code"), error["message"]),
    }


def _choice(choice: Choice) -> Told:
    return {
        "text": choice.text or "",
        "reasoning": choice.reasoning or "",
        "refusal": choice.refusal or "",
        "calls": [(call.id, call.name, call.arguments) for call in choice.tool_calls],
        "finish": choice.finish_reason,
    }


def _read(choice: ReadChoice) -> Told:
    return {
        "text": joined(choice.text),
        "reasoning": joined(choice.reasoning),
        "refusal": joined(choice.refusal),
        "calls": [(call.id, call.name, joined(str(call.arguments))) for call in choice.calls],
        "finish": choice.finish,
    }


def _says(choice: ReadChoice) -> bool:
    return bool(choice.text or choice.reasoning or choice.refusal or choice.calls or choice.finish)


def joined(text: str) -> str:
    """With surrogate pairs that were cut in two as one character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _counts(usage: Usage | None) -> tuple[int, int] | None:
    return None if usage is None else (usage.prompt_tokens, usage.completion_tokens)
