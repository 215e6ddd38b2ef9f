"""A command of the program, run in this process on a real store, and what it wrote."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from click.testing import CliRunner, Result
from sqlalchemy import Connection

from streamweir.cli.main import main
from streamweir.store.db.engine import open_store
from support.stores import migrated_url

T = TypeVar("T")


class Commands:
    """On a database of its own, at the newest schema."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        asyncio.run(migrated_url("sqlite", folder))

    def __call__(self, *words: str, status: int = 0) -> Result:
        result = CliRunner().invoke(main, words, env={"STREAMWEIR_DATA": str(self.folder), "STREAMWEIR_QUIET": "1"})
        assert result.exit_code == status, result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), "nothing unforeseen"
        return result

    def json(self, *words: str) -> Any:
        result = self(*words, "--json")
        assert result.stderr == ""
        assert result.stdout.isascii()
        return json.loads(result.stdout)

    def fails(self, *words: str) -> str:
        """In one line, which is given; nothing is on the output."""
        result = self(*words, status=1)
        assert result.stdout == ""
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1
        return result.stderr.removeprefix("Error: ").rstrip()

    def misused(self, *words: str) -> str:
        result = self(*words, status=2)
        assert result.stdout == ""
        return result.stderr

    def table(self, *words: str) -> list[list[str]]:
        """The cells of a piped table: columns are parted by two blanks at the least."""
        lines = self(*words).stdout.splitlines()
        return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]

    def read(self, work: Callable[[Connection], T]) -> T:
        async def run() -> T:
            store = await open_store("sqlite:///streamweir.db", self.folder)
            try:
                return await store.read(work)
            finally:
                await store.close()

        return asyncio.run(run())

    def write(self, work: Callable[[Connection], T]) -> T:
        async def run() -> T:
            store = await open_store("sqlite:///streamweir.db", self.folder)
            try:
                return await store.write(work)
            finally:
                await store.close()

        return asyncio.run(run())
