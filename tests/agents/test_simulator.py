"""Agents on the simulator's own model for them, started as `streamweir serve` prints it."""

import shlex
from dataclasses import replace
from pathlib import Path

from support.agent_process import CLAUDE_CODE, CODEX, CODEX_WORDS, AgentSetup
from support.gateway import KEY
from support.serve_process import served

SIMULATOR = '[[providers]]\nname = "sim"\nkind = "sim"\n'


async def test_claude_code_writes_two_files_on_the_simulator(tmp_path: Path) -> None:
    async with served(tmp_path, SIMULATOR) as program:
        printed = await program.tells(r"^ *(ANTHROPIC_BASE_URL=.*) claude$")
        environ = dict(word.split("=", 1) for word in printed[1].split())
        assert environ["ANTHROPIC_BASE_URL"] == program.base_url
        setup = AgentSetup(program.base_url, KEY, tmp_path)
        own = {"ANTHROPIC_API_KEY": "", **environ, "ANTHROPIC_AUTH_TOKEN": KEY}
        run = await CLAUDE_CODE.run(setup, "Write two files.", own)
    assert (run.status, run.error) == (0, "")
    assert [name for name, _ in run.calls] == ["Write", "Write"]
    names = ["hello-from-streamweir-2.txt", "hello-from-streamweir.txt"]
    assert sorted(each.name for each in setup.workspace.iterdir()) == names
    assert run.reasoning
    assert run.usage["completion"] > 0


async def test_codex_writes_two_files_on_the_simulator(tmp_path: Path) -> None:
    """Without a configuration file. Its sandbox is off: it needs rights that not every machine gives."""
    async with served(tmp_path, SIMULATOR) as program:
        printed = await program.tells(r"^ *STREAMWEIR_KEY=\S+ codex --sandbox workspace-write (.*)$")
        words = shlex.split(printed[1])
        assert f'base_url="{program.base_url}/v1"' in words[-1]
        setup = AgentSetup(program.base_url, KEY, tmp_path)
        codex = replace(CODEX, prepare=lambda _: None)
        run = await codex.run(setup, "Write two files.", {"STREAMWEIR_KEY": KEY}, ("exec", *words, *CODEX_WORDS))
    assert (run.status, run.error) == (0, "")
    names = ["hello-from-streamweir-2.txt", "hello-from-streamweir.txt"]
    assert sorted(each.name for each in setup.workspace.iterdir()) == names
    assert len(run.calls) == 2
    assert run.texts[0].count("I wrote ") == 2
    assert run.reasoning
    assert run.usage["completion"] > 0
