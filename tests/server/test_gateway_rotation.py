"""Keys of providers are changed while the gateway runs: files, variables and commands are read again, and no stream is
cut.

docs/spec/failures.md G21, by `SIGHUP` to a real process.
"""

import asyncio
import signal
from pathlib import Path

import pytest

from support.answers import TEXTS, openai_stream
from support.gateway import chat_request, text_of
from support.script import End, Head, Seen, Send, Step, Wait, stream
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import BEGUN, REST, Program, begin, served

WHOLE = "".join(TEXTS)


def toml(url: str) -> str:
    listed = '{ name = "a", file = "listed", weight = 1_000_000 }, "sk-other"'
    base = f'kind = "openai"\nbase_url = "{url}"\n'
    return (
        f'[[providers]]\nname = "by-file"\napi_key_file = "key"\n{base}'
        f'[[providers]]\nname = "by-variable"\napi_key = "${{ROTATED}}"\n{base}'
        f'[[providers]]\nname = "by-list"\napi_keys = [{listed}]\n{base}'
        f'[[providers]]\nname = "by-command"\napi_key = {{ command = ["cat", "printed"], refresh_s = 0 }}\n{base}'
        f'[[providers]]\nname = "by-interval"\napi_key = {{ file = "mounted", refresh_s = 1 }}\n{base}'
    )


def write_keys(folder: Path, number: int) -> None:
    (folder / "key").write_text(f"sk-file-{number}\n")
    (folder / "listed").write_text(f"sk-list-{number}\n")
    (folder / "printed").write_text(f"sk-command-{number}\n")
    (folder / "env").write_text(f"# rotated every month\nROTATED='sk-variable-{number}'\n")


async def refused(program: Program, reason: str) -> None:
    """Each worker says it."""
    while not (await program.logged("configuration not reloaded, the previous one stays active"))["reason"].endswith(
        reason
    ):
        pass


@pytest.mark.parametrize("workers", [1, 2])
async def test_g21_files_and_variables_are_read_again(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()
    monkeypatch.setenv("ROTATED", "sk-of-the-environment")

    def script(request: Seen) -> list[Step]:
        if request.json["model"] == "long":
            return [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
        return list(stream(openai_stream()))

    write_keys(tmp_path, 1)
    (tmp_path / "mounted").write_text("sk-interval-1\n")
    options = ("--env-file", str(tmp_path / "env"), "--workers", str(workers))
    reloaded = "configuration reloaded" if workers == 1 else "configuration reloaded by all workers"
    names = {"by-file": "sk-file", "by-variable": "sk-variable", "by-list": "sk-list", "by-command": "sk-command"}
    async with ScriptedUpstream(script) as up, served(tmp_path, toml(up.base_url), *options) as program:
        clients = [await program.connect() for _ in names]
        streams = [await begin(client, model=f"{name}/long") for client, name in zip(clients, names, strict=True)]
        write_keys(tmp_path, 2)
        program.signal(signal.SIGHUP)
        await program.logged(reloaded)
        for name in names:
            assert (await program.answer(chat_request(model=f"{name}/m", stream=True))).status == 200
        sent = [each.headers["authorization"] for each in up.requests]
        assert sent == [f"Bearer {key}-{number}" for number in (1, 2) for key in names.values()]

        (tmp_path / "mounted.new").write_text("sk-interval-2\n")
        (tmp_path / "mounted.new").rename(tmp_path / "mounted")
        for number in [None] if workers == 1 else range(workers):
            fields = {} if number is None else {"worker": number}
            await program.logged("configuration reloaded with changed secrets", **fields)
        assert (await program.answer(chat_request(model="by-interval/m", stream=True))).status == 200
        assert up.requests[-1].headers["authorization"] == "Bearer sk-interval-2", "without a signal"

        (tmp_path / "key").unlink()
        (tmp_path / "printed").unlink()
        program.signal(signal.SIGHUP)
        await refused(program, "providers.by-file.api_key_file: file not found")
        (tmp_path / "env").write_text("ROTATED='sk-variable-3\n")
        program.signal(signal.SIGHUP)
        await refused(program, "env: line 1: the quotes around the value are not closed, or text follows them")
        assert (await program.answer(chat_request(model="by-file/m", stream=True))).status == 200
        assert up.requests[-1].headers["authorization"] == "Bearer sk-file-2", "the previous one stays"
        assert (await program.answer(chat_request(model="by-command/m", stream=True))).status == 200
        assert up.requests[-1].headers["authorization"] == "Bearer sk-command-2"

        go_on.set()
        for client, each in zip(clients, streams, strict=True):
            assert text_of((await each.rest()).body) == WHOLE
            client.close()
        assert {each["verdict"] for each in program.requests()} == {"completed"}
        assert "sk-" not in str(program.events)
