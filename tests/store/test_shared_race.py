"""200 at once, from two processes with three connections each, with a limit of three: exactly three are admitted."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from conftest import SOAKS
from streamweir.store.limits.shared import SharedLimits, script
from streamweir.store.limits.valkey import Valkey
from support.limit_racer import ACCOUNT, ROOM
from support.valkey import ValkeyServer

ROUNDS = 100 if SOAKS else 10
KINDS = ["money"] * ROUNDS + ["requests", "tokens", "streams", "scopes"] * (ROUNDS // 5)
TESTS = Path(__file__).parents[1]


@contextmanager
def racer(name: str, url: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "support.limit_racer", name, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=TESTS,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait(30)
        process.stdin.close()
        process.stdout.close()


async def test_exactly_three_of_two_hundred() -> None:
    chance = random.Random(4)
    with ValkeyServer() as server, ExitStack() as stack:
        racers = [stack.enter_context(racer(name, server.socket_url)) for name in ("one", "two")]
        valkey = Valkey(server.socket_url, script(), timeout_s=30.0)
        for number, kind in enumerate(KINDS):
            shared = SharedLimits(valkey, prefix=f"round{number}")
            await shared.seed(ACCOUNT, 0)
            first = chance.randrange(50, 151)
            for process, count in zip(racers, (first, 200 - first), strict=True):
                assert process.stdin is not None
                process.stdin.write(f"round{number} {count} {kind}\n")
                process.stdin.flush()
            assert sum(int(process.stdout.readline()) for process in racers if process.stdout is not None) == ROOM
            if kind == "scopes":  # what was refused has taken nothing anywhere
                used = await shared.usage(["race", "own0", "own1", "own2"])
                assert used[0] == (ROOM, ROOM, ROOM)
                assert [sum(each) for each in zip(*used[1:], strict=True)] == [ROOM, ROOM, ROOM]
            assert await shared.used(ACCOUNT) == (10 * ROOM if kind == "money" else 0)
        await valkey.close()
