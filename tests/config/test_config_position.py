"""Where in a file a problem is: every path that the parser has read is found, at its key."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from streamweir.config.file.position import Position, positions, positions_of

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = [
    (DOCS / "streamweir.example.toml").read_text(),
    *(
        block
        for page in sorted(DOCS.glob("*.md"))
        for block in re.findall(r"^```toml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    ),
]
UNUSUAL = '''
a.b."c.d" = 1 # [no.table]
'quoted key' = "a # \\" ]"
text = """
[not.a.table]
x = 1 "" \\""" """
raw = \'\'\'
y = 2''\'\'\'
list = [ # a comment ]
  1, "],", { x = [2, {y = 3}], "z" = {} },
  [ [], [4] ],
]
[[models]]
id = "m"
[models.price]
input = 1
[[models.targets]]
provider = "p"
[[models.targets]]
provider = "q"
[models.targets.cost]
input = 2
[[models]]
 id = "n" # the second
[ server . timeouts ]
idle_s = 1979-05-27 07:32:00
[server]
node = 'x'
["a table"]
'''


def paths_of(value: Any, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {path for path in [path] if path}.union(*(paths_of(each, (*path, name)) for name, each in members))


def parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # a page shows a part of a file
        return None


WHOLE = [text for text in BLOCKS if parsed(text) is not None]


@pytest.mark.parametrize("text", [UNUSUAL, *WHOLE])
def test_every_path_that_the_parser_reads_is_found_at_its_key(text: str) -> None:
    tree = tomllib.loads(text)
    found, lines = positions(text), text.split("\n")
    assert set(found) == paths_of(tree)
    for path, (line, column) in found.items():
        if isinstance(path[-1], str):
            rest = lines[line - 1][column - 1 :]
            assert re.match(r"\[|[\"']|[A-Za-z0-9_-]", rest)
            assert path[-1] in rest or path[-1] in "".join(rest.split()), path


def test_most_blocks_of_the_pages_are_whole_files() -> None:
    assert len(WHOLE) > 20


@pytest.mark.parametrize(
    ("where", "position"),
    [
        ("models.m.targets[1].cost.input", (22, 1)),
        ("models.n.id", (24, 2)),
        ("models.n.targets", (23, 1)),
        ("models[1].nothing.at.all", (23, 1)),
        ("server.timeouts.idle_s", (26, 1)),
        ("server.dialect", (27, 1)),
        ('"quoted key"', (3, 1)),
        ('a.b."c.d"', (2, 1)),
        ("list[2].x[1].y", (10, 23)),
        ("nowhere", None),
        ("", None),
    ],
)
def test_the_position_of_a_problem(where: str, position: tuple[int, int] | None) -> None:
    assert positions_of(UNUSUAL, [where]) == ({where: Position(*position)} if position is not None else {})


def test_a_timeout_beside_the_address_and_a_key_without_a_name() -> None:
    text = '[[providers]]\r\nname = "a"\r\nidle_s = 0\r\napi_keys = [\r\n  "x",\r\n  { key = "y" },\r\n]\r\n'
    named = {
        "providers.a.timeouts.idle_s": (3, 1),
        "providers.a.api_keys.2.key": (6, 5),
        "providers.a.api_keys[0].key": (5, 3),
    }
    assert positions_of(text, named) == named


def test_of_two_tables_with_one_name_it_is_the_one_that_has_the_setting() -> None:
    text = '[[providers]]\nname = "a"\n[[providers]]\nname = "a"\nbase_url = "x"\n[[providers]]\nname = [{}]\n'
    named = {"providers.a.base_url": (5, 1), "providers.a.kind": (1, 1), "providers[1].name": (4, 1)}
    assert positions_of(text, named) == named
