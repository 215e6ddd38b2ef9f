"""`/v1/models`: what a key may use, and nothing about what it may not."""

import json
from typing import Any

from support.gateway import KEY, Gate, gateway
from support.rawclient import Reply

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
    assert all(row.keys() == {"id", "object", "created", "owned_by"} for row in document["data"])
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
