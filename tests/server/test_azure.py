"""Azure with Entra over real sockets: which addresses are asked, with which token, and what a refusal leads to."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path

import pytest

from streamweir.config.error import ConfigError
from streamweir.core.request import read_request
from streamweir.providers.base import Target
from streamweir.providers.registry import provider_named
from streamweir.server.telemetry.log import close_log, configure_log
from support.answers import TEXTS, anthropic_stream, openai_stream, openai_whole, responses_stream
from support.embeddings import VECTORS, embed, openai_vectors
from support.entra_server import CLIENT, SECRET, TENANT, Entra, certificate_pem, key_pem
from support.gateway import MESSAGES, Gate, configured, gateway, nothing_left, text_of
from support.script import Seen, Step, stream, whole
from support.scripted_upstream import ScriptedUpstream

WHOLE = "".join(TEXTS)


def answer(request: Seen) -> Sequence[Step]:
    if "/embeddings" in request.path:
        return whole(openai_vectors(VECTORS))
    if request.path.endswith("/count_tokens"):
        return whole(b'{"input_tokens": 7}')
    if "/messages" in request.path:
        return stream(anthropic_stream())
    if "/responses" in request.path:
        return stream(responses_stream())
    return stream(openai_stream()) if request.json.get("stream") else whole(openai_whole())


BY_SECRET = f'client_secret = "{SECRET}"'


def provider(url: str, more: str, entra: str, name: str) -> str:
    table = f'tenant_id = "{TENANT}"\nclient_id = "{CLIENT}"\nauthority_url = "{url}"\n'
    own = f'name = "{name}"\nkind = "azure"\nbase_url = "{url}"\n{more}\n'
    return f"[[providers]]\n{own}[providers.entra]\n{table}{entra}\n"


@asynccontextmanager
async def azure(*more: str, entra: str = BY_SECRET) -> AsyncIterator[tuple[Gate, Entra, ScriptedUpstream]]:
    """Providers `az0`, `az1` and so on."""
    known = Entra(answer=answer)
    async with nothing_left(), ScriptedUpstream(known.script) as up:
        known.port = up.port
        toml = "".join(provider(known.url, each, entra, f"az{i}") for i, each in enumerate(more or ("",)))
        async with gateway(toml) as gate:
            yield gate, known, up
            await gate.vacated()


def asked(up: ScriptedUpstream) -> list[str]:
    """The paths, without those of tokens."""
    return [each.path for each in up.requests if not each.path.endswith("/oauth2/v2.0/token")]


async def test_all_apis_are_asked_with_one_token() -> None:
    async with azure('wire = "chat"') as (gate, entra, up):
        reply = await gate.ask(model="az0/gpt", stream=True)
        assert text_of(reply.body) == WHOLE
        assert (await gate.ask(model="az0/gpt")).status == 200
        assert (await embed(gate, model="az0/emb")).status == 200
        assert (await gate.ask(path="/v1/responses", model="az0/codex-mini", stream=True)).status == 200
        assert asked(up) == ["/openai/v1/chat/completions"] * 2 + [
            "/openai/v1/embeddings",
            "/openai/v1/chat/completions",
        ]
        assert [each.headers["authorization"] for each in up.requests[1:]] == ["Bearer canary.token.1"] * 4
        assert len(entra.tokens) == 1
        assert "canary" not in str([record.error for record in gate.records])


async def test_versions_and_wires_have_their_paths() -> None:
    versions = ("", 'api_version = "2024-10-21"', 'api_version = "preview"')
    async with azure(*versions) as (gate, _, up):
        for number in range(len(versions)):
            assert (await gate.ask(model=f"az{number}/my gpt", stream=True)).status == 200
            assert (await gate.ask(model=f"az{number}/codex-mini", stream=True)).status == 200
            assert (await embed(gate, model=f"az{number}/emb")).status == 200
        assert asked(up) == [
            "/openai/v1/chat/completions",
            "/openai/v1/responses",
            "/openai/v1/embeddings",
            "/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21",
            "/openai/v1/responses",
            "/openai/deployments/emb/embeddings?api-version=2024-10-21",
            "/openai/v1/chat/completions?api-version=preview",
            "/openai/v1/responses?api-version=preview",
            "/openai/v1/embeddings?api-version=preview",
        ]


async def test_claude_in_foundry_is_asked_on_its_own_wire_and_passed_on() -> None:
    async with azure() as (gate, _, up):
        reply = await gate.ask(path="/v1/messages", model="az0/claude-opus-4-8", stream=True)
        assert (reply.status, reply.body) == (200, anthropic_stream()), "byte for byte"
        assert text_of((await gate.ask(model="az0/claude-opus-4-8", stream=True)).body) == WHOLE
        count = await gate.ask(path="/v1/messages/count_tokens", model="az0/claude-opus-4-8")
        assert json.loads(count.body) == {"input_tokens": 7}
        messages = "/anthropic/v1/messages"
        assert asked(up) == [messages, messages, f"{messages}/count_tokens"]
        sent = up.requests[1]
        assert (sent.headers["anthropic-version"], sent.json["model"]) == ("2023-06-01", "claude-opus-4-8")
        assert "x-api-key" not in sent.headers


def test_claude_in_foundry_with_a_key() -> None:
    chat = read_request({"model": "m", "messages": MESSAGES})
    made = provider_named("azure-messages").build_request(chat, Target(model="claude-x", api_key="k"))
    assert dict(made.headers)["api-key"] == "k"
    assert "x-api-key" not in dict(made.headers)


async def test_a_certificate(tmp_path: Path) -> None:
    (tmp_path / "both.pem").write_text(certificate_pem() + key_pem())
    table = f'source = "certificate"\ncertificate_file = "{tmp_path}/both.pem"'
    async with azure(entra=table) as (gate, _, _up):
        assert (await gate.ask(model="az0/gpt", stream=True)).status == 200


async def test_a_managed_identity() -> None:
    known = Entra(answer=answer)
    async with nothing_left(), ScriptedUpstream(known.script) as up:
        known.port = up.port
        base = f'[[providers]]\nname = "az"\nkind = "azure"\nbase_url = "{known.url}"\n'
        async with gateway(f'{base}entra = {{ source = "managed_identity", metadata_url = "{known.url}" }}\n') as gate:
            assert (await gate.ask(model="az/gpt", stream=True)).status == 200


async def test_a_wrong_secret_is_told_to_the_operator_alone() -> None:
    log = StringIO()
    configure_log("json", log)
    async with azure("retries = 0", entra='client_secret = "wrong-canary-secret"') as (gate, entra, up):
        reply = await gate.ask(model="az0/gpt", stream=True)
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (502, "upstream_auth_failed")
        assert asked(up) == []
        (record,) = await gate.settled()
        assert record.error == "upstream_auth_failed"
        assert not entra.tokens
    close_log()
    told = [json.loads(line) for line in log.getvalue().splitlines()]
    (failed,) = [each for each in told if each["event"] == "credential not refreshed"]
    assert (failed["provider"], failed["service"]) == ("az0", "Microsoft's token service")
    assert "(AADSTS7000215)" in failed["reason"]
    assert "canary" not in log.getvalue()
    assert b"canary" not in reply.body


@pytest.mark.parametrize(
    ("table", "problems"),
    [
        (
            "{}",
            {
                f'entra.{name}: missing: the source "secret" needs it'
                for name in ("tenant_id", "client_id", "client_secret")
            },
        ),
        (
            '{ source = "certificate", tenant_id = "a/b", client_id = "c", client_secret = "canary" }',
            {
                'entra.certificate_file: missing: the source "certificate" needs it',
                'entra.client_secret: has no effect with the source "certificate"',
                "entra.tenant_id: must be letters, digits, dots, hyphens and underscores",
            },
        ),
        (
            '{ source = "managed_identity", tenant_id = "t", metadata_url = "x", scope = "canary scope" }',
            {
                'entra.tenant_id: has no effect with the source "managed_identity"',
                "entra.metadata_url: must begin with http:// or https://",
                "entra.scope: expected a scope such as https://cognitiveservices.azure.com/.default",
            },
        ),
        (
            '{ source = "workload_identity", authority_url = "http://login.example" }',
            {"entra.authority_url: must begin with https://"},
        ),
    ],
)
def test_mistakes_in_the_table(table: str, problems: set[str]) -> None:
    base = '[[providers]]\nname = "az"\nkind = "azure"\nbase_url = "https://x.openai.azure.com"\n'
    with pytest.raises(ConfigError) as raised:
        configured(f"{base}entra = {table}\n")
    assert {f"{each.where}: {each.reason}" for each in raised.value.problems} == {
        f"providers.az.{each}" for each in problems
    }


def test_a_key_or_entra() -> None:
    base = '[[providers]]\nname = "az"\nkind = "azure"\nbase_url = "https://x.openai.azure.com"\n'
    entra = 'entra = { source = "managed_identity" }\n'
    with pytest.raises(ConfigError, match="has no effect with a key"):
        configured(f'{base}api_key = "k"\n{entra}')
    with pytest.raises(ConfigError, match='does not apply to the kind "openai"'):
        configured(f'[[providers]]\nname = "o"\nkind = "openai"\n{entra}')


async def test_a_token_that_the_resource_refuses_is_not_fetched_again_and_again() -> None:
    async with azure("retries = 0") as (gate, entra, up):
        assert (await gate.ask(model="az0/gpt", stream=True)).status == 200
        entra.revoked.add(entra.tokens[0])
        reply = await gate.ask(model="az0/gpt", stream=True)
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (502, "upstream_auth_failed")
        assert len(asked(up)) == 3, "a new token may not have been known everywhere: it is tried once more"
        assert len(entra.tokens) == 1
