"""The settings of Sphinx for `make docs`. scripts/site.py writes the pages that it reads.

The site loads nothing from other hosts: the theme has the system's fonts, and the search is an index beside the pages.
"""

import re
from pathlib import Path

_PACKAGE = Path(__file__).parents[1] / "src" / "streamweir" / "__init__.py"

project = "Streamweir"
release = re.findall(r'^__version__ = "(.*)"$', _PACKAGE.read_text(), re.MULTILINE)[0]
root_doc = "index"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
"""Headings down to this level have the anchors that GitHub gives them."""
suppress_warnings = ["misc.highlighting_failure"]
"""Examples of JSON leave parts out: `...`."""

html_theme = "furo"
html_title = f"Streamweir {release}"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_static_path: list[str] = []
