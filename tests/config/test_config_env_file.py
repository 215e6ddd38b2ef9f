"""Variables from a file: what a line means, what is refused, and which of two values counts."""

from pathlib import Path

import pytest

from streamweir.config.error import ConfigError
from streamweir.config.file.env_file import parse_variables, with_variables


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("A=", ""),
        ("  A = b c \t", "b c"),
        ("export A=b", "b"),
        ("A=b=c", "b=c"),
        ("A=b#c", "b#c"),
        ("A=$B${C}", "$B${C}"),
        (r"A=b\n", r"b\n"),
        ("A='b # c'", "b # c"),
        (r"A='b\'", "b\\"),
        (r'A="b \"c\" \\ \$ \n"', r'b "c" \ $ \n'),
        ('A="b" # the key', "b"),
        ("A=''", ""),
        ("A=it's", "it's"),
        ("A=b\r", "b"),
        ("A=first\nA=last", "last"),
        ("\ufeff".encode().decode("utf-8-sig") + "# x\n; y\n\n  # z\nA=b\n", "b"),
    ],
)
def test_the_value_of_a_line(line: str, value: str) -> None:
    assert parse_variables(line + "\n") == {"A": value}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("canary", "expected NAME=value, and only letters, digits and _ in NAME"),
        ("1A=canary", "expected NAME=value, and only letters, digits and _ in NAME"),
        ("A-B=canary", "expected NAME=value, and only letters, digits and _ in NAME"),
        ("=canary", "expected NAME=value, and only letters, digits and _ in NAME"),
        ("A='canary", "the quotes around the value are not closed, or text follows them"),
        ('A="canary\\"', "the quotes around the value are not closed, or text follows them"),
        ("A='canary'b", "the quotes around the value are not closed, or text follows them"),
        ("A=canary # b", "quote the value: it is not clear whether # begins a comment in it"),
    ],
)
def test_every_wrong_line_is_named_without_its_value(line: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_variables(f"B=1\n{line}\n\n{line}", "env")
    assert str(refused.value) == f"env: line 2: {reason}\nenv: line 4: {reason}"


def test_the_file_comes_before_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("A=file\nB=file\n")
    assert with_variables({"A": "environment", "C": "environment"}, file) == {
        "A": "file",
        "B": "file",
        "C": "environment",
    }
    assert with_variables({"A": "environment"}, None) == {"A": "environment"}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        with_variables({}, tmp_path / "env")
    assert str(refused.value) == f"{tmp_path}/env: file not found"
