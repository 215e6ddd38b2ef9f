"""The files of the built page: their names, and their bytes, plain or compressed.

The list is made once, and only files in it are served: no text of a caller ever becomes part of a path. A file is read
on first use, and only its compressed form is kept; a client without compression gets it from the disk. Only the media
types belong to HTTP here.
"""

import zlib
from pathlib import Path

from msgspec import Struct

STATIC = Path(__file__).parent / "static"
PAGE = "index.html"

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
"""Files of other types are not part of the page."""
_PACKED = frozenset({".png", ".webp", ".woff2"})
"""Formats that are compressed already."""
_GZIP = 31
"""The window size of zlib that selects the gzip format."""


class Asset(Struct, frozen=True, kw_only=True):
    content_type: str
    body: bytes
    is_gzip: bool


class Assets:
    def __init__(self, folder: Path = STATIC) -> None:
        self._files = {name: path for name, path in _files_in(folder) if path.suffix in _TYPES}
        self._compressed: dict[str, bytes] = {}

    @property
    def has_page(self) -> bool:
        """The page was built."""
        return PAGE in self._files

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def load(self, name: str, *, gzip: bool) -> Asset:
        """A file of the list, by its name in the folder: `assets/index-C0ffee.js`. Raises `OSError` if it was
        removed."""
        path = self._files[name]
        content_type = _TYPES[path.suffix]
        if not gzip or path.suffix in _PACKED:
            return Asset(content_type=content_type, body=path.read_bytes(), is_gzip=False)
        body = self._compressed.get(name)
        if body is None:
            body = self._compressed[name] = zlib.compress(path.read_bytes(), 9, wbits=_GZIP)
        return Asset(content_type=content_type, body=body, is_gzip=True)


def _files_in(folder: Path) -> list[tuple[str, Path]]:
    return [(path.relative_to(folder).as_posix(), path) for path in sorted(folder.rglob("*")) if path.is_file()]
