"""The rules for Prometheus, as Prometheus itself reads them where it is installed, and what each alert says."""

import re
import subprocess

import pytest

from support.deploy_files import DEPLOY, RULES, TESTS, alerts
from support.prometheus import promtool, why_absent

PAGE = (DEPLOY.parent / "docs" / "monitoring.md").read_text()
HEADINGS = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)
needs_promtool = pytest.mark.skipif(why_absent() is not None, reason=why_absent() or "")


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_to_do_and_where_to_read_on(rule: dict[str, dict[str, str]]) -> None:
    name, told = str(rule["alert"]), rule["annotations"]
    assert rule["labels"] == {"severity": rule["labels"]["severity"]}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert told.keys() == {"summary", "description", "runbook_url"}
    assert told["runbook_url"] == f"docs/monitoring.md#{name.lower()}"
    assert name in HEADINGS
    assert f'alertname="{name}"' in TESTS.read_text(), "no test expects it"


def test_every_section_is_of_an_alert() -> None:
    names = {rule["alert"] for rule in alerts()}
    assert [heading for heading in HEADINGS if heading.startswith("Streamweir") and heading not in names] == []


def run(*command: str) -> tuple[int, str]:
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (of this test)
    return found.returncode, found.stdout + found.stderr


@needs_promtool
@pytest.mark.parametrize("arguments", [("check", "rules", str(RULES)), ("test", "rules", str(TESTS))])
def test_prometheus_takes_the_rules_and_their_tests_succeed(arguments: tuple[str, ...]) -> None:
    status, told = run(promtool(), *arguments)
    assert status == 0, told


@needs_promtool
def test_prometheus_takes_its_configuration() -> None:
    file = DEPLOY / "prometheus" / "prometheus.yaml"
    status, told = run(promtool(), "check", "config", "--syntax-only", str(file))
    assert status == 0, told
