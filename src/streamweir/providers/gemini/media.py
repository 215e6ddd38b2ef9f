"""Images, audio and files as Gemini takes them: the bytes themselves, or the address where they are.

`inlineData` is base64 with its MIME type; `fileData` is an address that Google fetches (a link,
a Cloud Storage object, an uploaded file). Vertex demands the MIME type of an address as well, so
it is guessed from the ending of the name where there is one.
"""

from base64 import b64encode
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from streamweir.core.request import AudioPart, FilePart, ImagePart

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
    """The part, or None where there is nothing in it that Gemini can read."""
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
    """What a data URL holds, or what another address points to; None where this is no address."""
    if address[:5].lower() == "data:":
        return _read_data_url(address)
    if "://" not in address:
        return None
    kind = _kind_of(urlsplit(address).path) or otherwise
    return {"fileData": {"fileUri": address, **({"mimeType": kind} if kind else {})}}


def _read_data_url(url: str) -> dict[str, Any] | None:
    head, comma, data = url[5:].partition(",")
    if not comma:
        return None
    kind, *parameters = head.split(";")
    if "base64" in (parameter.strip().lower() for parameter in parameters):
        return _inline(kind or "text/plain", data)
    return _inline(kind or "text/plain", b64encode(unquote_to_bytes(data)).decode())


def _inline(kind: str, data: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": kind, "data": data}}


def _kind_of(name: str) -> str | None:
    return _KIND_OF_ENDING.get(name.rpartition(".")[2].lower())
