"""The operator's changes to a body: dropped, filled in, always set, in this order, and nothing else moves."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamweir.pipeline.body_rules import BodyRules, apply_rules, merged, rules_of, without


def changed(body: dict[str, Any], drop: tuple[str, ...] = (), **tables: dict[str, Any]) -> dict[str, Any]:
    rules = rules_of(drop, tables.get("defaults", {}), tables.get("override", {}))
    assert rules is not None
    result: dict[str, Any] = json.loads(apply_rules(json.dumps(body).encode(), rules)[0])
    return result


BODY = {"model": "m", "messages": [{"role": "user"}], "temperature": 0.5, "thinking": {"type": "enabled", "x": 1}}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"defaults": {"temperature": 1, "top_p": 0.9}}, {**BODY, "top_p": 0.9}),
        ({"override": {"temperature": 1, "top_p": 0.9}}, {**BODY, "temperature": 1, "top_p": 0.9}),
        (
            {"defaults": {"thinking": {"type": "off", "y": 2}}},
            {**BODY, "thinking": {"type": "enabled", "x": 1, "y": 2}},
        ),
        ({"override": {"thinking": {"type": "off"}}}, {**BODY, "thinking": {"type": "off", "x": 1}}),
        ({"override": {"thinking": "off"}}, {**BODY, "thinking": "off"}),
        ({"override": {"temperature": {"a": 1}}}, {**BODY, "temperature": {"a": 1}}),
        ({"defaults": {"temperature": {"a": 1}}}, BODY),
        ({"drop": ("thinking.x", "absent", "model.y")}, {**BODY, "thinking": {"type": "enabled"}}),
        ({"drop": ("thinking",)}, {name: BODY[name] for name in BODY if name != "thinking"}),
        ({"drop": ("temperature",), "defaults": {"temperature": 0}}, {**BODY, "temperature": 0}),
        ({"defaults": {"a": 1}, "override": {"a": 2}}, {**BODY, "a": 2}),
    ],
)
def test_what_each_rule_changes(rules: Any, expected: dict[str, Any]) -> None:
    assert changed(BODY, **rules) == expected


def test_a_null_is_filled_in() -> None:
    assert changed({"a": None}, defaults={"a": 1}) == {"a": 1}


def test_the_members_keep_their_order_and_new_ones_are_last() -> None:
    body = {"z": 1, "messages": [], "a": {"y": 1, "b": 2}, "tools": []}
    result = changed(body, override={"a": {"b": 3, "c": 4}, "z": 0}, defaults={"k": 1})
    assert (list(result), list(result["a"])) == (["z", "messages", "a", "tools", "k"], ["y", "b", "c"])


def test_what_is_not_named_stays_to_the_byte() -> None:
    body = b'{"a":"\\u00e9","b":[1.0,1e2,-0.0,12345678901234567890],"c":{"d":null}}'
    rules = rules_of((), {"e": 1}, {})
    assert rules is not None
    assert json.loads(apply_rules(body, rules)[0]) == {**json.loads(body), "e": 1}


def test_nothing_to_change_is_no_rule() -> None:
    assert rules_of((), {}, {}) is None


def test_what_was_dropped_is_reported() -> None:
    rules = BodyRules(drop=(("a",), ("b", "c"), ("d",)))
    assert apply_rules(b'{"a":1,"b":{"c":2}}', rules) == (b'{"b":{}}', [("a",), ("b", "c")])


def test_a_body_that_is_no_object_is_left_alone() -> None:
    assert apply_rules(b"[1]", BodyRules(override={"a": 1})) == (b"[1]", [])


def test_limits_of_the_answer_are_kept_apart_from_other_members() -> None:
    rules = rules_of(
        (),
        {"max_tokens": 500, "temperature": 1},
        {"generationConfig": {"maxOutputTokens": 900, "topK": 3}, "max_tokens": 800},
    )
    assert rules is not None
    assert (rules.defaults, rules.override) == ({"temperature": 1}, {"generationConfig": {"topK": 3}})
    assert (rules.default_limit, rules.max_limit) == (500, 800)
    assert [rules.limit_for(sent) for sent in (None, 10, 10_000)] == [500, 800, 800]
    alone = rules_of((), {"generationConfig": {"maxOutputTokens": 9}}, {})
    assert alone == BodyRules(default_limit=9)
    assert (alone.limit_for(None), alone.limit_for(3)) == (9, None)


def test_a_thinking_budget_stays_within_the_limit_of_the_answer() -> None:
    """Anthropic refuses a budget that is not below it."""
    body = {"max_tokens": 4000}
    budget = {"thinking": {"type": "enabled", "budget_tokens": 10_000}}
    assert changed(body, defaults=budget) == {**body, "thinking": {"type": "enabled", "budget_tokens": 3200}}
    assert changed({"max_tokens": 100}, override=budget) == {"max_tokens": 100}
    converse = {"inferenceConfig": {"maxTokens": 4000}}
    fields = changed(converse, override={"additionalModelRequestFields": budget})["additionalModelRequestFields"]
    assert fields["thinking"]["budget_tokens"] == 3200


def test_rules_for_counting_have_only_what_a_count_can_have() -> None:
    rules = BodyRules(drop=(("a",),), defaults={"temperature": 1, "thinking": {}}, override={"top_k": 1}, max_limit=3)
    assert rules.for_counting == BodyRules(drop=(("a",),), defaults={"thinking": {}})


tables = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), st.one_of(st.integers(0, 3), inner), max_size=3),
    max_leaves=6,
)


@given(tables, tables)
def test_merged_has_all_of_the_second_and_changes_neither(first: dict[str, Any], second: dict[str, Any]) -> None:
    before = json.dumps([first, second])
    result = merged(first, second)
    assert json.dumps([first, second]) == before
    assert merged(result, second) == result
    assert [*result][: len(first)] == [*first]
    assert without(result, [(name,) for name in second]) == {k: v for k, v in first.items() if k not in second}


@given(tables, tables, tables)
@example({"a": 0}, {"a": {"a": 0}}, {"a": {}})
@example({"a": {"a": 1}}, {"a": {"a": {"b": 0}}}, {"a": {"a": {}}})
def test_applying_twice_is_applying_once(body: dict[str, Any], defaults: dict[str, Any], override: Any) -> None:
    rules = BodyRules(defaults=defaults, override=override)
    once, _ = apply_rules(json.dumps(body).encode(), rules)
    assert apply_rules(once, rules)[0] == once
