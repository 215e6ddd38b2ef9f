"""The script for coding agents: it writes a small file by the client's own tool, then reports what came of it.

Decided by the messages alone: as long as the turn has fewer calls than files that were asked for, it calls;
else it says what the results say. It writes under names of its own in the client's working directory, never
under one that the task gives: that could be a file of the user's, and some clients write without asking.
"""

from streamweir.core.request import ChatRequest
from streamweir.upstream.script import answer
from streamweir.upstream.script.answer import ChoiceInput, called, said
from streamweir.upstream.script.conversation import (
    CallMade,
    Turn,
    count_calls_with,
    files_asked_for,
    read_turn,
    working_directory,
)
from streamweir.upstream.script.deltas import Part, tokens_of
from streamweir.upstream.script.file_tool import FileTool, find_file_tool

STEM = "hello-from-streamweir"
_CONTENT = "Hello from Streamweir!\n\nThe simulator's script for coding agents wrote this file by its client's tool.\n"
_WHO = "I am a script of Streamweir's simulator: whatever the task is, I write such files and do nothing else."
_MOST_FILES = 16
_MOST_TAKEN = 3
"""So many calls more than files, where a name is taken."""
_LONGEST_QUOTE = 200


def agent(cue: ChoiceInput) -> list[Part]:
    chat = cue.chat
    turn = read_turn(chat.messages)
    functions = answer.permitted(chat, [tool.function for tool in chat.tools if tool.function is not None])
    tool = find_file_tool(functions)
    count = 0 if tool is None else _count_due(cue, turn)
    if tool is not None and count:
        return _calls(cue, tool, count)
    if chat.response_format is not None and chat.response_format.type != "text":
        return answer.json(cue)
    return [said(cue, _report(turn.calls) if turn.calls else _why_nothing(chat))]


def _count_due(cue: ChoiceInput, turn: Turn) -> int:
    """How many calls come next."""
    files = min(files_asked_for(turn.task) or cue.options.calls, _MOST_FILES)
    tried = sum(not call.found_it_taken for call in turn.calls)
    due = min(files - tried, files + _MOST_TAKEN - len(turn.calls))
    return min(max(due, 0), 1 if answer.has_one_call(cue.chat) else _MOST_FILES)


def _calls(cue: ChoiceInput, tool: FileTool, count: int) -> list[Part]:
    messages = cue.chat.messages
    folder = working_directory(messages)
    before = count_calls_with(messages, STEM)
    names = [STEM + (f"-{number}" if number > 1 else "") + ".txt" for number in range(before + 1, before + count + 1)]
    where = "there" if folder else "under a relative path"
    thoughts = (
        f"The tool {_quoted(tool.name)} takes a path ({tool.path}) and a content ({tool.content}). "
        f"The working directory is {folder or 'not stated'}, so {where} I write {' and '.join(names)}."
    )
    calls = [
        called(cue, ordinal, tool.name, tool.arguments(_joined(folder, name), _CONTENT))
        for ordinal, name in enumerate(names)
    ]
    return [Part(tokens_of(thoughts), "reasoning_content"), *calls]


def _report(calls: tuple[CallMade, ...]) -> str:
    return "\n".join([*map(_outcome, calls), "", _WHO])


def _outcome(call: CallMade) -> str:
    paths = [value for value in call.arguments.values() if isinstance(value, str) and STEM in value]
    path, tool = _quoted(paths[0] if paths else "a file"), _quoted(call.tool)
    if call.result is None:
        return f"I called the tool {tool} to write {path}. Its result is not in the conversation."
    result = f'answered: "{_quoted(call.result)}"' if call.result.strip() else "answered nothing."
    if call.has_failed:
        return f"I could not write {path}. The tool {tool} {result}"
    return f"I wrote {path}. The tool {tool} {result}"


def _why_nothing(chat: ChatRequest) -> str:
    if not chat.tools:
        reason = "the request has no tools"
    elif chat.tool_choice is not None and chat.tool_choice.mode == "none":
        reason = "the request forbids to call a tool (tool_choice)"
    else:
        reason = "no tool that I may call takes a path and a content and requires nothing else"
    return f"I did nothing: {reason}. {_WHO}"


def _joined(folder: str | None, name: str) -> str:
    if folder is None:
        return name
    sign = "\\" if "\\" in folder and "/" not in folder else "/"
    return f"{folder.rstrip(sign)}{sign}{name}"


def _quoted(text: str) -> str:
    """On one line, and short."""
    line = " ".join(text[: 2 * _LONGEST_QUOTE].split())
    return line if len(line) <= _LONGEST_QUOTE else f"{line[:_LONGEST_QUOTE]} ..."
