"""The content of each script's answer: the parts of one choice, made from the request and the parameters.

The same request always gets the same answer, so that tests can rely on it. This module does not know how the answer is
split, counted and sent.
"""

import itertools
from collections.abc import Callable, Iterator

from msgspec import Struct

from streamweir.core.message import Message
from streamweir.core.request import ChatRequest, Function
from streamweir.frontends.chat.dialect import call_id
from streamweir.upstream.script.conversation import text_of
from streamweir.upstream.script.deltas import Call, Part, split_tokens
from streamweir.upstream.script.parameter import Options
from streamweir.upstream.script.sample import sample
from streamweir.wire import jsonio

_HELLO = "Hello! I am the simulator of Streamweir: every word of mine is scripted."
_REASONING = "The caller wants to see how reasoning arrives. First I think it over, then I answer."
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
"""The function that is called if the request defines none."""

_LATIN = (
    "Lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore "
    "magna aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris nisi aliquip ex ea commodo consequat"
)
_LATIN_WORDS = _LATIN.lower().split()


class ChoiceInput(Struct, frozen=True):
    """The input from which a choice is made."""

    chat: ChatRequest
    options: Options
    choice: int
    completion_id: str


Answer = Callable[[ChoiceInput], list[Part]]


def hello(choice_input: ChoiceInput) -> list[Part]:
    return [text_part(choice_input, _HELLO)]


def echo(choice_input: ChoiceInput) -> list[Part]:
    user_messages = [message for message in choice_input.chat.messages if message.role == "user"]
    return [text_part(choice_input, text_of(user_messages[-1]) if user_messages else "")]


def lorem(choice_input: ChoiceInput) -> list[Part]:
    options = choice_input.options
    if options.text is not None:
        return [Part(split_tokens(options.text))]
    return [Part(_latin_text(options.seed + choice_input.choice, options.words))]


def endless(choice_input: ChoiceInput) -> list[Part]:
    """Repeats the parameter `text`, if it is given."""
    text = choice_input.options.text
    return [
        Part(
            itertools.cycle(split_tokens(f"{text} "))
            if text
            else _latin_text(choice_input.options.seed + choice_input.choice, None)
        )
    ]


def reasoning(choice_input: ChoiceInput) -> list[Part]:
    return [Part(split_tokens(_REASONING), "reasoning_content"), text_part(choice_input, _CONCLUSION)]


def refusal(choice_input: ChoiceInput) -> list[Part]:
    text = choice_input.options.text
    return [Part(split_tokens(_REFUSAL if text is None else text), "refusal")]


def json(choice_input: ChoiceInput) -> list[Part]:
    """A value for the caller's schema, if there is one."""
    form = choice_input.chat.response_format
    schema = form.json_schema.schema if form is not None and form.json_schema is not None else None
    value = (
        {"answer": "example", "items": [1, 2, 3]}
        if schema is None
        else sample(schema, choice_input.choice, choice_input.chat.n)
    )
    return [text_part(choice_input, jsonio.encode(value).decode())]


def tools(choice_input: ChoiceInput) -> list[Part]:
    """Tool calls; or, if the last message is a tool's result, a text with the results, so that a loop of calls ends."""
    if _is_result(choice_input.chat.messages[-1]):
        results = [
            text_of(message) for message in itertools.takewhile(_is_result, reversed(choice_input.chat.messages))
        ]
        return [text_part(choice_input, f"The tools say: {'; '.join(reversed(results))}")]
    calls = _calls(choice_input)
    if not calls:
        return [text_part(choice_input, "There is no tool that I may call.")]
    return [text_part(choice_input, ""), *calls] if choice_input.options.text else calls


def _is_result(message: Message) -> bool:
    return message.role in ("tool", "function")


def _calls(choice_input: ChoiceInput) -> list[Part]:
    chat = choice_input.chat
    offered = allowed_functions(
        chat, [tool.function for tool in chat.tools if tool.function] if chat.tools else [_WEATHER]
    )
    count = (1 if has_one_call(chat) else choice_input.options.calls) if offered else 0
    parts = []
    for ordinal in range(count):
        function = offered[ordinal % len(offered)]
        value = sample({"type": "object", **(function.parameters or {})}, ordinal, count * chat.n)
        parts.append(call_part(choice_input, ordinal, function.name, jsonio.encode(value).decode()))
    return parts


def allowed_functions(chat: ChatRequest, functions: list[Function]) -> list[Function]:
    """The functions that `tool_choice` allows."""
    wanted = chat.tool_choice
    if wanted is not None and wanted.mode == "none":
        return []
    if wanted is not None and (wanted.name is not None or wanted.allowed):
        return [function for function in functions if function.name in (wanted.name, *wanted.allowed)]
    return functions


def has_one_call(chat: ChatRequest) -> bool:
    """Whether an answer may have only one call."""
    is_named = chat.tool_choice is not None and chat.tool_choice.mode == "function"
    return is_named or chat.uses_legacy_functions or chat.parallel_tool_calls is False


def call_part(choice_input: ChoiceInput, ordinal: int, name: str, arguments: str) -> Part:
    key = call_id(choice_input.completion_id, choice_input.choice, ordinal)
    return Part(split_tokens(arguments), call=Call(ordinal, key, name, choice_input.chat.uses_legacy_functions))


def text_part(choice_input: ChoiceInput, text: str) -> Part:
    """The script's own text, or the parameter `text` if it is given."""
    return Part(split_tokens(text if choice_input.options.text is None else choice_input.options.text))


def _latin_text(seed: int, words: int | None) -> Iterator[str]:
    """This many words, or an endless sequence of words, in sentences of four to eleven words."""
    state, ends_at = seed, -1
    for number in itertools.count() if words is None else range(words):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        word = _LATIN_WORDS[(state >> 33) % len(_LATIN_WORDS)]
        if number > ends_at:
            word = word.capitalize()
            ends_at = number + 3 + (state >> 50) % 8
        is_last = number in (ends_at, None if words is None else words - 1)
        yield from split_tokens(f"{' ' if number else ''}{word}{'.' if is_last else ''}")
