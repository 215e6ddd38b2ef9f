"""Secrets that are elsewhere are read again while the gateway runs: a change is used, a failure changes nothing.

With real files and commands, read at intervals of a millisecond. The process as a whole is in `test_gateway_rotation`.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from streamweir.background import BackgroundTasks
from streamweir.config.display.difference import Difference, difference
from streamweir.config.error import ConfigError
from streamweir.config.model import Config
from streamweir.config.source import ConfigSource
from streamweir.server.process.reload import Reloads
from streamweir.server.telemetry.log import close_log, configure_log
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import nothing_left, until

TOML = """
[[providers]]
name = "up"
kind = "openai"
api_key = { file = "key", refresh_s = 0.001 }
[[providers]]
name = "once"
kind = "openai"
api_key = { file = "once", refresh_s = 0 }
[[keys]]
name = "ci"
key = { command = ["cat", "ci"], refresh_s = 86400 }
"""
CI_KEY = "sk-sw-4f9a0c7be2d85163"


class Setup:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = StringIO()
        self.write(key="sk-1", once="sk-once-1", ci=CI_KEY)
        self.used: list[Config] = []
        self.refuses = False
        self.source = ConfigSource(folder / "streamweir.toml", {})
        self.background = BackgroundTasks()
        self.reloads = Reloads(self.source, self.use, background=self.background, shortest_s=0.001)

    def write(self, **files: str) -> None:
        """Each at once, as those who mount secrets do."""
        for name, text in files.items():
            (self.folder / f"{name}.new").write_text(text)
            (self.folder / f"{name}.new").rename(self.folder / name)

    def use(self, config: Config) -> Difference:
        if self.refuses:
            raise ConfigError("providers.up", "refused")
        self.used.append(config)
        return difference(self.used[-2] if len(self.used) > 1 else config, config)

    @property
    def keys(self) -> tuple[str, ...]:
        """Of the configuration in use."""
        config = self.used[-1]
        return (*(each.api_key for each in config.providers), *(each.key for each in config.keys))

    def outcome(self, name: str) -> float:
        return self.reading("streamweir_secret_refreshes_total", outcome=name)

    def reading(self, name: str, **labels: str) -> float:
        samples = [sample for family in self.reloads.families() for sample in family.samples]
        return next(sample.value for sample in samples if (sample.name, sample.labels) == (name, labels))

    async def more(self, outcome: str) -> None:
        """One more from now on that has begun after this moment."""
        before = self.outcome(outcome)
        await until(lambda: self.outcome(outcome) >= before + 2)

    def told(self) -> list[dict[str, Any]]:
        close_log()
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


@asynccontextmanager
async def running(folder: Path, toml: str = TOML) -> AsyncIterator[Setup]:
    setup = Setup(folder)
    setup.write(**{"streamweir.toml": toml})
    configure_log("json", setup.log)
    async with nothing_left(), asyncio.timeout(WAIT_TIMEOUT_S):
        setup.use(setup.source.load())
        setup.reloads.start()
        yield setup
        await setup.reloads.stop()
        assert not setup.background.ends["secrets"]
        assert "sk-" not in str(setup.told())


async def test_a_change_is_used_without_reading_the_file_again(tmp_path: Path) -> None:
    async with running(tmp_path) as setup:
        await setup.more("unchanged")
        assert len(setup.used) == 1, "nothing has changed"
        setup.write(
            key="sk-2", once="sk-once-2", ci=f"{CI_KEY}-2", **{"streamweir.toml": "[[providers]]\nbeing edited"}
        )
        await until(lambda: len(setup.used) == 2)
        assert setup.keys == ("sk-2", "sk-once-1", CI_KEY), "the others are not due"
        assert setup.outcome("changed") == 1
        with pytest.raises(ConfigError, match="not TOML"):
            await setup.reloads.reload()
        setup.write(key="sk-3")
        await until(lambda: len(setup.used) == 3)
        setup.write(**{"streamweir.toml": TOML})
        await setup.reloads.reload()
        assert setup.keys == ("sk-3", "sk-once-2", f"{CI_KEY}-2"), "a reload on request reads all of them"
        await setup.reloads.stop()
        setup.write(key="sk-4")
        with pytest.raises(ConfigError, match="the process is stopping"):
            await setup.reloads.reload()
        (event, *_) = [each for each in setup.told() if each["event"].startswith("configuration")]
        assert (event["event"], event["settings"]) == (
            "configuration reloaded with changed secrets",
            ["providers.up.api_key"],
        )
        reloads = setup.source.log.reloads
        assert [(each.cause, each.is_taken) for each in reloads] == [
            ("request", False),
            ("request", True),
            ("secret", True),
            ("request", False),
            ("secret", True),
        ]
        assert reloads[0].problems == ["the process is stopping"]
        assert [each.path for each in reloads[1].changes] == ["providers.once.api_key", "keys.ci.key"]
        assert "not TOML" in reloads[3].problems[0]
        assert "sk-" not in repr(reloads)


async def test_a_failure_keeps_the_value_and_is_told_and_counted(tmp_path: Path) -> None:
    async with running(tmp_path) as setup:
        (tmp_path / "key").unlink()
        await setup.more("failed")
        await setup.reloads.reload()
        assert setup.keys[0] == "sk-1", "a reload succeeds meanwhile"
        setup.write(key="sk-2")
        await until(lambda: setup.keys[0] == "sk-2")
        told = [each for each in setup.told() if each["event"].startswith("secret not read again")]
        assert {(each["setting"], each["reason"]) for each in told} == {("providers.up.api_key", "file not found")}


@pytest.mark.parametrize("by_use", [False, True], ids=["by the checks", "by the gateway"])
async def test_a_value_that_makes_the_configuration_invalid_is_not_used_and_not_lost(
    tmp_path: Path, by_use: bool
) -> None:
    async with running(tmp_path) as setup:
        setup.refuses = by_use
        setup.write(key="sk-2" if by_use else "sk-2 sk-2", ci=f"{CI_KEY}-2")
        await setup.more("failed")
        with pytest.raises(ConfigError):
            await setup.reloads.reload()
        assert setup.keys == ("sk-1", "sk-once-1", CI_KEY)
        setup.refuses = False
        if by_use:
            await until(lambda: setup.keys[0] == "sk-2")
        else:
            setup.write(key="sk-3")
            await until(lambda: setup.keys[0] == "sk-3")
        assert setup.keys[2] == CI_KEY, "what a reload read that was not used is not in use either"
        await setup.reloads.reload()
        assert setup.keys[2] == f"{CI_KEY}-2"


async def test_the_metrics_say_whether_the_last_reload_succeeded_and_when_one_did(tmp_path: Path) -> None:
    has_succeeded, at = "config_last_reload_successful", "config_last_reload_success_timestamp_seconds"

    async with running(tmp_path, '[[keys]]\nname = "ci"\nkey = "sk-sw-4f9a0c7be2d85163"\n') as setup:

        def readings() -> tuple[float, float]:
            return setup.reading(f"streamweir_{has_succeeded}"), setup.reading(f"streamweir_{at}")

        started = readings()
        assert started[0] == 1
        assert started[1] == pytest.approx(time.time(), abs=WAIT_TIMEOUT_S)
        setup.write(**{"streamweir.toml": "[[keys]\n"})
        with pytest.raises(ConfigError):
            await setup.reloads.reload()
        assert readings() == (0, started[1])
        setup.write(**{"streamweir.toml": TOML})
        await setup.reloads.reload()
        assert readings()[0] == 1
        assert readings()[1] > started[1]
        setup.refuses = True
        setup.write(key="sk-2")
        await setup.more("failed")
        assert readings()[0] == 0, "a changed secret that cannot be used"


async def test_references_that_a_reload_adds_are_read_from_then_on(tmp_path: Path) -> None:
    async with running(tmp_path, '[[keys]]\nname = "ci"\nkey = "sk-sw-4f9a0c7be2d85163"\n') as setup:
        assert all(setup.outcome(name) == 0 for name in ("changed", "failed", "unchanged"))
        setup.write(**{"streamweir.toml": TOML})
        await setup.reloads.reload()
        await setup.more("unchanged")


async def test_the_end_does_not_wait_for_a_command(tmp_path: Path) -> None:
    toml = TOML.replace('["cat", "ci"], refresh_s = 86400', '["sh", "run"], refresh_s = 0.001, timeout_s = 60')
    (tmp_path / "run").write_text(f"echo {CI_KEY}; test ! -e hangs || {{ echo >began; sleep 3600; }}")
    async with running(tmp_path, toml) as setup:
        setup.write(hangs="")
        await until((tmp_path / "began").exists)
