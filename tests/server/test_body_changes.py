"""`defaults`, `override` and `drop` in the bodies that providers get, for every API; and limits, which only lower."""

import json
from typing import Any

import pytest

from streamweir.core.request import ChatRequest
from streamweir.frontends.table import FRONTENDS
from streamweir.policy.routing.health import Candidate, TargetId
from streamweir.providers.base import UpstreamRequest
from streamweir.server.request.attempt.attempt_setup import build_request, limit_for
from streamweir.server.request.runtime.config import RuntimeConfig, build_runtime_config
from streamweir.upstream.sim import SimUpstream
from support.answers import openai_whole
from support.gateway import MESSAGES, configured
from support.outcome import assert_whole, serving
from support.script import Seen, Step, whole


def runtime(own: str, kind: str = "openai", target: str = "") -> RuntimeConfig:
    toml = f'[[providers]]\nname = "up"\nkind = "{kind}"\n{own}\n'
    toml += f'[[models]]\nid = "m"\ntargets = [{{ provider = "up", model = "m"{target} }}]\n'
    return build_runtime_config(configured(toml), lambda _: SimUpstream())


def chat(frontend: str = "openai", **members: Any) -> ChatRequest:
    named = {"responses": "input", "embeddings": "input"}.get(frontend, "messages")
    return FRONTENDS.by_name[frontend].parse({"model": "m", named: MESSAGES, **members}, {})


def limit(config: RuntimeConfig, request: ChatRequest) -> tuple[int | None, tuple[str, ...]]:
    route = config.routes.resolve("m")
    assert route is not None
    return limit_for(config, route, request, TargetId("up", "m"), None)


def made(config: RuntimeConfig, request: ChatRequest) -> UpstreamRequest:
    return build_request(config, request, Candidate(TargetId("up", "m")), limit(config, request)[0])


def sent(config: RuntimeConfig, request: ChatRequest) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(made(config, request).body)
    return body


def test_a_body_of_chat_completions() -> None:
    config = runtime('defaults = { temperature = 0.2, top_p = 0.9 }\noverride = { user = "team" }\ndrop = ["seed"]')
    request = made(config, chat(temperature=1, seed=7, user="me"))
    assert json.loads(request.body) == {
        "model": "m",
        "messages": MESSAGES,
        "temperature": 1,
        "user": "team",
        "top_p": 0.9,
    }
    assert request.dropped == ("seed",)
    assert made(config, chat()).dropped == (), "the caller had not sent it"


def test_a_target_sets_over_its_provider() -> None:
    own = 'defaults = { top_p = 0.1, top_k = 1, metadata = { a = "1", b = "1" } }\noverride = { seed = 1, user = "p" }'
    target = ', defaults = { top_p = 0.5, metadata = { b = "2" } }, override = { seed = 2 }, drop = ["user", "top_k"]'
    config = runtime(own, target=target)
    body = sent(config, chat(user="me"))
    assert (body["top_p"], body["seed"], body["metadata"]) == (0.5, 2, {"a": "1", "b": "2"})
    assert not {"user", "top_k"} & set(body)
    other = json.loads(build_request(config, chat(), Candidate(TargetId("up", "other"))).body)
    assert (other["top_p"], other["seed"], other["user"], other["top_k"]) == (0.1, 1, "p", 1)


def test_a_body_that_is_passed_on_as_it_came() -> None:
    messages = runtime('override = { metadata = { user_id = "x" } }\ndrop = ["top_k"]', "anthropic")
    request = made(messages, chat("messages", max_tokens=64, top_k=3, temperature=0.5))
    body = json.loads(request.body)
    assert list(body) == ["model", "messages", "max_tokens", "temperature", "metadata"]
    assert request.dropped == ("top_k",)
    responses = runtime('wire = "responses"\ndefaults = { reasoning = { effort = "low" } }\ndrop = ["truncation"]')
    request = made(responses, chat("responses", truncation="auto", reasoning={"summary": "auto"}))
    assert json.loads(request.body)["reasoning"] == {"summary": "auto", "effort": "low"}
    assert request.dropped == ("truncation",)


def test_a_translated_body_has_the_names_of_the_provider_and_drops_those_of_the_caller() -> None:
    config = runtime(
        "defaults = { generationConfig = { topK = 5, thinkingConfig = { includeThoughts = true } } }\n"
        'drop = ["generationConfig.stopSequences", "generationConfig.topP"]',
        "gemini",
    )
    request = made(config, chat(stop=["END"], temperature=0.5))
    assert json.loads(request.body)["generationConfig"] == {
        "temperature": 0.5,
        "topK": 5,
        "thinkingConfig": {"includeThoughts": True},
    }
    assert request.dropped == ("stop",)
    from_messages = made(config, chat("messages", max_tokens=64, stop_sequences=["END"]))
    assert from_messages.dropped == ("stop_sequences",), "by the name that the caller's API has for it"


def test_an_operator_sets_a_guardrail_at_bedrock() -> None:
    own = 'region = "us-east-1"\napi_key = "k"\ndrop = ["toolConfig", "requestMetadata", "inferenceConfig.topP"]\n'
    guardrail = {"guardrailIdentifier": "g", "guardrailVersion": "1"}
    config = runtime(
        own + 'override = { guardrailConfig = { guardrailIdentifier = "g", guardrailVersion = "1" } }', "bedrock"
    )
    tools = [{"type": "function", "function": {"name": "f"}}]
    request = made(config, chat(tools=tools, metadata={"a": "b"}, guardrailConfig={"guardrailIdentifier": "mine"}))
    body = json.loads(request.body)
    assert sorted(body) == ["guardrailConfig", "messages"]
    assert body["guardrailConfig"] == guardrail
    assert request.dropped == ("guardrailConfig", "tools", "metadata")


def test_embeddings_and_each_call_of_several() -> None:
    config = runtime("override = { dimensions = 64 }\n", "openai")
    request = made(config, chat("embeddings", input=["a", "b"]))
    assert json.loads(request.body)["dimensions"] == 64
    texts = FRONTENDS.by_name["completions"].parse({"model": "m", "prompt": ["a", "b", "c"]}, {})
    several = made(runtime("defaults = { temperature = 0.3 }", "anthropic"), texts)
    bodies = [json.loads(body) for body in (several.body, *several.more)]
    assert [body["temperature"] for body in bodies] == [0.3, 0.3, 0.3]
    assert [body["messages"][0]["content"] for body in bodies] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("rule", "asked", "most", "flags"),
    [
        ("defaults = { max_tokens = 100 }", None, 100, ()),
        ("defaults = { max_tokens = 100 }", 5000, None, ()),
        ("override = { max_tokens = 100 }", None, 100, ()),
        ("override = { max_completion_tokens = 100 }", 5000, 100, ("max_tokens_clamped",)),
        ("override = { max_tokens = 5000 }", 100, None, ()),
        ("defaults = { max_tokens = 100 }\noverride = { max_tokens = 50 }", None, 50, ()),
    ],
)
def test_a_limit_only_lowers_and_fills(rule: str, asked: int | None, most: int | None, flags: tuple[str, ...]) -> None:
    config = runtime(rule, "vllm")
    request = chat(max_tokens=asked) if asked is not None else chat()
    assert limit(config, request) == (most, flags)
    assert sent(config, request)["max_tokens"] == (most or asked)


def test_a_limit_is_within_the_longest_answer_of_the_target() -> None:
    config = runtime("override = { max_tokens = 5000 }", "vllm", ", max_output_tokens = 900")
    assert limit(config, chat()) == (900, ("max_tokens_clamped",))
    assert sent(config, chat())["max_tokens"] == 900


def test_a_limit_has_the_name_that_the_provider_has_for_it() -> None:
    for kind, name in (("openai", "max_completion_tokens"), ("anthropic", "max_tokens")):
        assert sent(runtime("override = { max_tokens = 50 }", kind), chat())[name] == 50
    gemini = runtime("override = { generationConfig = { maxOutputTokens = 50 } }", "gemini")
    assert sent(gemini, chat())["generationConfig"] == {"maxOutputTokens": 50}
    own = 'region = "us-east-1"\napi_key = "k"\noverride = { inferenceConfig = { maxTokens = 50 } }'
    converse = runtime(own, "bedrock")
    assert sent(converse, chat())["inferenceConfig"] == {"maxTokens": 50}
    passed = runtime("override = { max_tokens = 50 }", "anthropic")
    assert sent(passed, chat("messages", max_tokens=64))["max_tokens"] == 50


async def test_a_caller_is_told_what_the_operator_dropped() -> None:
    own = 'defaults = { top_p = 0.5 }\ndrop = ["seed", "logit_bias"]'
    async with serving(whole(openai_whole()), own=own) as (gate, up):
        assert_whole(await gate.ask(model="up/m", seed=3))
        record = (await gate.settled())[0]
        assert record.dropped == ("seed",)
        assert up.requests[0].json == {"model": "m", "messages": MESSAGES, "top_p": 0.5}


async def test_the_count_of_a_prompt_has_what_a_count_can_have() -> None:
    def script(request: Seen) -> list[Step]:
        assert request.path.endswith("/count_tokens")
        return whole(b'{"input_tokens": 42}')

    own = 'defaults = { temperature = 0.5, thinking = { type = "disabled" } }\ndrop = ["tool_choice"]'
    async with serving(script, "anthropic", own=own) as (gate, up):
        reply = await gate.ask(path="/v1/messages/count_tokens", model="up/m", tool_choice={"type": "auto"})
        assert json.loads(reply.body) == {"input_tokens": 42}
        body = up.requests[0].json
        assert body["thinking"] == {"type": "disabled"}
        assert not {"temperature", "tool_choice"} & set(body)
