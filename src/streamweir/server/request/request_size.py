"""The size of a request: its prompt by a rule of thumb, and how much answer its caller asks for.

This is done on the event loop and for every request. If an exact count is needed, the provider reports it or a
tokenizer counts.
"""

from math import ceil

from streamweir.core.message import RefusalPart, TextPart
from streamweir.core.request import ChatRequest
from streamweir.pipeline.settlement import BYTES_PER_TOKEN, size_of
from streamweir.wire import jsonio

_TOKENS_PER_PART = 1024
"""An image or a recording: the tokens of a large image, with the providers that document it."""
_TOKENS_PER_MESSAGE, _FEW_MESSAGES = 4, 16
"""The tokens of a message besides its text: negligible, except in requests with thousands of very short messages."""


def estimate_prompt(chat: ChatRequest) -> int:
    size, tokens = 0, _TOKENS_PER_MESSAGE * max(0, len(chat.messages) - _FEW_MESSAGES)
    for message in chat.messages:
        content = message.content
        if isinstance(content, str):
            size += size_of(content)
        elif content is not None:
            for part in content:
                if isinstance(part, TextPart):
                    size += size_of(part.text)
                elif isinstance(part, RefusalPart):
                    size += size_of(part.refusal)
                else:
                    tokens += _TOKENS_PER_PART
        for call in message.tool_calls:
            if call.function is not None:
                size += size_of(call.function.arguments)
    if chat.tools:
        size += len(jsonio.encode(chat.tools))
    if not chat.messages:
        tokens = chat.tokens
        size += sum(map(size_of, chat.texts))
    return tokens + ceil(size / BYTES_PER_TOKEN)


def max_output_tokens(chat: ChatRequest, longest: int | None = None) -> int | None:
    """The caller's limit, for all choices together. None: there is none.

    `longest`: the longest answer of any of its targets, for each choice. None: not known.
    """
    limit = chat.max_output_tokens
    if limit is not None and longest is not None:
        limit = min(limit, longest)
    return limit if limit is None or chat.n == 1 else limit * chat.n


def choices_of(chat: ChatRequest) -> int:
    """The number of answers that are made and billed: some servers make more of them than they send."""
    body = chat.native.body if chat.api == "completions" and chat.native is not None else chat.body
    if "best_of" not in body:
        return chat.n
    best_of = body["best_of"]
    return max(chat.n, best_of * chat.prompts) if isinstance(best_of, int) else chat.n
