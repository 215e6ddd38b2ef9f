"""Content parts to Anthropic's content blocks.

Images and documents are sent as base64, as a URL that Anthropic fetches, or as the id of a file that was uploaded to
Anthropic. Text without a visible character is left out, because Anthropic refuses it. Parts for which there is no block
(audio, unknown parts) are left out and named.
"""

import base64
import binascii
from typing import Any

from streamweir.core.message import AudioPart, FilePart, ImagePart, OtherPart, Part, RefusalPart, TextPart
from streamweir.providers.dataurl import read_data_url

FILES_BETA = "files-api-2025-04-14"
"""Without this beta header, blocks with the id of an uploaded file are refused."""


class DroppedMembers:
    """The paths of what was left out, and the beta headers that the request needs."""

    __slots__ = ("betas", "paths")

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.betas: list[str] = []

    def add_beta(self, beta: str) -> None:
        if beta not in self.betas:
            self.betas.append(beta)


def blocks_of(parts: tuple[Part, ...], path: str, drops: DroppedMembers) -> list[dict[str, Any]]:
    """The blocks of a message whose parts are at `path`."""
    blocks: list[dict[str, Any]] = []
    for i, part in enumerate(parts):
        block = _block_of(part, f"{path}[{i}]", drops)
        if block is None:
            continue
        if not isinstance(part, RefusalPart | OtherPart) and part.cache_control is not None:
            block["cache_control"] = part.cache_control
        blocks.append(block)
    return blocks


def text_blocks_of(parts: tuple[Part, ...], path: str, drops: DroppedMembers) -> list[dict[str, Any]]:
    """The same where Anthropic accepts only text: in `system` and in assistant messages."""
    for i, part in enumerate(parts):
        if not isinstance(part, TextPart | RefusalPart):
            drops.paths.append(f"{path}[{i}]")
    return blocks_of(tuple(part for part in parts if isinstance(part, TextPart | RefusalPart)), path, drops)


def text_block(text: str) -> dict[str, Any] | None:
    return {"type": "text", "text": text} if text.strip() else None


def _block_of(part: Part, path: str, drops: DroppedMembers) -> dict[str, Any] | None:
    match part:
        case TextPart():
            return text_block(part.text)
        case RefusalPart():
            return text_block(part.refusal)
        case ImagePart():
            block = _image_block(part)
            if part.image_url.detail not in (None, "auto"):
                drops.paths.append(f"{path}.image_url.detail")
        case FilePart():
            block = _file_block(part, drops)
        case AudioPart() | OtherPart():
            block = None
    if block is None:
        drops.paths.append(path)
    return block


def _image_block(part: ImagePart) -> dict[str, Any] | None:
    url = part.image_url.url
    if is_address(url):
        return {"type": "image", "source": {"type": "url", "url": url}}
    return _data_block(url)


def _file_block(part: FilePart, drops: DroppedMembers) -> dict[str, Any] | None:
    file = part.file
    block: dict[str, Any] | None = None
    if file.file_id:
        drops.add_beta(FILES_BETA)
        block = {"type": "document", "source": {"type": "file", "file_id": file.file_id}}
    elif file.file_data and is_address(file.file_data):
        block = {"type": "document", "source": {"type": "url", "url": file.file_data}}
    elif file.file_data:
        block = _data_block(file.file_data)
    if block is not None and block["type"] == "document" and file.filename:
        block["title"] = file.filename
    return block


def _data_block(url: str) -> dict[str, Any] | None:
    """A block for the content of a data URL, by its media type and not by the type of the part."""
    media_type, data = read_data_url(url) or ("", "")
    if media_type == "application/pdf":
        return _base64_block("document", media_type, data)
    if media_type.startswith("image/"):
        return _base64_block("image", media_type, data)
    if media_type.startswith("text/"):
        try:
            text = base64.b64decode(data).decode()
        except (binascii.Error, UnicodeDecodeError):
            return None
        return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}}
    return None


def _base64_block(kind: str, media_type: str, data: str) -> dict[str, Any]:
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}


def is_address(url: str) -> bool:
    return url[:8].lower().startswith(("https://", "http://"))
