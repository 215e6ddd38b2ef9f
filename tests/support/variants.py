"""The setups in which money is decided about: one process, or several, with and without a Valkey that they share.

async with fleet_of("nodes", script, tmp_path) as nodes: ...
"""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from support.fleet import Fleet, fleet
from support.script import Script
from support.valkey import ValkeyServer


class Variant(NamedTuple):
    gateways: int
    database: str
    has_valkey: bool


VARIANTS = {
    "alone": Variant(1, "sqlite", has_valkey=False),
    "alone on postgres": Variant(1, "postgres", has_valkey=False),
    "workers": Variant(2, "sqlite", has_valkey=True),
    "nodes": Variant(2, "postgres", has_valkey=True),
    "database alone": Variant(2, "postgres", has_valkey=False),
}


@asynccontextmanager
async def fleet_of(variant: str, script: Script, folder: Path, **more: Any) -> AsyncIterator[Fleet]:
    """`more`: as for `support.fleet.fleet`."""
    count, database, has_valkey = VARIANTS[variant]
    with ExitStack() as stack:
        valkey = stack.enter_context(ValkeyServer()) if has_valkey else None
        async with fleet(script, folder, count=count, database=database, valkey=valkey, **more) as nodes:
            yield nodes
