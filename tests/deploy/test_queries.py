"""Every query of the rules and the dashboards: it is PromQL, and asks for metrics, labels and values that there are."""

import re
from typing import get_args

import pytest

from streamweir.core.errors import CODES
from streamweir.core.verdict import Verdict
from streamweir.policy.routing.router import TargetState
from streamweir.server.control.api.login_counts import LoginOutcome
from streamweir.server.streams.frames import GivenUp
from streamweir.server.telemetry.metrics import FIRST_TOKEN_S, TOKEN_KINDS
from support.all_metrics import every_metric
from support.deploy_files import alerts, dashboards, panel_queries, panels, rules
from support.promql import Query, read_query

EXPRESSIONS = panel_queries() | {rule.get("alert") or rule["record"]: rule["expr"] for rule in rules()}
OF_PROMETHEUS = {"up": set[str]()}
ADDED = {"job", "instance"}
"""By Prometheus, to everything."""
VALUES = {
    "verdict": {each.value for each in Verdict},
    "state": {*get_args(TargetState), "in_use", "idle"},
    "kind": set(TOKEN_KINDS),
    "code": set(CODES),
    "le": {str(bound) for bound in FIRST_TOKEN_S},
    "source": {"provider"},
    "outcome": {"ok", "given_up", *LoginOutcome},
    "reason": {*GivenUp},
    "job": {"streamweir", ".*"},
    "instance": {".*"},
    "model": {".*"},
    "target": {".*"},
}
SUFFIX = re.compile(r"_(total|bucket|count|sum)$")
NOT_WATCHED = {
    "streamweir_requests_admitted",
}
"""Metrics that are for other questions."""


def labels_of(metric: str) -> set[str]:
    """Of a metric that there is. KeyError: there is none."""
    if metric in OF_PROMETHEUS:
        return ADDED
    if metric.startswith("streamweir:"):
        rule = next(rule for rule in rules() if rule.get("record") == metric)
        return set(read_query(rule["expr"]).labels)
    kind, labels = every_metric().get(metric) or every_metric()[SUFFIX.sub("", metric)]
    if kind == "counter":
        assert metric.endswith("_total"), f"{metric} is a counter: its name ends with _total"
    if kind == "histogram":
        assert metric.endswith(("_bucket", "_count", "_sum")), f"{metric} is a histogram"
    return {*labels, *ADDED, "le"} if kind == "histogram" else {*labels, *ADDED}


def problems_of(query: Query) -> list[str]:
    found, known = [], {"le"}
    for metric, values in query.selectors:
        try:
            labels = labels_of(metric)
        except (KeyError, StopIteration):
            found.append(f"there is no metric {metric}")
            continue
        known |= labels
        found += [f"{metric} has no label {label}" for label in values if label not in labels]
        for label, named in values.items():
            found += [f"{label} is never {value!r}" for value in named if value not in VALUES[label] | {""}]
    return found + [f"no metric of it has the label {label}" for label in sorted(query.labels - known)]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_query_asks_for_what_there_is(name: str) -> None:
    assert problems_of(read_query(EXPRESSIONS[name])) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sum(streamweir_open_stream)", "there is no metric streamweir_open_stream"),
        ('streamweir_open_streams{model="m"}', "streamweir_open_streams has no label model"),
        ("sum by (model) (streamweir_open_streams)", "no metric of it has the label model"),
        ('rate(streamweir_requests_total{verdict="complete"}[5m])', "verdict is never 'complete'"),
        ("streamweir_faults_total / on (task) streamweir_open_streams", "no metric of it has the label task"),
    ],
)
def test_a_mistake_in_a_query_is_found(text: str, problem: str) -> None:
    assert problem in problems_of(read_query(text))


@pytest.mark.parametrize("text", ["sum by (job (up)", "rate(up)", "up{job=}", "sum_by(up)"])
def test_what_is_not_promql_is_found(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_query(text)


def test_every_metric_is_on_a_dashboard_or_in_a_rule() -> None:
    asked = {SUFFIX.sub("", each.metric) for text in EXPRESSIONS.values() for each in read_query(text).selectors}
    asked |= {each.metric for text in EXPRESSIONS.values() for each in read_query(text).selectors}
    ours = {name for name in every_metric() if name.startswith("streamweir_")}
    assert sorted(ours - asked - NOT_WATCHED) == []


@pytest.mark.parametrize("name", dashboards())
def test_a_dashboard_is_whole(name: str) -> None:
    dashboard = dashboards()[name]
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    cells = [
        (panel["gridPos"]["x"] + across, panel["gridPos"]["y"] + down)
        for panel in dashboard["panels"]
        for across in range(panel["gridPos"]["w"])
        for down in range(panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells), "no panel lies over another"
    assert all(0 <= x < 24 for x, _ in cells)
    variables = [each["name"] for each in dashboard["templating"]["list"]]
    assert variables == ["datasource", "job", "instance", "model", "target"]
    for panel in panels(dashboard):
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            named = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval", "__range"}
            assert named <= set(variables)
            assert "job" in named, "a panel shows the job that was chosen"
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"] or ""))
            known = read_query(EXPRESSIONS[f"{name} / {panel['title']} / {target['refId']}"])
            assert shown <= {label for each in known.selectors for label in labels_of(each.metric)}


def test_alerts_of_the_selected_job_need_its_name() -> None:
    """Two rules have the job by name: the page says so."""
    named = [rule["alert"] for rule in alerts() if 'job="streamweir"' in rule["expr"]]
    assert named == ["StreamweirDown", "StreamweirAbsent"]
