"""Views of an answer while it arrives: for a terminal, for a pipe, as frames, as JSON.

An answer is untrusted text. On a terminal, control characters are replaced (`for_terminal`) and markup is not
interpreted. A pipe gets the text unchanged, immediately, and nothing else. The clock is an argument. This module knows
neither sockets nor commands.
"""

import json
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from streamweir.cli.view.table import dollars, for_terminal
from streamweir.client import Completion
from streamweir.client.failed_response import mask_secret
from streamweir.core.events import (
    Event,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
)
from streamweir.core.usage import Usage
from streamweir.wire.sse import EventTooLarge, Frame, Splitter

if TYPE_CHECKING:
    from rich.console import Console

_LINE_END = re.compile(r"\r\n|\n|\r")
KEPT_CHARACTERS = "\n\t\u200c\u200d"
"""Not printable but needed: line breaks, tabs, and joiners of letters and emoji."""
_CONTENT_EVENTS = (TextDelta, ReasoningDelta, RefusalDelta, ToolCallStarted, ToolCallDelta)


class Timing(Struct):
    """The times of one answer, by a monotonic clock."""

    now: Callable[[], float]
    started: float = 0.0
    first: float | None = None
    ended: float = 0.0

    def begin(self) -> None:
        self.started = self.now()

    def record_event(self, event: Event) -> None:
        if self.first is None and isinstance(event, _CONTENT_EVENTS):
            self.first = self.now()

    def end(self) -> None:
        self.ended = self.now()


def summary(timing: Timing, usage: Usage | None, cost_nanousd: int | None, request_id: str | None) -> str:
    """One line, without values that are not known."""
    parts = []
    if timing.first is not None:
        parts.append(f"first token after {timing.first - timing.started:.2f} s")
        output_s = timing.ended - timing.first
        if usage is not None and usage.completion_tokens > 1 and output_s > 0:
            parts.append(f"{(usage.completion_tokens - 1) / output_s:.1f} tokens/s")
    if usage is not None:
        parts.append(f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens")
    if cost_nanousd is not None:
        parts.append(dollars(cost_nanousd))
    if request_id is not None:
        parts.append(for_terminal(request_id))
    return ", ".join(parts)


class View:
    """The base class; shows nothing."""

    def feed(self, event: Event) -> None:
        """Called for each event."""

    def tap(self, data: bytes) -> None:
        """Called for each piece of the body, before its events."""

    def end(self, completion: Completion) -> None:
        """Called after a complete answer."""

    def leave(self) -> None:
        """Called at the end, complete or not: later output must begin on a new line."""


class PlainView(View):
    """The text only, with a line end after it."""

    def __init__(self) -> None:
        self._last = "\n"

    def feed(self, event: Event) -> None:
        if isinstance(event, TextDelta | RefusalDelta) and event.choice == 0:
            self._last = event.text[-1:]  # before it is written: Ctrl-C may interrupt the write
            _write(event.text)

    def leave(self) -> None:
        if self._last != "\n":
            _write("\n")
        self._last = "\n"


class TerminalView(View):
    """Dimmed reasoning, then the text, then the calls."""

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._style = ""
        self._is_mid_line = False

    def feed(self, event: Event) -> None:
        match event:
            case ReasoningDelta(choice=0):
                self._print(event.text, "dim")
            case TextDelta(choice=0):
                self._print(event.text, "")
            case RefusalDelta(choice=0):
                self._print(event.text, "italic")

    def end(self, completion: Completion) -> None:
        for call in completion.tool_calls:
            self._print(f"{call.name}({call.arguments})", "bold")
            if call.problem is not None:
                self._print(f"  {call.problem}", "red")
            self.leave()

    def leave(self) -> None:
        if self._is_mid_line:
            self._console.print()
        self._is_mid_line = False

    def _print(self, text: str, style: str) -> None:
        from rich.text import Text

        if not text:
            return
        if style != self._style:
            self.leave()
            self._style = style
        self._is_mid_line = not text.endswith("\n")  # before it is shown: Ctrl-C may interrupt the output
        self._console.print(Text(for_terminal(text, KEPT_CHARACTERS), style), end="", soft_wrap=True)
        self._console.file.flush()


class RawView(View):
    """Every frame with its time, in seconds since the request. If a server repeats the key, it is masked, because
    users paste this output elsewhere."""

    def __init__(self, timing: Timing, *, is_terminal: bool, secret: str = "") -> None:
        self._timing = timing
        self._is_terminal = is_terminal
        self._secret = secret
        self._splitter = Splitter()

    def tap(self, data: bytes) -> None:
        try:
            frames = self._splitter.feed(data)
        except EventTooLarge as reason:
            frames = reason.frames
        self._show(frames)

    def leave(self) -> None:
        self._show(self._splitter.finish())

    def _show(self, frames: list[Frame]) -> None:
        after_s = self._timing.now() - self._timing.started
        for frame in frames:
            for line in _LINE_END.split(mask_secret(frame.raw.decode("utf-8", "replace"), self._secret)):
                if line:
                    _write(f"{after_s:9.3f}  {for_terminal(line, KEPT_CHARACTERS) if self._is_terminal else line}\n")


class JsonView(View):
    """The completion as one JSON document, in ASCII."""

    def end(self, completion: Completion) -> None:
        _write(json.dumps(completion.to_dict(), indent=2) + "\n")


def terminal_view() -> TerminalView:
    from rich.console import Console

    return TerminalView(Console(highlight=False, markup=False, emoji=False))


def _write(text: str) -> None:
    """Writes immediately; a lone surrogate becomes a question mark."""
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
