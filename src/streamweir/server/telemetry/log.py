"""The log: one line per request, and lines about events of the process.

Everything is logged through `logger` (structlog), and so through one chain: level, time, sanitizing, rendering, sink.
The line of a request (`log_request`) takes a shorter path, because there is one with every request
(`server.telemetry.log_line`). Neither path prints a secret: every string of every event is sanitized. Prompts and query
strings are never logged. A terminal gets readable lines, everything else JSON lines. Until `configure_log` is called,
events are discarded.

The standard library's logging (asyncio's messages) and uncaught exceptions are logged here too.

In the readable format an event is one short line with a fixed order, in colour on a terminal. The code that writes this
line gets a sanitized event: it does not mask, cut or escape anything.
"""

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import PurePath
from types import TracebackType
from typing import Any, Literal, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from streamweir.server.telemetry.log_line import MAX_ITEMS, level_of, line_of, written
from streamweir.server.telemetry.record import RequestRecord
from streamweir.server.telemetry.sanitize import clean, clean_id, clean_lines
from streamweir.server.telemetry.sink import Sink
from streamweir.wire import jsonio

_RESET = "\x1b[0m"
_COLOURS = {"dim": "\x1b[2m", "red": "\x1b[31m", "green": "\x1b[32m", "yellow": "\x1b[33m", "bold": "\x1b[1m"}
_LEVEL_COLOURS = {"debug": "dim", "info": "green", "warning": "yellow", "error": "red", "critical": "red"}
_GOOD_VERDICTS = frozenset({"completed", "length", "filtered"})

Paint = Callable[[str, str], str]


def render_text(event: Mapping[str, Any], *, is_terminal: bool, has_colour: bool) -> bytes:
    paint = _painted if has_colour else _plain
    # On a terminal the time is enough; a file needs the date.
    form = "%H:%M:%S" if is_terminal else "%Y-%m-%d %H:%M:%S"
    moment = paint("dim", datetime.fromtimestamp(event["time"]).strftime(form))
    rest = _request(event, paint) if event["event"] == "request" else _other(event, paint)
    return f"{moment} {rest}\n".encode("utf-8", "replace")


def _request(event: Mapping[str, Any], paint: Paint) -> str:
    """`200 completed  fast -> openai/gpt-4o  ci  ttft 312ms  2.41s  120 in 345 out  req_...`: the known values."""
    attempts = event.get("attempts", ())
    parts = [
        _outcome(event, paint),
        _subject(event, paint),
        event.get("key"),
        _time_to_first(event),
        _seconds(event.get("duration_s", 0.0)),
        _tokens(event),
        f"{len(attempts)} attempts" if len(attempts) > 1 else None,
        paint("red", event["error"]) if "error" in event else None,
        f"worker {event['worker']}" if "worker" in event else None,
        paint("dim", event["id"]),
    ]
    return "  ".join(part for part in parts if part)


def _outcome(event: Mapping[str, Any], paint: Paint) -> str:
    status, verdict = event["status"], event.get("verdict")
    if status >= 500:
        colour = "red"
    elif status >= 400 or (verdict is not None and verdict not in _GOOD_VERDICTS):
        colour = "yellow"
    else:
        colour = "green"
    return paint(colour, f"{status} {verdict}" if verdict is not None else str(status))


def _subject(event: Mapping[str, Any], paint: Paint) -> str:
    model, target = event.get("model"), event.get("target")
    if model is None:
        return f"{event['method']} {event['path']}"
    name = paint("bold", model)
    return name if target is None or target == model else f"{name} -> {target}"


def _time_to_first(event: Mapping[str, Any]) -> str | None:
    return f"ttft {_seconds(event['ttft_s'])}" if "ttft_s" in event else None


def _tokens(event: Mapping[str, Any]) -> str | None:
    usage = event.get("usage")
    if usage is None:
        return None
    about = "" if event.get("usage_source") == "provider" else "~"
    return f"{about}{usage['prompt_tokens']} in {about}{usage['completion_tokens']} out"


def _other(event: Mapping[str, Any], paint: Paint) -> str:
    level = event["level"]
    fields = [
        f"{paint('dim', name + '=')}{value}"
        for name, value in event.items()
        if name not in ("time", "level", "event", "exception")
    ]
    line = "  ".join([f"{paint(_LEVEL_COLOURS[level], level)} {event['event']}", *fields])
    return f"{line}\n{event['exception']}" if "exception" in event else line


def _seconds(duration_s: float) -> str:
    if duration_s < 1:
        return f"{duration_s * 1000:.0f}ms"
    return f"{duration_s:.2f}s" if duration_s < 100 else f"{duration_s:.0f}s"


def _painted(colour: str, text: str) -> str:
    return f"{_COLOURS[colour]}{text}{_RESET}"


def _plain(_: str, text: str) -> str:
    return text


Format = Literal["auto", "text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_LONGER = 1000
_MAX_EXCEPTION_LENGTH = 16_000
_PLAIN = frozenset({bool, int, float, type(None)})
_DEEPEST = 4
_FRAMES = 20


class _LogOutput:
    """The output of log lines. There is one per process, like the streams that it writes to."""

    def __init__(self) -> None:
        self.sink: Sink | None = None
        self.level = 0
        self.worker: int | None = None
        self.node: str | None = None
        self.render: Callable[[EventDict], bytes] = _render_json
        self.dropped_before = 0
        self.restore: Callable[[], None] = _nothing

    @property
    def bound(self) -> dict[str, int | str]:
        """The members of every event."""
        node: dict[str, int | str] = {} if self.node is None else {"node": self.node}
        return node if self.worker is None else {**node, "worker": self.worker}

    def write(self, line: bytes) -> None:
        if self.sink is not None:
            self.sink.write(line)

    debug = info = warning = error = critical = write


def configure_log(
    format: Format = "auto",
    stream: TextIO | None = None,
    *,
    level: LogLevel = "info",
    worker: int | None = None,
    node: str | None = None,
) -> None:
    """`worker`: its number, on every line. `node`: its name, on every JSON line, because logs of several nodes may be
    collected in one place.

    May be called again; waiting lines are written first.
    """
    close_log()
    stream = stream if stream is not None else sys.stderr
    is_terminal = stream.isatty()
    if format == "json" or (format == "auto" and not is_terminal):
        _output.render = _render_json
    else:
        has_colour = is_terminal and not os.environ.get("NO_COLOR")
        _output.render = lambda event: render_text(event, is_terminal=is_terminal, has_colour=has_colour)
    _output.level = _LEVELS[level]
    _output.worker = worker
    _output.node = clean(node) if node is not None and _output.render is _render_json else None
    _output.sink = Sink(stream, _dropped_line)
    _output.restore = _take_over_reports()


def close_log(timeout_s: float = 1.0) -> bool:
    """Writes the waiting lines, within this time. False: not all of them could be written."""
    sink, _output.sink = _output.sink, None
    if sink is None:
        return True
    _output.restore()
    _output.restore = _nothing
    is_written = sink.close(timeout_s)
    _output.dropped_before += sink.dropped
    return is_written


def dropped_lines() -> int:
    """The number of lines that were dropped because the buffer was full, since the process started."""
    return _output.dropped_before + (_output.sink.dropped if _output.sink is not None else 0)


def log_request(record: RequestRecord) -> None:
    """The one line of a request."""
    if _output.sink is None:
        return
    level, now = level_of(record), time.time()
    if _LEVELS[level] < _output.level:
        return
    line = line_of(record, level, now, _output.node, _output.worker)
    if _output.render is _render_json:
        _output.sink.write(jsonio.encode(line) + b"\n")
    else:
        _output.sink.write(_output.render({**jsonio.to_members(line), "time": now}))


def log_fault(reason: BaseException, request_id: str) -> None:
    """A bug that was found while a request was served."""
    logger.error("internal error", id=request_id, exc_info=reason)


def watch_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Logs exceptions that this loop reports because no task waits for them, without the `repr` of objects."""
    loop.set_exception_handler(_report_from_loop)


def _drop_if_unwanted(_: WrappedLogger, method: str, event: EventDict) -> EventDict:
    if _output.sink is None or _LEVELS[method] < _output.level:
        raise structlog.DropEvent
    return event


def _date(_: WrappedLogger, method: str, event: EventDict) -> EventDict:
    return {"time": time.time(), "level": method, "event": event.pop("event", ""), **_output.bound, **event}


def _format_exception(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    fault = event.pop("exc_info", None)
    if isinstance(fault, tuple):
        fault = fault[1]
    elif fault is True:
        fault = sys.exc_info()[1]
    if isinstance(fault, BaseException):
        formatted = traceback.TracebackException.from_exception(fault, limit=-_FRAMES, compact=True)
        event["exception"] = "".join(formatted.format()).rstrip()
    return event


def _clean_event(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    for name, value in event.items():
        if type(value) is str:
            event[name] = _CLEANERS.get(name, clean)(value)
        elif type(value) not in _PLAIN:
            event[name] = _clean_value(value, _DEEPEST, _CLEANERS.get(name, clean))
    return event


def _clean_value(value: object, depth: int, cleaned: Callable[[str], str] = clean) -> object:
    """As plain types. An unknown object is represented by its type: its own text could contain anything."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, str | PurePath):
        return cleaned(str(value))
    if isinstance(value, dict) and depth:
        items = list(value.items())[:MAX_ITEMS]
        return {clean(str(name)): _clean_value(member, depth - 1) for name, member in items}
    if isinstance(value, list | tuple) and depth:
        return [_clean_value(item, depth - 1, cleaned) for item in value[:MAX_ITEMS]]
    if isinstance(value, BaseException):
        return clean(f"{type(value).__name__}: {value}")
    return type(value).__name__


def _render(_: WrappedLogger, __: str, event: EventDict) -> bytes:
    return _output.render(event)


def _render_json(event: EventDict) -> bytes:
    return jsonio.encode({**event, "time": written(event["time"])}) + b"\n"


def _dropped_line(count: int) -> bytes:
    fields = {"time": time.time(), "level": "warning", "event": "log lines dropped", **_output.bound, "count": count}
    return _output.render(fields)


class _StandardLogging(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # arguments that do not fit the message: log what is possible
            text = str(record.msg)
        log = logger.error if record.levelno >= logging.ERROR else logger.warning
        log(text, source=record.name, exc_info=record.exc_info)


def _take_over_reports() -> Callable[[], None]:
    """Takes over the root logger and the interpreter's three hooks. Returns a function that restores them."""
    root, handler = logging.getLogger(), _StandardLogging()
    root.addHandler(handler)
    before = sys.excepthook, threading.excepthook, sys.unraisablehook
    sys.excepthook = _report_uncaught
    threading.excepthook = _report_from_thread
    sys.unraisablehook = _report_unraisable

    def restore() -> None:
        root.removeHandler(handler)
        sys.excepthook, threading.excepthook, sys.unraisablehook = before

    return restore


def _report_uncaught(kind: type[BaseException], fault: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, fault, trace)
    else:
        logger.critical("uncaught exception", exc_info=fault)
        close_log()  # the process is about to end


def _report_from_thread(args: threading.ExceptHookArgs) -> None:
    name = args.thread.name if args.thread is not None else None
    logger.error("uncaught exception in a thread", thread=name, exc_info=args.exc_value)


def _report_unraisable(report: "sys.UnraisableHookArgs") -> None:
    logger.error("exception ignored", where=type(report.object).__name__, exc_info=report.exc_value)


def _report_from_loop(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if isinstance(context.get("exception"), OSError) and "transport" in context:
        return  # a broken connection: its owner got `connection_lost`
    logger.error(context.get("message", "exception in the event loop"), exc_info=context.get("exception"))


def _nothing() -> None:
    return


_CLEANERS: dict[str, Callable[[str], str]] = {
    "id": clean_id,
    "completion_id": clean_id,
    "request_id": clean_id,
    "request_ids": clean_id,
    "event": lambda text: clean(text, _LONGER),
    "reason": lambda text: clean(text, _LONGER),
    "effect": lambda text: clean(text, _LONGER),
    "exception": lambda text: clean_lines(text, _MAX_EXCEPTION_LENGTH),
}

_output = _LogOutput()

logger: FilteringBoundLogger = cast(
    FilteringBoundLogger,
    structlog.wrap_logger(
        _output,
        processors=[_drop_if_unwanted, _date, _format_exception, _clean_event, _render],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        context_class=dict,
        cache_logger_on_first_use=True,
    ),
)
"""For everything that is not a request: `logger.warning("target ejected", target=...)`, `exc_info=` for a fault."""
