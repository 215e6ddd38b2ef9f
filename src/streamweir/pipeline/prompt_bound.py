"""An upper bound for the prompt tokens of a request: what a reservation must cover.

A token is at least one byte of text, so the size of the body is a bound for everything written in it: messages,
names, schemas, reasoning, tools, unknown members. If the model's own tokenizer has counted the same text, that count
is the better bound. Images and audio count as the maximum that providers document. Content that the provider reads
from elsewhere (files, links, stored content, its own tools) has no bound in the body: it counts as the whole context
window of the model. No way of writing a request makes the bound too small.
"""

import re
from typing import Any

from msgspec import Struct

from streamweir.core.message import AudioPart, FilePart, ImagePart, Part, RefusalPart, TextPart
from streamweir.core.remote_content import REMOTE_MEMBERS, references_remote_content
from streamweir.core.request import ChatRequest
from streamweir.wire import jsonio
from streamweir.wire.native import NativeWire

IMAGE_TOKENS = 16_384
"""The documented maximum for one image, except for models that count in small tokens."""
SMALL_TOKEN_IMAGE = 49_152
"""GPT-4o mini: 2,833 and 5,667 for each of eight tiles."""
_AUDIO_BYTES_PER_TOKEN = 8
"""Base64 of MP3 and WAV at their lowest bit rates: at 32 tokens per second, a token has 40 bytes and more."""
_BOUNDED_AUDIO = frozenset({"mp3", "wav"})
_TEMPLATE_TOKENS = 64
"""Text that a chat template adds before the first message; around messages it adds less than the JSON there."""
_TOOL_TOKENS = 1024
"""Text that providers add to the prompt for tools, besides the tools themselves."""
_CONTENT_MEMBERS = ("content", "output")
"""The members of other APIs whose lists have images and files among their parts."""
_WIRES_WITH_TOOLS = (NativeWire.ANTHROPIC_MESSAGES, NativeWire.OPENAI_RESPONSES)
_RUN_BY_CALLER = re.compile(
    r"function|custom|namespace|(bash|text_editor|computer|memory)_\d{8}|computer(_use(_preview)?)?"
    r"|(local_)?shell|apply_patch|tool_search\w*"
)
"""Types of tools in these two APIs that read nothing which is not in the request. Any other may be the provider's."""
_MARGIN = 16
"""One sixteenth is added to a tokenizer's count, because chat templates differ from the JSON that is counted."""


class PromptBound(Struct, frozen=True, kw_only=True):
    text_bytes: int
    """The size of the body without images and audio."""
    other_tokens: int = 0
    """Tokens of images, audio, and of text that is added by templates."""
    is_remote: bool = False
    """The request references content outside the body."""

    def by_bytes(self, window: int, bytes_per_token: int = 1) -> int:
        """`window`: the context window of the model."""
        return self._total(-(-self.text_bytes // bytes_per_token), window)

    def by_count(self, tokens: int, window: int) -> int:
        """`tokens`: the count of `text_of` by the model's own tokenizer."""
        return self._total(min(tokens + -(-tokens // _MARGIN), self.text_bytes), window)

    def _total(self, text_tokens: int, window: int) -> int:
        tokens = text_tokens + self.other_tokens
        return max(tokens, window) if self.is_remote else tokens


def bound_of(
    request: ChatRequest, body_bytes: int, image_tokens: int = IMAGE_TOKENS, *, links_are_images: bool = False
) -> PromptBound:
    """`body_bytes`: the size of the body as received; escapes only make it longer.

    `links_are_images`: every possible provider reads only images from an image URL.
    """
    other = _TEMPLATE_TOKENS + (_TOOL_TOKENS if request.tools else 0)
    inline = 0
    if request.native is not None:
        body_bytes += request.native.unpacked_bytes
    is_remote = reads_elsewhere(request)
    for sent in request.body.get("messages", ()):
        is_remote |= "audio" in sent and sent["audio"] is not None
    for message in request.messages:
        if type(message.content) is not tuple:
            continue
        for part in message.content:
            size, tokens, is_bounded = _measure(part, image_tokens)
            is_bounded |= links_are_images and isinstance(part, ImagePart)
            inline, other, is_remote = inline + size, other + tokens, is_remote or not is_bounded
    return PromptBound(text_bytes=max(0, body_bytes - inline), other_tokens=other, is_remote=is_remote)


def reads_elsewhere(request: ChatRequest) -> bool:
    """The request makes the provider read content that is not in it: stored content, or what its own tools find."""
    if not REMOTE_MEMBERS.isdisjoint(request.body) and references_remote_content(request.body):
        return True
    native = request.native
    if native is None or native.wire not in _WIRES_WITH_TOOLS:
        tools = request.tools
        return bool(tools) and any(tool.function is None and tool.custom is None for tool in tools)
    if native.server_tools or references_remote_content(native.body):
        return True
    sent = native.body.get("tools")
    return isinstance(sent, list) and any(map(_is_run_by_provider, sent))


def _is_run_by_provider(tool: Any) -> bool:
    """The caller's own tools have an input schema; some of Anthropic's and OpenAI's are run by the caller as well."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    return isinstance(kind, str) and _RUN_BY_CALLER.fullmatch(kind) is None


def text_of(request: ChatRequest) -> str:
    """The text of a request, as JSON, without the images, audio and files that `bound_of` counts separately."""
    messages = []
    for message in request.body.get("messages", ()):
        content = message.get("content")
        if isinstance(content, list):
            message = {**message, "content": [part for part in content if not _is_media(part)]}
        messages.append(message)
    return jsonio.encode({**request.body, "messages": messages}).decode()


def own_text_of(request: ChatRequest) -> str:
    """The same of the body in the caller's own format, which goes to a provider of that format: it can have items that
    the body of chat completions has no words for. Empty if there is none."""
    if request.native is None:
        return ""
    return jsonio.encode(_without_media(request.native.body)).decode()


def predicted_tokens(request: ChatRequest) -> int:
    """The bound for a predicted output; its unused part is billed as output."""
    return len(jsonio.encode(request.prediction)) if request.prediction is not None else 0


def _measure(part: Part, image_tokens: int) -> tuple[int, int, bool]:
    """The bytes that are not text, the tokens for them, and whether these are an upper bound."""
    if isinstance(part, TextPart | RefusalPart):
        return 0, 0, True
    if isinstance(part, ImagePart):
        url = part.image_url.url
        if not url.startswith("data:"):
            return 0, image_tokens, not _names_other_media(url)
        return (len(url), image_tokens, True) if url.startswith("data:image/") else _measure_file(url)
    if isinstance(part, AudioPart):
        data = part.input_audio.data
        is_bounded = part.input_audio.format in _BOUNDED_AUDIO and not data.startswith(("data:", "http"))
        return len(data), -(-len(data) // _AUDIO_BYTES_PER_TOKEN), is_bounded
    if isinstance(part, FilePart) and part.file.file_id is None and part.file.file_data is not None:
        return _measure_file(part.file.file_data)
    return 0, 0, False


def _measure_file(data: str) -> tuple[int, int, bool]:
    """The size of a text is a bound. A document may have few bytes and many tokens."""
    return (len(data), len(data), True) if data.startswith("data:text/") else (len(data), 0, False)


def _names_other_media(url: str) -> bool:
    """Some providers read any content behind a link; a path without a file extension can be anything."""
    path = url.partition("?")[0].partition("#")[0]
    return path.rpartition(".")[2].lower() not in ("png", "jpg", "jpeg", "webp", "gif", "heic", "heif", "bmp")


def _without_media(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_media(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_media(
            [part for part in inner if not _is_own_media(part)]
            if name in _CONTENT_MEMBERS and isinstance(inner, list)
            else inner
        )
        for name, inner in value.items()
    }


def _is_own_media(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("input_image", "input_audio", "input_file", "image")


def _is_media(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("image_url", "input_audio", "file")
