"""Images, audio and files for Gemini: their bytes, or their address.

`inlineData` is base64 with a MIME type; `fileData` is an address that Google fetches: a link or an uploaded file. A
Cloud Storage address is not passed on: Google would read it with the operator's rights, but the caller names it. Vertex
requires the MIME type of an address too, so it is guessed from the file name's ending if there is one.
"""

from typing import Any
from urllib.parse import urlsplit

from streamweir.core.message import AudioPart, FilePart, ImagePart
from streamweir.providers.dataurl import read_data_url

_KIND_OF_ENDING = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "html": "text/html",
    "csv": "text/csv",
    "json": "application/json",
    "mp3": "audio/mp3",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "m4a": "audio/m4a",
    "mp4": "video/mp4",
    "mov": "video/quicktime",
    "webm": "video/webm",
}
_KIND_OF_FORMAT = {"pcm16": "audio/pcm"}


def media_part(part: ImagePart | AudioPart | FilePart, *, needs_kind: bool) -> dict[str, Any] | None:
    """The part; None if Gemini can read nothing in it."""
    if isinstance(part, ImagePart):
        return _at(part.image_url.url, "image/jpeg" if needs_kind else None)
    if isinstance(part, AudioPart):
        audio = part.input_audio
        kind = _KIND_OF_FORMAT.get(audio.format, f"audio/{audio.format}")
        return _at(audio.data) or _inline(kind, audio.data)
    file = part.file
    named_kind = _kind_of(file.filename or "")
    if file.file_data:
        return _at(file.file_data, named_kind) or _inline(named_kind or "application/pdf", file.file_data)
    return _at(file.file_id or "", named_kind)


def _at(address: str, otherwise: str | None = None) -> dict[str, Any] | None:
    """The content of a data URL, or the target of a link; None if this is neither."""
    held = read_data_url(address)
    if held is not None:
        return _inline(*held)
    if not address.startswith(("https://", "http://")):
        return None
    kind = _kind_of(urlsplit(address).path) or otherwise
    return {"fileData": {"fileUri": address, **({"mimeType": kind} if kind else {})}}


def _inline(kind: str, data: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": kind, "data": data}}


def _kind_of(name: str) -> str | None:
    return _KIND_OF_ENDING.get(name.rpartition(".")[2].lower())
