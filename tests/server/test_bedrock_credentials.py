"""Keys of a role through the gateway: one exchange for many requests, and a token service that refuses or hangs."""

import asyncio
from typing import Any

import pytest

from support.accounting_gateway import error_of
from support.answers import openai_stream
from support.aws_server import AwsAccount, IssuedKeys, origin_of
from support.gateway import Gate, chat_request, gateway, nothing_left
from support.script import Hang, stream, whole
from support.scripted_upstream import ScriptedUpstream

MODEL = "up/anthropic.claude-sonnet-4-5-20250929-v1:0"
ANSWER = whole(
    b'{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Good day."}],'
    b'"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":4}}'
)


def with_role(up: ScriptedUpstream, services: ScriptedUpstream, keys: IssuedKeys) -> str:
    return (
        f'[[providers]]\nname = "up"\nkind = "bedrock"\nbase_url = "{origin_of(up)}"\nregion = "eu-central-1"\n'
        f'aws = {{ access_key_id = "{keys.access_key_id}", secret_access_key = "{keys.secret_access_key}", '
        f'role_arn = "arn:aws:iam::123456789012:role/gateway", sts_url = "{origin_of(services)}" }}\n'
    )


async def chat(gate: Gate, model: str = MODEL) -> Any:
    async with await gate.connect() as client:
        await client.send(chat_request(model=model, stream=False))
        return await client.response()


async def test_many_requests_share_one_exchange_and_do_not_need_the_service_again() -> None:
    account = AwsAccount()
    keys = account.issue(temporary=False)
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(ANSWER)) as up,
        ScriptedUpstream(account.services) as services,
        gateway(with_role(up, services, keys)) as gate,
    ):
        replies = await asyncio.gather(*(chat(gate) for _ in range(10)))
        assert [reply.status for reply in replies] == [200] * 10
        assert (len(services.requests), account.refusals) == (1, [])
        services.script = [Hang()]
        assert (await chat(gate)).status == 200
        used = {
            request.headers["authorization"].partition("Credential=")[2].partition("/")[0] for request in up.requests
        }
        assert used == set(account.keys) - {keys.access_key_id}
        await gate.vacated()


async def test_a_service_that_refuses_is_named_and_another_target_answers() -> None:
    account = AwsAccount(external_id="not-configured")
    keys = account.issue(temporary=False)
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(ANSWER)) as up,
        ScriptedUpstream(account.services) as services,
        ScriptedUpstream(stream(openai_stream())) as other,
        gateway(
            with_role(up, services, keys)
            + f'[[providers]]\nname = "other"\nkind = "openai"\nbase_url = "{other.base_url}"\napi_key = "k"\n'
            + '[[models]]\nid = "m"\ntargets = [{ provider = "up", model = "anthropic.claude-x" }, '
            + '{ provider = "other", model = "gpt" }]\n'
        ) as gate,
    ):
        reply = await chat(gate)
        error = error_of(reply)
        assert (reply.status, error["code"]) == (502, "upstream_auth_failed")
        assert "AWS STS refused the gateway (403 AccessDenied)" in error["message"]
        for secret in (keys.secret_access_key, keys.access_key_id, "123456789012", "arn:"):
            assert secret.encode() not in reply.body
        assert (await chat(gate, "m")).status == 200
        assert (len(services.requests), up.requests) == (1, [])  # within the pause it is not asked again
        first, second = await gate.settled(2)
        assert (first.attempts[-1].error, second.verdict) == ("upstream_auth_failed", "completed")
        await gate.vacated()


async def test_a_service_that_hangs_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamweir.upstream.cloud.aws_token_service._STS_S", 0.1)
    account = AwsAccount()
    keys = account.issue(temporary=False)
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(ANSWER)) as up,
        ScriptedUpstream([Hang()]) as services,
        gateway(with_role(up, services, keys)) as gate,
    ):
        async with await gate.connect() as client:
            await client.send(chat_request(model=MODEL))
            await services.seen(1)  # the caller leaves while the gateway waits for keys
        await gate.settled()
        reply = await chat(gate)
        error = error_of(reply)
        assert (reply.status, error["code"]) == (504, "upstream_timeout")
        assert "AWS STS" in error["message"]
        assert up.requests == []
        await gate.vacated()
