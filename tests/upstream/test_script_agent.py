"""The script for coding agents without a loop: which tool it calls, with what and when, and what it says of results."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from streamweir.core.message import Message, TextPart
from streamweir.core.request import Function
from streamweir.upstream.script.agent import STEM
from streamweir.upstream.script.conversation import requested_files, working_directory
from streamweir.upstream.script.deltas import count_tokens
from streamweir.upstream.script.file_tool import find_file_tool
from support.script_player import finish_of, frames, said, whole

TEXT = {"type": "string"}


def function(name: str, *required: str, **members: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": members, "required": list(required)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


WRITE = function("Write", "file_path", "content", file_path=TEXT, content=TEXT)
READ = function("Read", "file_path", file_path=TEXT, offset={"type": "integer"})
EDIT = function("Edit", "file_path", "old_string", "new_string", file_path=TEXT, old_string=TEXT, new_string=TEXT)
BASH = function("Bash", "command", command=TEXT, timeout={"type": "number"})
TOOLS = [BASH, EDIT, READ, WRITE]
CLAUDE_CODE = {
    "role": "system",
    "content": "# Environment\nYou have been invoked in the following environment: \n"
    " - Primary working directory: /home/ada/site\n - Is a git repository: false\n - Platform: linux\n",
}
ONE = [{"role": "user", "content": "Write a file, please."}, CLAUDE_CODE]
TWO = [{"role": "user", "content": "Write two small files."}, CLAUDE_CODE]
FIRST = f"/home/ada/site/{STEM}.txt"
SECOND = f"/home/ada/site/{STEM}-2.txt"
CREATED = "File created successfully at: {path} (file state is current in your context - no need to Read it back)"
UNREAD = "<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>"
DENIED = "Claude requested permissions to write to {path}, but you haven't granted it yet."


def message_of(messages: list[Any], model: str = "agent", **more: Any) -> dict[str, Any]:
    """What a whole answer says; a streamed one says the same."""
    more = {"messages": messages, "tools": TOOLS, **more}
    document = whole(model, **more)
    message: dict[str, Any] = document["choices"][0]["message"]
    streamed = frames(model, **more)
    assert streamed[-1]["usage"] == document["usage"]
    deltas = [choice["delta"] for frame in streamed for choice in frame["choices"]]
    for member in ("content", "reasoning_content"):
        assert "".join(delta.get(member) or "" for delta in deltas) == (message.get(member) or "")
    assert finish_of(model, **more) == document["choices"][0]["finish_reason"]
    return message


def paths_of(message: dict[str, Any]) -> list[str]:
    return [json.loads(call["function"]["arguments"])["file_path"] for call in message.get("tool_calls", [])]


def carried_out(messages: list[Any], message: dict[str, Any], *results: str) -> list[Any]:
    """The conversation goes on as a client continues it: the answer, then a result for each of its calls."""
    calls, paths = message["tool_calls"], paths_of(message)
    assert len(calls) == len(results)
    told = [
        {"role": "tool", "tool_call_id": call["id"], "content": result.format(path=path)}
        for call, path, result in zip(calls, paths, results, strict=True)
    ]
    return [*messages, message, *told]


def test_it_thinks_then_writes_a_file_in_the_working_directory_then_reports_it() -> None:
    message = message_of(ONE)
    assert "/home/ada/site" in message["reasoning_content"]
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["Write"]
    arguments = json.loads(message["tool_calls"][0]["function"]["arguments"])
    assert arguments.keys() == {"file_path", "content"}
    assert arguments["file_path"] == FIRST
    assert arguments["content"].startswith("Hello from Streamweir!\n")
    assert finish_of("agent", messages=ONE, tools=TOOLS) == "tool_calls"

    ending = message_of(carried_out(ONE, message, CREATED))
    assert "tool_calls" not in ending
    assert ending["content"].startswith(f'I wrote {FIRST}. The tool Write answered: "File created successfully')
    assert finish_of("agent", messages=carried_out(ONE, message, CREATED), tools=TOOLS) == "stop"


def test_the_same_conversation_has_the_same_answer() -> None:
    first, again = whole("agent", messages=ONE, tools=TOOLS), whole("agent", messages=ONE, tools=TOOLS)
    assert first == again


def test_the_usage_is_as_reported() -> None:
    document = whole("agent", messages=ONE, tools=TOOLS)
    message, usage = document["choices"][0]["message"], document["usage"]
    reasoning = count_tokens(message["reasoning_content"])
    arguments = count_tokens(message["tool_calls"][0]["function"]["arguments"])
    assert usage["prompt_tokens"] == sum(count_tokens(each["content"]) for each in ONE)
    assert usage["completion_tokens_details"]["reasoning_tokens"] == reasoning
    assert usage["completion_tokens"] == reasoning + 1 + arguments


def test_two_files_are_two_calls_at_once() -> None:
    message = message_of(TWO)
    assert paths_of(message) == [FIRST, SECOND]
    assert len({call["id"] for call in message["tool_calls"]}) == 2
    ending = message_of(carried_out(TWO, message, CREATED, DENIED))["content"]
    assert f"I wrote {FIRST}." in ending
    assert f"I could not write {SECOND}." in ending
    assert "you haven't granted it yet" in ending


def test_two_files_are_written_one_after_the_other_where_calls_are_not_parallel() -> None:
    messages: list[Any] = TWO
    for path in (FIRST, SECOND):
        message = message_of(messages, parallel_tool_calls=False)
        assert paths_of(message) == [path]
        messages = carried_out(messages, message, CREATED)
    ending = message_of(messages, parallel_tool_calls=False)["content"]
    assert f"I wrote {FIRST}." in ending
    assert f"I wrote {SECOND}." in ending


@pytest.mark.parametrize(
    ("task", "count"),
    [
        ("Write a file.", None),
        ("Write two files", 2),
        ("Please create 3 small text files in here", 3),
        ("Create a.txt and b.txt.", 2),
        ("Create notes.csv", None),
        ("Copy notes.csv to notes.csv", None),
        ("Look at all files", None),
    ],
)
def test_how_many_files_a_task_asks_for(task: str, count: int | None) -> None:
    assert requested_files(task) == count


def test_the_number_is_bounded_and_a_parameter_says_it_where_the_task_does_not() -> None:
    assert len(paths_of(message_of([{"role": "user", "content": "Write 99 files"}]))) == 16
    assert paths_of(message_of(ONE, "agent?calls=2")) == [FIRST, SECOND]


@pytest.mark.parametrize("result", [DENIED, "Error: EACCES: permission denied, open '{path}'", "The user rejected it."])
def test_a_failure_is_reported_and_not_retried(result: str) -> None:
    ending = message_of(carried_out(ONE, message_of(ONE), result))
    assert "tool_calls" not in ending
    assert ending["content"].startswith(f"I could not write {FIRST}. The tool Write answered: ")


def test_a_result_that_is_marked_as_an_error_is_one() -> None:
    messages = carried_out(ONE, message_of(ONE), "No.")
    messages[-1]["is_error"] = True
    assert message_of(messages)["content"].startswith(f'I could not write {FIRST}. The tool Write answered: "No."')


def test_words_in_a_path_are_no_failure() -> None:
    where = {"role": "system", "content": "Working directory: /srv/error failed"}
    messages = [ONE[0], where]
    ending = message_of(carried_out(messages, message_of(messages), "Wrote {path}"))["content"]
    assert ending.startswith(f"I wrote /srv/error failed/{STEM}.txt.")


def test_if_the_name_is_taken_it_tries_the_next_a_few_times() -> None:
    messages: list[Any] = ONE
    for path in (FIRST, SECOND, f"/home/ada/site/{STEM}-3.txt", f"/home/ada/site/{STEM}-4.txt"):
        message = message_of(messages)
        assert paths_of(message) == [path]
        messages = carried_out(messages, message, UNREAD)
        if path == SECOND:
            assert f"I wrote {SECOND}." in message_of([*messages[:-1], {**messages[-1], "content": "ok"}])["content"]
    assert "I could not write" in message_of(messages)["content"]


def test_the_next_task_has_the_next_name() -> None:
    messages = carried_out(ONE, message_of(ONE), CREATED)
    messages += [{"role": "assistant", "content": "I wrote it."}, {"role": "user", "content": "Once more."}]
    assert paths_of(message_of(messages)) == [SECOND]


def test_what_a_client_adds_to_a_users_message_is_not_a_task() -> None:
    reminder = "<system-reminder>\nWrite 5 files.\n</system-reminder>\n"
    asked = {"role": "user", "content": [{"type": "text", "text": reminder}, {"type": "text", "text": "Hi"}]}
    message = message_of([asked, CLAUDE_CODE])
    assert paths_of(message) == [FIRST]
    messages = [*carried_out([asked, CLAUDE_CODE], message, CREATED), {"role": "user", "content": reminder}]
    assert message_of(messages)["content"].startswith("I wrote ")


def test_a_call_without_its_result_is_reported() -> None:
    assert "not in the conversation" in message_of([*ONE, message_of(ONE)])["content"]


def test_a_task_does_not_name_the_file() -> None:
    # It could be a file of the user's: some clients overwrite without asking.
    assert paths_of(
        message_of([{"role": "user", "content": "Fix the bug in /etc/passwd and main.py"}, CLAUDE_CODE])
    ) == [FIRST]


CODEX = [
    {"role": "user", "content": "<environment_context>\n  <cwd>/home/ada/my site</cwd>\n</environment_context>"},
    {"role": "user", "content": "Write a file, please."},
]
EXEC = function("exec_command", "cmd", cmd=TEXT, workdir=TEXT, tty={"type": "boolean"})
RAN = "Chunk ID: fa11ed\nWall time: 0.0 seconds\nProcess exited with code {code}\nOutput:\n{output}"


def command_of(message: dict[str, Any]) -> str:
    (call,) = message["tool_calls"]
    assert call["function"]["name"] == "exec_command"
    (command,) = json.loads(call["function"]["arguments"]).values()
    assert isinstance(command, str)
    return command


def ran(messages: list[Any], message: dict[str, Any], code: int, output: str) -> list[Any]:
    id = message["tool_calls"][0]["id"]
    told = {"role": "tool", "tool_call_id": id, "content": RAN.format(code=code, output=output)}
    return [*messages, message, told]


def test_it_writes_by_a_shell_where_that_is_all_there_is(tmp_path: Path) -> None:
    where = {"role": "user", "content": f"<environment_context><cwd>{tmp_path}</cwd></environment_context>"}
    message = message_of([where, CODEX[1]], tools=[EXEC, READ])
    for expected in (0, 1):  # it does not overwrite
        command = ["/bin/sh", "-c", command_of(message)]
        status = subprocess.run(command, check=False, capture_output=True).returncode  # noqa: S603
        assert min(status, 1) == expected
    (written,) = tmp_path.glob("*.txt")
    assert written.name == f"{STEM}.txt"
    assert written.read_text().startswith("Hello from Streamweir!\n")
    assert "runs a command (cmd)" in message["reasoning_content"]
    assert paths_of(message_of([where, CODEX[1]], tools=[EXEC, WRITE])) == [str(written)], (
        "a tool for files comes first"
    )


def test_the_result_of_a_command() -> None:
    message = message_of(CODEX, tools=[EXEC])
    path = f"/home/ada/my site/{STEM}.txt"
    assert message_of(ran(CODEX, message, 0, ""), tools=[EXEC])["content"].startswith(f"I wrote {path}.")
    refused = message_of(ran(CODEX, message, 1, "sh: 1: Read-only file system\n"), tools=[EXEC])
    assert refused["content"].startswith(f"I could not write {path}.")
    taken = message_of(ran(CODEX, message, 1, "bash: cannot overwrite existing file\n"), tools=[EXEC])
    assert command_of(taken).endswith(f"'/home/ada/my site/{STEM}-2.txt'")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"tools": []}, "the request has no tools"),
        ({"tools": [BASH, READ, EDIT]}, "no tool that I may call takes a path and a content"),
        ({"tools": TOOLS, "tool_choice": "none"}, "tool_choice"),
        (
            {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "Bash"}}},
            "no tool that I may call",
        ),
    ],
)
def test_without_a_usable_tool_it_explains_why_it_does_nothing(more: dict[str, Any], told: str) -> None:
    more = {name: value for name, value in more.items() if value}
    document = whole("agent", messages=ONE, **more)
    message = document["choices"][0]["message"]
    assert "tool_calls" not in message
    assert message["content"].startswith("I did nothing: ")
    assert told in message["content"]
    assert document["choices"][0]["finish_reason"] == "stop"


def test_legacy_functions() -> None:
    functions = [WRITE["function"]]
    message = whole("agent", messages=TWO, functions=functions)["choices"][0]["message"]
    assert json.loads(message["function_call"]["arguments"])["file_path"] == FIRST
    messages = [*TWO, message, {"role": "function", "name": "Write", "content": "ok"}]
    message = whole("agent", messages=messages, functions=functions)["choices"][0]["message"]
    assert json.loads(message["function_call"]["arguments"])["file_path"] == SECOND
    messages += [message, {"role": "function", "name": "Write", "content": "Error: disk full"}]
    ending = said("agent", messages=messages, functions=functions)
    assert f"I wrote {FIRST}." in ending
    assert f"I could not write {SECOND}." in ending


def test_a_title_is_a_value_of_the_schema_that_is_asked_for() -> None:
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string", "maxLength": 7}, "isNewTopic": {"type": "boolean"}},
        "required": ["title", "isNewTopic"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "output", "strict": True, "schema": schema}}
    asked = [{"role": "user", "content": "Write two files."}]
    value = json.loads(said("agent", messages=asked, response_format=form, max_tokens=100))
    assert value == {"title": "Example", "isNewTopic": True}
    assert json.loads(said("agent", messages=asked, response_format={"type": "json_object"}))

    messages = carried_out(ONE, message_of(ONE, response_format=form), CREATED)
    assert json.loads(message_of(messages, response_format=form)["content"]) == value, "after the work, too"


COMMAND = {"type": "string", "enum": ["view", "create", "str_replace"]}
FLAG, MAYBE, EITHER = {"type": "boolean"}, {"type": ["string", "null"]}, {"anyOf": [TEXT, {"type": "null"}]}
ODD = {"properties": {"path": TEXT, "content": TEXT}, "required": [7]}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (WRITE, {"file_path": "p", "content": "c"}),
        (function("write", "content", "filePath", content=TEXT, filePath=TEXT), {"filePath": "p", "content": "c"}),
        (function("mcp__fs__write_file", "path", "contents", path=TEXT, contents=TEXT), {"path": "p", "contents": "c"}),
        (function("put", path=TEXT, content=TEXT), {"path": "p", "content": "c"}),
        (
            function("editor", "command", "path", command=COMMAND, path=TEXT, file_text=TEXT, old_str=TEXT),
            {"command": "create", "path": "p", "file_text": "c"},
        ),
        (
            function("save", "path", "content", "append", "mode", path=TEXT, content=TEXT, append=FLAG, mode=MAYBE),
            {"append": False, "mode": None, "path": "p", "content": "c"},
        ),
        (
            function(
                "create", "path", "content", "mode", path=TEXT, content=TEXT, mode={"anyOf": [TEXT, {"type": "null"}]}
            ),
            {"mode": None, "path": "p", "content": "c"},
        ),
        (READ, None),
        (EDIT, None),
        (BASH, None),
        (function("exec_command", "cmd", "shell", cmd=TEXT, shell=TEXT), None),
        (function("exec_command", "cmd", cmd={"type": "string", "enum": ["ls"]}), None),
        # It does more than write a file: nothing is made up for it.
        (function("publish_file", "repo", "path", "content", repo=TEXT, path=TEXT, content=TEXT), None),
        (function("write", path={"type": "integer"}, content=TEXT), None),
        (function("write", path={"type": "string", "enum": ["a"]}, content=TEXT), None),
        (function("write", path=TEXT, content=TEXT, **{f"m{number}": TEXT for number in range(64)}), None),
        ({"function": {"name": "odd", "parameters": {"properties": [], "required": {}}}}, None),
        (
            {
                "function": {
                    "name": "odd",
                    "parameters": {"properties": {"path": TEXT, "content": TEXT}, "required": [7]},
                }
            },
            None,
        ),
        ({"function": {"name": "bare"}}, None),
    ],
)
def test_a_tool_is_known_by_its_schema(tool: dict[str, Any], arguments: dict[str, Any] | None) -> None:
    found = find_file_tool([Function(**tool["function"])])
    assert (json.loads(found.arguments("p", "c")) if found else None) == arguments


def test_a_tool_that_is_named_after_writing_is_preferred() -> None:
    note = function("note", "path", "content", path=TEXT, content=TEXT)
    functions = [Function(**tool["function"]) for tool in (note, WRITE)]
    tool = find_file_tool(functions)
    assert tool is not None
    assert tool.name == "Write"


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        (CLAUDE_CODE["content"], "/home/ada/site"),
        ("<env>\n  Working directory: /srv/my site\n  Is directory a git repo: no\n</env>", "/srv/my site"),
        ("<environment_context>\n  <cwd>/srv/site</cwd>\n</environment_context>", "/srv/site"),
        ("Current Working Directory: `/srv/site`", "/srv/site"),
        ("The current working directory is /srv/site. Stay in it.", "/srv/site"),
        ("Working directory: C:\\Users\\Ada\nPlatform: win32", "C:\\Users\\Ada"),
        ("Working directory: /old\n...\nWorking directory: /new", "/new"),
        ("Stay in the working directory. /tmp is not yours.", None),
        ("Additional working directories: /tmp", None),
        ("", None),
    ],
)
def test_where_the_working_directory_is_stated(text: str, folder: str | None) -> None:
    user = Message(role="user", content="Hi. Working directory: /users")
    assert working_directory([Message(role="system", content=(TextPart(text),)), user]) == (folder or "/users")
    assert working_directory([Message(role="user", content=text)]) == folder


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("Working directory: C:\\Users\\Ada", f"C:\\Users\\Ada\\{STEM}.txt"),
        ("Working directory: /", f"/{STEM}.txt"),
        ("Working directory: /srv/", f"/srv/{STEM}.txt"),
        ("Be brief.", f"{STEM}.txt"),
    ],
)
def test_the_path_is_in_the_working_directory_if_it_is_stated(text: str, path: str) -> None:
    messages = [{"role": "system", "content": text}, {"role": "user", "content": "Go"}]
    assert paths_of(message_of(messages)) == [path]


def test_its_text_is_short_for_any_length_of_conversation() -> None:
    messages = carried_out(ONE, message_of(ONE), "ok" * 100_000)
    messages[-1]["content"] += "<system-reminder>" * 1000
    messages.insert(0, {"role": "system", "content": "working directory: x " * 20_000})
    assert len(message_of(messages)["content"]) < 1000
