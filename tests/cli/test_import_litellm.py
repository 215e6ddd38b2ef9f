"""`streamweir import litellm`: what it writes, what it says, and that nothing is lost without a word.

The cases are files: `tests/fixtures/litellm/NAME.yaml` and the `NAME.toml` that is made of it.
"""

import re
import string
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from streamweir.cli.main import main
from streamweir.config.error import entry, member
from streamweir.config.litellm import NotAConfiguration, Translation, translate, unsupported
from streamweir.config.litellm.report import NOT_READ
from streamweir.config.litellm.vendor import VENDORS
from streamweir.config.load import load_config
from streamweir.config.model import Config
from support.imported import CASES, FOLDER, environment


def run(*arguments: object, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["import", "litellm", *map(str, arguments)], input=text)


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
def test_the_report_is_at_the_top_of_the_file_too(case: str) -> None:
    result = run(FOLDER / f"{case}.yaml")
    said = result.stderr.splitlines()
    comments = [line.removeprefix("#").removeprefix(" ") for line in result.stdout.splitlines() if line.startswith("#")]
    assert said[0].startswith("Settings: ")
    assert comments[-len(said) :] == said


@pytest.mark.parametrize("case", CASES)
def test_no_secret_of_the_old_file_is_in_the_new_one_or_in_a_message(case: str) -> None:
    result = run(FOLDER / f"{case}.yaml")
    assert "canary" not in result.output
    assert "sk-1234" not in result.output
    assert "sk-local" not in result.output


Steps = tuple[str | int, ...]


def leaves(value: object, steps: Steps = ()) -> Iterator[Steps]:
    """Every value of the old file that says something."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, (*steps, name))
    elif isinstance(value, (list, tuple, set)):
        for index, item in enumerate(value):
            yield from leaves(item, (*steps, index))
    elif value is not None and value != "":
        yield steps


def paths_to(steps: Steps) -> list[str]:
    """The paths of a value and of all that it is in, as a report writes them."""
    paths = [""]
    for step in steps:
        paths.append(entry(paths[-1], step) if isinstance(step, int) else member(paths[-1], str(step)))
    return paths[1:]


def outcomes(result: Translation) -> list[str]:
    """The paths of everything that the report says, as often as it says it."""
    return [*result.converted, *(note.where for note in (*result.noted, *result.dropped))]


def assert_one_outcome(tree: object, result: Translation) -> None:
    """Each setting is converted, converted with a note, or not converted: one of them, and once."""
    said = Counter(outcomes(result))
    reached = set()
    for steps in leaves(tree):
        paths = paths_to(steps)
        assert sum(said[path] for path in paths) == 1, paths[-1]
        reached |= set(paths)
    assert [path for path in said if path not in reached] == []


@pytest.mark.parametrize("case", CASES)
def test_each_setting_has_one_outcome(case: str) -> None:
    tree = yaml.safe_load((FOLDER / f"{case}.yaml").read_text())
    result = translate(tree)
    assert_one_outcome(tree, result)
    assert [note for note in result.dropped if note.text == NOT_READ] == []


def changed(tree: Any, steps: Steps, value: object) -> Any:
    """A copy of the tree with another value at one place."""
    if not steps:
        return value
    first, *others = steps
    copy: Any = list(tree) if isinstance(tree, list) else dict(tree)
    copy[first] = changed(tree[first], tuple(others), value)
    return copy


def other_values(value: object) -> Iterator[object]:
    yield None
    if isinstance(value, str):
        yield from (f"{value}_OTHER", "os.environ/OTHER_NAME", "least-busy", "latency-based-routing")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from (value * 3 + 1, 0)


HOLDS_ANYWAY = re.compile(
    r"drop_params|turn_off_message_logging|enable_weighted_failover|enforce_fallback_budget"  # always on here
    r"|optional_pre_call_checks\[\d\]|model_group_alias\.claude\.hidden"
    r"|model_info\.mode"  # the same as without it
    r"|environment_variables\."  # their values are in the environment
)
"""Settings that are converted, although the new file says nothing about them."""
WITHOUT_EFFECT = {
    ("production", "router_settings.routing_strategy"),  # no group has two targets
    ("routing_groups", "router_settings.routing_groups[1].routing_strategy"),
    ("routing_groups", "router_settings.routing_strategy"),  # each model has another one
    *(("several_keys", f"model_list[{number}].litellm_params.weight") for number in (5, 6)),  # they are one target
    *(("wildcards", f"model_list[{number}].model_name") for number in (2, 3)),  # they are one provider
    *(("wildcards", f"model_list[{number}].litellm_params.model") for number in (2, 3)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_converted_makes_a_difference_and_what_is_not_makes_none(case: str) -> None:
    tree = yaml.safe_load((FOLDER / f"{case}.yaml").read_text())
    result = translate(tree)
    dropped = {note.where for note in result.dropped}
    idle, used = [], set()
    for steps in leaves(tree):
        paths = paths_to(steps)
        where = next((index for index, path in enumerate(paths) if path in dropped), None)
        if where is not None:
            if translate(changed(tree, steps[: where + 1], None)).toml != result.toml:
                used.add(paths[where])
            continue
        value = tree
        for step in steps:
            value = value[step]
        if all(translate(changed(tree, steps, other)).toml == result.toml for other in other_values(value)):
            idle.append(paths[-1])
    assert used == set()
    assert [path for path in idle if not HOLDS_ANYWAY.search(path) and (case, path) not in WITHOUT_EFFECT] == []


USUAL = {"model": "openai/gpt-4o", "api_base": "https://llm.example.com/v1", "api_key": "os.environ/KEY"}
LISTS: dict[str, tuple[Mapping[str, str], Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "litellm_params": (unsupported.DEPLOYMENT, lambda own: of_deployment({**USUAL, **own}, {})),
    "model_info": (unsupported.MODEL_INFO, lambda own: of_deployment(USUAL, own)),
    "litellm_settings": (unsupported.LITELLM, lambda own: {"litellm_settings": own}),
    "router_settings": (
        unsupported.ROUTER,
        lambda own: {"router_settings": {"redis_url": "redis://cache", **own}},
    ),
    "general_settings": (unsupported.GENERAL, lambda own: {"general_settings": own}),
    "top": (unsupported.TOP, lambda own: own),
    "checks": (unsupported.CHECKS, lambda own: {"router_settings": {"optional_pre_call_checks": list(own)}}),
}


def of_deployment(params: dict[str, Any], info: dict[str, Any]) -> dict[str, Any]:
    return {"model_list": [{"model_name": "m", "litellm_params": params, "model_info": info}]}


@pytest.mark.parametrize("name", LISTS)
def test_what_is_listed_as_not_converted_is_not(name: str) -> None:
    reasons, make = LISTS[name]
    stale = [
        setting
        for setting, reason in reasons.items()
        if not all(
            [note.text for note in translate(make({setting: value})).dropped] == [reason] for value in (False, 7)
        )
    ]
    assert stale == []


@pytest.mark.parametrize("provider", VENDORS)
def test_parameters_are_converted_for_every_provider_that_is_listed(provider: str) -> None:
    """Also for a family whose protocol has other names for them (`config/litellm/parameter.py`)."""
    params = {"model": f"{provider}/gemini-m", "api_base": "https://llm.example.com", "temperature": 0.5}
    assert "temperature = 0.5" in translate(of_deployment(params, {})).toml


def test_prices_are_exact(tmp_path: Path) -> None:
    config = loaded((FOLDER / "production.toml").read_text(), tmp_path)
    (target,) = next(model for model in config.models if model.id == "deepseek").targets
    price = target.cost
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
    "additional_drop_params allowed_fails api_base api_key api_version cooldown_time extra_body extra_headers "
    "input_cost_per_token max_parallel_requests max_tokens num_retries order organization output_cost_per_token rpm "
    "stop stream_timeout temperature timeout tools tpm vertex_location vertex_project weight"
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
                [
                    "allowed_fails",
                    "context_window_fallbacks",
                    "cooldown_time",
                    "default_litellm_params",
                    "fallbacks",
                    "model_group_alias",
                    "num_retries",
                    "redis_host",
                    "redis_port",
                    "redis_url",
                    "routing_groups",
                    "routing_strategy",
                    "timeout",
                ]
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
    assert_one_outcome(tree, result)
    for note in (*result.dropped, *result.noted):
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
