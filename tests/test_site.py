"""The documentation site: every page is in its navigation, links lead to what is on it, and what is built is checked.

`make docs` builds it; these tests do not.
"""

import re
from pathlib import Path

import pytest
from scripts import site, site_check

ROOT = Path(__file__).parents[1]
SECTIONS = site.navigation(site.NAVIGATION.read_text())
PAGES = [page for section in SECTIONS for page in section.pages]
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FILES = site.published(SECTIONS)
UP = "../"


def anchors(path: Path) -> set[str]:
    """Of the headings, as GitHub and the site make them."""
    found: dict[str, int] = {}
    made = set()
    for line, is_prose in site._lines(path.read_text()):
        if is_prose and (heading := re.fullmatch(r"#{1,6} (.*)\n?", line)):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            made.add(f"{slug}-{found[slug]}" if slug in found else slug)
            found[slug] = found.get(slug, 0) + 1
    return made


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_anchors_of_links_exist(path: Path) -> None:
    missing = []
    for line, is_prose in site._lines(path.read_text()):
        for link in LINK.finditer(line) if is_prose else ():
            target = path.parent / link["path"] if link["path"] else path
            if link["anchor"] and target.suffix == ".md" and link["anchor"] not in anchors(target):
                missing.append(link[0])
    assert missing == []


def test_the_navigation_lists_every_page_once() -> None:
    top = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    folders = {f"docs/{path.parent.name}/{site.FIRST}" for path in (ROOT / "docs").glob("*/*.md")}
    assert top | folders <= set(PAGES), "add the page to docs/navigation.toml"
    assert [page for page in PAGES if not (ROOT / page).exists()] == []
    assert len(PAGES) == len(set(PAGES))


def test_every_page_is_reached_from_the_first() -> None:
    made = site.site(SECTIONS)
    listed = set()
    for place, text in made.items():
        folder = f"{Path(place).parent.as_posix()}/".removeprefix("./")
        for block in re.findall(r"^```\{toctree\}\n.*?\n\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL):
            listed |= {f"{folder}{entry.rpartition('<')[2].rstrip('>')}.md" for entry in block.splitlines()}
    assert listed == made.keys() - {site.START}


@pytest.mark.parametrize(
    ("name", "text", "made"),
    [
        ("README.md", "See [it](docs/api.md#x).", f"See [it]({FILES['docs/api.md']}#x)."),
        ("docs/api.md", f"See [it]({UP}README.md).", f"See [it]({site.START})."),
        ("docs/api.md", "[x](spec/) and [x](spec).", f"[x](spec/{site.FIRST}) and [x](spec/{site.FIRST})."),
        (
            f"docs/spec/{site.FIRST}",
            f"[x]({UP}api.md), [y]({UP}{UP}SECURITY.md).",
            f"[x]({UP}api.md), [y]({UP}SECURITY.md).",
        ),
        ("docs/api.md", "![x](console/overview-light.png)", "![x](console/overview-light.png)"),
        ("docs/api.md", "See [`code`](../src/x.py#L3).", "See `code`."),
        ("docs/api.md", "[here](#x), [there](https://x.com/x).", "[here](#x), [there](https://x.com/x)."),
        ("docs/api.md", "```sh\n[a](../src/x.py)\n```\n[a](../src/x.py)\n", "```sh\n[a](../src/x.py)\n```\na\n"),
    ],
)
def test_links_of_a_page(name: str, text: str, made: str) -> None:
    assert site.page(text, name, FILES) == made


FOREIGN = [
    '<script src="https://example.com/x.js"></script>',
    '<link rel="stylesheet" href="//example.com/x.css">',
    '<img src="http://example.com/x.png">',
    '<img srcset="x.png 1x, https://example.com/x.png 2x">',
    '<p style="background: url(https://example.com/x.png)">',
]


@pytest.mark.parametrize("text", FOREIGN)
def test_a_page_that_loads_from_another_host_is_a_fault(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.png").touch()
    (tmp_path / "index.html").write_text(text)
    (fault,) = site_check.faults(tmp_path)
    assert fault.startswith("index.html loads ")


@pytest.mark.parametrize("text", ['@import "https://example.com/x.css";', "p { src: url('//example.com/x.woff2') }"])
def test_a_style_that_loads_from_another_host_is_a_fault(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.css").write_text(text)
    (fault,) = site_check.faults(tmp_path)
    assert fault.startswith("x.css loads ")


def test_links_within_a_site_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.html").write_text('<h1 id="there">b</h1> <a href="../index.html#here">')
    (tmp_path / "index.html").write_text(
        '<p id="here"><a href="#here"><a href="a/b.html#there"><a href="https://example.com">'
        '<a href="a/b.html#gone"><a href="c.html"><a href="#gone"><link rel="next" href="gone.html">'
    )
    assert list(site_check.faults(tmp_path)) == [
        "index.html: a/b.html#gone has no such place",
        "index.html: c.html leads nowhere",
        "index.html: #gone has no such place",
    ]
