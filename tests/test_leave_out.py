"""`make test` runs the tests of the pure packages first, and all others with `--leave-out`."""

from pathlib import Path

import pytest

from support.leave_out import pytest_ignore_collect


@pytest.mark.parametrize(
    ("path", "is_left_out"),
    [("tests/one.py", True), ("tests/wire/two.py", True), ("tests/wire", None), ("tests/wire/one.py", None)],
)
def test_only_the_files_that_are_named_are_left_out(
    path: str, is_left_out: bool | None, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytestconfig.option, "leave_out", "tests/one.py tests/wire/two.py")
    assert pytest_ignore_collect(pytestconfig.invocation_params.dir / path, pytestconfig) is is_left_out


def test_without_the_option_nothing_is_left_out(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytestconfig.option, "leave_out", "")
    assert pytest_ignore_collect(Path(__file__), pytestconfig) is None
    assert pytest_ignore_collect(pytestconfig.invocation_params.dir, pytestconfig) is None
