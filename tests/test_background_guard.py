"""Every task and every thread of the program is accounted for: what lives long runs under `BackgroundTasks`.

A new call that starts one fails here, until it is written down with the reason why it needs nobody who
starts it again: it is part of one request or one connection, or it is over by itself.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import streamweir

PACKAGE = Path(streamweir.__file__).parent
STARTERS = {"create_task", "ensure_future", "Thread", "start_new_thread", "Timer", "TaskGroup"}

SHORT = {
    "background.py BackgroundTask._start": "the one place where long-lived tasks are started",
    # Parts of one request, or of one connection.
    "server/http/asgi.py Bridge.serve": "one request",
    "server/accounting/accounting.py Accounting._decide": "one decision about one request, bounded by its deadline",
    "server/accounting/accounting.py Accounting._decide 2": "undoes one reservation",
    "server/process/control_socket.py Channel.__init__": "one connection: it ends with it, which is acted on",
    "server/process/control_socket.py Channel._start": "one question",
    "server/request/registry.py RequestRegistry.begin": "one request",
    "server/request/registry.py RequestRegistry.run": "one request that asks no model",
    "server/relay/relay.py Relay._parse": "one answer",
    "server/http/listener.py HttpServer.open_connection": "one connection, until its handshake is over",
    "server/relay/large_answer.py _reader": "one answer",
    "server/relay/large_answer.py _start": "until its process is there",
    "server/request/key_wait.py KeyWaits.wait": "one request",
    "server/request/lookup/model_refresh.py ModelRefresh.refresh_due": "part of its background task",
    "server/request/lookup/model_refresh.py ModelRefresh.refresh_due 2": "one list, bounded by its timeout",
    "server/request/allowance.py OutputAllowance._start": "one extension of one hold",
    "server/accounting/settlement.py Settlements.settle": "one settlement",
    "server/alerts/sender.py AlertSender._start_due": "the alerts that wait for one webhook",
    "server/alerts/sender.py AlertSender.run": "part of its background task",
    "server/accounting/shared_limiter.py SharedLimiter._start": "one call to Valkey, bounded by its timeout",
    "server/accounting/target_limiter.py TargetLimiter._start": "one call to Valkey, bounded by its timeout",
    "store/db/postgres.py PostgresStore._start": "one operation, bounded by its deadline",
    "upstream/authorized.py AuthorizedCall.head_received": "one request is sent again with a new credential",
    "upstream/batch.py BatchCall._open_more": "one call of a request",
    "upstream/credential.py RefreshedCredential._start": "one refresh, bounded by its timeout",
    "upstream/dial.py Dialler._race": "one attempt to connect",
    "upstream/lookup.py look_up": "one look-up of a name",
    "upstream/http1.py Http1Call.send_again": "one request is sent again on a new connection",
    # Over by themselves.
    "server/process/gateway.py Gateway.reload": "closes an upstream that is not used any more",
    "server/accounting/key_lookup.py KeyLookup.find": "lasts while a request waits for a key; the next starts another",
    "server/process/lifecycle.py _end": "a step of the end of the process",
    "server/process/lifecycle.py _end 2": "a step of the end of the process",
    "server/process/lifecycle.py _end 3": "a step of the end of the process",
    "server/process/lifecycle.py _lame_duck": "a step of the end of the process",
    "server/process/lifecycle.py _lame_duck 2": "a step of the end of the process",
    "server/process/lifecycle.py _Reloads.request": "the reloads that signals have requested",
    "server/process/start.py _report_loading": "until the embedded model is loaded",
    "server/process/start.py _serve_alone": "until the embedded model is loaded",
    "server/telemetry/reporting.py Reporting.use": "ends an export after a reload, within seconds",
    "server/process/supervisor.py Supervisor._begin_reload": "one reload",
    "server/process/supervisor.py Supervisor._run_worker": "lasts as long as one worker",
    "store/db/engine.py _upgrade": "one update of the schema, which the start waits for",
    "store/db/postgres.py PostgresStore.close": "closes the connections",
    "store/limits/valkey.py Valkey._wake": "lasts while somebody waits for an answer; the next call starts another",
    # Threads.
    "client/watchdog.py Watchdog.set_timeout": "of the client library, in the caller's process; each call sees to it",
    "upstream/cloud/file.py FileReads.run": "reads one file, one at a time of each credential",
    "server/control/health_port.py HealthPort.__init__": "answers probes: its end is logged, and probes show it",
    "server/telemetry/sink.py Sink.__init__": "writes the log: without it lines are dropped, and counted",
    "store/journal/threads.py _Worker.__init__": "its end makes the journal fail, and the process not ready",
}


def found(file: Path) -> Iterator[str]:
    """Where tasks are started: `file Class.function`, with a number from the second on."""
    seen: dict[str, int] = {}

    def visit(node: ast.AST, names: tuple[str, ...]) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from visit(child, (*names, child.name))
                continue
            if isinstance(child, ast.Call):
                called = child.func
                name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                if name in STARTERS:
                    where = f"{file.relative_to(PACKAGE)} {'.'.join(names)}"
                    seen[where] = seen.get(where, 0) + 1
                    yield where if seen[where] == 1 else f"{where} {seen[where]}"
            yield from visit(child, names)

    yield from visit(ast.parse(file.read_text()), ())


def test_what_is_started_is_short_or_kept_running() -> None:
    started = {where for file in sorted(PACKAGE.rglob("*.py")) for where in found(file)}
    assert started == set(SHORT)
