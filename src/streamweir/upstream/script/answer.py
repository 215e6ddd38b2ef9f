"""What each script says: the parts of one choice, from the request and the parameters alone.

Always the same for the same request, so that a test can rely on every word. Knows nothing of how
it is cut, counted and sent.
"""

import itertools
from collections.abc import Callable, Iterator

from msgspec import Struct

from streamweir.core.message import Message
from streamweir.core.request import ChatRequest, Function
from streamweir.frontends.chat.dialect import call_id
from streamweir.upstream.script.conversation import text_of
from streamweir.upstream.script.deltas import Call, Part, tokens_of
from streamweir.upstream.script.parameter import Options
from streamweir.upstream.script.sample import sample
from streamweir.wire import jsonio

_HELLO = "Hello! I am the simulator of Streamweir: every word of mine is scripted."
_THOUGHTS = "The caller wants to see how reasoning arrives. First I think it over, then I answer."
_CONCLUSION = "I have thought about it: reasoning comes first, then the answer."
_REFUSAL = "I'm sorry, but I was scripted to refuse this."
_WEATHER = Function(
    "get_weather",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius"]}},
        "required": ["city", "unit"],
    },
)
"""What is called where the caller has brought no function."""

_LATIN = (
    "Lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore "
    "magna aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris nisi aliquip ex ea commodo consequat"
)
_LATIN_WORDS = _LATIN.lower().split()


class ChoiceInput(Struct, frozen=True):
    """What a choice is made from."""

    chat: ChatRequest
    options: Options
    choice: int
    completion_id: str


Answer = Callable[[ChoiceInput], list[Part]]


def hello(cue: ChoiceInput) -> list[Part]:
    return [said(cue, _HELLO)]


def echo(cue: ChoiceInput) -> list[Part]:
    asked = [message for message in cue.chat.messages if message.role == "user"]
    return [said(cue, text_of(asked[-1]) if asked else "")]


def lorem(cue: ChoiceInput) -> list[Part]:
    options = cue.options
    if options.text is not None:
        return [Part(tokens_of(options.text))]
    return [Part(_latin(options.seed + cue.choice, options.words))]


def endless(cue: ChoiceInput) -> list[Part]:
    """A text that is given is said over and over."""
    text = cue.options.text
    return [Part(itertools.cycle(tokens_of(f"{text} ")) if text else _latin(cue.options.seed + cue.choice, None))]


def reasoning(cue: ChoiceInput) -> list[Part]:
    return [Part(tokens_of(_THOUGHTS), "reasoning_content"), said(cue, _CONCLUSION)]


def refusal(cue: ChoiceInput) -> list[Part]:
    text = cue.options.text
    return [Part(tokens_of(_REFUSAL if text is None else text), "refusal")]


def json(cue: ChoiceInput) -> list[Part]:
    """By the caller's schema, if there is one."""
    form = cue.chat.response_format
    schema = form.json_schema.schema if form is not None and form.json_schema is not None else None
    value = {"answer": "example", "items": [1, 2, 3]} if schema is None else sample(schema, cue.choice, cue.chat.n)
    return [said(cue, jsonio.encode(value).decode())]


def tools(cue: ChoiceInput) -> list[Part]:
    """Calls; once their results have come back, a text with these in it, so that a loop of calls ends."""
    if _is_result(cue.chat.messages[-1]):
        results = [text_of(message) for message in itertools.takewhile(_is_result, reversed(cue.chat.messages))]
        return [said(cue, f"The tools say: {'; '.join(reversed(results))}")]
    calls = _calls(cue)
    if not calls:
        return [said(cue, "There is no tool that I may call.")]
    return [said(cue, ""), *calls] if cue.options.text else calls


def _is_result(message: Message) -> bool:
    return message.role in ("tool", "function")


def _calls(cue: ChoiceInput) -> list[Part]:
    chat = cue.chat
    offered = permitted(chat, [tool.function for tool in chat.tools if tool.function] if chat.tools else [_WEATHER])
    count = (1 if has_one_call(chat) else cue.options.calls) if offered else 0
    parts = []
    for ordinal in range(count):
        function = offered[ordinal % len(offered)]
        value = sample({"type": "object", **(function.parameters or {})}, ordinal, count * chat.n)
        parts.append(called(cue, ordinal, function.name, jsonio.encode(value).decode()))
    return parts


def permitted(chat: ChatRequest, functions: list[Function]) -> list[Function]:
    """Those that the caller lets be called."""
    wanted = chat.tool_choice
    if wanted is not None and wanted.mode == "none":
        return []
    if wanted is not None and (wanted.name is not None or wanted.allowed):
        return [function for function in functions if function.name in (wanted.name, *wanted.allowed)]
    return functions


def has_one_call(chat: ChatRequest) -> bool:
    """Whether an answer may have no more than one."""
    is_named = chat.tool_choice is not None and chat.tool_choice.mode == "function"
    return is_named or chat.uses_legacy_functions or chat.parallel_tool_calls is False


def called(cue: ChoiceInput, ordinal: int, name: str, arguments: str) -> Part:
    key = call_id(cue.completion_id, cue.choice, ordinal)
    return Part(tokens_of(arguments), call=Call(ordinal, key, name, cue.chat.uses_legacy_functions))


def said(cue: ChoiceInput, text: str) -> Part:
    """The script's own text, or the one that the caller has chosen in its place."""
    return Part(tokens_of(text if cue.options.text is None else cue.options.text))


def _latin(seed: int, words: int | None) -> Iterator[str]:
    """So many words, or words without end, in sentences of four to eleven."""
    state, ends_at = seed, -1
    for number in itertools.count() if words is None else range(words):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        word = _LATIN_WORDS[(state >> 33) % len(_LATIN_WORDS)]
        if number > ends_at:
            word = word.capitalize()
            ends_at = number + 3 + (state >> 50) % 8
        is_last = number in (ends_at, None if words is None else words - 1)
        yield from tokens_of(f"{' ' if number else ''}{word}{'.' if is_last else ''}")
