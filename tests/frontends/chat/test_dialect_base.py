"""Ids: each dialect's form, made of what is handed in and of nothing else."""

import re

import pytest

from streamweir.core.events import StreamStarted
from streamweir.frontends.base import Reply
from streamweir.frontends.chat.dialect import IdFormat, call_id, identity_of
from streamweir.frontends.chat.table import DIALECTS
from support.dialect_rules import DIALECTS as RULES
from support.dialect_rules import Rules


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)
def test_form(rules: Rules) -> None:
    form = DIALECTS[rules.name].id_format
    made = {form.make(bytes([number]) * 24) for number in range(100)}
    assert len(made) == 100
    assert all(rules.id_format.fullmatch(id) for id in (*made, rules.made_id()))
    assert form.make(b"x" * 24) == form.make(b"x" * 24)


def test_an_upstreams_id_is_kept_only_in_its_own_form() -> None:
    assert IdFormat.CHATCMPL.accepts("chatcmpl-1000000000000001")
    assert not IdFormat.CHATCMPL.accepts("gen-1000000000000000001")
    assert not IdFormat.CHATCMPL.accepts(None)
    assert not IdFormat.ILBS.accepts("chatcmpl-1000000000000001")


@pytest.mark.parametrize("tail", ["", "7", "764", "x" * 15])
def test_q43_an_upstreams_id_that_is_not_unique_is_not_kept(tail: str) -> None:
    assert not IdFormat.CHATCMPL.accepts(f"chatcmpl-{tail}")
    assert IdFormat.CHATCMPL.accepts(f"chatcmpl-{tail}" + "x" * 16)


def test_generated_call_ids_are_distinct() -> None:
    ids = {call_id(completion, choice, call) for completion in "ab" for choice in (0, 1) for call in (0, 1)}
    assert len(ids) == 8
    assert all(re.fullmatch(r"call_[A-Za-z0-9]{24}", id) for id in ids)


def test_an_id_is_made_if_none_is_given_and_the_upstreams_is_not_valid() -> None:
    dialect, entropy = DIALECTS["openai"], b"x" * 24
    bare = Reply(entropy=entropy, now=lambda: 7)
    assert identity_of(StreamStarted(id="chatcmpl-1000000000000001"), dialect, bare).id == "chatcmpl-1000000000000001"
    assert identity_of(StreamStarted(id="gen-1"), dialect, bare).id == dialect.id_format.make(entropy)
    named = Reply(id="chatcmpl-ours", entropy=entropy, now=lambda: 7)
    assert identity_of(StreamStarted(id=None), dialect, named).id == "chatcmpl-ours"
