"""The examples of the client library in the documents, run against a gateway on the simulator, print what they say.

A `python` block that uses `streamweir.client` is a program; a `text` block right behind it is its output. A `console`
block with `$ streamweir chat` is a command and what a pipe gets of it.
"""

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from support.gateway import KEY, gateway

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PROGRAM = re.compile(r"^```python\n(?P<code>(?:.*\n)*?)```\n(?:\n```text\n(?P<output>(?:.*\n)*?)```\n)?", re.MULTILINE)
COMMAND = re.compile(r"^```console\n\$ streamweir (?P<words>chat .*)\n(?P<output>(?:.*\n)*?)```$", re.MULTILINE)
PROGRAMS = [
    pytest.param(found["code"], found["output"] or "", id=f"{path.name}:{found.start()}")
    for path in DOCUMENTS
    for found in PROGRAM.finditer(path.read_text())
    if "streamweir.client" in found["code"]
]
COMMANDS = [
    pytest.param(found["words"], found["output"], id=f"{path.name}: {found['words']}")
    for path in DOCUMENTS
    for found in COMMAND.finditer(path.read_text())
]
CONFIG = f"""
[[providers]]
name = "sim"
kind = "sim"

[[keys]]
name = "docs"
key = "{KEY}"
"""


async def printed(*words: str) -> str:
    async with gateway(CONFIG) as gate:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *words,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            stdin=asyncio.subprocess.DEVNULL,
            env={**os.environ, "STREAMWEIR_URL": gate.base_url, "STREAMWEIR_KEY": KEY},
        )
        try:
            async with asyncio.timeout(60):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert (process.returncode, err) == (0, b"")
        return out.decode()


def test_there_are_examples() -> None:
    assert len(PROGRAMS) >= 6
    assert COMMANDS


@pytest.mark.parametrize(("code", "output"), PROGRAMS)
async def test_a_program(code: str, output: str) -> None:
    assert await printed("-c", code) == output


@pytest.mark.parametrize(("words", "output"), COMMANDS)
async def test_a_command(words: str, output: str) -> None:
    program = "from streamweir.cli.main import main; main()"
    assert await printed("-c", program, *shlex.split(words)) == output
