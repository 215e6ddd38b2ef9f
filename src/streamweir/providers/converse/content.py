"""Content parts to Converse's content blocks, and the cache points between them.

A block is an object with one member, which names its kind. Converse takes the bytes of images and documents, not their
addresses: an address is left out and named, and so is a part for which there is no block. Text without a visible
character is left out, because it is refused. A document must have a name, and no two the same.

A cache point is a block of its own, behind what is to be cached. It is refused behind a document or reasoning, and
where nothing of the same message stands before it: it is moved to the front of these, or left out and named.
"""

import re
from typing import Any, NamedTuple

from msgspec import Struct

from streamweir.core.message import AudioPart, FilePart, ImagePart, OtherPart, Part, RefusalPart, TextPart
from streamweir.providers.converse.model import Traits
from streamweir.providers.dataurl import read_data_url

MAX_CACHE_POINTS = 4
"""In one request."""
MAX_NAME_LENGTH = 200

_IMAGES = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/markdown": "md",
}
_SOUNDS = frozenset(("mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "m4a", "mpeg", "mpga", "pcm", "webm"))
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9()\[\] -]+")
_BLANKS = re.compile(r" {2,}")
_NOT_BEFORE_POINT = ("document", "reasoningContent")


class Block(Struct):
    """A content block, and whether a cache point follows it."""

    value: dict[str, Any]
    mark: dict[str, Any] | None = None
    """The caller's `cache_control`."""
    mark_path: str = ""

    @property
    def kind(self) -> str:
        return next(iter(self.value))


class _Point(NamedTuple):
    path: str
    """Of the caller's `cache_control`."""
    place: list[dict[str, Any]]
    value: dict[str, Any]


class Writer:
    """What the blocks of one request share: what was left out, the names of its documents, its cache points."""

    __slots__ = ("_names", "_numbers", "_points", "dropped", "traits")

    def __init__(self, traits: Traits) -> None:
        self.traits = traits
        self.dropped: list[str] = []
        self._names: set[str] = set()
        self._numbers: dict[str, int] = {}  # the newest number behind a name that is used more than once
        self._points: list[_Point] = []

    def blocks_of(
        self, parts: tuple[Part, ...], path: str, mark_path: str | None = None, *, takes_audio: bool = True
    ) -> list[Block]:
        """The blocks of a message whose parts are at `path`. `mark_path`: of a text that is the whole content.
        `takes_audio`: False in a result."""
        blocks: list[Block] = []
        for i, part in enumerate(parts):
            value = self._value_of(part, f"{path}[{i}]", takes_audio)
            if value is None:
                continue
            mark = None if isinstance(part, RefusalPart | OtherPart) else part.cache_control
            blocks.append(Block(value, mark, mark_path or f"{path}[{i}].cache_control"))
        return blocks

    def text_blocks_of(self, parts: tuple[Part, ...], path: str, mark_path: str | None = None) -> list[Block]:
        """The same where only text is accepted: in `system` and in messages of the assistant."""
        blocks: list[Block] = []
        for i, part in enumerate(parts):
            if isinstance(part, TextPart | RefusalPart):
                at = mark_path or f"{path}[{i}].cache_control"
                blocks += [Block(each.value, each.mark, at) for each in self.blocks_of((part,), path)]
            else:
                self.dropped.append(f"{path}[{i}]")
        return blocks

    def written(self, blocks: list[Block]) -> list[dict[str, Any]]:
        """The blocks as they are sent, with their cache points."""
        values: list[dict[str, Any]] = []
        for block in blocks:
            values.append(block.value)
            if block.mark is not None:
                self.add_point(values, block.mark, block.mark_path)
        return values

    def add_point(
        self, values: list[dict[str, Any]], mark: dict[str, Any], path: str, *, is_taken: bool = True
    ) -> None:
        """`is_taken`: whether the model takes cache points here."""
        place = len(values)
        while place and next(iter(values[place - 1])) in _NOT_BEFORE_POINT:
            place -= 1
        is_double = place > 0 and "cachePoint" in values[place - 1]
        if not (is_taken and self.traits.takes_cache_points) or mark.get("type") != "ephemeral" or not place:
            self.dropped.append(path)
        elif not is_double:
            point: dict[str, Any] = {"cachePoint": self._point_of(mark, path)}
            values.insert(place, point)
            self._points.append(_Point(path, values, point))

    def limit_points(self) -> None:
        """Leaves the last of too many cache points: the longest beginnings of the prompt."""
        first = self._points[: max(0, len(self._points) - MAX_CACHE_POINTS)]
        removed = {id(point.value) for point in first}  # all of them are equal
        for values in {id(point.place): point.place for point in first}.values():
            values[:] = [value for value in values if id(value) not in removed]
        self.dropped += [point.path for point in first]

    def _point_of(self, mark: dict[str, Any], path: str) -> dict[str, Any]:
        ttl = mark.get("ttl")
        if ttl == "1h" and self.traits.takes_long_cache:
            return {"type": "default", "ttl": "1h"}
        if ttl not in (None, "5m"):
            self.dropped.append(f"{path}.ttl")
        return {"type": "default"}

    def _value_of(self, part: Part, path: str, takes_audio: bool) -> dict[str, Any] | None:
        value: dict[str, Any] | None = None
        match part:
            case TextPart():
                return text_value(part.text)
            case RefusalPart():
                return text_value(part.refusal)
            case ImagePart():
                value = self._data_value(part.image_url.url, None)
                if value is not None and part.image_url.detail not in (None, "auto"):
                    self.dropped.append(f"{path}.image_url.detail")
            case FilePart():
                value = self._data_value(part.file.file_data or "", part.file.filename)
            case AudioPart():
                form, data = part.input_audio.format.lower(), part.input_audio.data
                if takes_audio and self.traits.takes_audio and form in _SOUNDS and data:
                    value = {"audio": {"format": form, "source": {"bytes": data}}}
            case OtherPart():
                pass
        if value is None:
            self.dropped.append(path)
        return value

    def _data_value(self, url: str, filename: str | None) -> dict[str, Any] | None:
        """A block for the content of a data URL, by its media type and not by the type of the part."""
        media_type, data = read_data_url(url) or ("", "")
        if media_type in _IMAGES and data:
            return {"image": {"format": _IMAGES[media_type], "source": {"bytes": data}}}
        form = _DOCUMENTS.get(media_type) or ("txt" if media_type.startswith("text/") else None)
        if form is None or not data:
            return None
        return {"document": {"format": form, "name": self._name_of(filename), "source": {"bytes": data}}}

    def _name_of(self, filename: str | None) -> str:
        """Of the characters that are allowed, and not used before. The type is not part of it."""
        stem = (filename or "").rpartition(".")[0] or filename or ""
        plain = _BLANKS.sub(" ", _NOT_IN_NAME.sub(" ", stem)).strip()[: MAX_NAME_LENGTH - 8].rstrip()
        name, number = plain or "Document", self._numbers.get(plain, 1)
        while name in self._names:
            number += 1
            name = f"{plain or 'Document'} {number}"
        self._numbers[plain] = number
        self._names.add(name)
        return name


def text_value(text: str) -> dict[str, Any] | None:
    return {"text": text} if text.strip() else None
