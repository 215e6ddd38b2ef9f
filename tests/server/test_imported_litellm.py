"""Configurations of LiteLLM, imported: a gateway starts with each, and routes as the old file says.

The files are those of tests/cli/test_import_litellm.py, written after the examples of LiteLLM's documentation.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamweir.config.litellm import translate
from streamweir.server.request.lookup.models import model_ids
from support.answers import error_body, openai_whole
from support.gateway import KEY, Gate, gateway
from support.imported import CASES, FOLDER, environment
from support.outcome import assert_record, assert_refused, assert_whole
from support.script import Seen, Step, whole
from support.scripted_upstream import ForbiddenServer, ScriptedUpstream

pytestmark = pytest.mark.usefixtures("no_jitter")

ANSWER = whole(openai_whole("Hello."))
SHARED = re.compile(r"^\[shared\]\n.*\n\n", re.MULTILINE)


def imported(tree: object, monkeypatch: pytest.MonkeyPatch) -> str:
    """The new file, with its variables set."""
    toml = translate(tree).toml
    for name, value in {**environment(toml), "LITELLM_MASTER_KEY": KEY}.items():
        monkeypatch.setenv(name, value)
    return toml


@pytest.mark.parametrize("case", CASES)
async def test_a_gateway_starts_with_an_imported_file(
    case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    toml = imported(yaml.safe_load((FOLDER / f"{case}.yaml").read_text()), monkeypatch)
    ids = re.findall(r'^id = "(.*)"$', toml, re.MULTILINE)
    login = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
    (tmp_path / "google.json").write_text(json.dumps(login))
    toml = re.sub(r'(?<=credentials_file = )"[^"]*"', f'"{tmp_path}/google.json"', toml)  # it must be there
    async with gateway(SHARED.sub("", toml), data_dir=tmp_path) as gate:  # there is no Redis in this test
        assert set(model_ids(gate.gateway.runtime)) >= {each.replace("$$", "$") for each in ids if "*" not in each}


def deployment(group: str, upstream: ScriptedUpstream, **params: Any) -> dict[str, Any]:
    common = {"model": f"openai/{group}-model", "api_base": upstream.base_url, "api_key": "none"}
    return {"model_name": group, "litellm_params": {**common, **params}}


async def ask(gate: Gate, model: str, text: str = "Hello.", **members: Any) -> None:
    assert_whole(await gate.ask(model=model, **members), text=text)


async def test_order_weight_and_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    sick = whole(error_body("out of order"), 500)
    async with (
        ScriptedUpstream(sick) as a,
        ScriptedUpstream(sick) as b,
        ScriptedUpstream(sick) as c,
        ScriptedUpstream(ANSWER) as spare,
    ):
        tree = {
            "model_list": [
                deployment("main", c, order=2),
                deployment("main", a, order=1, weight=9),
                deployment("main", b, order=1, weight=1),
                deployment("spare", spare),
            ],
            "litellm_settings": {"fallbacks": [{"main": ["spare"]}], "num_retries": 1},
        }
        async with gateway(imported(tree, monkeypatch)) as gate:
            await ask(gate, "main")
            record = await assert_record(gate, "completed", attempts=["upstream_server_error"] * 3 + [None])
            tried = [each.target for each in record.attempts]
            assert (set(tried[:2]), tried[2:]) == (
                {"compatible/main-model", "compatible-2/main-model"},
                ["compatible-3/main-model", "compatible-4/spare-model"],
            )


async def test_context_and_content_fallbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(request: Seen) -> list[Step]:
        is_long = len(request.json["messages"]) > 1
        code = "context_length_exceeded" if is_long else "content_filter"
        return whole(error_body("This model does not take it.", "invalid_request_error", code), 400)

    async with (
        ScriptedUpstream(refuse) as small,
        ScriptedUpstream(whole(openai_whole("Long."))) as large,
        ScriptedUpstream(whole(openai_whole("Other."))) as other,
        ForbiddenServer() as never,
    ):
        tree = {
            "model_list": [
                deployment("small", small),
                deployment("large", large),
                deployment("other", other),
                deployment("never", never),
            ],
            "router_settings": {
                "fallbacks": [{"small": ["never"]}],
                "context_window_fallbacks": [{"small": ["large"]}],
                "content_policy_fallbacks": [{"small": ["other"]}],
            },
        }
        async with gateway(imported(tree, monkeypatch)) as gate:
            message = {"role": "user", "content": "Hello."}
            await ask(gate, "small", "Long.", messages=[message, message])
            await ask(gate, "small", "Other.", messages=[message])


async def test_several_keys_and_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two accounts with two requests a minute each: the fifth request is refused."""
    async with ScriptedUpstream(ANSWER) as up:
        keys = ["os.environ/KEY_ONE", "os.environ/KEY_TWO"]
        tree = {
            "model_list": [deployment("pool", up, api_key=key, rpm=2) for key in keys],
            "router_settings": {"num_retries": 0},
        }
        async with gateway(imported(tree, monkeypatch)) as gate:
            for _ in range(4):
                await ask(gate, "pool")
            assert (await gate.ask(model="pool")).status == 429
            assert (await gate.settled(5))[-1].error == "upstream_rate_limited"
        sent = Counter(request.headers["authorization"].split("-")[2] for request in up.requests)
        assert sent == {"KEY_ONE": 2, "KEY_TWO": 2}


async def test_parameters_of_a_deployment_are_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedUpstream(ANSWER) as up:
        params = {"temperature": 0.2, "max_tokens": 20, "additional_drop_params": ["user"]}
        tree = {"model_list": [deployment("m", up, extra_body={"top_k": 5}, **params)]}
        async with gateway(imported(tree, monkeypatch)) as gate:
            await ask(gate, "m", user="nobody")
            await ask(gate, "m", temperature=1.5)
        first, second = (request.json for request in up.requests)
        assert (first["temperature"], first["max_tokens"], first["top_k"], "user" in first) == (0.2, 20, 5, False)
        assert second["temperature"] == 1.5


async def test_the_model_of_a_wildcard_has_fallbacks_where_the_file_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedUpstream(whole(error_body("down"), 503)) as all_models, ScriptedUpstream(ANSWER) as spare:
        wildcard = {"model": "hosted_vllm/*", "api_base": all_models.base_url}
        tree = {
            "model_list": [
                {"model_name": "hosted_vllm/*", "litellm_params": wildcard},
                deployment("spare", spare),
            ],
            "litellm_settings": {"fallbacks": [{"hosted_vllm/big": ["spare"]}], "num_retries": 0},
        }
        async with gateway(imported(tree, monkeypatch)) as gate:
            await ask(gate, "hosted_vllm/big")
            assert_refused(await gate.ask(model="hosted_vllm/other"), "upstream_overloaded")
