"""Checks the built documentation site: `make docs`.

    python -m scripts.site_check FOLDER

After Sphinx, which has failed on links of a source that lead nowhere. The one rule: a reader without a network sees
everything. No page or style sheet loads anything from another host, and every link within the site leads to a file, and
to an anchor that is there.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "use": ("href",),
}
"""The attributes that make a browser load something. Of a link it is `href`, unless it is only said where it leads."""
_NOT_LOADED = {"canonical", "next", "prev", "index", "search", "author", "license"}
_STYLE_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


@dataclass
class _Page(HTMLParser):
    loads: list[str] = field(default_factory=list)
    leads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.leads.append(found["href"])
        elif tag == "link" and "href" in found and not _NOT_LOADED & set(found.get("rel", "").split()):
            self.loads.append(found["href"])
        for name in _LOADED.get(tag, ()):
            for entry in found.get(name, "").split(","):
                self.loads += entry.split()[:1]
        self.loads += _loaded_by_style(found.get("style", ""))


def _loaded_by_style(text: str) -> list[str]:
    return [first or second for first, second in _STYLE_URL.findall(text)]


def _is_elsewhere(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text())
    return page


def faults(site: Path) -> Iterator[str]:
    """What is wrong with the site, one line for each fault."""
    read = cache(_read)
    for path in sorted(site.rglob("*.css")):
        yield from (f"{path.relative_to(site)} loads {each}" for each in _foreign(_loaded_by_style(path.read_text())))
    for path in sorted(site.rglob("*.html")):
        page, name = read(path), path.relative_to(site)
        yield from (f"{name} loads {each}" for each in _foreign(page.loads))
        for address in [*page.loads, *page.leads]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = path.parent / unquote(parts.path) if parts.path else path
            if not target.is_file():
                yield f"{name}: {address} leads nowhere"
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in read(target).anchors:
                yield f"{name}: {address} has no such place"


def _foreign(addresses: list[str]) -> list[str]:
    return [address for address in addresses if _is_elsewhere(address)]


def main() -> None:
    site = Path(sys.argv[1])
    found = list(faults(site))
    if found:
        sys.exit("\n".join(found))
    sys.stdout.write(f"The site is in {site}: open {site}/index.html, or run python3 -m http.server -d {site}\n")


if __name__ == "__main__":
    main()
