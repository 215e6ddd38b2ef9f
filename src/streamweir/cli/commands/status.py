"""`streamweir status`: the gateways of this user on this machine, and how they are.

Run files say where they are (`cli.find`), `/health` and `/ready` how they are, and the database which requests are
open. Nothing of that needs a secret.

Exit status: 0 all are ready, 1 one is not, 3 none is running.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from msgspec import Struct

from streamweir import __version__
from streamweir.cli.database import StoreAccess, json_option
from streamweir.cli.find import LocalGateway, command_environment
from streamweir.cli.probe import Unreachable, get
from streamweir.cli.view.table import NONE, moment, show_facts, show_json
from streamweir.server.process.run_file import Running, running_on

NOT_READY, NOT_RUNNING = 1, 3
_MAX_PARALLEL = 8


class Status(Struct, kw_only=True):
    """Of one gateway."""

    pid: int
    version: str
    started_ms: int
    node: str
    urls: tuple[str, ...]
    workers: int
    user: int
    data_dir: str
    config_file: str | None
    env_file: str | None
    store: str
    is_healthy: bool
    is_ready: bool
    status: str
    """`ok`, `draining`, `failing` or `unreachable`."""
    reasons: list[str]
    open_requests: int | None
    """None: not known."""
    open_requests_error: str | None


@click.command("status", short_help="Show the running gateways and their health.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Only gateways with this data directory.")
@json_option
def command(data_dir: Path | None, as_json: bool) -> None:
    """Show the gateways of this user that are running: where, since when, their health, and their open requests.

    The exit status is 0 if all are ready, 1 if one is not, and 3 if none is running.
    """
    around = command_environment()
    running = around.running() if data_dir is None else running_on(data_dir.absolute(), around.uid)
    with ThreadPoolExecutor(_MAX_PARALLEL) as threads:
        found = list(threads.map(status_of, running))
    if as_json:
        show_json(found)
    elif not found:
        click.echo(_none_runs(data_dir), err=True)
    for number, each in enumerate(found if not as_json else []):
        if number:
            click.echo()
        show_facts(_facts(each))
    if not found:
        sys.exit(NOT_RUNNING)
    sys.exit(0 if all(each.is_ready for each in found) else NOT_READY)


def _none_runs(data_dir: Path | None) -> str:
    if data_dir is None:
        return "No gateway of this user is running. `streamweir serve` starts one."
    absent = "" if data_dir.is_dir() else ", which does not exist"
    where = f"{data_dir.absolute()}{absent}"
    return f"No gateway is running with the data directory {where}. Without --data-dir every running gateway is shown."


def status_of(running: Running) -> Status:
    file = running.file
    address = file.health_url or file.urls[0]
    is_healthy, is_ready, status, reasons = False, False, "unreachable", list[str]()
    try:
        is_healthy = get(address, "/health").status == 200
        ready = get(address, "/ready")
        document = ready.document()
        if isinstance(document, dict):
            is_ready, status = ready.status == 200, str(document.get("status"))
            reasons = [str(each) for each in document.get("reasons", [])]
        else:
            reasons = [f"GET {address}/ready has the status {ready.status}"]
    except Unreachable as reason:
        reasons = [f"{address}: {reason}"]
    count, error = _open_requests(running)
    return Status(
        pid=file.pid,
        version=file.version,
        started_ms=file.started_ms,
        node=file.node,
        urls=file.urls,
        workers=file.workers,
        user=running.owner,
        data_dir=file.data_dir,
        config_file=file.config_file,
        env_file=file.env_file,
        store=file.store,
        is_healthy=is_healthy,
        is_ready=is_ready,
        status=status,
        reasons=reasons,
        open_requests=count,
        open_requests_error=error,
    )


def _open_requests(running: Running) -> tuple[int | None, str | None]:
    from streamweir.server.accounting.intervals import DEFAULT_INTERVALS
    from streamweir.store.db.clock import now_ms
    from streamweir.store.requests.live import LiveInstances, count_on_node

    if running.file.store == "none":
        return None, "there is no database"
    place = LocalGateway(
        data_dir=running.data_dir, config_file=running.config_file, env_file=running.env_file, running=running
    )
    alive = LiveInstances(own="", now_ms=now_ms(), silent_ms=round(DEFAULT_INTERVALS.hidden_after_s * 1000))
    try:
        access = StoreAccess(place, is_quiet=True)
        return access.read(lambda conn: count_on_node(conn, running.file.node, alive)), None
    except click.ClickException as reason:
        return None, reason.message


def _facts(status: Status) -> list[tuple[str, str]]:
    version = status.version if status.version == __version__ else f"{status.version} (this command: {__version__})"
    ready = {"ok": "yes", "draining": "no: it is stopping"}.get(status.status, "no")
    if status.reasons:
        ready = f"{ready}: {'; '.join(status.reasons)}"
    requests = f"{status.open_requests} open"
    if status.open_requests is None:
        requests = f"unknown: {status.open_requests_error}"
    return [
        ("gateway", f"pid {status.pid}, version {version}"),
        ("address", ", ".join(status.urls)),
        ("ready", ready),
        ("requests", requests),
        ("since", f"{moment(status.started_ms)} ({_age(status.started_ms)})"),
        ("workers", str(status.workers)),
        ("node", status.node),
        ("config", status.config_file or NONE),
        ("data", status.data_dir),
        ("store", status.store),
    ]


def _age(started_ms: int) -> str:
    seconds = max(0, int(time.time() - started_ms / 1000))
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
