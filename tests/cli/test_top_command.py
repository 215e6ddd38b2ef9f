"""`streamweir top` on a terminal, where requests cannot be read. Beside a gateway it is in `test_running`."""

from pathlib import Path

import pytest

from support.script import whole
from support.scripted_upstream import ScriptedUpstream
from support.terminal import on_terminal


@pytest.mark.parametrize("named", ["[/green]", "[bold]team[/bold]", "[link=https://example.com]team"])
async def test_what_a_server_says_is_no_markup(named: str, tmp_path: Path) -> None:
    refusal = b'{"error": {"message": "there is no workspace %b"}}' % named.encode()
    async with ScriptedUpstream(whole(refusal, status=404)) as up:
        words = ("top", "--url", up.base_url.removesuffix("/v1"), "--secret", "sw-any", "--interval", "3600")
        async with on_terminal(*words, env={"COLUMNS": "200"}, folder=tmp_path) as terminal:
            await terminal.shows(f"there is no workspace {named}; trying again")
            terminal.type("q")
            assert await terminal.status() == 0
