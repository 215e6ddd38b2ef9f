"""The tool calls of one choice, from the pieces in which vendors send them.

A call is started once, with its id and name; its arguments follow. Ordinals count the calls in the order of their
start, independent of the vendor's index. Vendors leave out the index or the id, repeat the name, or send the name after
the id: a call without a name is held, with its arguments, until it has one or the choice ends. The arguments are kept:
whether a call is whole must be known where the choice has no finish.
"""

from collections.abc import Sequence
from io import StringIO

from streamweir.core.events import Event, ToolCallDelta, ToolCallStarted
from streamweir.providers.openai.chunk import CallPiece, FunctionPiece
from streamweir.wire import jsonio

_MAX_CHECKED_LENGTH = 1 << 20
"""Characters of arguments: to parse more would take too long on the event loop."""


class _Call:
    __slots__ = ("arguments", "custom", "id", "legacy", "name", "ordinal")

    def __init__(self, legacy: bool = False) -> None:
        self.id: str | None = None
        self.name = ""
        self.legacy = legacy
        self.custom = False
        self.ordinal = -1  # not started
        self.arguments = StringIO()  # all of them: sent when it is started, and checked if the choice has no finish

    @property
    def is_whole(self) -> bool:
        """It has a name and, unless it is free-form, arguments that are JSON, or none."""
        if not self.name or self.arguments.tell() > _MAX_CHECKED_LENGTH:
            return False
        arguments = self.arguments.getvalue()
        if self.custom or not arguments.strip():
            return True
        try:
            jsonio.decode(arguments.encode("utf-8", "surrogatepass"))
        except jsonio.InvalidJson:
            return False
        return True


class CallTable:
    """The calls of one choice."""

    __slots__ = ("_by_id", "_by_index", "_calls", "_choice", "_legacy", "_started")

    def __init__(self, choice: int) -> None:
        self._choice = choice
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._legacy: _Call | None = None
        self._started = 0

    @property
    def are_whole(self) -> bool:
        return all(call.is_whole for call in self._calls)

    @property
    def are_legacy(self) -> bool:
        return all(call.legacy for call in self._calls)

    def feed(self, pieces: Sequence[CallPiece], events: list[Event]) -> None:
        known = len(self._calls)
        for position, piece in enumerate(pieces):
            name, arguments = _read(piece)
            call = self._find(piece, name, position if len(pieces) > 1 else None, known)
            if piece.custom is not None and piece.function is None:
                call.custom = True
            self._add(call, piece.id, name, arguments, events)

    def feed_legacy(self, piece: FunctionPiece, events: list[Event]) -> None:
        """OpenAI's deprecated `function_call`: at most one, and it has no id."""
        if self._legacy is None:
            self._legacy = self._new(legacy=True)
        self._add(self._legacy, None, piece.name or "", _text(piece.arguments), events)

    def close(self, events: list[Event]) -> None:
        """The choice ends: a call that never got a name is sent without one rather than lost."""
        for call in self._calls:
            if call.ordinal < 0 and (call.id or call.arguments.tell()):
                self._start(call, events)

    def _find(self, piece: CallPiece, name: str, position: int | None, known: int) -> _Call:
        if piece.index is not None:
            call = self._by_index.get(piece.index)
            # quirk: several calls under one index, with different ids
            # (fixture openai-compatible/tool_calls_share_an_index).
            if call is None or (piece.id and name and call.id and piece.id != call.id):
                call = self._by_index[piece.index] = self._new()
            return call
        # quirk: no index (fixture mistral/tool_calls_without_index).
        if piece.id:
            return self._by_id.get(piece.id) or self._new()
        if name or not known:
            return self._new()
        return self._calls[-1 if position is None or position >= known else position]

    def _new(self, legacy: bool = False) -> _Call:
        call = _Call(legacy)
        self._calls.append(call)
        return call

    def _add(self, call: _Call, id: str | None, name: str, arguments: str, events: list[Event]) -> None:
        if arguments:
            call.arguments.write(arguments)
        if call.ordinal >= 0:
            if arguments:
                events.append(ToolCallDelta(self._choice, call.ordinal, arguments))
            return
        if id and call.id is None:
            call.id = id
            self._by_id.setdefault(id, call)
        call.name = name
        if name:
            self._start(call, events)

    def _start(self, call: _Call, events: list[Event]) -> None:
        call.ordinal = self._started
        self._started += 1
        events.append(ToolCallStarted(self._choice, call.ordinal, call.id, call.name, call.legacy, call.custom))
        if call.arguments.tell():
            events.append(ToolCallDelta(self._choice, call.ordinal, call.arguments.getvalue()))


def _read(piece: CallPiece) -> tuple[str, str]:
    """A call's name and arguments; the input of a custom tool takes the place of arguments."""
    if piece.function is not None:
        return piece.function.name or "", _text(piece.function.arguments)
    if piece.custom is not None:
        return piece.custom.name or "", piece.custom.input or ""
    return "", ""


def _text(arguments: object) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return jsonio.encode(arguments).decode()
