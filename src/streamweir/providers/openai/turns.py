"""Messages that are valid in another API and not in this one, rewritten in a form that is accepted.

A tool result is text here: its images and files follow in a user message, after the last result of the turn. Content of
plain texts alone becomes one text: several servers (DeepSeek among them) refuse a list of parts there. Some chat
templates refuse a system message that is not the first: for servers with such templates those at the beginning are
joined, and a later one becomes user text at the same position. Bodies of chat completions are passed on as their
callers wrote them.
"""

from typing import Any

Message = dict[str, Any]
Part = dict[str, Any]

_SYSTEM = ("system", "developer")
_TEXT = {"type", "text"}
"""The members of a plain text."""


def arrange(messages: list[Message], *, system_first: bool) -> list[Message]:
    arranged: list[Message] = []
    waiting: list[Part] = []  # from the results so far
    has_begun = False
    for message in messages:
        role = message["role"]
        is_system = role in _SYSTEM
        if waiting and role != "tool":
            _append_as_user(arranged, waiting)
            waiting = []
        if role == "tool" and isinstance(message["content"], list):
            text, media = _split(message["content"])
            waiting += media
            arranged.append({**message, "content": text})
        elif is_system and system_first and arranged and not has_begun:
            arranged[-1] = _joined(arranged[-1], message)
        elif (is_system and system_first and has_begun) or (role == "user" and _is_users_turn(arranged)):
            _append_as_user(arranged, _parts_of(message["content"]))
        else:
            arranged.append(message)
        has_begun = has_begun or not is_system
    if waiting:
        _append_as_user(arranged, waiting)
    return arranged


def with_one_text(message: Message) -> Message:
    """With its texts as one, if they are all that it says. Parts with further members (`cache_control`) stay."""
    content = message.get("content")
    if not isinstance(content, list) or not all(part.keys() == _TEXT for part in content):
        return message
    return {**message, "content": "\n\n".join(part["text"] for part in content)}


def _append_as_user(arranged: list[Message], parts: list[Part]) -> None:
    """Joined with the last message if that is the user's too: some templates require alternating roles."""
    if _is_users_turn(arranged):
        last = arranged[-1]
        arranged[-1] = {**last, "content": [*_parts_of(last["content"]), *parts]}
    else:
        arranged.append({"role": "user", "content": parts})


def _joined(first: Message, second: Message) -> Message:
    """Two system messages in a row as one."""
    before, after = first["content"], second["content"]
    if isinstance(before, str) and isinstance(after, str):
        return {**first, "content": f"{before}\n\n{after}"}
    return {**first, "content": [*_parts_of(before), *_parts_of(after)]}


def _is_users_turn(arranged: list[Message]) -> bool:
    return bool(arranged) and arranged[-1]["role"] == "user"


def _split(content: list[Part]) -> tuple[str, list[Part]]:
    text = "\n".join(part["text"] for part in content if part["type"] == "text")
    return text, [part for part in content if part["type"] != "text"]


def _parts_of(content: str | list[Part]) -> list[Part]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
