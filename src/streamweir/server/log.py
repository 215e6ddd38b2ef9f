"""The log: one line per request, and a word on what happens to the process.

Whatever is to be logged goes through `logger` (structlog) or `log_request`, and so through one chain:
level, time, cleaning, rendering, sink. The cleaning is the one choke point for secrets: every string
of every event passes it. No prompt and no query string is ever handed to it. Readable lines go to a
terminal, JSON lines anywhere else. Until `configure_log` is called, events go nowhere.

The standard library's logging (asyncio's own words) and exceptions that nobody caught come here too.
"""

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import PurePath
from types import TracebackType
from typing import Any, Literal, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.server.clean import clean, clean_id, clean_lines
from streamweir.server.facts import Attempt, RequestFacts
from streamweir.server.logtext import render_text
from streamweir.server.sink import Sink
from streamweir.wire import jsonio

Format = Literal["auto", "text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_LONGER = 1000
_LONGEST_EXCEPTION = 16_000
_PLAIN = frozenset({bool, int, float, type(None)})
_MOST_ITEMS = 50
_DEEPEST = 4
_FRAMES = 20

_FINE = frozenset({Verdict.COMPLETED, Verdict.LENGTH, Verdict.FILTERED, Verdict.REJECTED, Verdict.CLIENT_GONE})


class _Outlet:
    """Where lines leave. One for the process, as the streams that it writes to are."""

    def __init__(self) -> None:
        self.sink: Sink | None = None
        self.level = 0
        self.bound: dict[str, Any] = {}
        self.render: Callable[[EventDict], bytes] = _render_json
        self.dropped_before = 0
        self.restore: Callable[[], None] = _nothing

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
) -> None:
    """`worker`: its number, on every line. May be called again; what is waiting is written first."""
    close_log()
    stream = stream if stream is not None else sys.stderr
    is_terminal = stream.isatty()
    if format == "json" or (format == "auto" and not is_terminal):
        _outlet.render = _render_json
    else:
        has_colour = is_terminal and not os.environ.get("NO_COLOR")
        _outlet.render = lambda event: render_text(event, is_terminal=is_terminal, has_colour=has_colour)
    _outlet.level = _LEVELS[level]
    _outlet.bound = {} if worker is None else {"worker": worker}
    _outlet.sink = Sink(stream, _word_dropped)
    _outlet.restore = _take_over_reports()


def close_log(timeout_s: float = 1.0) -> bool:
    """Writes what is waiting, for no longer than this. False: not all of it could be written."""
    sink, _outlet.sink = _outlet.sink, None
    if sink is None:
        return True
    _outlet.restore()
    _outlet.restore = _nothing
    is_written = sink.close(timeout_s)
    _outlet.dropped_before += sink.dropped
    return is_written


def dropped_lines() -> int:
    """How many lines found no room, since the process began."""
    return _outlet.dropped_before + (_outlet.sink.dropped if _outlet.sink is not None else 0)


def log_request(facts: RequestFacts) -> None:
    """The one line of a request."""
    if _outlet.sink is None:
        return
    fields: dict[str, Any] = {
        "id": facts.id,
        "status": facts.status,
        "verdict": facts.verdict.value if facts.verdict is not None else None,
        "error": facts.error,
        "key": facts.key,
        "dialect": facts.dialect,
        "model": facts.model,
        "target": facts.target,
        "attempts": [_attempt(attempt) for attempt in facts.attempts],
        "stream": facts.stream,
        "finish": facts.finish,
        "ttft_s": _rounded(facts.ttft_s),
        "duration_s": _rounded(facts.duration_s),
        "bytes_out": facts.bytes_out,
        "usage": _usage(facts.usage) if facts.usage is not None else None,
        "usage_source": facts.usage_source.value if facts.usage_source is not None else None,
        "dropped": facts.dropped,
        "method": facts.method,
        "path": facts.path,
        "peer": facts.peer,
        "client_id": facts.client_id,
        "completion_id": facts.completion_id,
    }
    known = {name: value for name, value in fields.items() if value not in (None, "", (), [])}
    _level_of(facts)("request", **known)


def log_fault(reason: BaseException, request_id: str) -> None:
    """A bug that came to light while a request was served."""
    logger.error("internal error", id=request_id, exc_info=reason)


def watch_loop(loop: asyncio.AbstractEventLoop) -> None:
    """What this loop finds raised where nobody waits for it is logged, without the objects' own words on themselves."""
    loop.set_exception_handler(_report_from_loop)


def _level_of(facts: RequestFacts) -> Callable[..., Any]:
    if facts.verdict is Verdict.GATEWAY_FAULT:
        return logger.error
    if facts.status >= 500 or (facts.verdict is not None and facts.verdict not in _FINE):
        return logger.warning
    return logger.info


def _attempt(attempt: Attempt) -> dict[str, Any]:
    fields: dict[str, Any] = {"target": attempt.target, "duration_s": _rounded(attempt.duration_s)}
    if attempt.error is not None:
        fields["error"] = attempt.error
    if attempt.resends:
        fields["resends"] = attempt.resends
    return fields


def _usage(usage: Usage) -> dict[str, int]:
    counts = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "reasoning": usage.reasoning,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _drop_if_unwanted(_: WrappedLogger, method: str, event: EventDict) -> EventDict:
    if _outlet.sink is None or _LEVELS[method] < _outlet.level:
        raise structlog.DropEvent
    return event


def _date(_: WrappedLogger, method: str, event: EventDict) -> EventDict:
    return {"time": time.time(), "level": method, "event": event.pop("event", ""), **_outlet.bound, **event}


def _format_exception(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    fault = event.pop("exc_info", None)
    if isinstance(fault, tuple):
        fault = fault[1]
    elif fault is True:
        fault = sys.exc_info()[1]
    if isinstance(fault, BaseException):
        told = traceback.TracebackException.from_exception(fault, limit=-_FRAMES, compact=True)
        event["exception"] = "".join(told.format()).rstrip()
    return event


def _clean_event(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    for name, value in event.items():
        if type(value) is str:
            event[name] = _CLEANERS.get(name, clean)(value)
        elif type(value) not in _PLAIN:
            event[name] = _clean_value(value, _DEEPEST, _CLEANERS.get(name, clean))
    return event


def _clean_value(value: object, depth: int, cleaned: Callable[[str], str] = clean) -> object:
    """As plain types. An object that we do not know is named by its type: what it says of itself may hold anything."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, str | PurePath):
        return cleaned(str(value))
    if isinstance(value, dict) and depth:
        items = list(value.items())[:_MOST_ITEMS]
        return {clean(str(name)): _clean_value(member, depth - 1) for name, member in items}
    if isinstance(value, list | tuple) and depth:
        return [_clean_value(item, depth - 1, cleaned) for item in value[:_MOST_ITEMS]]
    if isinstance(value, BaseException):
        return clean(f"{type(value).__name__}: {value}")
    return type(value).__name__


def _render(_: WrappedLogger, __: str, event: EventDict) -> bytes:
    return _outlet.render(event)


def _render_json(event: EventDict) -> bytes:
    moment = datetime.fromtimestamp(event["time"], UTC).isoformat(timespec="milliseconds")
    return jsonio.encode({**event, "time": moment.removesuffix("+00:00") + "Z"}) + b"\n"


def _word_dropped(count: int) -> bytes:
    fields = {"time": time.time(), "level": "warning", "event": "log lines dropped", **_outlet.bound, "count": count}
    return _outlet.render(fields)


class _StandardLogging(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # arguments that do not fit the message: log what can be had
            text = str(record.msg)
        tell = logger.error if record.levelno >= logging.ERROR else logger.warning
        tell(text, source=record.name, exc_info=record.exc_info)


def _take_over_reports() -> Callable[[], None]:
    """The root logger and the interpreter's three hooks. Gives what puts everything back."""
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
        return  # a connection that broke: whoever owns it was told by `connection_lost`
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
    "exception": lambda text: clean_lines(text, _LONGEST_EXCEPTION),
}

_outlet = _Outlet()

logger: FilteringBoundLogger = cast(
    FilteringBoundLogger,
    structlog.wrap_logger(
        _outlet,
        processors=[_drop_if_unwanted, _date, _format_exception, _clean_event, _render],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        context_class=dict,
        cache_logger_on_first_use=True,
    ),
)
"""For everything that is not a request: `logger.warning("target ejected", target=...)`, `exc_info=` for a fault."""
