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
    "server/asgi.py Bridge.serve": "one request",
    "server/books.py Books._rule": "one decision about one request, bounded by its deadline",
    "server/books.py Books._rule 2": "undoes one reservation",
    "server/control_socket.py Channel.__init__": "one connection: its end is that of the connection, and is acted on",
    "server/control_socket.py Channel._start": "one question",
    "server/conversations.py Conversations.begin": "one request",
    "server/ending.py Ending._finish": "one answer",
    "server/http.py HttpServer.enter": "one connection, until its handshake is over",
    "server/large.py _reader": "one answer",
    "server/large.py _start": "until its process is there",
    "server/latekey.py LateKeys.wait": "one request",
    "server/payment.py Payment._overrun": "one extension of one hold",
    "server/settle.py Settlements.settle": "one settlement",
    "server/sharedarbiter.py SharedArbiter._start": "one call to Valkey, bounded by its timeout",
    "store/postgres.py PostgresStore._start": "one operation, bounded by its deadline",
    "upstream/dial.py Dialler._look_up": "one look-up of a name",
    "upstream/dial.py Dialler._race": "one attempt to connect",
    "upstream/http1.py Http1Call.send_again": "one request is sent again on a new connection",
    # Over by themselves.
    "server/app.py Gateway.reload": "closes an upstream that is not used any more",
    "server/keylookup.py KeyLookup.find": "lasts while somebody waits for a key; the next one starts another",
    "server/life.py _end": "a step of the end of the process",
    "server/life.py _end 2": "a step of the end of the process",
    "server/life.py _end 3": "a step of the end of the process",
    "server/life.py _lame_duck": "a step of the end of the process",
    "server/life.py _lame_duck 2": "a step of the end of the process",
    "server/start.py _say_when_loaded": "until the embedded model is loaded",
    "server/start.py _serve_alone": "until the embedded model is loaded",
    "server/supervisor.py Supervisor._begin_reload": "one reload",
    "server/supervisor.py Supervisor._live": "lasts as long as one worker",
    "store/postgres.py PostgresStore.close": "closes the connections",
    "store/valkey.py Valkey._wake": "lasts while somebody waits for an answer; the next call starts another",
    # Threads.
    "client/watchdog.py Watchdog.watch": "of the client library, in the caller's process; each call sees to it",
    "server/healthport.py HealthPort.__init__": "answers probes: its end is logged, and shows to whoever probes",
    "server/sink.py Sink.__init__": "writes the log: without it lines are dropped, and counted",
    "store/scribe.py _Worker.__init__": "its end makes the journal fail, and the process not ready",
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
