"""Failures of the clouds through the gateway: what callers of each API read, and what the operator's log has."""

import json
import socket
from typing import Any

import pytest

from streamweir.server.telemetry.attempt_members import known_members
from support.answers import openai_whole
from support.aws_server import origin_of
from support.gateway import gateway, nothing_left, providers
from support.script import whole
from support.scripted_upstream import ScriptedUpstream

PROVIDERS = {
    "bedrock": 'kind = "bedrock"\nregion = "eu-central-1"',
    "vertex": 'kind = "vertex"\nproject = "p"',
    "azure": 'kind = "azure"',
}
CLAUDE = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
MISSING = "Publisher Model `projects/p/locations/global/publishers/google/models/m` was not found or your project"
ON_DEMAND = f"Invocation of model ID {CLAUDE} with on-demand throughput isn\u2019t supported."
FAILURES: list[tuple[str, str, int, dict[str, str], dict[str, Any], str, str]] = [
    # kind, model, the response's status, headers and body, our code, words of the message
    (
        "bedrock",
        CLAUDE,
        403,
        {"x-amzn-errortype": "ExpiredTokenException:http://internal.amazon.com/"},
        {"message": "The security token included in the request is expired"},
        "upstream_auth_failed",
        "The gateway's AWS credentials have expired.",
    ),
    (
        "bedrock",
        CLAUDE,
        400,
        {"x-amzn-errortype": "ValidationException"},
        {"message": ON_DEMAND},
        "upstream_model_not_found",
        "through inference profiles only",
    ),
    (
        "bedrock",
        "amazon.nova-pro-v1:0",
        429,
        {"x-amzn-errortype": "ThrottlingException"},
        {"message": "Too many requests, please wait before trying again."},
        "upstream_rate_limited",
        "Service Quotas",
    ),
    (
        "bedrock",
        "openai.gpt-oss-120b-1:0",
        403,
        {"x-amzn-errortype": "AccessDeniedException"},
        {"Message": "You don't have access to the model with the specified model ID."},
        "upstream_auth_failed",
        "Enable the model in the Amazon Bedrock console",
    ),
    (
        "vertex",
        "gemini-9",
        404,
        {},
        {"error": {"code": 404, "message": MISSING}},
        "upstream_model_not_found",
        "location",
    ),
    (
        "vertex",
        "claude-9",
        404,
        {},
        {"error": {"code": 404, "message": MISSING}},
        "upstream_model_not_found",
        "Model Garden",
    ),
    (
        "vertex",
        "meta/llama",
        404,
        {},
        {"error": {"code": 404, "message": MISSING}},
        "upstream_model_not_found",
        "location",
    ),
    (
        "azure",
        "claude-9",
        404,
        {},
        {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."}},
        "upstream_model_not_found",
        "no deployment of this name",
    ),
    (
        "azure",
        "gpt",
        401,
        {},
        {"error": {"code": "PermissionDenied", "message": "Principal does not have access to API/Operation."}},
        "upstream_auth_failed",
        "Cognitive Services OpenAI User",
    ),
]


@pytest.mark.parametrize(("kind", "model", "status", "headers", "body", "code", "words"), FAILURES, ids=str)
async def test_a_failure_says_what_to_do(
    kind: str, model: str, status: int, headers: dict[str, str], body: dict[str, Any], code: str, words: str
) -> None:
    script = whole(json.dumps(body).encode(), status, list(headers.items()))
    async with nothing_left(), ScriptedUpstream(script) as up, ScriptedUpstream(whole(openai_whole())) as other:
        toml = f"""
[[providers]]
name = "up"
{PROVIDERS[kind]}
base_url = "{origin_of(up)}"
api_key = "sk-upstream-secret"
retries = 0
cooldown_s = 0
{providers(other=other.base_url)}
[[models]]
id = "either"
targets = [{{ provider = "up", model = "{model}" }}, {{ provider = "other", model = "m" }}]
"""
        async with gateway(toml) as gate:
            for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
                reply = await gate.ask(path=path, model=f"up/{model}", stream=True)
                error = json.loads(reply.body)["error"]
                assert words in error["message"], path
                if path == "/v1/chat/completions":
                    assert error["code"] == code
            # Another target answers, and the operator reads of the failure all the same.
            reply = await gate.ask(model="either")
            assert reply.status == 200
            for record in await gate.settled(4):
                members = known_members(record.attempts[0])
                assert words in members["advice"]
                assert members["status"] == status


@pytest.mark.parametrize(
    ("kind", "place", "words"),
    [
        ("bedrock", 'region = "eu-nowhere-1"', "check region"),
        ("vertex", 'project = "p"\nlocation = "mars"', "check location"),
    ],
)
async def test_a_region_that_does_not_exist(kind: str, place: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    toml = f'[[providers]]\nname = "up"\nkind = "{kind}"\n{place}\napi_key = "sk-upstream-secret"\nretries = 0\n'
    async with nothing_left(), gateway(f"{toml}list_models = false\n") as gate:
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        error = json.loads((await gate.ask(model="up/m")).body)["error"]
        (record,) = await gate.settled()
    assert error["code"] == "upstream_dns_failed"
    assert words in error["message"]
    assert words in known_members(record.attempts[0])["advice"]
