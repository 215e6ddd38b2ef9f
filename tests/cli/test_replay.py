"""`streamweir replay`: what it writes, what it is handed, and how it ends."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from streamweir import __version__
from streamweir.cli.main import main
from streamweir.wire.amazon_messages import write_chunk
from support import responses
from support.amazon_body import answer
from support.messages import documents_of, read_documents

FIXTURES = Path(__file__).parent.parent / "fixtures"
TEXT = FIXTURES / "openai" / "text_and_usage" / "response.sse"
CUT = FIXTURES / "openai" / "truncated_before_finish" / "response.sse"
CLAUDE = FIXTURES / "anthropic" / "ping_and_padding" / "response.sse"
ARRAY = FIXTURES / "gemini" / "json_array" / "response.json"
CLAUDE_WHOLE = FIXTURES / "anthropic" / "whole_message" / "response.json"
CLAUDE_CUT = FIXTURES / "anthropic" / "truncated_mid_frame" / "response.sse"
GEMINI_CUT = FIXTURES / "gemini" / "truncated_before_the_finish" / "response.sse"
RESPONSE = FIXTURES / "openai-responses" / "text" / "response.sse"
RESPONSE_CUT = FIXTURES / "openai-responses" / "truncated" / "response.sse"
RESPONSE_WHOLE = FIXTURES / "openai-responses" / "whole_answer" / "response.json"
WHOLE = FIXTURES / "openai" / "whole_text" / "response.json"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


def documents(result: Result) -> list[Any]:
    blocks = [block.removeprefix("data: ") for block in result.output.split("\n\n") if block]
    return [json.loads(block) for block in blocks if block != "[DONE]"]


def test_a_complete_answer_exits_with_0() -> None:
    result = run(TEXT, "--from", "openai", "--to", "openai")
    assert result.exit_code == 0
    assert result.output.endswith("data: [DONE]\n\n")


def test_a_failure_exits_with_3_and_ends_in_the_error_frame_and_the_terminator() -> None:
    result = run(CUT, "--from", "openai", "--to", "openai")
    assert result.exit_code == 3
    assert documents(result)[-1]["error"]["code"] == "upstream_stream_truncated"
    assert result.output.endswith("data: [DONE]\n\n")


def test_a_failure_before_the_first_output_is_an_error_frame_too(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    result = run(empty, "--from", "anthropic", "--to", "opentoken")
    assert result.exit_code == 3
    assert [d["error"]["code"] for d in documents(result)] == ["stream_error"]


def test_a_buffered_failure_is_the_error_envelope() -> None:
    result = run(CUT, "--from", "openai", "--to", "openai", "--buffered")
    assert result.exit_code == 3
    assert json.loads(result.output)["error"]["type"] == "upstream_error"


@pytest.mark.parametrize(("path", "source"), [(CLAUDE, "anthropic"), (ARRAY, "gemini"), (WHOLE, "openai")])
def test_every_form_of_body(path: Path, source: str) -> None:
    assert run(path, "--from", source, "--to", "aivene").exit_code == 0


def test_amazons_frames(tmp_path: Path) -> None:
    file = tmp_path / "response"
    file.write_bytes(answer("Good ", "day."))
    result = run(file, "--from", "bedrock", "--to", "openai", "--buffered")
    assert (result.exit_code, json.loads(result.output)["choices"][0]["message"]["content"]) == (0, "Good day.")
    events = (b'{"type":"ping"}', b'{"type":"message_start","message":{"id":"m","content":[]}}')
    file.write_bytes(b"".join(map(write_chunk, events)))
    cut = run(file, "--from", "bedrock-messages", "--to", "messages")
    assert (cut.exit_code, "ended before it was complete" in cut.output) == (3, True)


def test_a_vendors_row_is_a_source() -> None:
    path = FIXTURES / "snowflake" / "reasoning_details_only" / "response.sse"
    assert run(path, "--from", "snowflake", "--to", "openai").exit_code == 0
    assert run(path, "--from", "openai", "--to", "openai").exit_code == 3


@pytest.mark.parametrize(
    ("path", "source"),
    [(TEXT, "openai"), (WHOLE, "openai"), (CLAUDE, "anthropic"), (CLAUDE_WHOLE, "anthropic"), (ARRAY, "gemini")],
)
def test_to_messages_the_joined_stream_is_the_buffered_body(path: Path, source: str) -> None:
    options = ("--from", source, "--to", "messages", "--model", "claude-x", "--id", "msg_1")
    streamed, whole = run(path, *options), run(path, *options, "--buffered")
    assert (streamed.exit_code, whole.exit_code) == (0, 0)
    assert streamed.stdout_bytes.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    message, body = read_documents(documents_of(streamed.stdout_bytes)), json.loads(whole.output)
    assert (body["id"], body["model"], body["type"]) == ("msg_1", "claude-x", "message")
    assert body["content"]
    assert body["usage"]["output_tokens"] > 0
    assert message == body


def test_messages_to_messages_is_passed_on_unless_an_id_is_given() -> None:
    passed = run(CLAUDE, "--from", "anthropic", "--to", "messages")
    assert passed.stdout_bytes == CLAUDE.read_bytes()
    assert json.loads(run(CLAUDE_WHOLE, "--from", "anthropic", "--to", "messages", "--buffered").output) == json.loads(
        CLAUDE_WHOLE.read_bytes()
    )
    written = run(CLAUDE, "--from", "anthropic", "--to", "messages", "--id", "msg_1")
    assert read_documents(documents_of(written.stdout_bytes))["id"] == "msg_1"


def test_the_model_of_a_message_is_that_of_the_recording_if_none_is_named() -> None:
    message = read_documents(documents_of(run(TEXT, "--from", "openai", "--to", "messages").stdout_bytes))
    assert message["model"] == documents(run(TEXT, "--from", "openai", "--to", "openai"))[0]["model"]


@pytest.mark.parametrize(
    ("path", "source"),
    [(CUT, "openai"), (CLAUDE_CUT, "anthropic"), (GEMINI_CUT, "gemini")],
    ids=lambda value: str(value),
)
def test_a_cut_recording_to_messages_ends_in_an_error_and_never_in_message_stop(path: Path, source: str) -> None:
    streamed = run(path, "--from", source, "--to", "messages")
    assert streamed.exit_code == 3
    assert documents_of(streamed.stdout_bytes)[-1]["error"]["type"] == "api_error"
    assert b"message_stop" not in streamed.stdout_bytes
    assert b"message_delta" not in streamed.stdout_bytes
    whole = run(path, "--from", source, "--to", "messages", "--buffered")
    assert whole.exit_code == 3
    assert json.loads(whole.output)["type"] == "error"


def test_a_failure_before_the_first_output_to_messages_is_an_error_frame(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    result = run(empty, "--from", "gemini", "--to", "messages")
    assert result.exit_code == 3
    assert [document["type"] for document in documents_of(result.stdout_bytes)] == ["error"]


@pytest.mark.parametrize(
    ("path", "source"),
    [(TEXT, "openai"), (WHOLE, "openai"), (CLAUDE, "anthropic"), (ARRAY, "gemini"), (RESPONSE, "responses")],
)
def test_to_responses_the_joined_stream_is_the_buffered_body(path: Path, source: str) -> None:
    options = ("--from", source, "--to", "responses", "--model", "gpt-x", "--id", "resp_1")
    streamed, whole = run(path, *options), run(path, *options, "--buffered")
    assert (streamed.exit_code, whole.exit_code) == (0, 0)
    response, body = responses.read_stream(streamed.stdout_bytes), json.loads(whole.output)
    assert (body["id"], body["model"], body["status"]) == ("resp_1", "gpt-x", "completed")
    assert body["output"]
    assert body["usage"]["output_tokens"] > 0
    assert response == body


def test_responses_to_responses_is_passed_on_unless_an_id_is_given() -> None:
    for source in ("responses", "openai-responses"):
        assert run(RESPONSE, "--from", source, "--to", "responses").stdout_bytes == RESPONSE.read_bytes()
        passed = run(RESPONSE_WHOLE, "--from", source, "--to", "responses", "--buffered")
        assert json.loads(passed.output) == json.loads(RESPONSE_WHOLE.read_bytes())
    written = run(RESPONSE, "--from", "responses", "--to", "responses", "--id", "resp_1")
    assert responses.read_stream(written.stdout_bytes)["id"] == "resp_1"


@pytest.mark.parametrize("target", ["openai", "bitseek", "messages"])
def test_a_recording_of_responses_goes_to_every_api(target: str) -> None:
    result = run(RESPONSE, "--from", "responses", "--to", target)
    assert result.exit_code == 0
    whole = json.loads(run(RESPONSE, "--from", "responses", "--to", "openai", "--buffered").output)
    said = whole["choices"][0]["message"]["content"]
    assert said
    texts = re.findall(r'"(?:content|text)":"([^"]+)"', result.output)
    assert "".join(texts) == said


@pytest.mark.parametrize(
    ("path", "source"), [(CUT, "openai"), (CLAUDE_CUT, "anthropic"), (RESPONSE_CUT, "responses")], ids=str
)
def test_a_cut_recording_to_responses_fails_and_is_never_completed(path: Path, source: str) -> None:
    streamed = run(path, "--from", source, "--to", "responses")
    assert streamed.exit_code == 3
    failed = responses.read_stream(streamed.stdout_bytes)
    assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")
    assert b"response.completed" not in streamed.stdout_bytes
    whole = run(path, "--from", source, "--to", "responses", "--buffered")
    assert whole.exit_code == 3
    assert json.loads(whole.output)["error"]["type"] == "upstream_error"


def test_a_failure_before_the_first_output_to_responses_is_told_twice(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    result = run(empty, "--from", "gemini", "--to", "responses")
    assert result.exit_code == 3
    found = [document["type"] for document in responses.documents_of(result.stdout_bytes)]
    assert (found[0], found[-2:]) == ("response.created", ["error", "response.failed"])


def test_id_and_created_come_from_the_options_else_the_recording_else_its_hash_and_0() -> None:
    given = documents(run(TEXT, "--from", "openai", "--to", "openai", "--id", "mine", "--created", "0"))
    assert {(d["id"], d["created"]) for d in given} == {("mine", 0)}
    recorded = documents(run(TEXT, "--from", "openai", "--to", "openai"))
    assert {(d["id"], d["created"]) for d in recorded} == {("chatcmpl-Fx00000000000001", 1750000000)}
    hashed = documents(run(CLAUDE, "--from", "anthropic", "--to", "openai"))
    assert hashed == documents(run(CLAUDE, "--from", "anthropic", "--to", "openai"))
    assert len({d["id"] for d in hashed}) == 1
    assert {d["created"] for d in hashed} == {0}
    bitseek = documents(run(TEXT, "--from", "openai", "--to", "bitseek"))
    assert {d["created"] for d in bitseek} == {1750000000}
    assert {d["created"] for d in documents(run(TEXT, "--from", "openai", "--to", "bitseek", "--created", "9"))} == {9}


def test_model_and_usage() -> None:
    asked = documents(run(TEXT, "--from", "openai", "--to", "aivene", "--model", "a/b", "--usage"))
    assert {d["model"] for d in asked} == {"a/b"}
    assert "usage" in asked[-1]
    assert all("usage" not in d for d in documents(run(TEXT, "--from", "openai", "--to", "aivene")))


def test_buffered_has_usage_always() -> None:
    result = run(TEXT, "--from", "openai", "--to", "openai", "--buffered")
    assert json.loads(result.output)["usage"]["total_tokens"] > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((TEXT, "--from", "openai", "--to", "bitseek", "--buffered"), "bitseek always streams"),
        (
            (TEXT, "--from", "nobody", "--to", "openai"),
            "unknown provider 'nobody'; use one of alibaba, anthropic, azure",
        ),
        ((TEXT, "--from", "openai", "--to", "klingon"), "'klingon' is not one of"),
        ((TEXT, "--from", "openai"), "Missing option '--to'"),
        ((FIXTURES / "none", "--from", "openai", "--to", "openai"), "No such file or directory"),
        ((FIXTURES, "--from", "openai", "--to", "openai"), "Is a directory"),
    ],
)
def test_wrong_usage_exits_with_2_and_the_reason(arguments: tuple[object, ...], says: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert says in result.output


def test_the_program() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"streamweir {__version__}\n"
    assert "replay" in CliRunner().invoke(main, ["--help"]).output
    assert CliRunner().invoke(main, ["nothing"]).exit_code == 2


def test_a_command_loads_no_protocol_that_it_does_not_need() -> None:
    """Start-up time is the benchmark's business; what is imported is ours."""
    code = (
        "import sys; from streamweir.cli.commands.replay import replay;"
        f"replay(open({str(TEXT)!r}, 'rb').read(), source='openai', target='openai');"
        "print([name for name in sys.modules if 'anthropic' in name or 'gemini' in name or name == 'asyncio'])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert shown.stdout.strip() == "[]"
