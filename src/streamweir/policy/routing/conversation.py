"""The conversation that a request belongs to, as a short digest: the requests of one have their first tokens in common.

In this order: `prompt_cache_key` of the body, with which a caller itself names what shares a cache; the session that
its client names in a header or in the body (`Frontend.session_headers`, `Frontend.session_in`); else the beginning of
the prompt: the system prompt and the first message after it, which every later turn repeats. Tools do not count: agents
load some in the middle of a conversation, which must not move then.

The digest is made with the key's id and the model's name, so conversations of two keys are never the same, whatever
their callers send. It names nothing else: no text can be read from it.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b

from streamweir.core.message import FilePart, ImagePart, Message, RefusalPart, TextPart
from streamweir.core.request import ChatRequest
from streamweir.frontends.base import Frontend

DIGEST_BYTES = 16
_MAX_CHARACTERS = 4096
"""Of a text, at each end. Providers cache nothing that is shorter than about so much."""
_MAX_SYSTEM_MESSAGES = 4
_MAX_PARTS = 16
_SYSTEM = frozenset({"system", "developer"})


def conversation_of(
    key_id: str, model: str, request: ChatRequest, frontend: Frontend, headers: Mapping[str, str]
) -> bytes | None:
    """`model`: the requested name. None: nothing of the request can be in a cache of prompts."""
    if request.api == "embeddings":
        return None
    session = request.prompt_cache_key or session_of(request, frontend, headers)
    texts = (
        ("session", _ends(session)) if session else (("prompt", *begin) if (begin := [*_beginning(request)]) else ())
    )
    if not texts:
        return None
    digest = blake2b(digest_size=DIGEST_BYTES)
    for text in (key_id, model, *texts):
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()


def session_of(request: ChatRequest, frontend: Frontend, headers: Mapping[str, str]) -> str | None:
    """As the client names it, in a header or in the body."""
    for name in frontend.session_headers:
        sent = headers.get(name)
        if sent:
            return sent
    return frontend.session_in(request)


def _beginning(request: ChatRequest) -> Iterator[str]:
    if request.api == "completions":
        # A caller that continues a text sends it as one growing prompt: only its beginning stays the same.
        yield from (text[:_MAX_CHARACTERS] for message in request.messages[:1] for text in _texts(message))
        return
    for message in request.messages[: _MAX_SYSTEM_MESSAGES + 1]:
        yield from map(_ends, _texts(message))
        if message.role not in _SYSTEM:
            return


def _texts(message: Message) -> Iterator[str]:
    for part in message.parts[:_MAX_PARTS]:
        match part:
            case TextPart():
                yield part.text
            case ImagePart():
                yield part.image_url.url
            case RefusalPart():
                yield part.refusal
            case FilePart():
                yield part.file.file_data or part.file.file_id or ""


def _ends(text: str) -> str:
    """The whole, or both ends: agents begin each first message alike, and templates have the question at the end."""
    return text if len(text) <= 2 * _MAX_CHARACTERS else text[:_MAX_CHARACTERS] + text[-_MAX_CHARACTERS:]
