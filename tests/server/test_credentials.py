"""Several keys of one provider, over sockets: one that is refused or limited costs no caller an answer.

docs/spec/failures.md U41.
"""

import asyncio
import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest

from conftest import SOAKS
from streamweir.config.model import Provider
from streamweir.policy.routing.health import Span
from streamweir.server.request.attempt.candidates import Candidates
from streamweir.server.request.runtime.config import build_runtime_config
from streamweir.server.telemetry.log import close_log, configure_log
from streamweir.upstream.base import Upstream
from support.answers import anthropic_whole, error_body, openai_stream, openai_whole
from support.gateway import Gate, chat_request, configured, gateway, providers
from support.script import Seen, Step, stream, whole
from support.scripted_upstream import ScriptedUpstream

pytestmark = pytest.mark.usefixtures("no_jitter")

CALLERS = 8
KEYS = {"first": "canary4f9a0c7b", "second": "canary83bd51e6"}
REVOKED = whole(
    error_body("Incorrect API key provided: canary4f9a0c7b", "invalid_request_error", "invalid_api_key"), 401
)
NO_CREDIT = whole(error_body("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), 429)
LIMITED = whole(error_body("Rate limit reached", "requests", "rate_limit_exceeded"), 429, [("retry-after", "60")])
NO_ACCESS = whole(error_body("Project does not have access to model m", code="model_not_available"), 403)


class Accounts:
    """An upstream that answers by the key that was sent."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.keys = dict(KEYS)
        self.refused: dict[str, list[Step]] = {}
        """The answer to a key, by its name. Others are served."""
        self.only: str | None = None
        """If set: the model that is refused."""

    def __call__(self, request: Seen) -> list[Step]:
        key = request.headers.get("x-api-key") or request.headers["authorization"].removeprefix("Bearer ")
        name = next(name for name, secret in self.keys.items() if secret == key)
        self.asked.append(name)
        model = request.json["model"]
        if name in self.refused and self.only in (None, model):
            return self.refused[name]
        if request.path.endswith("/count_tokens"):
            return whole(b'{"input_tokens": 9}')
        if request.path.endswith("/embeddings"):
            vector = {"object": "embedding", "index": 0, "embedding": [0.5]}
            return whole(
                json.dumps(
                    {"object": "list", "data": [vector], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}
                ).encode()
            )
        if request.path.endswith("/messages"):
            return whole(anthropic_whole())
        return list(stream(openai_stream()) if request.json.get("stream") else whole(openai_whole()))


def toml(url: str, kind: str = "openai", keys: dict[str, str] | None = None) -> str:
    entries = ", ".join(f'{{ name = "{name}", key = "{key}" }}' for name, key in (keys or KEYS).items())
    head = "[routing]\naffinity_s = 0\n"  # each request chooses anew
    return f'{head}[[providers]]\nname = "up"\nkind = "{kind}"\nbase_url = "{url}"\napi_keys = [{entries}]\n'


@pytest.fixture
def log() -> Iterator[StringIO]:
    written = StringIO()
    configure_log("json", written)
    try:
        yield written
    finally:
        close_log()


def told(log: StringIO, event: str) -> list[dict[str, Any]]:
    close_log()  # what was logged is written by a thread
    found = [json.loads(line) for line in log.getvalue().splitlines()]
    assert "canary" not in log.getvalue()
    return [each for each in found if each["event"] == event]


async def ask(gate: Gate, model: str = "up/m", *, streamed: bool = False) -> int:
    reply = await gate.ask(model=model, stream=streamed)
    assert b"canary" not in reply.body
    return reply.status


def no_local(_: Provider) -> Upstream:
    raise AssertionError


def pass_time(gate: Gate) -> None:
    """The ejections of all credentials are over."""
    for _, health in gate.gateway.runtime.router.pools["up"].known():
        if health.ejection is not None:
            health.ejection = Span(health.ejection.since - health.ejection.duration_s, health.ejection.duration_s)


@pytest.mark.parametrize(
    ("refused", "code"), [(REVOKED, "upstream_auth_failed"), (NO_CREDIT, "upstream_quota_exhausted")]
)
async def test_a_revoked_key_is_asked_once_and_every_caller_is_served(
    log: StringIO, refused: list[Step], code: str
) -> None:
    accounts = Accounts()
    accounts.refused["first"] = refused
    async with ScriptedUpstream(accounts) as up, gateway(toml(up.base_url)) as gate:
        statuses = [await ask(gate, streamed=bool(number % 2)) for number in range(10)]
        statuses += await asyncio.gather(*(ask(gate, f"up/m{number % 3}") for number in range(20)))
        assert statuses == [200] * 30
        assert accounts.asked.count("first") == 1
        records = await gate.settled(30)
        tries = [(each.credential, each.error) for each in records[0].attempts]
        assert tries == [("first", code), ("second", None)]
        assert [each.credential for each in records[1].attempts] == ["second"]
        metrics = gate.gateway.metrics_text().decode()
        assert 'streamweir_credential_available{credential="first",provider="up"} 0.0' in metrics
        assert 'streamweir_credential_available{credential="second",provider="up"} 1.0' in metrics
        assert 'streamweir_credential_ejections_total{credential="first",provider="up"} 1.0' in metrics

        pass_time(gate)
        assert [await ask(gate) for _ in range(5)] == [200] * 5
        assert accounts.asked.count("first") == 2, "one probe"

        pass_time(gate)
        accounts.refused.clear()
        assert [await ask(gate) for _ in range(5)] == [200] * 5
        assert accounts.asked[-5:] == ["first"] * 5
    ejected = told(log, "credential ejected")
    assert {(each["level"], each["provider"], each["credential"], each["reason"]) for each in ejected} == {
        ("warning", "up", "first", code)
    }
    assert [each["for_s"] for each in ejected] == [600.0, 1200.0]
    (back,) = told(log, "credential available again")
    assert (back["provider"], back["credential"]) == ("up", "first")
    assert [each["credential"] for each in told(log, "request")[0]["attempts"]] == ["first", "second"]


async def test_a_key_is_revoked_under_load() -> None:
    """Of those that were under way with it each is refused once, and served with another key."""
    accounts, revoked_after, rounds = Accounts(), 3 * CALLERS, 50 if SOAKS else 6

    def script(request: Seen) -> list[Step]:
        if len(accounts.asked) >= revoked_after:
            accounts.refused["first"] = REVOKED
        return accounts(request)

    async with ScriptedUpstream(script) as up, gateway(toml(up.base_url)) as gate:

        async def call(number: int) -> list[int]:
            return [await ask(gate, f"up/m{number}", streamed=bool(at % 2)) for at in range(rounds)]

        statuses = await asyncio.gather(*map(call, range(CALLERS)))
        assert statuses == [[200] * rounds] * CALLERS
        records = await gate.settled(CALLERS * rounds)
        refused = [each for record in records for each in record.attempts if each.error is not None]
        assert 1 <= len(refused) <= CALLERS
        assert {(each.credential, each.error) for each in refused} == {("first", "upstream_auth_failed")}


async def test_a_limited_key_gets_no_requests_for_its_retry_after() -> None:
    accounts = Accounts()
    accounts.refused["first"] = LIMITED
    async with ScriptedUpstream(accounts) as up, gateway(toml(up.base_url)) as gate:
        assert [await ask(gate) for _ in range(5)] == [200] * 5
        assert accounts.asked == ["first", *["second"] * 5]
        assert await ask(gate, "up/other") == 200
        assert accounts.asked[-2:] == ["first", "second"], "another model has a limit of its own"
        accounts.refused["second"] = LIMITED
        assert [await ask(gate) for _ in range(2)] == [429, 429]
        assert accounts.asked[-1:] == ["second"]
        reply = await gate.ask(model="up/m")
        assert 30 < int(reply.header("retry-after") or 0) <= 60


@pytest.mark.parametrize("answer", [REVOKED, LIMITED, NO_ACCESS], ids=["revoked", "limited", "no access"])
@pytest.mark.parametrize("listed", ["targets", "fallbacks"])
async def test_an_attempt_is_kept_for_another_target_if_no_key_is_of_use(answer: list[Step], listed: str) -> None:
    """There are as many keys as attempts."""
    keys = {"first": "canary4f9a0c7b", "second": "canary83bd51e6", "third": "canary17c2d9e0"}
    own, other = '{ provider = "up", model = "m" }', '{ provider = "other", model = "n" }'
    models = f'[[models]]\nid = "a"\ntargets = [{own}, {other}]\n'
    if listed == "fallbacks":
        models = f'[[models]]\nid = "a"\ntargets = [{own}]\nfallbacks = ["b"]\n'
        models += f'[[models]]\nid = "b"\ntargets = [{other}]\n'
    async with ScriptedUpstream(answer) as up, ScriptedUpstream(whole(openai_whole())) as well:
        toml_of_both = f"{toml(up.base_url, keys=keys)}{providers(other=well.base_url)}{models}"
        async with gateway(toml_of_both) as gate:
            assert [await ask(gate, "a") for _ in range(6)] == [200] * 6
            tries = [each.target for each in (await gate.settled(6))[0].attempts]
            assert tries == ["up/m", "up/m", "other/n"]


async def test_if_all_are_revoked_the_log_tells_which(log: StringIO) -> None:
    accounts = Accounts()
    accounts.refused = dict.fromkeys(KEYS, REVOKED)
    async with ScriptedUpstream(accounts) as up, gateway(toml(up.base_url)) as gate:
        assert await ask(gate) == 502
        assert accounts.asked == ["first", "second"]
        reply = await gate.ask(model="up/m")
        assert (reply.status, b"no_available_deployment" in reply.body) == (503, True)
        assert 1 <= int(reply.header("retry-after") or 0) <= 30
        assert len(accounts.asked) == 2
        for _, health in gate.gateway.runtime.router.pools["up"].known():
            health.tried = Span(health.tried.since - 30.0, 30.0)  # the time between two probes is over
        accounts.refused.clear()
        assert [await ask(gate) for _ in range(2)] == [200, 200]
        assert accounts.asked[2:] == ["first", "first"]
    assert [each["credential"] for each in told(log, "credential ejected")] == ["first", "second"]
    assert [each["credential"] for each in told(log, "credential available again")] == ["first"]


async def test_a_key_without_access_to_one_model_serves_the_others() -> None:
    accounts = Accounts()
    accounts.refused["first"], accounts.only = NO_ACCESS, "m"
    async with ScriptedUpstream(accounts) as up, gateway(toml(up.base_url)) as gate:
        assert [await ask(gate) for _ in range(3)] == [200] * 3
        assert accounts.asked == ["first", *["second"] * 3]
        assert await ask(gate, "up/other") == 200
        assert accounts.asked[-1] == "first"


LOW = whole(error_body("Your credit balance is too low to access the API.", "invalid_request_error"), 400)


async def test_a_text_about_the_account_is_believed_if_another_key_is_answered() -> None:
    accounts = Accounts()
    accounts.refused["first"] = LOW
    async with ScriptedUpstream(accounts) as up, gateway(toml(up.base_url)) as gate:
        assert [await ask(gate, f"up/m{number}", streamed=bool(number % 2)) for number in range(4)] == [200] * 4
        assert accounts.asked == ["first", *["second"] * 4], "for all models"
        pass_time(gate)
        assert [await ask(gate) for _ in range(4)] == [200] * 4
        assert accounts.asked.count("first") == 2, "one probe"


@pytest.mark.parametrize(
    ("members", "answer", "status"),
    [
        ({"insufficient_quota": 1}, whole(error_body("Unknown parameter: insufficient_quota"), 400), 503),
        ({"invalid_api_key": 1}, whole(error_body("Unknown parameter: invalid_api_key"), 400), 502),
        ({"user": "cat /etc/passwd"}, whole(b"<html><title>Sorry, you have been blocked</title></html>", 403), 502),
    ],
    ids=["quotes a word for no credit", "quotes a word for a bad key", "a firewall"],
)
async def test_no_caller_can_take_the_keys_from_the_others(
    members: dict[str, Any], answer: list[Step], status: int
) -> None:
    """Its own request makes the provider answer as if each of the keys were refused."""
    accounts = Accounts()

    def script(request: Seen) -> list[Step]:
        served = accounts(request)
        return answer if members.items() <= request.json.items() else served

    async with ScriptedUpstream(script) as up, gateway(toml(up.base_url)) as gate:
        assert (await gate.ask(model="up/m", **members)).status == status
        assert accounts.asked == ["first", "second"]
        assert [await ask(gate), await ask(gate, "up/other")] == [200, 200]
        assert accounts.asked[2:] == ["first", "first"], "neither is ejected"


async def test_a_failure_of_the_target_does_not_use_up_its_keys() -> None:
    broken = dict.fromkeys(KEYS, whole(error_body("x", "api_error"), 400))
    accounts = Accounts()
    accounts.refused = broken
    async with ScriptedUpstream(accounts) as up, gateway(toml(up.base_url)) as gate:
        assert await ask(gate) == 400
        assert accounts.asked == ["first"]


async def test_the_other_key_of_a_slow_target_is_no_reason_to_end_it_early() -> None:
    """A short `first_event_s` is for a failover to another target (`is_last`)."""
    alias = '[[models]]\nid = "a"\ntargets = [{ provider = "up", model = "m" }, { provider = "up", model = "n" }]\n'
    runtime = build_runtime_config(configured(toml("http://127.0.0.1:1") + alias), open_local=no_local)
    for name, is_last in (("up/m", True), ("a", False)):
        route = runtime.routes.resolve(name)
        assert route is not None
        found = runtime.router.order(route, 0.0, lambda: 0.0)
        assert Candidates(runtime, route, found, lambda *_: []).is_last is is_last


@pytest.mark.parametrize(
    ("kind", "path", "body"),
    [
        ("openai", "/v1/embeddings", {"model": "up/m", "input": "x"}),
        ("openai", "/v1/responses", {"model": "up/m", "input": "x"}),
        ("anthropic", "/v1/chat/completions", {"model": "up/m", "messages": [{"role": "user", "content": "x"}]}),
        (
            "anthropic",
            "/v1/messages",
            {"model": "up/m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]},
        ),
    ],
)
async def test_every_api_uses_the_keys(kind: str, path: str, body: dict[str, Any]) -> None:
    accounts = Accounts()
    accounts.refused["first"] = REVOKED
    async with (
        ScriptedUpstream(accounts) as up,
        gateway(toml(up.base_url, kind)) as gate,
        await gate.connect() as client,
    ):

        async def call() -> int:
            await client.send(chat_request(path=path, body=json.dumps(body).encode()))
            return (await client.response()).status

        assert await call() == 200
        assert accounts.asked == ["first", "second"]
        accounts.refused.clear()
        pass_time(gate)
        assert [await call() for _ in range(2)] == [200, 200]
        (first, health), _ = gate.gateway.runtime.router.pools["up"].known()
        assert (first.name, health.ejection) == ("first", None), "its answer makes it available again"


async def test_tokens_are_counted_with_an_available_key() -> None:
    accounts = Accounts()
    accounts.refused["first"] = REVOKED
    body = {"model": "up/m", "messages": [{"role": "user", "content": "x"}]}
    async with ScriptedUpstream(accounts) as up, gateway(toml(up.base_url, "anthropic")) as gate:
        assert await ask(gate) == 200
        async with await gate.connect() as client:
            await client.send(chat_request(path="/v1/messages/count_tokens", body=json.dumps(body).encode()))
            reply = await client.response()
        assert (reply.status, json.loads(reply.body)) == (200, {"input_tokens": 9})
        assert accounts.asked[-1] == "second"


async def test_a_new_secret_is_used_at_once_and_the_others_keep_their_health() -> None:
    accounts = Accounts()
    accounts.refused["first"] = REVOKED
    async with (
        ScriptedUpstream(accounts) as up,
        gateway(toml(up.base_url, keys={"a": KEYS["first"], "b": KEYS["second"]})) as gate,
    ):
        assert await ask(gate) == 200
        gate.gateway.reload(configured(toml(up.base_url, keys={"x": KEYS["second"], "y": KEYS["first"]})))
        assert await ask(gate) == 200
        assert accounts.asked == ["first", "second", "second"], "still the same secret, whatever its name"
        gate.gateway.reload(configured(toml(up.base_url, keys={"x": "canary-rotated", "y": KEYS["first"]})))
        accounts.keys["rotated"] = "canary-rotated"
        assert await ask(gate) == 200
        assert accounts.asked[-1] == "rotated"
        accounts.refused.clear()
        gate.gateway.reload(configured(toml(up.base_url, keys={"y": "canary-rotated", "x": KEYS["second"]})))
        assert await ask(gate) == 200
        assert accounts.asked[-1] == "rotated"


async def test_one_key_of_a_provider_that_was_ejected_is_changed() -> None:
    accounts = Accounts()
    accounts.refused["first"] = REVOKED
    async with ScriptedUpstream(accounts) as up, gateway(toml(up.base_url, keys={"a": KEYS["first"]})) as gate:
        assert [await ask(gate) for _ in range(6)] == [502] * 5 + [503]
        gate.gateway.reload(configured(toml(up.base_url, keys={"a": KEYS["second"]})))
        assert await ask(gate) == 200


async def test_one_key_in_the_list_is_as_one_without_a_list() -> None:
    accounts = Accounts()
    accounts.refused["first"] = REVOKED
    async with ScriptedUpstream(accounts) as up, gateway(toml(up.base_url, keys={"first": KEYS["first"]})) as gate:
        assert [await ask(gate) for _ in range(6)] == [502] * 5 + [503], "ejected after five failures"
        assert [each.credential for each in (await gate.settled(6))[0].attempts] == [""]
        assert "streamweir_credential_available{" not in gate.gateway.metrics_text().decode()
