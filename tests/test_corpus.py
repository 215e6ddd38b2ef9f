"""Every recorded answer of the corpus, through every dialect, judged by a reading of the tests' own.

What a recording carries (`support.reading`) and what the output carries (`support.dialect_output`,
which also holds it to the rules of docs/spec/dialects.md) are read with the standard json module and
compared. Recordings that were edited by hand only have to come out without a crash. No case here
depends on the name of a file. `make test` takes every eighth recording, `make soak` all.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from streamweir.cli.commands.replay import command, replay
from streamweir.providers.registry import provider_named
from support.comparison import differences
from support.corpus import PARTS, WHY_MISSING, Recording, recordings
from support.dialect_output import passed_frames, read_stream, read_whole
from support.dialect_rules import DIALECTS, Rules
from support.expected import Expected
from support.reading import WITHOUT_FINISH, read_recording
from support.soak import part_of

RECORDINGS = part_of(recordings(), PARTS)
if not RECORDINGS:
    pytest.skip(WHY_MISSING, allow_module_level=True)

KINDS = {
    "openai-chat": "openai",
    "anthropic-messages": "anthropic",
    "gemini": "gemini",
    "openai-responses": "openai-responses",
}
ASKED_MODEL = "vendor/model-asked-for"
ERRORS = {
    "openai": b'data: {"error":{"message":"The server had an error","type":"server_error","code":500}}\n\n',
    "anthropic": b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
    "openai-responses": b'data: {"type":"error","error":{"code":"server_error","message":"It stopped."}}\n\n',
    "gemini": b'data: {"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}\r\n\r\n',
}


def named(recording: Recording) -> str:
    return recording.name


def sources(recording: Recording) -> Iterator[str]:
    """The protocol's name, and the vendor's own where it has a row."""
    kind = KINDS[recording.family]
    yield kind
    if kind == "openai" and recording.provider != "openai":
        try:
            provider_named(recording.provider)
        except KeyError:
            return
        yield recording.provider


def variants() -> Iterator[tuple[Rules, bool, bool]]:
    """Dialect, whether usage is asked for, whether the answer is buffered."""
    for rules in DIALECTS:
        for asked in (False, True):
            yield rules, asked, False
            if not rules.is_bitseek:
                yield rules, asked, True


def judge(
    result: tuple[bytes, bool], expected: Expected, variant: tuple[Rules, bool, bool], passed: frozenset[bytes]
) -> list[str]:
    """What is wrong with one output, a line each."""
    data, completed = result
    rules, asked, buffered = variant
    try:
        output = read_whole(data, rules, passed) if buffered else read_stream(data, rules, asked, passed)
    except (AssertionError, KeyError, ValueError, TypeError) as broken:
        return [f"{type(broken).__name__}: {broken}"]
    if completed != (expected.ended == "complete"):
        return [f"the recording is {expected.ended}, replay says completed={completed}: {output.error}"]
    if buffered and not completed:
        return [] if output.error else ["a failure without an error"]
    return differences(expected, output, rules, ASKED_MODEL if asked else None)


@pytest.mark.parametrize("recording", [r for r in RECORDINGS if not r.is_edited], ids=named)
def test_output_carries_what_the_recording_carries(recording: Recording) -> None:
    body = recording.body()
    passed = passed_frames(body)
    found: list[str] = []
    seen: dict[tuple[str, bool, bool], tuple[bytes, bool]] = {}
    for source in sources(recording):
        expected = read_recording(recording.family, body, provider=source)
        assert not recording.is_error or expected.ended == "error"
        for variant in variants():
            rules, asked, buffered = variant
            model = ASKED_MODEL if asked else None
            result = replay(body, source=source, target=rules.name, model=model, usage=asked, buffered=buffered)
            if seen.get((rules.name, asked, buffered)) == result and source not in WITHOUT_FINISH:
                continue
            seen[rules.name, asked, buffered] = result
            label = f"{source} to {rules.name}{' usage' if asked else ''}{' buffered' if buffered else ''}"
            found += [f"{label}: {line}" for line in judge(result, expected, variant, passed)]
    assert not found, "\n".join([recording.file, *found])


@pytest.mark.parametrize("recording", [r for r in RECORDINGS if not r.is_edited and not r.is_error], ids=named)
def test_cut_recording_never_looks_complete(recording: Recording) -> None:
    """The same recordings, cut in the midst or ended by an error of their own kind: what came before is kept."""
    found: list[str] = []
    source = KINDS[recording.family]
    for how, body in broken_off(recording.body(), source, recording.is_whole):
        expected = read_recording(recording.family, body)
        passed = passed_frames(body)
        for variant in variants():
            rules, asked, buffered = variant
            if asked != buffered:  # two of the four combinations: usage asked and buffered, or neither
                continue
            model = ASKED_MODEL if asked else None
            result = replay(body, source=source, target=rules.name, model=model, usage=asked, buffered=buffered)
            found += [f"{how}, {rules.name}: {line}" for line in judge(result, expected, variant, passed)]
    assert not found, "\n".join([recording.file, *found])


def broken_off(body: bytes, source: str, is_whole: bool) -> Iterator[tuple[str, bytes]]:
    for part in (1, 5, 9):
        place = len(body) * part // 10
        yield f"cut at byte {place}", body[:place]
    if is_whole or body.lstrip()[:1] == b"[":
        return
    blank_line = b"\r\n\r\n" if b"\r\n\r\n" in body else b"\n\n"
    place = body.find(blank_line, len(body) // 2)
    if place > 0:
        start = body[: place + len(blank_line)]
        yield f"cut between frames at byte {place}", start
        if b"data: [DONE]" not in start:
            yield f"error at byte {place}", start + ERRORS[source]


@pytest.mark.parametrize("recording", [r for r in RECORDINGS if r.is_edited], ids=named)
def test_edited_recording_does_not_crash(recording: Recording) -> None:
    body = recording.body()
    for source in sources(recording):
        for rules, asked, buffered in variants():
            data, _ = replay(body, source=source, target=rules.name, usage=asked, buffered=buffered)
            assert data


ONE_OF_EACH_KIND = {
    (recording.family, recording.is_whole, recording.is_error): recording
    for recording in RECORDINGS
    if not recording.is_edited
}


@pytest.mark.parametrize("recording", ONE_OF_EACH_KIND.values(), ids=named)
def test_command_writes_what_replay_gives(recording: Recording, tmp_path: Path) -> None:
    body = recording.body()
    file = tmp_path / "recording"
    for part in (body, body[: len(body) // 2]):
        file.write_bytes(part)
        source = KINDS[recording.family]
        data, completed = replay(part, source=source, target="openai", usage=True)
        result = CliRunner().invoke(command, [str(file), "--from", source, "--to", "openai", "--usage"])
        assert result.stdout_bytes == data
        assert result.exit_code == (0 if completed else 3)
        assert completed == (read_recording(recording.family, part).ended == "complete")
