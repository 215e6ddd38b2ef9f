"""Random callers, random upstreams, reloads and kills: afterwards everything is 0, in the books, and at an end.

`make test` sends a few hundred calls from a fixed seed to a gateway on SQLite. `make soak` takes a seed of its own and
a minute and a half for each kind of store. A failure tells its seed:

    STREAMWEIR_SEED=1234 STREAMWEIR_LOAD_S=60 pytest tests/randomload -m "" -k sqlite

tries the same plans again for so long.
"""

import os
import random
from pathlib import Path

import pytest

from randomload.judge import judge, odd_events
from randomload.rig import Load, Variant, rig_for
from randomload.upstream import Turns
from support.soak import SOAKS

CALLS = 500
SECONDS = 90.0
VARIANTS = [
    Variant("sqlite"),
    pytest.param(Variant("postgres"), marks=pytest.mark.soak),
    pytest.param(Variant("postgres", workers=2), marks=pytest.mark.soak),
]


def load_of() -> Load:
    seed = os.environ.get("STREAMWEIR_SEED") or (str(random.SystemRandom().randrange(10**9)) if SOAKS else "7")
    if seconds := os.environ.get("STREAMWEIR_LOAD_S"):
        return Load(seed, seconds=float(seconds))
    return Load(seed, seconds=SECONDS) if SOAKS else Load(seed, calls=CALLS)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name.replace(" ", "-"))
async def test_nothing_is_lost_left_open_or_stuck(variant: Variant, tmp_path: Path) -> None:
    load, turns = load_of(), Turns()
    async with rig_for(tmp_path, variant, load, turns) as rig:
        await rig.run(load, turns, judge)
        odd = odd_events(rig)
        assert not odd, "\n".join(map(str, odd))
        assert any(told.is_whole for told in rig.notes.told), "not one answer came whole"
