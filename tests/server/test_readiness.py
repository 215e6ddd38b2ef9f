"""Whether a process is ready: every part says for itself what is wrong, and takes back nothing but its own."""

from streamweir.server.control.readiness import Readiness


def test_it_is_ready_unless_a_part_has_set_a_reason() -> None:
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


def test_draining_comes_before_other_reasons_and_both_are_reported() -> None:
    readiness = Readiness()
    readiness.is_draining = True
    assert (readiness.is_ready, readiness.document()) == (False, {"status": "draining"})
    readiness.set("a", "a is broken")
    assert readiness.document() == {"status": "draining", "reasons": ["a is broken"]}
