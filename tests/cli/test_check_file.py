"""`streamweir check FILE`: a recorded answer held to its dialect, for people, for machines, for scripts."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamweir.cli.main import main
from streamweir.frontends.chat.table import DIALECTS
from support import valid_answers as right
from support.answer_changes import Defect
from support.defects import DEFECTS

IN_BYTES = [
    defect for defect in DEFECTS if not defect.rule.startswith(("header.", "whole.", "failure.", "usage.", "delta."))
]
"""Defects that stand in the body alone."""


def run(*arguments: str, data: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["check", *arguments], input=data)


def kept(folder: Path, body: bytes) -> str:
    file = folder / "recorded.sse"
    file.write_bytes(body)
    return str(file)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_right_stream_holds(name: str, tmp_path: Path) -> None:
    file = kept(tmp_path, right.written(right.tool(name), name))
    result = run(file, "--dialect", name, "--usage", "--model", right.MODEL)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1].startswith(f"{name}: ")
    assert "rules hold" in result.output


@pytest.mark.parametrize("name", DIALECTS)
def test_the_nearest_dialect_is_found(name: str, tmp_path: Path) -> None:
    result = run(kept(tmp_path, right.written(right.text(name), name)), "--usage")
    assert result.output.startswith(f"no dialect was named: {name} is the nearest (0 broken, 0 odd; ")
    assert result.exit_code == 0


@pytest.mark.parametrize("defect", IN_BYTES, ids=lambda defect: f"{defect.dialect}-{defect.rule}")
def test_a_defect_is_named(defect: Defect) -> None:
    model = right.MODEL
    result = run("-", "--dialect", defect.dialect, "--usage", "--model", model, "--json", data=defect.recording.body)
    assert result.exit_code == 1
    found = json.loads(result.output)
    broken = {rule["id"] for rule in found["rules"] if rule["outcome"] in ("broken", "odd")}
    assert broken == {defect.rule, *defect.also}


def test_no_untrusted_text_is_interpreted(tmp_path: Path) -> None:
    documents = right.text()
    documents[1]["object"] = "\x1b[31mred\x07"
    result = run(kept(tmp_path, right.written(documents) + b"\x1b[2J"), "--dialect", "openai")
    assert result.exit_code == 1
    assert result.output.replace("\n", "").isprintable()


def test_junit_is_written(tmp_path: Path) -> None:
    file, out = kept(tmp_path, right.written(right.text())[:-1]), tmp_path / "junit.xml"
    assert run(file, "--dialect", "openai", "--junit", str(out)).exit_code == 1
    root = ElementTree.parse(out).getroot()  # noqa: S314 (our own)
    assert [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None] == [
        "framing.last-frame"
    ]


def test_what_cannot_be_read_was_not_checked(tmp_path: Path) -> None:
    assert run(str(tmp_path / "none.sse")).exit_code == 2
