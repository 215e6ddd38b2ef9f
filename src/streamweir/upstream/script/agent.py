"""The script for coding agents: it writes a small file with the client's own tool, then reports the result.

The messages alone decide: while the turn has fewer calls than requested files, it calls the tool; then it reports the
results. It writes only files with its own names into the client's working directory, never a file that the task names:
that could be a file of the user, and some clients write without a confirmation.
"""

from streamweir.core.request import ChatRequest
from streamweir.upstream.script import answer
from streamweir.upstream.script.answer import ChoiceInput, call_part, text_part
from streamweir.upstream.script.conversation import (
    PreviousCall,
    Turn,
    count_calls_with,
    read_turn,
    requested_files,
    working_directory,
)
from streamweir.upstream.script.deltas import Part, split_tokens
from streamweir.upstream.script.file_tool import FileTool, Shell, find_file_tool, written_path

STEM = "hello-from-streamweir"
_CONTENT = "Hello from Streamweir!\n\nThe simulator's script for coding agents wrote this file by its client's tool.\n"
_DISCLAIMER = "I am a script of Streamweir's simulator: whatever the task is, I write such files and do nothing else."
_MAX_FILES = 16
_MAX_NAME_COLLISIONS = 3
"""This many further calls are made if files with these names exist already."""
_MAX_QUOTE_LENGTH = 200


def agent(choice_input: ChoiceInput) -> list[Part]:
    chat = choice_input.chat
    turn = read_turn(chat.messages)
    functions = answer.allowed_functions(chat, [tool.function for tool in chat.tools if tool.function is not None])
    tool = find_file_tool(functions)
    count = 0 if tool is None else _calls_to_make(choice_input, turn)
    if tool is not None and count:
        return _calls(choice_input, tool, count)
    if chat.response_format is not None and chat.response_format.type != "text":
        return answer.json(choice_input)
    return [text_part(choice_input, _report(turn.calls) if turn.calls else _explain_no_call(chat))]


def _calls_to_make(choice_input: ChoiceInput, turn: Turn) -> int:
    """The number of calls in this answer."""
    files = min(requested_files(turn.task) or choice_input.options.calls, _MAX_FILES)
    tried = sum(not call.failed_because_file_exists for call in turn.calls)
    due = min(files - tried, files + _MAX_NAME_COLLISIONS - len(turn.calls))
    return min(max(due, 0), 1 if answer.has_one_call(choice_input.chat) else _MAX_FILES)


def _calls(choice_input: ChoiceInput, tool: FileTool | Shell, count: int) -> list[Part]:
    messages = choice_input.chat.messages
    folder = working_directory(messages)
    before = count_calls_with(messages, STEM)
    names = [STEM + (f"-{number}" if number > 1 else "") + ".txt" for number in range(before + 1, before + count + 1)]
    where = "there" if folder else "under a relative path"
    reasoning_text = (
        f"The tool {_quote(tool.name)} {tool.description}. "
        f"The working directory is {folder or 'not stated'}, so {where} I write {' and '.join(names)}."
    )
    calls = [
        call_part(choice_input, ordinal, tool.name, tool.arguments(_join_path(folder, name), _CONTENT))
        for ordinal, name in enumerate(names)
    ]
    return [Part(split_tokens(reasoning_text), "reasoning_content"), *calls]


def _report(calls: tuple[PreviousCall, ...]) -> str:
    return "\n".join([*map(_outcome, calls), "", _DISCLAIMER])


def _outcome(call: PreviousCall) -> str:
    paths = [written_path(value) for value in call.arguments.values() if isinstance(value, str) and STEM in value]
    path, tool = _quote(paths[0] if paths else "a file"), _quote(call.tool)
    if call.result is None:
        return f"I called the tool {tool} to write {path}. Its result is not in the conversation."
    result = f'answered: "{_quote(call.result)}"' if call.result.strip() else "answered nothing."
    if call.has_failed:
        return f"I could not write {path}. The tool {tool} {result}"
    return f"I wrote {path}. The tool {tool} {result}"


def _explain_no_call(chat: ChatRequest) -> str:
    if not chat.tools:
        reason = "the request has no tools"
    elif chat.tool_choice is not None and chat.tool_choice.mode == "none":
        reason = "the request forbids to call a tool (tool_choice)"
    else:
        reason = "no tool that I may call takes a path and a content and requires nothing else"
    return f"I did nothing: {reason}. {_DISCLAIMER}"


def _join_path(folder: str | None, name: str) -> str:
    if folder is None:
        return name
    separator = "\\" if "\\" in folder and "/" not in folder else "/"
    return f"{folder.rstrip(separator)}{separator}{name}"


def _quote(text: str) -> str:
    """Shortens the text to one line."""
    line = " ".join(text[: 2 * _MAX_QUOTE_LENGTH].split())
    return line if len(line) <= _MAX_QUOTE_LENGTH else f"{line[:_MAX_QUOTE_LENGTH]} ..."
