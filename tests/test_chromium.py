"""Which browser the tests take: the one that is named, then the system's, then the one that make unpacked."""

from pathlib import Path

from support.chromium import Chromium, find_chromium


def put(folder: Path, name: str) -> str:
    program = folder / name
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return str(program)


def test_the_one_that_is_named_comes_first(tmp_path: Path) -> None:
    put(tmp_path / "bin", "chromium")
    environ = {"STREAMWEIR_CHROMIUM": "/opt/own/chrome", "PATH": str(tmp_path / "bin")}
    assert find_chromium(environ, tmp_path / "unpacked") == Chromium("/opt/own/chrome")


def test_then_the_one_of_the_system(tmp_path: Path) -> None:
    program = put(tmp_path / "bin", "google-chrome")
    put(tmp_path / "unpacked", "chromium")
    assert find_chromium({"PATH": str(tmp_path / "bin")}, tmp_path / "unpacked") == Chromium(program)


def test_then_the_one_that_was_unpacked_with_its_libraries(tmp_path: Path) -> None:
    program = put(tmp_path / "unpacked", "chromium")
    found = find_chromium({"PATH": str(tmp_path), "LD_LIBRARY_PATH": "/opt/lib"}, tmp_path / "unpacked")
    assert found is not None
    assert found.program == program
    assert found.environ["LD_LIBRARY_PATH"] == f"{tmp_path}/unpacked/lib:/opt/lib"
    assert found.environ["FONTCONFIG_FILE"] == f"{tmp_path}/unpacked/fonts.conf"


def test_or_none(tmp_path: Path) -> None:
    assert find_chromium({"PATH": str(tmp_path)}, tmp_path / "unpacked") is None
