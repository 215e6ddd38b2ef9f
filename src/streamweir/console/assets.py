"""The built page as files: which there are, and their bytes, plain or compressed.

The list is made once, and what is not in it is not there: no text of a caller's ever becomes a part of
a path. A file is read when it is first asked for, and kept compressed alone; who takes no compression
gets it from the disk. HTTP is not known here, beyond the types that a browser wants to be told.
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
"""A file of another kind is no part of the page."""
_PACKED = frozenset({".png", ".webp", ".woff2"})
"""Compressed in themselves."""
_GZIP = 31
"""The window of zlib that means the format of gzip."""


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
        """It was built."""
        return PAGE in self._files

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def load(self, name: str, *, gzip: bool) -> Asset:
        """One of the list, by its name in the folder: `assets/index-C0ffee.js`. Raises `OSError` where it has gone."""
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
