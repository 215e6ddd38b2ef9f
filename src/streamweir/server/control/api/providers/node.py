"""The processes of all nodes over the API: each with what it has reported about the health of targets and credentials.

The answering process reports what it knows now, and the others what they have written into the database. If that does
not answer, only the former is shown. Reports are about providers, which are the same for all workspaces: they are for
those who see all of them.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct

from streamweir import __version__
from streamweir.core.errors import GatewayFault
from streamweir.policy.permission import Permission
from streamweir.server.control.api.context import Context
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page
from streamweir.server.nodes.health import (
    Health,
    Nodes,
    ProcessReport,
    health_of_credential,
    health_of_target,
    processes_of,
)
from streamweir.server.nodes.report import Word, report_of
from streamweir.store.requests.health_reports import ReportRow, read_reports

_MAX_BYTES_ON_LOOP = 65_536
"""More text is parsed in a thread."""
_Name = Annotated[str, Meta(max_length=512)]


class NodeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    provider: _Name | None = None
    """With the health of its targets and credentials in each process."""
    model: _Name | None = None
    """Of the targets of that provider, only this one."""


class WithHealth(Struct, kw_only=True):
    state: Word
    """Over all processes the worst."""
    away_for_s: float
    """Until the last process that has ejected it tries it again."""
    processes: int
    """That have reported, of all nodes."""
    away: int
    """Processes in which it is ejected or paused."""
    probation: int
    """Processes in which the next request decides."""


class WithFailure(WithHealth, kw_only=True):
    ejections: int
    """How often it was ejected since the processes started."""
    error: str | None
    """The code of the last failure. Only for those who see all workspaces."""
    error_at_ms: int | None


class NodeTargetView(WithFailure, kw_only=True):
    """As one process knows it."""

    model: str
    credential: str
    """The name of the provider's credential. Empty: it has only one."""
    is_limited: bool
    """It is ejected only because it requested a pause."""
    ttft_s: float | None
    """The recent time to the first token."""
    running: int
    """Attempts that run now."""


class NodeCredentialView(WithFailure, kw_only=True):
    name: str


class NodeView(Struct, kw_only=True):
    """A process of the gateway."""

    instance: str
    node: str
    """The name of its node; its workers share it."""
    is_this: bool
    """It is the one that answers."""
    started_ms: int | None
    reported_ms: int | None
    """When it wrote its report. Null: it has written none, because it has just started or is of an older version."""
    version: str | None
    requests: int | None
    """That are running."""
    targets: list[NodeTargetView]
    """Of the provider that was asked for: those of which something is known. Others are healthy."""
    credentials: list[NodeCredentialView]
    """As `targets`."""
    left_out: int
    """So many healthy targets, or beyond some hundreds also others, are not in its report."""


def health_of(health: Health) -> dict[str, Any]:
    """The members of a `WithHealth`."""
    return {
        "state": health.state,
        "away_for_s": health.away_ms / 1000,
        "processes": health.processes,
        "away": health.away,
        "probation": health.probation,
    }


def failure_of(health: Health, at_ms: int, *, is_shown: bool = True) -> dict[str, Any]:
    """The members of a `WithFailure`. `is_shown`: the last error is."""
    error = health.error if is_shown else None
    return {
        **health_of(health),
        "ejections": health.ejections,
        "error": error,
        "error_at_ms": at_ms - health.error_age_ms if error is not None else None,
    }


async def nodes_of(context: Context) -> Nodes:
    """Of all processes that are alive, with the present knowledge of this one."""
    router, alive = context.runtime().router, context.feed.alive()
    own = ProcessReport(
        instance=alive.own,
        node="",
        started_ms=context.started_ms,
        reported_ms=context.clock_ms(),
        report=report_of(router, time.monotonic(), __version__, context.accounting.open_count),
    )
    try:
        rows = await context.read(lambda conn: read_reports(conn, alive.own, alive.now_ms, alive.silent_ms))
    except GatewayFault:
        return Nodes([own])
    own.node = next((row.node for row in rows if row.instance == alive.own), "")
    others = [row for row in rows if row.instance != alive.own]
    parse: Callable[[list[ReportRow]], list[ProcessReport]] = processes_of
    if sum(len(row.report or "") for row in others) <= _MAX_BYTES_ON_LOOP:
        found = parse(others)
    else:
        found = await asyncio.to_thread(parse, others)
    return Nodes(sorted([own, *found], key=lambda each: (each.node, each.started_ms or 0, each.instance)))


async def list_nodes(call: Call[NodeQuery, Nothing]) -> Page[NodeView]:
    nodes, own = await nodes_of(call.context), call.context.accounting.instance
    return Page(data=[_view(each, call.query, call.at_ms, own) for each in nodes.processes])


def _view(process: ProcessReport, query: NodeQuery, at_ms: int, own: str) -> NodeView:
    report = process.report
    return NodeView(
        instance=process.instance,
        node=process.node,
        is_this=process.instance == own,
        started_ms=process.started_ms,
        reported_ms=process.reported_ms if report is not None else None,
        version=report.version if report is not None else None,
        requests=report.requests if report is not None else None,
        targets=[
            NodeTargetView(
                model=each.model,
                credential=each.credential,
                is_limited=each.is_limited,
                ttft_s=each.ttft_ms / 1000 if each.ttft_ms is not None else None,
                running=each.running,
                **failure_of(health_of_target(each), at_ms),
            )
            for each in (report.targets if report is not None else ())
            if each.provider == query.provider and query.model in (None, each.model)
        ],
        credentials=[
            NodeCredentialView(name=each.name, **failure_of(health_of_credential(each), at_ms))
            for each in (report.credentials if report is not None else ())
            if each.provider == query.provider
        ],
        left_out=report.left_out if report is not None else 0,
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/nodes",
        access=Permission.NODES_READ,
        about="List the processes of all nodes, with the health of a provider's targets in each",
        handler=list_nodes,
        query=NodeQuery,
        answer=Page[NodeView],
    ),
)
