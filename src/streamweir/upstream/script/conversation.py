"""What a conversation with a coding agent states: the task, the working directory, the calls so far.

Clients state these in texts of their own, so they are looked for by words. The text may be many megabytes,
and is searched on the event loop: only with searches for fixed words, and the patterns see short pieces of it.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from streamweir.core.message import FunctionCall, Message, TextPart
from streamweir.wire import jsonio

_REMINDERS = ("system-reminder", "environment_context", "environment_details", "user_instructions")
"""What a client puts into a user's message in these tags, the user has not said."""

_LONGEST_TASK = 16_384
_LONGEST_PATH = 1024
_LONGEST_ARGUMENTS = 65_536
_MOST_LOOKS = 16

_MARKS = ("orking directory", "orking Directory", "<cwd>")
_STATED = re.compile(
    r"(?:<cwd>|orking [Dd]irectory(?:\*\*)?(?: is|:| =)?)[ \t*`'\"]*"  # as Claude Code, opencode and Codex write it
    r"((?:/|~/|[A-Za-z]:[\\/]|\\\\)[^\x00-\x1f<>`'\"]*)"
)
_END_OF_PATH = re.compile(r"[.,;:)]*(?:[.,;:)]\s|$)")
"""Where a sentence goes on behind the path, or ends with it."""

_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SO_MANY_FILES = re.compile(rf"\b({'|'.join(_NUMBERS)}|\d{{1,2}})(?:\s+[\w-]{{1,32}}){{0,2}}\s+files\b", re.IGNORECASE)
_FILE = re.compile(r"\b[\w-]{1,64}\.(?:txt|md|json|ya?ml|toml|csv|html|css|py|js|ts|go|rs|sh)\b")

_FAILURE = re.compile(
    r"\b(?:error|fail(?:ed|s|ure)?|denied|reject(?:ed)?|refused|cannot|can't|couldn't|could not|unable|not been"
    r"|not allowed|not permitted|not found|haven't|hasn't|must|aborted|cancell?ed|interrupted|invalid|exception"
    r"|traceback)\b",
    re.IGNORECASE,
)
_IS_TAKEN = re.compile(r"\b(?:exists?|read)\b", re.IGNORECASE)


class CallMade(Struct, frozen=True):
    """A call of an earlier answer, with what came of it."""

    tool: str
    arguments: dict[str, object]
    result: str | None = None
    """None: it has not come."""
    is_error: bool = False

    @property
    def has_failed(self) -> bool:
        """Said so by the client, or by the words of the result's first line: on most wires there is nothing else."""
        return self.is_error or bool(_FAILURE.search(self._first_line))

    @property
    def found_it_taken(self) -> bool:
        """It has failed because there is such a file: this tool would have it read before it is written."""
        return self.has_failed and bool(_IS_TAKEN.search(self._first_line))

    @property
    def _first_line(self) -> str:
        """Without the values of the arguments, whose words say nothing of what came of the call."""
        line = (self.result or "").lstrip()[:_LONGEST_PATH].partition("\n")[0]
        for value in self.arguments.values():
            if isinstance(value, str) and value:
                line = line.replace(value, "")
        return line


class Turn(Struct, frozen=True):
    """The last thing that a user has said, and the calls since."""

    task: str
    calls: tuple[CallMade, ...]


def text_of(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


def read_turn(messages: Sequence[Message]) -> Turn:
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "user" and (task := _without_reminders(text_of(messages[at])).strip()):
            return Turn(task[:_LONGEST_TASK], tuple(calls_of(messages[at:])))
    return Turn("", tuple(calls_of(messages)))


def calls_of(messages: Sequence[Message]) -> Iterator[CallMade]:
    """In their order; their results by id, or, of legacy functions, by the order."""
    made: list[tuple[str, FunctionCall]] = []
    results: dict[str, Message] = {}
    for message in messages:
        made += [(call.id, call.function) for call in message.tool_calls if call.function is not None]
        if message.function_call is not None:
            made.append((f"legacy {len(made)}", message.function_call))
        if message.role == "tool":
            results[message.tool_call_id or ""] = message
        elif message.role == "function":
            results[f"legacy {len(made) - 1}"] = message
    for key, call in made:
        result = results.get(key)
        arguments = _read_arguments(call.arguments)
        if result is None:
            yield CallMade(call.name, arguments)
        else:
            yield CallMade(call.name, arguments, text_of(result), result.is_error)


def count_calls_with(messages: Sequence[Message], word: str) -> int:
    """How many calls have it in their arguments."""
    calls = [call.function for message in messages for call in message.tool_calls]
    calls += [message.function_call for message in messages]
    return sum(call is not None and word in call.arguments for call in calls)


def files_asked_for(task: str) -> int | None:
    """By a number ("two files") or by their names, where there is more than one."""
    found = _SO_MANY_FILES.search(task)
    if found is not None:
        word = found[1].lower()
        return int(word) if word.isdecimal() else _NUMBERS.index(word) + 2
    named = len(set(_FILE.findall(task)))
    return named if named > 1 else None


def working_directory(messages: Sequence[Message]) -> str | None:
    """The newest that the client has stated, in a system message if in any."""
    for roles in (("system", "developer"), ("user",)):
        for message in reversed(messages):
            if message.role in roles and (found := _stated_in(text_of(message))):
                return found
    return None


def _stated_in(text: str) -> str | None:
    for mark in _MARKS:
        at = len(text)
        for _ in range(_MOST_LOOKS):
            at = text.rfind(mark, 0, at)
            if at < 0:
                break
            found = _STATED.match(text, at, at + _LONGEST_PATH)
            if found is not None:
                return _END_OF_PATH.split(found[1].rstrip(), maxsplit=1)[0].rstrip()
    return None


def _without_reminders(text: str) -> str:
    for tag in _REMINDERS:
        opening, closing = f"<{tag}>", f"</{tag}>"
        pieces, at = [], 0
        while (begin := text.find(opening, at)) >= 0 and (end := text.find(closing, begin)) >= 0:
            pieces.append(text[at:begin])
            at = end + len(closing)
        text = "".join([*pieces, text[at:]])
    return text


def _read_arguments(text: str) -> dict[str, object]:
    """Empty where they are none of ours."""
    if len(text) > _LONGEST_ARGUMENTS:
        return {}
    try:
        value = jsonio.decode(text.encode("utf-8", "replace"))
    except jsonio.InvalidJson:
        return {}
    return value if isinstance(value, dict) else {}
