"""The files of the built page: which are served, and how."""

import gzip
from pathlib import Path

import pytest

from streamweir.console.assets import STATIC, Assets

SCRIPT = b"console.log('weir');\n" * 200


def built(folder: Path) -> Path:
    (folder / "assets").mkdir()
    (folder / "index.html").write_text("<!doctype html>")
    (folder / "assets" / "index-C0ffee.js").write_bytes(SCRIPT)
    (folder / "assets" / "index-C0ffee.js.map").write_text("{}")
    (folder / "assets" / "mark-1.woff2").write_bytes(b"\0" * 500)
    (folder / "icon.svg").write_text("<svg/>")
    (folder / ".env").write_text("SECRET=1")
    return folder


def test_what_is_of_the_page_is_listed(tmp_path: Path) -> None:
    (tmp_path / "above.js").write_text("no part of it")
    folder = tmp_path / "static"
    folder.mkdir()
    assets = Assets(built(folder))
    assert assets.has_page
    for name in ("index.html", "icon.svg", "assets/index-C0ffee.js", "assets/mark-1.woff2"):
        assert name in assets
    for name in (
        "assets/index-C0ffee.js.map",
        ".env",
        "assets",
        "assets/",
        "",
        "/index.html",
        "./index.html",
        "../above.js",
        "assets/../index.html",
        "assets//index-C0ffee.js",
        "INDEX.HTML",
        str(folder / "index.html"),
        "index.html\0",
    ):
        assert name not in assets
        with pytest.raises(KeyError):
            assets.load(name, gzip=True)


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("index.html", "text/html; charset=utf-8"),
        ("assets/index-C0ffee.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("assets/mark-1.woff2", "font/woff2"),
    ],
)
def test_a_file_plain_and_compressed(tmp_path: Path, name: str, content_type: str) -> None:
    assets = Assets(built(tmp_path))
    plain, packed = (assets.load(name, gzip=each) for each in (False, True))
    assert plain.content_type == packed.content_type == content_type
    assert plain.body == (tmp_path / name).read_bytes()
    assert not plain.is_gzip
    assert packed.is_gzip == (not name.endswith(".woff2")), "which is compressed in itself"
    assert (gzip.decompress(packed.body) if packed.is_gzip else packed.body) == plain.body


def test_a_file_is_read_when_it_is_asked_for_and_compressed_once(tmp_path: Path) -> None:
    name = "assets/index-C0ffee.js"
    assets = Assets(built(tmp_path))
    (tmp_path / name).write_bytes(SCRIPT + b"later")
    first = assets.load(name, gzip=True)
    assert gzip.decompress(first.body) == SCRIPT + b"later"
    assert len(first.body) < len(SCRIPT) // 10
    assert assets.load(name, gzip=True).body is first.body


def test_a_removed_file(tmp_path: Path) -> None:
    assets = Assets(built(tmp_path))
    (tmp_path / "icon.svg").unlink()
    with pytest.raises(FileNotFoundError):
        assets.load("icon.svg", gzip=True)


def test_a_page_that_was_not_built(tmp_path: Path) -> None:
    assert not Assets(tmp_path / "nothing").has_page
    assert not Assets(tmp_path).has_page
    assert STATIC.parent.name == "console"
