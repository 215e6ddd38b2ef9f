"""What axe has against a page that is open: a line for each thing that is in somebody's way.

axe is among the packages of the page's sources, and is put into the page as it stands.
"""

from collections.abc import Sequence
from typing import Any

from playwright.sync_api import Page

from support.web import PACKAGES

_AXE = PACKAGES / "axe-core" / "axe.min.js"
_COUNTED = frozenset({"serious", "critical"})


COLOURS = ("color-contrast", "link-in-text-block")
"""The rules that colours alone decide."""


def obstacles(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """Serious ones and worse, by these rules or by all."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(f"{_AXE.read_text()}; 0")
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = list(rules)
    found = page.evaluate("(options) => axe.run(document, options)", options)
    return [
        f"{each['impact']} {each['id']}: {node['target']} {node['html'][:120]} ({node['failureSummary']})"
        for each in found["violations"]
        if each["impact"] in _COUNTED
        for node in each["nodes"]
    ]
