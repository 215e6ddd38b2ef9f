"""A backup that is made beside a running gateway, and what is there when it is restored."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamweir.cli.main import main
from support.accounting_gateway import AccountingSetup
from support.gateway import gateway
from support.postgres import shared_postgres

TOML = """
[[models]]
id = "m"
targets = [{ provider = "sim", model = "hello" }]
price = { input = 1.0, output = 2.0 }
[[providers]]
name = "sim"
kind = "sim"
"""


async def run(folder: Path, *words: str) -> Result:
    environ = {"STREAMWEIR_DATA": str(folder)}
    return await asyncio.to_thread(lambda: CliRunner().invoke(main, words, env=environ))


async def ask(setup: AccountingSetup, secret: str, count: int) -> None:
    replies = await asyncio.gather(*(setup.gate.ask(key=secret, model="m", stream=True) for _ in range(count)))
    assert {reply.status for reply in replies} == {200}


@asynccontextmanager
async def opened(folder: Path, url: str) -> AsyncIterator[AccountingSetup]:
    folder.mkdir(exist_ok=True)
    async with gateway(f'{TOML}[store]\nurl = "{url}"\n', data_dir=folder) as gate:
        yield AccountingSetup(gate, None)  # type: ignore[arg-type]  # it has the simulator


async def test_a_copy_of_sqlite_beside_the_running_gateway_is_restored_with_its_journal(tmp_path: Path) -> None:
    """What the copy lacks and the journal still has is applied, once; the credit and the keys are as they were."""
    folder, copy, other = tmp_path / "data", tmp_path / "backup.db", tmp_path / "restored"
    async with opened(folder, "sqlite:///streamweir.db") as setup:
        secret = await setup.new_key(workspace_id=await setup.new_workspace("acme", 10**12))
        await ask(setup, secret, 5)
        loaded = asyncio.create_task(ask(setup, secret, 30))
        result = await run(folder, "backup", str(copy))
        await loaded
        assert result.exit_code == 0, result.output
        assert copy.stat().st_mode & 0o777 == 0o600
        assert not list(tmp_path.glob(".backup*")), "no part of it is left"
        again = await run(folder, "backup", str(copy))
        assert "there is a file of this name" in again.output
        total = len(await setup.rows())
        other.mkdir()
        shutil.copytree(folder / "journal", other / "journal")
    shutil.copy(copy, other / "streamweir.db")
    async with opened(other, "sqlite:///streamweir.db") as setup:
        await ask(setup, secret, 1)
        assert 5 < len(await setup.rows()) <= total + 1
        await setup.assert_balanced()
    check = await run(other, "credits", "check")
    assert check.exit_code == 0, check.output
    audit = await run(other, "admin", "audit", "--verify")
    assert audit.exit_code == 0, audit.output


async def test_a_dump_of_postgres_beside_the_running_gateway_is_restored_with_its_journal(tmp_path: Path) -> None:
    server, folder, other, copy = shared_postgres(), tmp_path / "data", tmp_path / "restored", tmp_path / "backup"
    url, new_url = server.make_database(), server.make_database()
    async with opened(folder, url) as setup:
        secret = await setup.new_key(workspace_id=await setup.new_workspace("acme", 10**12))
        await ask(setup, secret, 5)
        loaded = asyncio.create_task(ask(setup, secret, 30))
        await asyncio.to_thread(server.dump, name_of(url), "--format=custom", f"--file={copy}")
        await loaded
        total = len(await setup.rows())
        shutil.copytree(folder / "journal", other / "journal")
    await asyncio.to_thread(server.restore, copy, name_of(new_url))
    async with opened(other, new_url) as setup:
        await ask(setup, secret, 1)
        assert 5 < len(await setup.rows()) <= total + 1
        await setup.assert_balanced()


def name_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


@pytest.mark.parametrize(
    ("url", "words"),
    [("postgresql://someone:canary@db/books", "use pg_dump"), ("sqlite:///absent.db", "does not exist")],
)
async def test_what_cannot_be_copied_is_one_line(url: str, words: str, tmp_path: Path) -> None:
    config = tmp_path / "streamweir.toml"
    config.write_text(f'[store]\nurl = "{url}"\n')
    result = await run(tmp_path, "backup", str(tmp_path / "copy"), "--config", str(config))
    assert result.exit_code == 1
    assert words in result.output
    assert result.output.count("\n") == 1
    assert "canary" not in result.output
    assert sorted(each.name for each in tmp_path.iterdir()) == ["streamweir.toml"], "nothing was made"
