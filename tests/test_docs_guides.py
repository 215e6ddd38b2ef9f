"""The guides are true: what they show of a configuration, a command or an amount is what the program does."""

import ast
import asyncio
import json
import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from streamweir.cli.main import main
from streamweir.config.load import load_config
from support.gateway import gateway
from support.imported import environment

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^ *```{language}\n(.*?)^ *```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def test_the_conversion_of_a_litellm_configuration_is_as_shown(tmp_path: Path) -> None:
    (old,), (made, key), (report,) = (blocks("migrate-from-litellm.md", name) for name in ("yaml", "toml", "text"))
    file = tmp_path / "config.yaml"
    file.write_text(old)
    result = CliRunner().invoke(main, ["import", "litellm", str(file)])
    assert result.stdout.endswith(f"\n\n{made}")
    assert result.stderr == report
    file.write_text(f"{made}\n{key}")
    config = load_config(file, environment(f"{made}{key}"))
    assert [each.name for each in config.keys] == ["master", "search"]


def test_the_configuration_for_several_nodes_can_be_used(tmp_path: Path) -> None:
    (text,) = blocks("postgresql-valkey.md", "toml")
    file = tmp_path / "streamweir.toml"
    file.write_text(text)
    config = load_config(file, environment(text))
    assert config.shared is not None
    assert config.store.url.startswith("postgresql://")


def test_each_program_for_langchain_can_be_read() -> None:
    """`make test-sdks` runs LangChain: it has an environment of its own."""
    programs = blocks("langchain.md", "python")
    assert len(programs) >= 6
    for text in programs:
        ast.parse(text)


def commands_of(page: str) -> list[str]:
    return [
        line.removeprefix("streamweir ").partition("  #")[0].strip()
        for block in blocks(page, "sh")
        for line in block.splitlines()
        if re.match("streamweir (workspaces|credits|keys|invoice|logs)", line)
    ]


async def test_the_walk_for_resellers_costs_what_it_says(tmp_path: Path) -> None:
    (config,), (prices,) = blocks("reselling.md", "toml"), blocks("reselling.md", "console")
    (shown,) = blocks("reselling.md", "json")
    file = tmp_path / "streamweir.toml"
    file.write_text(config)
    before, after = commands_of("reselling.md")[:4], commands_of("reselling.md")[4:]

    def run(command: str) -> str:
        words = shlex.split(command.replace("--output ", f"--output {tmp_path}/"))
        result = CliRunner().invoke(main, words, env={"STREAMWEIR_DATA": str(tmp_path)})
        assert result.exit_code == 0, result.output
        return result.stdout

    listed = run(prices.splitlines()[0].removeprefix("$ streamweir ").replace("streamweir.toml", str(file)))
    assert listed.startswith(prices.partition("\n")[2])
    async with gateway(f'[store]\nurl = "sqlite:///streamweir.db"\n{config}', data_dir=tmp_path) as gate:
        printed = [await asyncio.to_thread(run, command) for command in before]
        secret = printed[2].split()[-1]
        reply = await gate.ask(key=secret, model="assistant", messages=[{"role": "user", "content": "Hi"}])
        await gate.settled()
        found, usage = json.loads(reply.body)["usage"], json.loads(f"{{{shown}}}")["usage"]
        assert {name: found[name] for name in usage} == usage
        async with await gate.connect() as client:
            request = f"GET /v1/key HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {secret}\r\n\r\n"
            await client.send(request.encode())
            left = json.loads((await client.response()).body)["left_usd"]
        assert f'`"left_usd": "{left}"`' in (DOCS / "reselling.md").read_text()
        await gate.vacated()
    made = {command: await asyncio.to_thread(run, command) for command in after}
    shown_cost = re.findall(r"cost you \$([\d.]+),", (DOCS / "reselling.md").read_text())
    assert shown_cost == ["0.0001625"]
    charge = next(line.split() for line in made["credits show acme"].splitlines() if " charge " in line)
    assert charge[4:5] + charge[6:8] == ["-$0.00021125", "$0.00016250", "$0.00004875"]
    assert "balance    $69.99978875" in made["credits show acme"]
    assert (tmp_path / "acme-2026-11.html").exists()
