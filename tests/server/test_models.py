"""`/v1/models`: what a key may use and what that costs, and nothing about what it may not."""

import json
from typing import Any

from streamweir.store.prices.file import builtin_version
from support.gateway import KEY, Gate, gateway
from support.raw_client import Reply

TOML = """
[[providers]]
name = "sim"
kind = "sim"

[[providers]]
name = "acme"
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
models = ["large"]

[[models]]
id = "best"
targets = [{ provider = "acme", model = "large" }]
"""
NARROW = "sk-N4rr0w7vLmZ2pKd9RtYw4Hb"
KEYS = f"""
[[keys]]
name = "wide"
key = "{KEY}"

[[keys]]
name = "narrow"
key = "{NARROW}"
models = ["sim/*"]

[[keys]]
name = "chat-only"
key = "sk-Ch4tOnly7vLmZ2pKd9RtYw"
scopes = ["chat"]
"""


async def get(gate: Gate, path: str, key: str = KEY, method: str = "GET") -> Reply:
    async with await gate.connect() as client:
        await client.send(f"{method} {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\n\r\n".encode())
        return await client.response(has_body=method != "HEAD")


def ids(reply: Reply) -> list[str]:
    document: dict[str, Any] = json.loads(reply.body)
    assert document["object"] == "list"
    assert all(row.keys() == {"id", "object", "created", "owned_by", "pricing"} for row in document["data"])
    return [row["id"] for row in document["data"]]


async def test_aliases_named_models_and_built_in_ones_are_listed() -> None:
    async with gateway(TOML) as gate:
        for path in ("/v1/models", "/opentoken/v1/models", "/bitseek/v1/models"):
            listed = ids(await get(gate, path))
            assert listed[0] == "best"
            assert {"acme/large", "sim/hello"} <= set(listed)


async def test_a_key_sees_only_what_it_may_use() -> None:
    async with gateway(TOML + KEYS) as gate:
        listed = ids(await get(gate, "/v1/models", NARROW))
        assert listed
        assert all(model.startswith("sim/") for model in listed)


async def test_one_model_by_its_id_also_with_a_slash_and_escaped() -> None:
    async with gateway(TOML) as gate:
        for path in ("/v1/models/acme/large", "/v1/models/acme%2Flarge"):
            assert json.loads((await get(gate, path)).body)["id"] == "acme/large"
        assert json.loads((await get(gate, "/v1/models/best")).body)["owned_by"] == "streamweir"


async def test_a_forbidden_model_is_as_unknown_as_an_unknown_one() -> None:
    async with gateway(TOML + KEYS) as gate:
        forbidden = await get(gate, "/v1/models/best", NARROW)
        unknown = await get(gate, "/v1/models/worst", NARROW)
        assert forbidden.status == unknown.status == 404
        assert forbidden.body.replace(b"best", b"worst") == unknown.body


async def test_a_key_without_the_scope_is_refused() -> None:
    async with gateway(TOML + KEYS) as gate:
        reply = await get(gate, "/v1/models", "sk-Ch4tOnly7vLmZ2pKd9RtYw")
        assert reply.status == 403
        assert json.loads(reply.body)["error"]["code"] == "insufficient_permissions"


async def test_head_has_no_body_and_post_is_not_allowed() -> None:
    async with gateway(TOML) as gate:
        assert (await get(gate, "/v1/models", method="HEAD")).status == 200
        reply = await get(gate, "/v1/models", method="POST")
        assert reply.status == 405
        assert reply.header("allow") == "GET, HEAD"


PATTERNS = """
[[models]]
id = "claude-*"
targets = [{ provider = "acme", model = "large" }]
"""


async def test_a_pattern_is_not_listed_and_what_it_matches_is_found() -> None:
    async with gateway(TOML + PATTERNS + KEYS) as gate:
        assert not [each for each in ids(await get(gate, "/v1/models")) if each.startswith("claude")]
        found = json.loads((await get(gate, "/v1/models/claude-opus-5-5")).body)
        assert (found["id"], found["owned_by"]) == ("claude-opus-5-5", "streamweir")
        assert (await get(gate, "/v1/models/claude-opus-5-5", NARROW)).status == 404
        assert (await get(gate, "/v1/models/gpt-4o")).status == 404


PRICED = """
[[providers]]
name = "sim"
kind = "sim"

[[providers]]
name = "acme"
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
models = ["gpt-4o", "our-own"]

[[providers]]
name = "claude"
kind = "anthropic"
base_url = "http://127.0.0.1:9/v1"

[[models]]
id = "either"
targets = [{ provider = "acme", model = "gpt-4o" }, { provider = "claude", model = "claude-sonnet-4-5" }]

[[models]]
id = "half"
targets = [{ provider = "acme", model = "gpt-4o" }, { provider = "acme", model = "our-own" }]

[[models]]
id = "ours"
targets = [{ provider = "acme", model = "our-own" }, { provider = "sim", model = "hello" }]
price = { input = 0.1, output = 0.003625, cache_read = 0.025 }
"""


async def pricing(gate: Gate, model: str) -> dict[str, Any] | None:
    shown: dict[str, Any] | None = json.loads((await get(gate, f"/v1/models/{model}")).body)["pricing"]
    listed = json.loads((await get(gate, "/v1/models")).body)["data"]
    assert [row["pricing"] for row in listed if row["id"] == model] in ([], [shown])
    return shown


async def test_prices_are_those_that_a_request_would_be_billed_at() -> None:
    version = builtin_version()
    common = {"currency": "USD", "unit": "1M tokens"}
    async with gateway(PRICED) as gate:
        known = common | {"input": 2.5, "output": 10, "cache_read": 1.25, "per_search": 0.01, "version": version}
        assert await pricing(gate, "acme/gpt-4o") == known
        assert await pricing(gate, "ours") == common | {
            "input": 0.1,
            "output": 0.003625,
            "cache_read": 0.025,
            "version": f"{version}+config",
        }
        assert await pricing(gate, "sim/hello") == common | {"input": 0, "output": 0, "version": "built-in"}


async def test_the_highest_rate_of_several_targets() -> None:
    async with gateway(PRICED) as gate:
        shown = await pricing(gate, "either")
        assert shown is not None
        assert (shown["input"], shown["output"], shown["cache_read"], shown["cache_write"]) == (3, 15, 1.25, 3.75)
        (tier,) = shown["tiers"]
        assert (tier["above_prompt_tokens"], tier["input"], tier["output"]) == (200_000, 6, 22.5)


async def test_no_price_is_null_and_not_zero() -> None:
    async with gateway(PRICED) as gate:
        assert await pricing(gate, "acme/our-own") is None
        assert await pricing(gate, "acme/anything") is None
        assert await pricing(gate, "half") is None, "one of its targets has none"


async def get_as_anthropic(gate: Gate, path: str, key: str = KEY) -> Reply:
    async with await gate.connect() as client:
        lines = [f"GET {path} HTTP/1.1", "host: a", f"x-api-key: {key}", "anthropic-version: 2023-06-01", "", ""]
        await client.send("\r\n".join(lines).encode())
        return await client.response()


async def test_clients_of_anthropic_get_pages_of_what_the_key_may_use() -> None:
    async with gateway(TOML + PATTERNS + KEYS) as gate:
        reply = await get_as_anthropic(gate, "/v1/models?limit=2")
        assert reply.header("request-id") == reply.header("x-request-id") is not None
        page = json.loads(reply.body)
        assert ([row["id"] for row in page["data"]], page["has_more"]) == (["best", "sim/hello"], True)
        rest = json.loads((await get_as_anthropic(gate, f"/v1/models?after_id={page['last_id']}")).body)
        assert "acme/large" in [row["id"] for row in rest["data"]]
        assert not rest["has_more"]
        narrow = json.loads((await get_as_anthropic(gate, "/v1/models", NARROW)).body)
        assert {row["id"].partition("/")[0] for row in narrow["data"]} == {"sim"}


async def test_one_model_for_a_client_of_anthropic() -> None:
    toml = PRICED + '[[models]]\nid = "claude-*"\ntargets = [{ provider = "acme", model = "gpt-4o" }]\n'
    async with gateway(toml) as gate:
        found = json.loads((await get_as_anthropic(gate, "/v1/models/claude-opus-5-5")).body)
        assert (found["type"], found["id"], found["max_tokens"]) == ("model", "claude-opus-5-5", 16_384)
        assert found["max_input_tokens"] == 128_000
        unknown = await get_as_anthropic(gate, "/v1/models/gpt-4o")
        assert unknown.status == 404
        assert json.loads(unknown.body)["error"]["type"] == "not_found_error"
        refused = await get_as_anthropic(gate, "/anthropic/v1/models?limit=0")
        assert (refused.status, json.loads(refused.body)["error"]["type"]) == (400, "invalid_request_error")
