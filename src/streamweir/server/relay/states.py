"""The attempt as a state machine: its states, its inputs, and one table of what each input does in each state.

Pure data: (state, input) -> (action, next state). `server.relay.relay` has the actions as methods, uses this table for
every input, and changes its state nowhere else. A pair that the table does not list is a fault, `UnexpectedInput`: an
upstream, a caller or the gateway broke a contract. The fault is logged and counted, and the attempt ends, never as
complete.

Inputs come from outside (the upstream, the caller, the gateway, the timer) or from an action, if the next state
depends on its result: whether a head is a refusal, whether an answer has ended. `FINDINGS` lists these for each action.
So every row has one next state.

Paused output is not a state: any state but the last two can be paused, and behaves the same until the answer ends
(`server.relay.downstream`). Entering DONE closes the attempt in the same way for every row: see `Relay`.
"""

from enum import IntEnum, StrEnum, auto
from typing import NamedTuple


class State(IntEnum):
    CONNECTING = 0
    """The request is not sent yet: it needs a connection."""
    WAITING = auto()
    """The request is sent, and there is no head."""
    REFUSED = auto()
    """The head has an error status. Its body is collected, for the error message."""
    STARTED = auto()
    """The head has a success status. No token has arrived yet, or a whole answer is not complete."""
    STREAMING = auto()
    """Tokens are relayed: the hot path."""
    PARSING = auto()
    """A large whole answer was received, and another process parses it."""
    COMPLETE = auto()
    """The whole answer was received. Its end is sent when output is resumed."""
    DRAINING = auto()
    """Nothing more is sent to the caller. The upstream is read to its end, for the usage."""
    DONE = auto()
    """The upstream is released, the timer has ended, and `Relay.run` returns."""


class Input(IntEnum):
    # From the upstream, see `upstream.base`.
    OPENED = 0
    """The request was sent. With the call."""
    OPEN_FAILED = auto()
    """It could not be sent. With the error."""
    HEAD = auto()
    """With status and headers."""
    PIECE = auto()
    """Of the body. With the bytes."""
    END = auto()
    """The body is complete by the rules of HTTP."""
    RESET = auto()
    """The body was cut, or was not valid HTTP. With the error."""
    PARSED = auto()
    """A large whole answer was parsed. With the bytes for the caller."""
    # From the caller, see `server.http.message.Response`.
    CALLER_GONE = auto()
    CALLER_SLOW = auto()
    """More than the high-water mark is buffered."""
    CALLER_READY = auto()
    # From the gateway.
    TIMER = auto()
    PAUSE = auto()
    """Write nothing more, until as many RESUMEs were received."""
    RESUME = auto()
    STOP = auto()
    """End now. With the error."""
    CUT = auto()
    """End now for the caller, but drain an upstream that still bills. With the error."""
    CANCEL = auto()
    """The task that runs the attempt was cancelled."""
    # Results of an action.
    HEAD_REFUSED = auto()
    """It has an error status."""
    FIRST_TOKEN = auto()
    LARGE_BODY = auto()
    """The body has ended, and is too large to be parsed on the event loop. With the body."""
    ANSWER_ENDED = auto()
    """The answer, or the error frame that ends it, may be sent. With its last bytes."""
    ANSWER_PAUSED = auto()
    """The same, while output is paused."""
    ANSWER_FAILED = auto()
    """It failed before a byte of it was committed."""
    FAILED = auto()
    """It must end: a bad head, a refusal, a deadline, a size. With the error. (The caller's own deadline is a CUT.)"""
    READ_ON = auto()
    """Nothing more is sent to the caller, and the upstream is drained."""
    CUT_OFF = auto()
    """The caller gets an error, and the upstream is not drained. With the error."""


class Action(StrEnum):
    """`fail` is the method `Relay._fail`, and so on."""

    NOTHING = auto()
    IGNORE = auto()
    """As NOTHING, for an input that comes too late."""
    TAKE_CALL = auto()
    DROP_CALL = auto()
    """The attempt ended while it was being opened."""
    READ_HEAD = auto()
    READ_REFUSAL = auto()
    TAKE_PIECE = auto()
    DRAIN_PIECE = auto()
    RELAY_PIECE = auto()
    """`Relay.body_received` itself: the hot path is one direct call."""
    END_STREAM = auto()
    END_BODY = auto()
    PARSE = auto()
    KEEP_END = auto()
    TAKE_PARSED = auto()
    CHECK_DEADLINES = auto()
    CHECK_STREAM = auto()
    """The deadlines, and whether a finished stream may end without a terminator."""
    CHECK_DRAIN = auto()
    PAUSE_UPSTREAM = auto()
    RESUME_UPSTREAM = auto()
    PAUSE_OUTPUT = auto()
    RESUME_OUTPUT = auto()
    RESUME_END = auto()
    LOSE_CALLER = auto()
    """Decides whether the upstream is drained."""
    DECIDE_CUT = auto()
    """The same."""
    DRAIN = auto()
    # The ends: the next state of each of these is DONE.
    DELIVER = auto()
    FAIL = auto()
    """An error frame if the answer has begun, else a `failure`."""
    FAIL_REFUSED = auto()
    NOTE_FAILURE = auto()
    FAIL_COMPLETE = auto()
    FAIL_DRAIN = auto()
    FAIL_DRAIN_REFUSED = auto()
    CUT_SHORT = auto()
    """An error frame instead of the pending bytes, or a `failure`."""
    CUT_COMPLETE = auto()
    CANCEL = auto()
    CANCEL_GONE = auto()


class Row(NamedTuple):
    action: Action
    next: State


_A, _I, _S = Action, Input, State

_ANSWER_RESULTS = (_I.ANSWER_ENDED, _I.ANSWER_PAUSED, _I.ANSWER_FAILED)

FINDINGS: dict[Action, tuple[Input, ...]] = {
    _A.READ_HEAD: (_I.HEAD_REFUSED, _I.FAILED),
    _A.READ_REFUSAL: (_I.FAILED,),
    _A.TAKE_PIECE: (_I.FIRST_TOKEN, *_ANSWER_RESULTS, _I.FAILED),
    _A.DRAIN_PIECE: (*_ANSWER_RESULTS, _I.FAILED),
    _A.RELAY_PIECE: (*_ANSWER_RESULTS, _I.FAILED),
    _A.END_STREAM: _ANSWER_RESULTS,
    _A.END_BODY: (_I.LARGE_BODY, *_ANSWER_RESULTS),
    _A.PARSE: (_I.FAILED,),
    _A.TAKE_PARSED: _ANSWER_RESULTS,
    _A.CHECK_DEADLINES: (_I.FAILED, _I.CUT),
    _A.CHECK_STREAM: (*_ANSWER_RESULTS, _I.FAILED, _I.CUT),
    _A.CHECK_DRAIN: (*_ANSWER_RESULTS, _I.CANCEL),
    _A.RESUME_END: (_I.ANSWER_ENDED,),
    _A.LOSE_CALLER: (_I.READ_ON, _I.CANCEL),
    _A.DECIDE_CUT: (_I.READ_ON, _I.CUT_OFF),
    _A.DRAIN: (_I.ANSWER_ENDED,),
}
"""The possible results of an action. A test checks that every state that uses the action lists all of them."""


def _live(state: State) -> dict[Input, Row]:
    """The inputs of every state that has a caller."""
    return {
        _I.TIMER: Row(_A.CHECK_DEADLINES, state),
        _I.CALLER_GONE: Row(_A.CANCEL_GONE, _S.DONE),
        _I.CALLER_SLOW: Row(_A.PAUSE_UPSTREAM, state),
        _I.CALLER_READY: Row(_A.RESUME_UPSTREAM, state),
        _I.PAUSE: Row(_A.PAUSE_OUTPUT, state),
        _I.RESUME: Row(_A.RESUME_OUTPUT, state),
        _I.STOP: Row(_A.FAIL, _S.DONE),
        _I.FAILED: Row(_A.FAIL, _S.DONE),
        _I.CUT: Row(_A.CUT_SHORT, _S.DONE),
        _I.CANCEL: Row(_A.CANCEL, _S.DONE),
    }


def _readable(state: State) -> dict[Input, Row]:
    """The differences in states whose upstream can be drained."""
    return {
        _I.CALLER_GONE: Row(_A.LOSE_CALLER, state),
        _I.CUT: Row(_A.DECIDE_CUT, state),
        _I.READ_ON: Row(_A.DRAIN, _S.DRAINING),
        _I.CUT_OFF: Row(_A.CUT_SHORT, _S.DONE),
    }


_ENDS = {
    _I.ANSWER_ENDED: Row(_A.DELIVER, _S.DONE),
    _I.ANSWER_PAUSED: Row(_A.KEEP_END, _S.COMPLETE),
    _I.ANSWER_FAILED: Row(_A.NOTE_FAILURE, _S.DONE),
}

TABLE: dict[State, dict[Input, Row]] = {
    _S.CONNECTING: _live(_S.CONNECTING)
    | {
        _I.OPENED: Row(_A.TAKE_CALL, _S.WAITING),
        _I.OPEN_FAILED: Row(_A.FAIL, _S.DONE),
    },
    _S.WAITING: _live(_S.WAITING)
    | _readable(_S.WAITING)
    | {
        _I.HEAD: Row(_A.READ_HEAD, _S.STARTED),
        _I.RESET: Row(_A.FAIL, _S.DONE),
    },
    _S.REFUSED: _live(_S.REFUSED)
    | {
        _I.PIECE: Row(_A.READ_REFUSAL, _S.REFUSED),
        _I.END: Row(_A.FAIL_REFUSED, _S.DONE),
        _I.RESET: Row(_A.FAIL_REFUSED, _S.DONE),
    },
    _S.STARTED: _live(_S.STARTED)
    | _readable(_S.STARTED)
    | _ENDS
    | {
        _I.HEAD_REFUSED: Row(_A.NOTHING, _S.REFUSED),
        _I.PIECE: Row(_A.TAKE_PIECE, _S.STARTED),
        _I.FIRST_TOKEN: Row(_A.NOTHING, _S.STREAMING),
        _I.END: Row(_A.END_BODY, _S.STARTED),
        _I.LARGE_BODY: Row(_A.PARSE, _S.PARSING),
        _I.RESET: Row(_A.FAIL, _S.DONE),
        _I.TIMER: Row(_A.CHECK_STREAM, _S.STARTED),
    },
    _S.STREAMING: _live(_S.STREAMING)
    | _readable(_S.STREAMING)
    | _ENDS
    | {
        _I.PIECE: Row(_A.RELAY_PIECE, _S.STREAMING),
        _I.END: Row(_A.END_STREAM, _S.STREAMING),
        _I.RESET: Row(_A.FAIL, _S.DONE),
        _I.TIMER: Row(_A.CHECK_STREAM, _S.STREAMING),
    },
    _S.PARSING: _live(_S.PARSING)
    | _readable(_S.PARSING)
    | _ENDS
    | {
        _I.PARSED: Row(_A.TAKE_PARSED, _S.PARSING),
        _I.CALLER_SLOW: Row(_A.IGNORE, _S.PARSING),
        _I.CALLER_READY: Row(_A.IGNORE, _S.PARSING),
    },
    _S.COMPLETE: _live(_S.COMPLETE)
    | {
        _I.RESUME: Row(_A.RESUME_END, _S.COMPLETE),
        _I.ANSWER_ENDED: Row(_A.DELIVER, _S.DONE),
        _I.STOP: Row(_A.FAIL_COMPLETE, _S.DONE),
        _I.FAILED: Row(_A.FAIL_COMPLETE, _S.DONE),
        _I.CUT: Row(_A.CUT_COMPLETE, _S.DONE),
        _I.CALLER_SLOW: Row(_A.IGNORE, _S.COMPLETE),
        _I.CALLER_READY: Row(_A.IGNORE, _S.COMPLETE),
    },
    _S.DRAINING: {
        _I.HEAD: Row(_A.READ_HEAD, _S.DRAINING),
        _I.HEAD_REFUSED: Row(_A.FAIL_DRAIN_REFUSED, _S.DONE),
        _I.PIECE: Row(_A.DRAIN_PIECE, _S.DRAINING),
        _I.END: Row(_A.END_BODY, _S.DRAINING),
        _I.LARGE_BODY: Row(_A.PARSE, _S.DRAINING),
        _I.PARSED: Row(_A.TAKE_PARSED, _S.DRAINING),
        _I.ANSWER_ENDED: Row(_A.NOTHING, _S.DONE),
        _I.ANSWER_PAUSED: Row(_A.NOTHING, _S.DONE),
        _I.ANSWER_FAILED: Row(_A.NOTHING, _S.DONE),
        _I.RESET: Row(_A.FAIL_DRAIN, _S.DONE),
        _I.STOP: Row(_A.FAIL_DRAIN, _S.DONE),
        _I.FAILED: Row(_A.FAIL_DRAIN, _S.DONE),
        _I.TIMER: Row(_A.CHECK_DRAIN, _S.DRAINING),
        _I.CANCEL: Row(_A.CANCEL, _S.DONE),
        _I.CALLER_GONE: Row(_A.IGNORE, _S.DRAINING),
        _I.CALLER_SLOW: Row(_A.IGNORE, _S.DRAINING),
        _I.CALLER_READY: Row(_A.IGNORE, _S.DRAINING),
        _I.PAUSE: Row(_A.IGNORE, _S.DRAINING),
        _I.RESUME: Row(_A.IGNORE, _S.DRAINING),
        _I.CUT: Row(_A.IGNORE, _S.DRAINING),
    },
    _S.DONE: {input_: Row(_A.IGNORE, _S.DONE) for input_ in Input if input_ <= _I.CANCEL}
    | {_I.OPENED: Row(_A.DROP_CALL, _S.DONE)},
}


class UnexpectedInput(Exception):
    """An attempt received an input that its state does not list."""

    def __init__(self, state: State, input_: Input) -> None:
        super().__init__(f"An attempt that is {state.name} was given {input_.name}.")
        self.state = state
        self.input = input_
