"""Whether a process is ready: every part says for itself what is wrong, and takes back nothing but its own."""

from streamweir.server.control.readiness import Readiness


def test_it_is_ready_until_a_part_says_otherwise_and_when_it_takes_that_back() -> None:
    readiness = Readiness()
    assert (readiness.is_ready, readiness.document()) == (True, {"status": "ok"})
    readiness.set("b", "b is broken")
    readiness.set("a", "a is broken")
    assert not readiness.is_ready
    assert readiness.document() == {"status": "failing", "reasons": ["a is broken", "b is broken"]}
    readiness.set("a", None)
    readiness.set("c", None)
    assert readiness.document() == {"status": "failing", "reasons": ["b is broken"]}
    readiness.set("b", None)
    assert (readiness.is_ready, readiness.document()) == (True, {"status": "ok"})


def test_draining_goes_before_what_is_wrong_and_both_are_said() -> None:
    readiness = Readiness()
    readiness.is_draining = True
    assert (readiness.is_ready, readiness.document()) == (False, {"status": "draining"})
    readiness.set("a", "a is broken")
    assert readiness.document() == {"status": "draining", "reasons": ["a is broken"]}
