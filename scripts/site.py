"""Writes the pages of the documentation site, from which Sphinx makes HTML: `make docs`.

    python -m scripts.site FOLDER

Before this: docs/, and the Markdown files beside it. The one rule: a link to another page or picture leads there on
the site, too, and a link to a file that is not on the site (a source) becomes its text. README.md becomes the first
page, with the navigation of docs/navigation.toml.
"""

import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NAVIGATION = DOCS / "navigation.toml"
FIRST = "README.md"
"""The file of the repository that is the first page, and in a folder that of the folder."""
START = "index.md"
"""The first page on the site: `root_doc` of docs/conf.py."""
_LINK = re.compile(r"(?P<before>!?\[(?P<text>[^\]]*)\]\()(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```|~~~)")
_OTHER_HOST = re.compile(r"[a-z]+:")


@dataclass(frozen=True)
class Section:
    title: str
    pages: dict[str, str]
    """Path in the repository: what the sidebar calls it; empty for the page's own title."""


def navigation(text: str) -> list[Section]:
    read = tomllib.loads(text)
    names: dict[str, str] = read["names"]
    return [
        Section(section["title"], {page: names.get(page, "") for page in section["pages"]})
        for section in read["sections"]
    ]


def published(sections: list[Section]) -> dict[str, str]:
    """Path in the repository: path on the site. All pages, and the other files of docs/ that pages show or offer."""
    pages = [page for section in sections for page in section.pages]
    files = {FIRST: START} | {page: PurePosixPath(page).name for page in pages if not page.startswith("docs/")}
    for file in sorted(DOCS.rglob("*")):
        name = file.relative_to(ROOT).as_posix()
        if file.is_file() and file not in (NAVIGATION, DOCS / "conf.py") and "__pycache__" not in file.parts:
            files[name] = name.removeprefix("docs/")
    return files


def page(text: str, name: str, files: dict[str, str]) -> str:
    """The page of the file `name`, with its links as they are on the site."""

    def link(found: re.Match[str]) -> str:
        path, anchor = found["path"], found["anchor"] or ""
        if _OTHER_HOST.match(path):
            return found[0]
        target = normpath(f"{PurePosixPath(name).parent}/{path}")
        if f"{target}/{FIRST}" in files:
            target += f"/{FIRST}"
        if target not in files:
            return found["text"]
        here = PurePosixPath(files[name]).parent.as_posix()
        return f"{found['before']}{relpath(files[target], here)}{anchor})"

    return "".join(_LINK.sub(link, line) if is_prose else line for line, is_prose in _lines(text))


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is outside of code."""
    fence = ""
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line)
        if found and not fence:
            fence = found[1]
            yield line, False
        elif fence:
            if line.startswith(fence):
                fence = ""
            yield line, False
        else:
            yield line, True


def contents(pages: dict[str, str], *, title: str = "") -> str:
    """A list of pages for the sidebar: paths, and what it calls them."""
    caption = f":caption: {title}\n" if title else ""
    places = {page.removesuffix(".md"): name for page, name in pages.items()}
    entries = [f"{name} <{place}>" if name else place for place, name in places.items()]
    return "\n".join(["", "```{toctree}", f":hidden:\n{caption}", *entries, "```", ""])


def _below(name: str, files: dict[str, str]) -> dict[str, str]:
    """The other pages in the folder of a README.md, as it names them."""
    folder = PurePosixPath(name).parent
    return {
        PurePosixPath(path).name: ""
        for path in files
        if PurePosixPath(path).parent == folder and path.endswith(".md") and path != name
    }


def site(sections: list[Section]) -> dict[str, str]:
    """Every page: its path on the site, and its text."""
    files = published(sections)
    pages = {}
    for name, place in files.items():
        if not name.endswith(".md"):
            continue
        text = page((ROOT / name).read_text(), name, files)
        if name == FIRST:
            text += "".join(
                contents({files[page]: name for page, name in section.pages.items()}, title=section.title)
                for section in sections
            )
        elif name.endswith(f"/{FIRST}"):
            text += contents(_below(name, files))
        pages[place] = text
    return pages


def write(target: Path) -> None:
    sections = navigation(NAVIGATION.read_text())
    shutil.rmtree(target, ignore_errors=True)
    for name, place in published(sections).items():
        if not name.endswith(".md"):
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / place)
    for place, text in site(sections).items():
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        (target / place).write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
