"""A log event as a line for people: short, the same order always, coloured where a terminal shows it.

Takes an event that is already clean (`server.telemetry.log`): nothing here hides, cuts or escapes.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

_RESET = "\x1b[0m"
_COLOURS = {"dim": "\x1b[2m", "red": "\x1b[31m", "green": "\x1b[32m", "yellow": "\x1b[33m", "bold": "\x1b[1m"}
_LEVEL_COLOURS = {"debug": "dim", "info": "green", "warning": "yellow", "error": "red", "critical": "red"}
_GOOD_VERDICTS = frozenset({"completed", "length", "filtered"})

Paint = Callable[[str, str], str]


def render_text(event: Mapping[str, Any], *, is_terminal: bool, has_colour: bool) -> bytes:
    paint = _painted if has_colour else _plain
    # A person at a terminal knows the day; a file must say it.
    form = "%H:%M:%S" if is_terminal else "%Y-%m-%d %H:%M:%S"
    moment = paint("dim", datetime.fromtimestamp(event["time"]).strftime(form))
    rest = _request(event, paint) if event["event"] == "request" else _other(event, paint)
    return f"{moment} {rest}\n".encode("utf-8", "replace")


def _request(event: Mapping[str, Any], paint: Paint) -> str:
    """`200 completed  fast -> openai/gpt-4o  ci  ttft 312ms  2.41s  120 in 345 out  req_...`: what is known of it."""
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
