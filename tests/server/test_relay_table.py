"""The table of the attempt, whole: every pair of a state and an input is listed here, or is a fault.

A row that changes changes here too, on purpose. What an attempt does with it all is in test_relay_walk.py.
"""

from collections.abc import Iterator

import pytest

from streamweir.server.relay.relay import Relay
from streamweir.server.relay.states import FINDINGS, TABLE, Action, Input, State, UnexpectedInput

ROWS = """
CONNECTING
    OPENED         take_call           WAITING
    OPEN_FAILED    fail                DONE
    CALLER_GONE    cancel_gone         DONE
    CALLER_SLOW    pause_upstream      CONNECTING
    CALLER_READY   resume_upstream     CONNECTING
    TIMER          check_deadlines     CONNECTING
    PAUSE          pause_output        CONNECTING
    RESUME         resume_output       CONNECTING
    STOP           fail                DONE
    CUT            cut_short           DONE
    CANCEL         cancel              DONE
    FAILED         fail                DONE
WAITING
    HEAD           read_head           STARTED
    RESET          fail                DONE
    CALLER_GONE    lose_caller         WAITING
    CALLER_SLOW    pause_upstream      WAITING
    CALLER_READY   resume_upstream     WAITING
    TIMER          check_deadlines     WAITING
    PAUSE          pause_output        WAITING
    RESUME         resume_output       WAITING
    STOP           fail                DONE
    CUT            decide_cut          WAITING
    CANCEL         cancel              DONE
    FAILED         fail                DONE
    READ_ON        drain               DRAINING
    CUT_OFF        cut_short           DONE
REFUSED
    PIECE          read_refusal        REFUSED
    END            fail_refused        DONE
    RESET          fail_refused        DONE
    CALLER_GONE    cancel_gone         DONE
    CALLER_SLOW    pause_upstream      REFUSED
    CALLER_READY   resume_upstream     REFUSED
    TIMER          check_deadlines     REFUSED
    PAUSE          pause_output        REFUSED
    RESUME         resume_output       REFUSED
    STOP           fail                DONE
    CUT            cut_short           DONE
    CANCEL         cancel              DONE
    FAILED         fail                DONE
STARTED
    PIECE          take_piece          STARTED
    END            end_body            STARTED
    RESET          fail                DONE
    CALLER_GONE    lose_caller         STARTED
    CALLER_SLOW    pause_upstream      STARTED
    CALLER_READY   resume_upstream     STARTED
    TIMER          check_stream        STARTED
    PAUSE          pause_output        STARTED
    RESUME         resume_output       STARTED
    STOP           fail                DONE
    CUT            decide_cut          STARTED
    CANCEL         cancel              DONE
    HEAD_REFUSED   nothing             REFUSED
    FIRST_TOKEN    nothing             STREAMING
    LARGE_BODY     parse               PARSING
    ANSWER_ENDED   deliver             DONE
    ANSWER_PAUSED  keep_end            COMPLETE
    ANSWER_FAILED  note_failure        DONE
    FAILED         fail                DONE
    READ_ON        drain               DRAINING
    CUT_OFF        cut_short           DONE
STREAMING
    PIECE          relay_piece         STREAMING
    END            end_stream          STREAMING
    RESET          fail                DONE
    CALLER_GONE    lose_caller         STREAMING
    CALLER_SLOW    pause_upstream      STREAMING
    CALLER_READY   resume_upstream     STREAMING
    TIMER          check_stream        STREAMING
    PAUSE          pause_output        STREAMING
    RESUME         resume_output       STREAMING
    STOP           fail                DONE
    CUT            decide_cut          STREAMING
    CANCEL         cancel              DONE
    ANSWER_ENDED   deliver             DONE
    ANSWER_PAUSED  keep_end            COMPLETE
    ANSWER_FAILED  note_failure        DONE
    FAILED         fail                DONE
    READ_ON        drain               DRAINING
    CUT_OFF        cut_short           DONE
PARSING
    PARSED         take_parsed         PARSING
    CALLER_GONE    lose_caller         PARSING
    CALLER_SLOW    ignore              PARSING
    CALLER_READY   ignore              PARSING
    TIMER          check_deadlines     PARSING
    PAUSE          pause_output        PARSING
    RESUME         resume_output       PARSING
    STOP           fail                DONE
    CUT            decide_cut          PARSING
    CANCEL         cancel              DONE
    ANSWER_ENDED   deliver             DONE
    ANSWER_PAUSED  keep_end            COMPLETE
    ANSWER_FAILED  note_failure        DONE
    FAILED         fail                DONE
    READ_ON        drain               DRAINING
    CUT_OFF        cut_short           DONE
COMPLETE
    CALLER_GONE    cancel_gone         DONE
    CALLER_SLOW    ignore              COMPLETE
    CALLER_READY   ignore              COMPLETE
    TIMER          check_deadlines     COMPLETE
    PAUSE          pause_output        COMPLETE
    RESUME         resume_end          COMPLETE
    STOP           fail_complete       DONE
    CUT            cut_complete        DONE
    CANCEL         cancel              DONE
    ANSWER_ENDED   deliver             DONE
    FAILED         fail_complete       DONE
DRAINING
    HEAD           read_head           DRAINING
    PIECE          drain_piece         DRAINING
    END            end_body            DRAINING
    RESET          fail_drain          DONE
    PARSED         take_parsed         DRAINING
    CALLER_GONE    ignore              DRAINING
    CALLER_SLOW    ignore              DRAINING
    CALLER_READY   ignore              DRAINING
    TIMER          check_drain         DRAINING
    PAUSE          ignore              DRAINING
    RESUME         ignore              DRAINING
    STOP           fail_drain          DONE
    CUT            ignore              DRAINING
    CANCEL         cancel              DONE
    HEAD_REFUSED   fail_drain_refused  DONE
    LARGE_BODY     parse               DRAINING
    ANSWER_ENDED   nothing             DONE
    ANSWER_PAUSED  nothing             DONE
    ANSWER_FAILED  nothing             DONE
    FAILED         fail_drain          DONE
DONE
    OPENED         drop_call           DONE
    OPEN_FAILED    ignore              DONE
    HEAD           ignore              DONE
    PIECE          ignore              DONE
    END            ignore              DONE
    RESET          ignore              DONE
    PARSED         ignore              DONE
    CALLER_GONE    ignore              DONE
    CALLER_SLOW    ignore              DONE
    CALLER_READY   ignore              DONE
    TIMER          ignore              DONE
    PAUSE          ignore              DONE
    RESUME         ignore              DONE
    STOP           ignore              DONE
    CUT            ignore              DONE
    CANCEL         ignore              DONE
"""

OUTSIDE = [what for what in Input if what <= Input.CANCEL]
WRITES = {
    *(Action.DELIVER, Action.FAIL, Action.FAIL_REFUSED, Action.FAIL_COMPLETE, Action.CUT_SHORT, Action.CUT_COMPLETE),
    *(Action.RELAY_PIECE, Action.TAKE_PIECE, Action.RESUME_OUTPUT, Action.CHECK_DEADLINES, Action.CHECK_STREAM),
    Action.DECIDE_CUT,
}
"""Actions that may write to the caller."""
LIVE = [state for state in State if state not in (State.DRAINING, State.DONE)]


def listed() -> Iterator[tuple[State, Input, str, State]]:
    state = State.CONNECTING
    for line in ROWS.strip().splitlines():
        if not line.startswith(" "):
            state = State[line]
        else:
            what, action, after = line.split()
            yield state, Input[what], action, State[after]


def test_every_pair_of_state_and_input_is_listed_or_a_fault() -> None:
    expected = {(state, what): (action, after) for state, what, action, after in listed()}
    found = {(state, what): (str(row.action), row.next) for state, rows in TABLE.items() for what, row in rows.items()}
    assert found == expected
    assert set(TABLE) == set(State)


@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
def test_what_an_action_can_find_out_is_listed_where_it_is_done(state: State) -> None:
    """So no action can bring an attempt into a place that the table does not know."""
    for what, row in TABLE[state].items():
        for found in FINDINGS.get(row.action, ()):
            assert found in TABLE[row.next], (state.name, what.name, row.action, found.name)


def test_every_action_is_used_and_is_a_method() -> None:
    assert {row.action for rows in TABLE.values() for row in rows.values()} == set(Action)
    for action in set(Action) - {Action.NOTHING, Action.IGNORE, Action.RELAY_PIECE}:
        assert callable(getattr(Relay, f"_{action}")), action


def test_every_attempt_can_be_ended_at_once() -> None:
    for state in State:
        assert TABLE[state][Input.STOP].next is State.DONE
        assert TABLE[state][Input.CANCEL].next is State.DONE
        assert {Input.TIMER, Input.CUT, Input.CALLER_GONE, Input.PAUSE, Input.RESUME} <= TABLE[state].keys()


def test_after_the_end_nothing_is_done() -> None:
    """A call that was opened too late is dropped."""
    assert {what: row.action for what, row in TABLE[State.DONE].items()} == {
        what: Action.DROP_CALL if what is Input.OPENED else Action.IGNORE for what in OUTSIDE
    }


def test_nothing_is_written_after_the_end_of_a_call() -> None:
    for state in (State.DRAINING, State.DONE):
        assert not WRITES & {row.action for row in TABLE[state].values()}


def reachable(state: State, what: Input) -> set[State]:
    """Where an input from outside may lead, with all that its action may find out."""
    row = TABLE[state].get(what)
    if row is None:
        return {State.DONE}  # a fault ends it
    found = [reachable(row.next, each) for each in FINDINGS.get(row.action, ())]
    return {row.next}.union(*found)


def test_no_order_of_inputs_leads_back_from_an_end() -> None:
    """Any number of inputs, in any order: all that can follow is followed."""
    for first in (State.DRAINING, State.DONE):
        seen, todo = set(), [first]
        while todo:
            state = todo.pop()
            if state not in seen:
                seen.add(state)
                todo += [after for what in OUTSIDE for after in reachable(state, what)]
        assert seen == {first, State.DONE}


@pytest.mark.parametrize("what", [Input.CUT, Input.CALLER_GONE, Input.CANCEL, Input.STOP], ids=lambda what: what.name)
def test_a_caller_that_was_cut_or_left_never_gets_the_answer(what: Input) -> None:
    """What its row does not end, its findings do: nothing is left that delivers."""
    for state in LIVE:
        row = TABLE[state][what]
        assert row.action is not Action.DELIVER
        ends = [TABLE[row.next][found].next for found in FINDINGS[row.action]] if row.next is state else [row.next]
        assert set(ends) <= {State.DRAINING, State.DONE}, state.name


def test_from_every_state_the_end_is_reached_and_every_state_is_reached() -> None:
    seen, todo = set(), [State.CONNECTING]
    while todo:
        state = todo.pop()
        if state not in seen:
            seen.add(state)
            assert State.DONE in reachable(state, Input.STOP)
            todo += [after for what in OUTSIDE for after in reachable(state, what)]
    assert seen == set(State)


def test_a_fault_has_a_name() -> None:
    fault = UnexpectedInput(State.COMPLETE, Input.PIECE)
    assert str(fault) == "An attempt that is COMPLETE was given PIECE."
    assert (fault.state, fault.input) == (State.COMPLETE, Input.PIECE)
