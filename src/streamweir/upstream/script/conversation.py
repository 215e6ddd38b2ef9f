"""Reads the conversation with a coding agent: the task, the working directory, the previous calls.

Each client writes these in its own text, so they are found by certain words. The text may have many megabytes and is
searched on the event loop: so it is searched for fixed words only, and patterns are applied to short pieces of it.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from streamweir.core.message import FunctionCall, Message, TextPart
from streamweir.wire import jsonio

_REMINDERS = ("system-reminder", "environment_context", "environment_details", "user_instructions")
"""Tags of texts that clients add to a user's message."""

_MAX_TASK_LENGTH = 16_384
_MAX_PATH_LENGTH = 1024
_MAX_ARGUMENTS_LENGTH = 65_536
_MAX_SEARCHES = 16

_DIRECTORY_MARKERS = ("orking directory", "orking Directory", "<cwd>")
_DIRECTORY = re.compile(
    r"(?:<cwd>|orking [Dd]irectory(?:\*\*)?(?: is|:| =)?)[ \t*`'\"]*"  # as Claude Code, opencode and Codex write it
    r"((?:/|~/|[A-Za-z]:[\\/]|\\\\)[^\x00-\x1f<>`'\"]*)"
)
_END_OF_PATH = re.compile(r"[.,;:)]*(?:[.,;:)]\s|$)")
"""The end of a path inside a sentence."""

_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_FILE_COUNT = re.compile(rf"\b({'|'.join(_NUMBERS)}|\d{{1,2}})(?:\s+[\w-]{{1,32}}){{0,2}}\s+files\b", re.IGNORECASE)
_FILE = re.compile(r"\b[\w-]{1,64}\.(?:txt|md|json|ya?ml|toml|csv|html|css|py|js|ts|go|rs|sh)\b")

_FAILURE = re.compile(
    r"\b(?:error|fail(?:ed|s|ure)?|denied|reject(?:ed)?|refused|cannot|can't|couldn't|could not|unable|not been"
    r"|not allowed|not permitted|not found|haven't|hasn't|must|aborted|cancell?ed|interrupted|invalid|exception"
    r"|traceback)\b",
    re.IGNORECASE,
)
_FILE_EXISTS = re.compile(r"\b(?:exist(?:s|ing)?|read(?!-only))\b", re.IGNORECASE)
_EXIT_CODE = re.compile(r"^Process exited with code (\d{1,3})$", re.MULTILINE)
_OUTPUT = "\nOutput:\n"
"""Before the output of a command, as Codex writes both."""


class PreviousCall(Struct, frozen=True):
    """A call of an earlier answer, with its result."""

    tool: str
    arguments: dict[str, object]
    result: str | None = None
    """None if there is none."""
    is_error: bool = False

    @property
    def has_failed(self) -> bool:
        """Reported by the client, or by words in the first line of the result: most APIs have no error flag."""
        code = _EXIT_CODE.search(self._head)
        return self.is_error or (code[1] != "0" if code else bool(_FAILURE.search(self._first_line)))

    @property
    def failed_because_file_exists(self) -> bool:
        """It has failed because the file exists, or must be read before it is written."""
        return self.has_failed and bool(_FILE_EXISTS.search(self._first_line))

    @property
    def _first_line(self) -> str:
        """Without the values of the arguments, which say nothing about the result; of a command, its output's."""
        head = self._head
        line = (head.partition(_OUTPUT)[2] if _EXIT_CODE.search(head) else head).partition("\n")[0]
        for value in self.arguments.values():
            if isinstance(value, str) and value:
                line = line.replace(value, "")
        return line

    @property
    def _head(self) -> str:
        return (self.result or "").lstrip()[:_MAX_PATH_LENGTH]


class Turn(Struct, frozen=True):
    """The last message of the user, and the calls since then."""

    task: str
    calls: tuple[PreviousCall, ...]


def text_of(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


def read_turn(messages: Sequence[Message]) -> Turn:
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "user" and (task := _without_reminders(text_of(messages[at])).strip()):
            return Turn(task[:_MAX_TASK_LENGTH], tuple(previous_calls(messages[at:])))
    return Turn("", tuple(previous_calls(messages)))


def previous_calls(messages: Sequence[Message]) -> Iterator[PreviousCall]:
    """In order. Results are matched by id, those of legacy functions by their order."""
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
            yield PreviousCall(call.name, arguments)
        else:
            yield PreviousCall(call.name, arguments, text_of(result), result.is_error)


def count_calls_with(messages: Sequence[Message], word: str) -> int:
    """The number of calls that have the word in their arguments."""
    calls = [call.function for message in messages for call in message.tool_calls]
    calls += [message.function_call for message in messages]
    return sum(call is not None and word in call.arguments for call in calls)


def requested_files(task: str) -> int | None:
    """The number of files in the task: a number ("two files"), or the number of file names, if more than one."""
    found = _FILE_COUNT.search(task)
    if found is not None:
        word = found[1].lower()
        return int(word) if word.isdecimal() else _NUMBERS.index(word) + 2
    named = len(set(_FILE.findall(task)))
    return named if named > 1 else None


def working_directory(messages: Sequence[Message]) -> str | None:
    """The last working directory that the client has written, preferably in a system message."""
    for roles in (("system", "developer"), ("user",)):
        for message in reversed(messages):
            if message.role in roles and (found := _find_directory(text_of(message))):
                return found
    return None


def _find_directory(text: str) -> str | None:
    for marker in _DIRECTORY_MARKERS:
        at = len(text)
        for _ in range(_MAX_SEARCHES):
            at = text.rfind(marker, 0, at)
            if at < 0:
                break
            found = _DIRECTORY.match(text, at, at + _MAX_PATH_LENGTH)
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
    """Empty if they are too long or not a JSON object."""
    if len(text) > _MAX_ARGUMENTS_LENGTH:
        return {}
    try:
        value = jsonio.decode(text.encode("utf-8", "replace"))
    except jsonio.InvalidJson:
        return {}
    return value if isinstance(value, dict) else {}
