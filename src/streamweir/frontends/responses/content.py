"""Content parts of an input item to the parts of a chat message.

A part that has no counterpart is left out and named. A part that names a file which was uploaded to the provider is
refused: one account serves many keys, and the file may be another caller's.
"""

from typing import Any

from streamweir.core.errors import CallerError
from streamweir.core.validation import missing_parameter
from streamweir.frontends.members import Drops, text_in

Item = dict[str, Any]
Part = dict[str, Any]

_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_DETAILS = {"original": "high"}
"""Values of an image's `detail` with another name in chat completions."""


def parts_of(content: Any, path: str, drops: Drops) -> list[Part]:
    """Of a text, or of a list of parts. Empty texts are left out."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    parts: list[Part] = []
    for i, sent in enumerate(objects_in(content, path)):
        part = _part_of(sent, f"{path}[{i}]", drops)
        if part is not None:
            parts.append(part)
    return parts


def objects_in(value: Any, path: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise CallerError("invalid_type", f"{path} must be a string or a list of objects.", param=path)
    return value


def type_in(value: dict[str, Any], path: str) -> str:
    return text_in(value, "type", path)


def written(parts: list[Part]) -> str | list[Part]:
    """The content of a message: a text where it is nothing else."""
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts


def result_of(parts: list[Part]) -> str | list[Part]:
    """The content of a tool's result: texts are joined."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def refuse_file(part: dict[str, Any], path: str) -> None:
    if part.get("file_id") is not None:
        message = "Files that were uploaded to a provider cannot be used here: send the content itself."
        raise CallerError("invalid_value", message, param=f"{path}.file_id")


def _part_of(sent: Item, path: str, drops: Drops) -> Part | None:
    kind = type_in(sent, path)
    if kind in _TEXTS:
        text = text_in(sent, "text", path)
        return {"type": "text", "text": text} if text else None
    if kind == "refusal":
        text = text_in(sent, "refusal", path)
        return {"type": "refusal", "refusal": text} if text else None
    refuse_file(sent, path)
    if kind == "input_image":
        return _image(sent, path)
    if kind == "input_file":
        return _file(sent, path)
    if kind == "input_audio":
        return _audio(sent, path)
    drops.add(path)
    return None


def _image(sent: Item, path: str) -> Part:
    image: dict[str, Any] = {"url": text_in(sent, "image_url", path)}
    detail = sent.get("detail")
    if isinstance(detail, str) and detail != "auto":
        image["detail"] = _DETAILS.get(detail, detail)
    return {"type": "image_url", "image_url": image}


def _file(sent: Item, path: str) -> Part:
    source = "file_url" if sent.get("file_data") is None and sent.get("file_url") is not None else "file_data"
    name = sent.get("filename")
    name = name if isinstance(name, str) and name else "document.pdf"
    return {"type": "file", "file": {"filename": name, "file_data": text_in(sent, source, path)}}


def _audio(sent: Item, path: str) -> Part:
    audio = sent.get("input_audio")
    if not isinstance(audio, dict):
        raise missing_parameter(f"{path}.input_audio")
    data, form = (text_in(audio, name, f"{path}.input_audio") for name in ("data", "format"))
    return {"type": "input_audio", "input_audio": {"data": data, "format": form}}
