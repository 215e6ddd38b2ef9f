"""`streamweir import litellm`: what it writes, what it says, and that nothing is lost without a word.

The cases are files: `tests/fixtures/litellm/NAME.yaml` and the `NAME.toml` that is made of it.
"""

import re
import string
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from streamweir.cli.main import main
from streamweir.config.litellm import NotAConfiguration, translate
from streamweir.config.load import load_config
from streamweir.config.model import Config

FOLDER = Path(__file__).parent.parent / "fixtures" / "litellm"
CASES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
VALUES = {
    "BASE": "https://llm.example.com",
    "HOST": "cache.internal",
    "PROJECT": "contoso-prod",
    "URL": "redis://cache.internal:6379/0",
}
"""Of variables, by the last word of their names; every other is a secret."""


def run(*arguments: object, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["import", "litellm", *map(str, arguments)], input=text)


def environment(toml: str) -> dict[str, str]:
    """Something for every variable that the text needs."""
    names = set(re.findall(r"\$\{(\w+)\}", toml))
    words = {name: next((word for word in name.split("_")[::-1] if word in VALUES), "") for name in names}
    return {name: VALUES.get(words[name], f"made-up-{name}-4f0d1c2b9a") for name in names}


def loaded(toml: str, folder: Path) -> Config:
    path = folder / "streamweir.toml"
    path.write_text(toml)
    return load_config(path, environment(toml))


@pytest.mark.parametrize("case", CASES)
def test_every_case_is_written_as_it_is_recorded(case: str) -> None:
    result = run(FOLDER / f"{case}.yaml")
    assert result.exit_code == 0
    assert result.stdout == (FOLDER / f"{case}.toml").read_text()


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_is_a_valid_configuration(case: str, tmp_path: Path) -> None:
    config = loaded((FOLDER / f"{case}.toml").read_text(), tmp_path)
    assert bool(config.models) == (case != "empty")


@pytest.mark.parametrize("case", CASES)
def test_the_notes_are_at_the_top_of_the_file_too(case: str) -> None:
    result = run(FOLDER / f"{case}.yaml")
    said = result.stderr.splitlines()
    comments = [line[2:].strip() for line in result.stdout.splitlines() if line.startswith("#")]
    assert [line for line in comments if line in said] == said


@pytest.mark.parametrize("case", CASES)
def test_no_secret_of_the_old_file_is_in_the_new_one_or_in_a_message(case: str) -> None:
    result = run(FOLDER / f"{case}.yaml")
    assert "canary" not in result.output
    assert "sk-1234" not in result.output
    assert "sk-local" not in result.output


def paths(value: Any, where: str = "") -> list[str]:
    """Every value of the old file by its path, as the notes write it."""
    if isinstance(value, dict):
        return [found for name, item in value.items() for found in paths(item, f"{where}.{name}" if where else name)]
    if isinstance(value, list):
        return [found for index, item in enumerate(value) for found in paths(item, f"{where}[{index}]")]
    return [where]


def test_every_setting_is_carried_over_or_named() -> None:
    """By hand: what `production.yaml` says and no note names is in the new file."""
    result = run(FOLDER / "production.yaml")
    notes = [line.partition(": ")[0].replace('"', "") for line in result.stderr.splitlines()]
    settings = paths(yaml.safe_load((FOLDER / "production.yaml").read_text()))
    carried = [path for path in settings if not any(path.startswith(note) for note in notes)]
    assert carried == [
        "credential_list[0].credential_name",
        "credential_list[0].credential_values.api_key",
        "credential_list[0].credential_values.api_base",
        "credential_list[0].credential_values.api_version",
        "credential_list[0].credential_info.description",
        "credential_list[1].credential_name",
        "model_list[0].model_name",
        "model_list[0].litellm_params.model",
        "model_list[0].litellm_params.litellm_credential_name",
        "model_list[0].litellm_params.extra_headers.X-Team",
        "model_list[0].model_info.mode",
        "model_list[0].model_info.output_cost_per_token",
        "model_list[1].model_name",
        "model_list[1].litellm_params.model",
        "model_list[1].litellm_params.api_key",
        "model_list[1].litellm_params.input_cost_per_token",
        "model_list[1].litellm_params.output_cost_per_token",
        "model_list[1].litellm_params.cache_read_input_token_cost",
        "model_list[1].litellm_params.cache_creation_input_token_cost_above_1hr",
        "model_list[2].model_name",
        "litellm_settings.json_logs",
        "litellm_settings.drop_params",
        "litellm_settings.turn_off_message_logging",
        "litellm_settings.request_timeout",
        "litellm_settings.fallbacks[0].gpt-4o[0]",
        "router_settings.redis_host",
        "router_settings.redis_port",
        "router_settings.stream_timeout",
        "general_settings.completion_model",
        "general_settings.max_request_size_mb",
        "general_settings.max_response_size_mb",
        "general_settings.maximum_spend_logs_retention_period",
    ]


def test_prices_are_exact(tmp_path: Path) -> None:
    config = loaded((FOLDER / "production.toml").read_text(), tmp_path)
    price = next(model for model in config.models if model.id == "deepseek").price
    assert price is not None
    assert (price.input, price.output, price.cache_read, price.cache_write) == (0.27, 1.1, 0.07, None)
    assert price.cache_write_1h == 0.54


def test_a_file_is_written_where_there_is_none(tmp_path: Path) -> None:
    target = tmp_path / "streamweir.toml"
    result = run(FOLDER / "quickstart.yaml", "--output", target)
    assert (result.exit_code, result.stdout) == (0, "")
    assert target.read_text() == (FOLDER / "quickstart.toml").read_text()
    again = run(FOLDER / "quickstart.yaml", "--output", target)
    assert again.exit_code == 1
    assert again.stderr == f"Error: {target}: already exists\n"
    nowhere = run(FOLDER / "quickstart.yaml", "--output", tmp_path / "no" / "such" / "folder")
    assert (nowhere.exit_code, "No such file" in nowhere.stderr) == (1, True)


def test_it_reads_standard_input() -> None:
    result = run("-", text=(FOLDER / "quickstart.yaml").read_text())
    assert result.exit_code == 0
    assert len(tomllib.loads(result.stdout)["models"]) == 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: b: canary", r"is not YAML at line 1, column 5"),
        ("key: [canary", r"is not YAML at line 1, column 13"),
        ("key: !!python/object:os.system canary", r"is not YAML at line 1, column 6"),
        ("\x00canary", r"is not YAML"),
        ("- canary", r"a LiteLLM configuration is a table with a model_list"),
        ("canary", r"a LiteLLM configuration is a table with a model_list"),
        ("a: 2024-99-99", r"is not YAML"),
        ("a: &x [*x]", r"it is larger or nested deeper than any configuration"),
        ("[" * 1000, r"is nested too deeply for a configuration"),
        ("x: canary\n" * 500_000, r"is too large for a configuration"),
        (
            "a: &a [x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)),
            r"it is larger or nested deeper than any configuration",
        ),
    ],
)
def test_what_is_no_configuration_is_refused_in_one_line_that_shows_none_of_it(text: str, reason: str) -> None:
    result = run("-", text=text)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert re.fullmatch(rf"Error: [^:]*: {reason}\n", result.stderr) is not None
    assert "canary" not in result.stderr


def test_a_file_that_is_not_there_is_wrong_use() -> None:
    assert run(FOLDER / "nothing.yaml").exit_code == 2


def test_without_the_library_the_extra_is_named(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['yaml'] = None\n"
        "from streamweir.cli.main import main\n"
        f"main(['import', 'litellm', {str(FOLDER / 'quickstart.yaml')!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 1
    assert done.stderr == "Error: reading YAML needs a library: install streamweir[import]\n"


NAMES = st.text(string.ascii_letters + "/*$ .:-\x00é", max_size=12)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | NAMES | st.just("os.environ/MADE_UP")
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
MODELS = st.sampled_from(["openai/x", "azure/x", "anthropic/*", "gpt-4o", "ollama/x", "vertex_ai/gemini-x", "nobody/x"])
MEMBERS = (
    "api_base api_key api_version extra_headers input_cost_per_token order organization output_cost_per_token rpm "
    "stream_timeout temperature timeout vertex_location vertex_project weight"
)
PARAMS = st.fixed_dictionaries({"model": MODELS | ANYTHING}, optional=dict.fromkeys(MEMBERS.split(), ANYTHING))
GROUP = st.sampled_from(["a", "b", "c"])
FILES = st.fixed_dictionaries(
    {},
    optional={
        "model_list": ANYTHING
        | st.lists(st.fixed_dictionaries({"model_name": GROUP | ANYTHING, "litellm_params": PARAMS}), max_size=5),
        "litellm_settings": ANYTHING
        | st.fixed_dictionaries(
            {"fallbacks": st.lists(st.dictionaries(GROUP, st.lists(GROUP, max_size=3)), max_size=3)}
        ),
        "router_settings": st.dictionaries(
            st.sampled_from(
                ["timeout", "routing_strategy", "model_group_alias", "redis_host", "redis_port", "redis_url"]
            ),
            ANYTHING,
        ),
        "general_settings": st.dictionaries(
            st.sampled_from(["completion_model", "max_request_size_mb", "maximum_spend_logs_retention_period", "x"]),
            ANYTHING,
        ),
        "environment_variables": ANYTHING,
        "credential_list": ANYTHING,
        "other": ANYTHING,
    },
)


@given(FILES)
def test_any_file_becomes_a_valid_configuration(tree: object) -> None:
    result = translate(tree)
    tomllib.loads(result.toml)
    for note in (*result.dropped, *result.actions):
        assert "\n" not in str(note)
    if "${MADE_UP}" not in result.toml:  # which may stand where a number must
        with tempfile.TemporaryDirectory() as folder:
            loaded(result.toml, Path(folder))


@given(ANYTHING)
def test_any_tree_is_translated_or_refused(tree: object) -> None:
    try:
        tomllib.loads(translate(tree).toml)
    except NotAConfiguration:
        assert not isinstance(tree, dict)
