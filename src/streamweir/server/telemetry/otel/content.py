"""The prompt and the answer of a request as attributes of a span, for keys that store content. Runs in a thread.

They come from the stored content (`store.requests.content`), are redacted like it, and then cut: half a secret would
not be recognised. Prompts are read by their frontend and answers by the client's reader, so that every API has the one
form of OpenTelemetry's conventions: messages with parts. Images, sounds and files are named, never sent.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streamweir.client.answer import Choice
from streamweir.client.api import CHAT, MESSAGES, RESPONSES, Api, make_reader
from streamweir.client.reader import DEFAULT_LIMITS
from streamweir.core.errors import CallerError
from streamweir.core.message import PART_TYPES, Message, OtherPart, Part, RefusalPart, TextPart
from streamweir.core.request import ChatRequest
from streamweir.frontends.table import FRONTENDS
from streamweir.policy.redact import Redactor
from streamweir.server.telemetry.otel.protobuf import attribute
from streamweir.server.telemetry.record import RequestRecord
from streamweir.store.requests.content import Content
from streamweir.wire import jsonio

MAX_CHARACTERS = 128 * 1024
"""Of the texts of one attribute: the last ones are kept."""

_INSTRUCTIONS, _INPUT, _OUTPUT = "gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"
_SYSTEM = ("system", "developer")
_KINDS: dict[type[Part], str] = {model: kind for kind, model in PART_TYPES.items()}
_Part = dict[str, Any]


def content_attributes(content: Content, record: RequestRecord, redactor: Redactor) -> bytes:
    dialect = record.dialect or ""
    messages = list(_input(content.prompt, dialect))
    found = {
        _INSTRUCTIONS: [part for each in messages if each["role"] in _SYSTEM for part in each["parts"]],
        _INPUT: [each for each in messages if each["role"] not in _SYSTEM],
        _OUTPUT: list(_output(content, dialect, record.finish)),
    }
    return b"".join([attribute(name, _text_of(values, redactor)) for name, values in found.items() if values])


def _text_of(values: Sequence[_Part], redactor: Redactor) -> str:
    redacted = jsonio.decode(redactor.document(jsonio.encode(values).decode()).encode())
    left = MAX_CHARACTERS
    kept: list[_Part] = []
    for each in reversed(redacted):
        for part in reversed(each.get("parts", (each,))):
            left = _cut(part, left)
        kept.append(each)
        if left == 0:
            break
    return jsonio.encode(kept[::-1]).decode()


def _cut(part: _Part, left: int) -> int:
    """How many characters are left after it."""
    for name in ("content", "arguments", "response"):
        text = part.get(name)
        if isinstance(text, str):
            part[name] = text[:left]
            left -= min(left, len(text))
    return left


def _input(prompt: str, dialect: str) -> Iterator[_Part]:
    try:
        chat = FRONTENDS.by_name[dialect].parse(jsonio.decode(prompt.encode()), {})
    except (CallerError, jsonio.InvalidJson, UnicodeEncodeError):  # it was cut, or refused
        return
    yield from _messages(chat)


def _messages(chat: ChatRequest) -> Iterator[_Part]:
    if chat.texts:
        yield {"role": "user", "parts": [_text(text) for text in chat.texts]}
    for message in chat.messages:
        if message.role in ("tool", "function"):
            id, response = message.tool_call_id or message.name, "".join(_texts(message))
            yield {"role": "tool", "parts": [{"type": "tool_call_response", "id": id, "response": response}]}
        else:
            yield {"role": message.role, "parts": list(_parts(message))}


def _parts(message: Message) -> Iterator[_Part]:
    if message.reasoning_content:
        yield {"type": "reasoning", "content": message.reasoning_content}
    for part in message.parts:
        if isinstance(part, TextPart | RefusalPart):
            yield _text(part.text if isinstance(part, TextPart) else part.refusal)
        else:
            yield {"type": part.type if isinstance(part, OtherPart) else _KINDS[type(part)]}
    for call in message.tool_calls:
        if call.function is not None:
            yield _call(call.id, call.function.name, call.function.arguments)
        elif call.custom is not None:
            yield _call(call.id, call.custom.name, call.custom.input)
    if message.function_call is not None:
        yield _call(None, message.function_call.name, message.function_call.arguments)


def _texts(message: Message) -> Iterable[str]:
    return (part.text for part in message.parts if isinstance(part, TextPart))


def _output(content: Content, dialect: str, finish: str | None) -> Iterator[_Part]:
    """`finish`: of the request. The other APIs have one choice, and other words for its end."""
    choices = _choices(content, dialect) if not content.is_cut else []
    is_chat = dialect not in (MESSAGES, RESPONSES)
    for choice in choices:
        parts = [{"type": "reasoning", "content": choice.reasoning}] if choice.reasoning else []
        parts += [_text(text) for text in (choice.text, choice.refusal) if text]
        parts += [_call(call.id, call.name, call.arguments) for call in choice.tool_calls]
        yield {
            "role": "assistant",
            "parts": parts,
            "finish_reason": _reason(choice.finish_reason if is_chat else finish),
        }
    if not choices and content.answer:
        yield {"role": "assistant", "parts": [_text(content.answer)], "finish_reason": _reason(finish)}


def _choices(content: Content, dialect: str) -> list[Choice]:
    """What the caller received, read as a client reads it."""
    if dialect in ("embeddings", "completions"):
        return []
    api: Api = MESSAGES if dialect == MESSAGES else RESPONSES if dialect == RESPONSES else CHAT
    reader = make_reader(api, dialect if api == CHAT else None, DEFAULT_LIMITS)
    received = "".join(text for _, text in content.caller_frames).encode("utf-8", "replace")
    if received.startswith(b"{"):
        reader.read_whole(received)
    else:
        reader.feed(received)
        reader.finish()
    return [choice for choice in reader.completion.choices if _says_something(choice)]


def _says_something(choice: Choice) -> bool:
    return bool(choice.text or choice.refusal or choice.tool_calls or choice.reasoning)


def _reason(finish: str | None) -> str:
    """In the conventions' words."""
    return "tool_call" if finish == "tool_calls" else finish or "error"


def _text(text: str) -> _Part:
    return {"type": "text", "content": text}


def _call(id: str | None, name: str, arguments: str) -> _Part:
    return {"type": "tool_call", "id": id, "name": name, "arguments": arguments}
