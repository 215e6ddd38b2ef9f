"""The rules for Prometheus and the dashboards for Grafana that are in `deploy`, as a test reads them."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yaml"
TESTS = DEPLOY / "prometheus" / "alerts_test.yaml"
VARIABLES = {
    "$__rate_interval": "1h",
    "$__range": "1h",
    "$datasource": "prometheus",
    "$job": ".*",
    "$instance": ".*",
    "$model": ".*",
    "$target": ".*",
}


@cache
def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


@cache
def dashboards() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted((DEPLOY / "grafana").glob("*.json"))}


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Without the headings of rows."""
    yield from (panel for panel in dashboard["panels"] if panel["type"] != "row")


def panel_queries() -> dict[str, str]:
    """By dashboard, panel and letter: as Grafana would send it, with everything chosen."""
    found = {}
    for name, dashboard in dashboards().items():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                found[f"{name} / {panel['title']} / {target['refId']}"] = with_values(target["expr"])
    return found


def with_values(expression: str) -> str:
    for name in sorted(VARIABLES, key=len, reverse=True):
        expression = expression.replace(name, VARIABLES[name])
    return expression
