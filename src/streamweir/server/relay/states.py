"""The attempt as a state machine: its states, its inputs, and one table of what each input does in each state.

Pure, and all of it data: (state, input) -> (action, next state). `server.relay.relay` has the actions as methods, takes
every input by way of this table, and changes its state nowhere else. What the table does not list cannot happen: an
upstream, a caller or we ourselves broke a contract. It is a fault, `UnexpectedInput`: it is logged and counted, and the
attempt ends, never as complete.

Inputs come from outside (the upstream, the caller, the gateway, the timer), or they are what an action has found out,
where the next state depends on it: whether a head is a refusal, whether an answer has ended. `FINDINGS` lists these for
each action. So every row has one next state.

Whether output is paused is not a state here: any state but the last two can be paused, and behaves the same until the
answer ends (`server.relay.downstream`). How entering DONE closes the attempt is the same for every row: see `Relay`.
"""

from enum import IntEnum, StrEnum, auto
from typing import NamedTuple


class State(IntEnum):
    CONNECTING = 0
    """The request is not sent yet: a connection is being opened, or waited for."""
    WAITING = auto()
    """The request is sent, and there is no head."""
    REFUSED = auto()
    """The head has an error status. Its body is collected, for what it says."""
    STARTED = auto()
    """The head is that of an answer. No token has come; of an answer that is not streamed, not all of it."""
    STREAMING = auto()
    """Tokens come and go out: the hot path."""
    PARSING = auto()
    """A large whole answer is here, and another process reads it."""
    HELD = auto()
    """All of the answer is here. Its end goes out when output is resumed."""
    DRAINING = auto()
    """Nothing more goes to the caller. The upstream is read on, for the usage at its end."""
    DONE = auto()
    """The upstream is released, the timer has ended, and whoever waits for the attempt goes on."""


class Input(IntEnum):
    # From the upstream, see `upstream.base`.
    OPENED = 0
    """The request is sent. With the call."""
    OPEN_FAILED = auto()
    """It could not be sent. With the error."""
    HEAD = auto()
    """With status and headers."""
    PIECE = auto()
    """Of the body. With the bytes."""
    END = auto()
    """The body is whole by the rules of HTTP."""
    RESET = auto()
    """The body broke off, or was no HTTP. With the error."""
    PARSED = auto()
    """A large whole answer was read. With what goes to the caller."""
    # From the caller, see `server.http.message.Response`.
    CALLER_GONE = auto()
    CALLER_SLOW = auto()
    """More waits to be read than may."""
    CALLER_READY = auto()
    # From the gateway.
    TIMER = auto()
    PAUSE = auto()
    """Write nothing more, until as many RESUMEs have come."""
    RESUME = auto()
    STOP = auto()
    """End now. With the error."""
    CUT = auto()
    """End now for the caller; read on an upstream that bills on. With the error."""
    CANCEL = auto()
    """Nobody waits for it any more."""
    # What an action has found out.
    HEAD_REFUSED = auto()
    """It has an error status."""
    FIRST_TOKEN = auto()
    LARGE_BODY = auto()
    """The body has ended, and takes too long to be read on the event loop. With the body."""
    ANSWER_ENDED = auto()
    """The answer, or the error frame that ends it, may go out. With its last bytes."""
    ANSWER_HELD = auto()
    """The same, while output is paused."""
    ANSWER_FAILED = auto()
    """It failed before a byte of it was committed."""
    FAILED = auto()
    """It must end: a bad head, a refusal, a deadline, a size. With the error."""
    READ_ON = auto()
    """The caller is done with, and the upstream is worth reading on."""
    CUT_OFF = auto()
    """The caller is to be told an error, and the upstream is not worth reading on. With the error."""


class Action(StrEnum):
    """`fail` is the method `Relay._fail`, and so on."""

    NOTHING = auto()
    IGNORE = auto()
    """As nothing, for what comes too late."""
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
    """The deadlines, and whether a stream that has finished may end in silence."""
    CHECK_DRAIN = auto()
    PAUSE_UPSTREAM = auto()
    RESUME_UPSTREAM = auto()
    HOLD_OUTPUT = auto()
    RELEASE_OUTPUT = auto()
    RELEASE_END = auto()
    LOSE_CALLER = auto()
    """Finds out whether the upstream is worth reading on."""
    DECIDE_CUT = auto()
    """The same."""
    DRAIN = auto()
    # The ends: each of these goes with DONE.
    DELIVER = auto()
    FAIL = auto()
    """An error frame where the answer has begun, else a `failure`."""
    FAIL_REFUSED = auto()
    NOTE_FAILURE = auto()
    FAIL_HELD = auto()
    FAIL_DRAIN = auto()
    FAIL_DRAIN_REFUSED = auto()
    CUT_SHORT = auto()
    """An error frame in the place of what is kept, or a `failure`."""
    CUT_HELD = auto()
    CANCEL = auto()
    CANCEL_GONE = auto()


class Row(NamedTuple):
    action: Action
    next: State


_A, _I, _S = Action, Input, State

_HOW_IT_ENDED = (_I.ANSWER_ENDED, _I.ANSWER_HELD, _I.ANSWER_FAILED)

FINDINGS: dict[Action, tuple[Input, ...]] = {
    _A.READ_HEAD: (_I.HEAD_REFUSED, _I.FAILED),
    _A.READ_REFUSAL: (_I.FAILED,),
    _A.TAKE_PIECE: (_I.FIRST_TOKEN, *_HOW_IT_ENDED, _I.FAILED),
    _A.DRAIN_PIECE: (*_HOW_IT_ENDED, _I.FAILED),
    _A.RELAY_PIECE: (*_HOW_IT_ENDED, _I.FAILED),
    _A.END_STREAM: _HOW_IT_ENDED,
    _A.END_BODY: (_I.LARGE_BODY, *_HOW_IT_ENDED),
    _A.PARSE: (_I.FAILED,),
    _A.TAKE_PARSED: _HOW_IT_ENDED,
    _A.CHECK_DEADLINES: (_I.FAILED,),
    _A.CHECK_STREAM: (*_HOW_IT_ENDED, _I.FAILED),
    _A.CHECK_DRAIN: (*_HOW_IT_ENDED, _I.CANCEL),
    _A.RELEASE_END: (_I.ANSWER_ENDED,),
    _A.LOSE_CALLER: (_I.READ_ON, _I.CANCEL),
    _A.DECIDE_CUT: (_I.READ_ON, _I.CUT_OFF),
    _A.DRAIN: (_I.ANSWER_ENDED,),
}
"""What an action may find out. A test holds that wherever it is done, all of these are listed."""


def _live(state: State) -> dict[Input, Row]:
    """What every attempt takes that has its caller."""
    return {
        _I.TIMER: Row(_A.CHECK_DEADLINES, state),
        _I.CALLER_GONE: Row(_A.CANCEL_GONE, _S.DONE),
        _I.CALLER_SLOW: Row(_A.PAUSE_UPSTREAM, state),
        _I.CALLER_READY: Row(_A.RESUME_UPSTREAM, state),
        _I.PAUSE: Row(_A.HOLD_OUTPUT, state),
        _I.RESUME: Row(_A.RELEASE_OUTPUT, state),
        _I.STOP: Row(_A.FAIL, _S.DONE),
        _I.FAILED: Row(_A.FAIL, _S.DONE),
        _I.CUT: Row(_A.CUT_SHORT, _S.DONE),
        _I.CANCEL: Row(_A.CANCEL, _S.DONE),
    }


def _readable(state: State) -> dict[Input, Row]:
    """What changes where the upstream may be worth reading on without its caller."""
    return {
        _I.CALLER_GONE: Row(_A.LOSE_CALLER, state),
        _I.CUT: Row(_A.DECIDE_CUT, state),
        _I.READ_ON: Row(_A.DRAIN, _S.DRAINING),
        _I.CUT_OFF: Row(_A.CUT_SHORT, _S.DONE),
    }


_ENDS = {
    _I.ANSWER_ENDED: Row(_A.DELIVER, _S.DONE),
    _I.ANSWER_HELD: Row(_A.KEEP_END, _S.HELD),
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
    _S.HELD: _live(_S.HELD)
    | {
        _I.RESUME: Row(_A.RELEASE_END, _S.HELD),
        _I.ANSWER_ENDED: Row(_A.DELIVER, _S.DONE),
        _I.STOP: Row(_A.FAIL_HELD, _S.DONE),
        _I.FAILED: Row(_A.FAIL_HELD, _S.DONE),
        _I.CUT: Row(_A.CUT_HELD, _S.DONE),
        _I.CALLER_SLOW: Row(_A.IGNORE, _S.HELD),
        _I.CALLER_READY: Row(_A.IGNORE, _S.HELD),
    },
    _S.DRAINING: {
        _I.HEAD: Row(_A.READ_HEAD, _S.DRAINING),
        _I.HEAD_REFUSED: Row(_A.FAIL_DRAIN_REFUSED, _S.DONE),
        _I.PIECE: Row(_A.DRAIN_PIECE, _S.DRAINING),
        _I.END: Row(_A.END_BODY, _S.DRAINING),
        _I.LARGE_BODY: Row(_A.PARSE, _S.DRAINING),
        _I.PARSED: Row(_A.TAKE_PARSED, _S.DRAINING),
        _I.ANSWER_ENDED: Row(_A.NOTHING, _S.DONE),
        _I.ANSWER_HELD: Row(_A.NOTHING, _S.DONE),
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
    _S.DONE: {what: Row(_A.IGNORE, _S.DONE) for what in Input if what <= _I.CANCEL}
    | {_I.OPENED: Row(_A.DROP_CALL, _S.DONE)},
}


class UnexpectedInput(Exception):
    """An attempt was given what its state does not take."""

    def __init__(self, state: State, what: Input) -> None:
        super().__init__(f"An attempt that is {state.name} was given {what.name}.")
        self.state = state
        self.what = what
