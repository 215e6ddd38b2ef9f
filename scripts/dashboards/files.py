"""The dashboards that there are, and what their files should be."""

from scripts.dashboards.grafana import to_json
from scripts.dashboards.internals import INTERNALS
from scripts.dashboards.money import MONEY
from scripts.dashboards.overview import OVERVIEW
from scripts.dashboards.providers import PROVIDERS

FOLDER = "deploy/grafana"
DASHBOARDS = (OVERVIEW, MONEY, PROVIDERS, INTERNALS)


def files() -> dict[str, str]:
    return {f"{FOLDER}/{each.name}.json": to_json(each) for each in DASHBOARDS}
