"""Every rule over an endpoint finds the defect that it is there for, on a real socket, and no other rule does."""

import re

import pytest

from streamweir.conformance.endpoint.table import RULES
from streamweir.conformance.probe_session import ProbeSession
from streamweir.conformance.rule import Rule
from streamweir.conformance.rules.table import RULES as ANSWER_RULES
from streamweir.frontends.chat.dialect import Dialect
from streamweir.frontends.chat.table import DIALECTS
from support.broken_endpoint import KEY, MODEL, BrokenEndpoint
from support.conformance_check import assert_conforms, checked, found, held
from support.dialect_rules import DIALECTS as FORMS
from support.dialect_rules import Rules
from support.endpoint_defects import CASES, PAUSE_S, Case
from support.soak import part_of

CLOCKED = {"delivery.as-made"}
"""Rules about when frames arrive: a busy machine may break one, which says nothing about the others."""


@pytest.mark.parametrize("rules", FORMS, ids=lambda rules: rules.name)
async def test_a_right_endpoint_breaks_no_rule(rules: Rules) -> None:
    async with BrokenEndpoint(rules, pause_s=PAUSE_S) as endpoint:
        report = await checked(endpoint.base_url, rules.name, MODEL, KEY)
    assert_conforms(report)
    skips = {"cancel.frees-the-model"} | ({"buffered.usage"} if rules.is_bitseek else set())
    dialect = DIALECTS[rules.name]
    assert {rule.id for rule in RULES if rule.applies_to(dialect)} - held(report) <= skips


@pytest.mark.parametrize("case", part_of(CASES, 2), ids=lambda case: case.rule)
async def test_a_defect_is_found_by_its_rule(case: Case) -> None:
    async with BrokenEndpoint(case.rules, case.make(), pause_s=case.pause_s) as endpoint:
        report = await checked(endpoint.base_url, case.rules.name, MODEL, KEY)
    expected = {case.rule, *case.also}
    assert set(found(report)) - (CLOCKED - expected) == expected, found(report)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_defect(rule: Rule[ProbeSession, Dialect]) -> None:
    assert rule.id in {case.rule for case in CASES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_has_all_its_texts(rule: Rule[ProbeSession, Dialect]) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z0-9-]+", rule.id)
    assert rule.title
    assert rule.text.endswith(".")
    assert rule.why.endswith(".")
    assert re.search(r"\.md|-streaming-|bitseek-sse|RFC|WHATWG", rule.source)
    assert any(rule.applies_to(dialect) for dialect in DIALECTS.values())


def test_rules_have_names_of_their_own() -> None:
    ids = [*(rule.id for rule in ANSWER_RULES), *(rule.id for rule in RULES)]
    assert len(ids) == len(set(ids))
