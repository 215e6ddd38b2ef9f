"""What a request says of itself that the books want to know before it goes out: its size, and its name for retries.

Pure. The size is a rule of thumb, on the loop and for every request; where the real count matters
the provider reports it, or a tokenizer counts.
"""

from collections.abc import Mapping
from hashlib import sha256
from math import ceil

from streamweir.core.errors import CallerError
from streamweir.core.message import RefusalPart, TextPart
from streamweir.core.request import ChatRequest
from streamweir.pipeline.settlement import BYTES_PER_TOKEN, size_of
from streamweir.wire import jsonio

_TOKENS_PER_PART = 1024
"""An image or a recording: what a large picture costs with the providers that say so."""
_TOKENS_PER_MESSAGE, _FEW_MESSAGES = 4, 16
"""What a message takes besides its text: nothing to speak of, unless somebody sends thousands of a letter each."""
_LONGEST_KEY = 255


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
    return tokens + ceil(size / BYTES_PER_TOKEN)


def read_idempotency(headers: Mapping[str, str], body: bytes) -> tuple[bytes | None, bytes | None]:
    """The digest of the caller's `Idempotency-Key` and of the body that goes with it."""
    sent = headers.get("idempotency-key")
    if sent is None:
        return None, None
    if not 0 < len(sent) <= _LONGEST_KEY:
        raise CallerError("invalid_value", f"An Idempotency-Key has 1 to {_LONGEST_KEY} characters.")
    return sha256(sent.encode("latin-1", "replace")).digest(), sha256(body).digest()
