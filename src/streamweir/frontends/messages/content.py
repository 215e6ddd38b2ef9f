"""Content blocks of a request to the parts of a chat message.

A block without an equivalent part is left out and named. A reference to a file that was uploaded to the provider is
refused: one account serves many keys, and the file could belong to another caller.
"""

from typing import Any

from streamweir.core.errors import CallerError
from streamweir.core.validation import missing_parameter
from streamweir.frontends.members import Drops, text_in

Block = dict[str, Any]
Part = dict[str, Any]

_SEEN = frozenset({"type", "text", "source", "title", "cache_control", "content"})


def parts_of(blocks: list[Block], path: str, drops: Drops) -> list[Part]:
    parts: list[Part] = []
    for i, block in enumerate(blocks):
        parts += part_of(block, f"{path}[{i}]", drops)
    return parts


def part_of(block: Block, path: str, drops: Drops) -> list[Part]:
    """The parts of one block: usually one; none if it is empty or has no equivalent."""
    kind = type_of(block, path)
    if kind == "text":
        parts = _text(block, path)
    elif kind == "image":
        parts = _image(block, path, drops)
    elif kind == "document":
        parts = _document(block, path, drops)
    elif kind == "search_result":
        parts = _search_result(block, path, drops)
    else:
        refuse_uploads(block, path)
        drops.add(path)
        parts = []
    mark = block.get("cache_control")
    if parts and isinstance(mark, dict):
        parts[-1] = {**parts[-1], "cache_control": mark}
    return parts


def type_of(block: Block, path: str) -> str:
    kind = block.get("type")
    if kind is None:
        raise missing_parameter(f"{path}.type")
    if not isinstance(kind, str):
        raise CallerError("invalid_type", "The type of a content block must be a string.", param=f"{path}.type")
    return kind


def blocks_in(value: Any, path: str) -> list[Block]:
    """A content that must be a list of blocks."""
    if not isinstance(value, list) or not all(isinstance(block, dict) for block in value):
        raise CallerError("invalid_type", f"{path} must be a string or a list of content blocks.", param=path)
    return value


def _text(block: Block, path: str) -> list[Part]:
    text = text_in(block, "text", path)
    return [{"type": "text", "text": text}] if text else []


def _image(block: Block, path: str, drops: Drops) -> list[Part]:
    source = _source(block, path)
    if source["type"] == "url":
        url = text_in(source, "url", f"{path}.source")
    elif source["type"] == "base64":
        url = _data_url(source, path)
    else:
        drops.add(path)
        return []
    return [{"type": "image_url", "image_url": {"url": url}}]


def _document(block: Block, path: str, drops: Drops) -> list[Part]:
    source, title = _source(block, path), block.get("title")
    title = title if isinstance(title, str) and title else None
    for name, value in block.items():
        if name not in _SEEN and value and value != {"enabled": False}:
            drops.add(f"{path}.{name}")
    match source["type"]:
        case "base64":
            file = {"filename": title or "document.pdf", "file_data": _data_url(source, path)}
            return [{"type": "file", "file": file}]
        case "url":
            file = {"filename": title or "document.pdf", "file_data": text_in(source, "url", f"{path}.source")}
            return [{"type": "file", "file": file}]
        case "text":
            text = text_in(source, "data", f"{path}.source")
            return [{"type": "text", "text": f"{title}\n\n{text}" if title else text}] if text else []
        case "content":
            inner = source.get("content")
            if isinstance(inner, str):
                inner = [{"type": "text", "text": inner}]
            parts = parts_of(blocks_in(inner, f"{path}.source.content"), f"{path}.source.content", drops)
            return [*([{"type": "text", "text": title}] if title else []), *parts]
    drops.add(path)
    return []


def _search_result(block: Block, path: str, drops: Drops) -> list[Part]:
    content = parts_of(blocks_in(block.get("content"), f"{path}.content"), f"{path}.content", drops)
    head = [text for text in (block.get("title"), block.get("source")) if isinstance(text, str) and text]
    text = "\n".join([*head, *(part["text"] for part in content if part["type"] == "text")])
    return [{"type": "text", "text": text}] if text else []


def refuse_uploads(block: Block, path: str) -> None:
    """For a block that is left out of a translation, but would be passed on to a provider of this API."""
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") == "file":
        raise _no_uploads(f"{path}.source")
    if block.get("type") == "container_upload":
        raise _no_uploads(path)


def _no_uploads(path: str) -> CallerError:
    message = "Files that were uploaded to a provider cannot be used here: send the content itself."
    return CallerError("invalid_value", message, param=path)


def _source(block: Block, path: str) -> dict[str, Any]:
    source = block.get("source")
    if not isinstance(source, dict):
        raise missing_parameter(f"{path}.source")
    if type_of(source, f"{path}.source") == "file":
        raise _no_uploads(f"{path}.source")
    return source


def _data_url(source: dict[str, Any], path: str) -> str:
    media_type, data = (text_in(source, name, f"{path}.source") for name in ("media_type", "data"))
    return f"data:{media_type};base64,{data}"
