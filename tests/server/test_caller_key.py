"""Keys: which are good, for what, how often, and what is said of those that are not (C19 to C22, C25, C32).

A refusal tells nothing that the caller does not know: not whether a model exists that it may not use,
not whether a key is nearly right, and never the key itself. It is made on the head alone, so that no
body is read and no `100 Continue` sent for it.
"""

import json
import random
from math import sqrt
from time import perf_counter
from typing import Any

import pytest

from streamweir.core.verdict import Verdict
from support.answers import TEXTS, openai_stream, openai_whole
from support.gateway import KEY, Gate, chat_request, configured, gateway_to, text_of
from support.raw_client import RawClient, Reply
from support.script import in_turn, stream, whole

NARROW = "sk-narrow-0123456789abcdef"
EXPIRED = "sk-expired-0123456789abcdef"
OTHER = "sk-other-0123456789abcdef"
KEYS = f"""
[[keys]]
name = "wide"
key = "{KEY}"
[[keys]]
name = "narrow"
key = "{NARROW}"
models = ["up/small", "fast*"]
[[keys]]
name = "expired"
key = "{EXPIRED}"
expires = 2020-01-01T00:00:00Z
[[keys]]
name = "other"
key = "{OTHER}"
expires = 2999-01-01T00:00:00Z
"""
ALIAS = '[[models]]\nid = "fast-one"\ntargets = [{ provider = "up", model = "m" }]\n'


def error_of(reply: Reply) -> dict[str, Any]:
    document = json.loads(reply.body)
    assert list(document) == ["error"]
    error: dict[str, Any] = document["error"]
    return error


def same_for_all(reply: Reply) -> tuple[object, ...]:
    """All of an answer but what differs between any two: its time, its id and the name that was asked for."""
    headers = [pair for pair in reply.headers if pair[0] not in ("date", "x-request-id")]
    return reply.status, headers, reply.body.replace(b"xx/", b"up/")


# C19, C20: models.


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_unknown_model(is_streamed: bool) -> None:
    unknown = ["m", "nobody/m", "up", "up/", "/m", "fast", "FAST-one", "up/m\n", "../up/m", "é" * 100]
    async with gateway_to(in_turn(), ALIAS) as (gate, up):
        for number, model in enumerate(unknown, start=1):
            reply = await gate.ask(model=model, stream=is_streamed)
            assert (reply.status, reply.header("x-should-retry")) == (404, "false")
            error = error_of(reply)
            words = error["type"], error["code"], error["param"]
            assert words == ("invalid_request_error", "model_not_found", "model")
            record = (await gate.settled(number))[-1]
            assert (record.verdict, record.status, record.error) == (Verdict.REJECTED, 404, "model_not_found")
            assert (record.model, record.attempts, record.usage) == (model, [], None)
        assert up.accepted == 0


async def test_a_model_that_a_key_may_not_use_is_as_good_as_unknown() -> None:
    async with gateway_to(in_turn(), ALIAS + KEYS) as (gate, up):
        for denied, unknown in [("up/large", "xx/large"), ("up/", "xx/"), ("up/fast-one", "xx/fast-one")]:
            replies = [await gate.ask(model=model, key=NARROW) for model in (denied, unknown)]
            assert replies[0].status == 404
            assert same_for_all(replies[0]) == same_for_all(replies[1])
        assert {record.key for record in await gate.settled(6)} == {"narrow"}
        assert up.accepted == 0


USABLE = '"up/small", "fast*"'
SAID = {
    "/v1/chat/completions": f'This key may not use the model "NAME". It may use: {USABLE}.',
    "/opentoken/v1/chat/completions": f'This key may not use the model "NAME". It may use: {USABLE}.',
    "/aivene/v1/chat/completions": f'This key may not use the model "NAME". It may use: {USABLE}.',
    "/bitseek/v1/chat/completions": f'This key may not use the model "NAME". It may use: {USABLE}.',
    "/v1/messages": f"model: NAME (This key may not use it. It may use: {USABLE}.)",
    "/v1/responses": f'This key may not use the model "NAME". It may use: {USABLE}.',
    "/v1/completions": f'This key may not use the model "NAME". It may use: {USABLE}.',
    "/v1/embeddings": f'This key may not use the model "NAME". It may use: {USABLE}.',
}


def body_of(path: str, model: str) -> bytes:
    bodies = {
        "/v1/responses": {"input": "Hi"},
        "/v1/completions": {"prompt": "Hi"},
        "/v1/embeddings": {"input": "Hi"},
    }
    body = bodies.get(path, {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5})
    return json.dumps({"model": model, **body}).encode()


@pytest.mark.parametrize("path", SAID)
async def test_a_key_that_may_not_use_a_model_is_told_so_and_which_it_may(path: str) -> None:
    """Whether there is such a model or not (C20)."""
    async with gateway_to(in_turn(), ALIAS + KEYS) as (gate, up), await gate.connect() as client:
        for model in ("up/large", "nobody/large"):
            await client.send(chat_request(path=path, body=body_of(path, model), key=NARROW))
            reply = await client.response()
            assert reply.status == (400 if "opentoken" in path else 404)
            error = json.loads(reply.body)["error"]
            assert error["message"] == SAID[path].replace("NAME", model)
        assert up.accepted == 0


async def test_get_of_one_model_explains_an_unusable_name_too() -> None:
    async with gateway_to(in_turn(), ALIAS + KEYS) as (gate, _), await gate.connect() as client:
        for key, model, said in [
            (NARROW, "up%2Flarge", f'This key may not use the model "up/large". It may use: {USABLE}.'),
            (NARROW, "fast-on", 'model "fast-on" not found. Did you mean "fast-one"?'),
            (KEY, "fats-one", 'model "fats-one" not found. Did you mean "fast-one"?'),
            (KEY, "quite-another", 'model "quite-another" not found'),
        ]:
            head = f"GET /v1/models/{model} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n"
            await client.send(head.encode())
            reply = await client.response()
            assert (reply.status, error_of(reply)["code"]) == (404, "model_not_found")
            assert error_of(reply)["message"] == said


async def test_near_names_are_those_that_the_key_may_use() -> None:
    aliases = "".join(
        f'[[models]]\nid = "{name}"\ntargets = [{{ provider = "up", model = "m" }}]\n'
        for name in ("secret-two", "fast-two", "fast-too", "fast-tow", "fast-twos")
    )
    async with gateway_to(in_turn(), ALIAS + aliases + KEYS) as (gate, _):
        assert error_of(await gate.ask(model="fast-twoo", key=NARROW))["message"] == (
            'model "fast-twoo" not found. Did you mean "fast-too", "fast-two" or "fast-twos"?'
        )
        said = error_of(await gate.ask(model="secret-twoo", key=NARROW))["message"]
        assert said == f'This key may not use the model "secret-twoo". It may use: {USABLE}.'
        assert "secret-two" in error_of(await gate.ask(model="secret-twoo", key=KEY))["message"]
        await gate.settled(3)


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ([], "It may use no model."),
        (["a", "a"], 'It may use: "a".'),
        ([f"m{n}" for n in range(10)], "It may use: " + ", ".join(f'"m{n}"' for n in range(10)) + "."),
        (
            [*(f"other-{n:02}" for n in range(10)), "up/smaller", "up/small"],
            'It may use: "up/small", "up/smaller", ' + ", ".join(f'"other-{n:02}"' for n in range(8)) + ", and 2 more.",
        ),
    ],
    ids=["none", "twice", "ten", "twelve"],
)
async def test_up_to_ten_models_are_named_the_near_ones_first(models: list[str], said: str) -> None:
    keys = f'[[keys]]\nname = "k"\nkey = "{KEY}"\nmodels = {json.dumps(models)}\n'
    async with gateway_to(in_turn(), keys) as (gate, _):
        message = error_of(await gate.ask(model="up/smal"))["message"]
        assert message == f'This key may not use the model "up/smal". {said}'
        await gate.settled(1)


async def test_a_key_may_use_what_its_patterns_say() -> None:
    async with gateway_to(whole(openai_whole()), ALIAS + KEYS) as (gate, _):
        allowed = [("up/small", 200), ("fast-one", 200), ("fast-two", 404), ("up/small2", 404), ("up/m", 404)]
        for model, status in allowed:
            assert (await gate.ask(model=model, key=NARROW)).status == status
        assert (await gate.ask(model="up/m", key=KEY)).status == 200
        await gate.settled(len(allowed) + 1)


async def test_only_the_models_of_the_key_are_listed() -> None:
    listed = 'models = ["small", "large"]'
    async with gateway_to(in_turn(), ALIAS + KEYS, provider=listed) as (gate, _):
        for key, names in [(KEY, ["fast-one", "up/small", "up/large"]), (NARROW, ["fast-one", "up/small"])]:
            async with await gate.connect() as client:
                request = f"GET /v1/models HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\n\r\n"
                await client.send(request.encode())
                assert [row["id"] for row in json.loads((await client.response()).body)["data"]] == names
                denied = request.replace("/v1/models", "/v1/models/up/large")
                await client.send(denied.encode())
                assert (await client.response()).status == (200 if key == KEY else 404)
        await gate.settled(4)


# C21, C22: keys that are not good.

BAD: list[tuple[dict[str, str], str]] = [
    ({}, "missing_api_key"),
    ({"authorization": ""}, "missing_api_key"),
    ({"authorization": "Bearer"}, "missing_api_key"),
    ({"authorization": "Bearer "}, "missing_api_key"),
    ({"authorization": f"Basic {KEY}"}, "missing_api_key"),
    ({"authorization": KEY}, "missing_api_key"),
    ({"cookie": f"key={KEY}"}, "missing_api_key"),
    ({"authorization": "Bearer sk-nobodys-0123456789"}, "invalid_api_key"),
    ({"authorization": f"Bearer {KEY[:-1]}"}, "invalid_api_key"),
    ({"authorization": f"Bearer {KEY}x"}, "invalid_api_key"),
    ({"authorization": f"Bearer {KEY.swapcase()}"}, "invalid_api_key"),
    ({"authorization": f"Bearer {KEY}, Bearer {KEY}"}, "invalid_api_key"),
    ({"authorization": f"Bearer {EXPIRED[:-1]}"}, "invalid_api_key"),
    ({"authorization": "Bearer ' OR '1'='1"}, "invalid_api_key"),
    ({"authorization": "Bearer \xff\xfe" + "k" * 5000}, "invalid_api_key"),
    ({"x-api-key": "sk-nobodys-0123456789"}, "invalid_api_key"),
    ({"api-key": "sk-nobodys-0123456789"}, "invalid_api_key"),
    ({"authorization": f"Bearer {EXPIRED}"}, "expired_api_key"),
    ({"x-api-key": EXPIRED}, "expired_api_key"),
]


@pytest.mark.parametrize("line", ["POST /v1/chat/completions", "GET /v1/models", "GET /v1/models/up/m"])
async def test_a_key_that_is_not_good(line: str) -> None:
    async with gateway_to(in_turn(), KEYS) as (gate, up), await gate.connect() as client:
        for number, (headers, code) in enumerate(BAD, start=1):
            lines = [f"{line} HTTP/1.1", "host: a", *(f"{name}: {value}" for name, value in headers.items())]
            await client.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
            reply = await client.response()
            assert (reply.status, reply.header("www-authenticate")) == (401, "Bearer"), headers
            assert reply.header("x-should-retry") == "false"
            error = error_of(reply)
            assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, None), headers
            for value in headers.values():
                secret = value.rpartition(" ")[2]
                assert len(secret) < 10 or secret not in (reply.head + reply.body).decode("latin-1")
            record = (await gate.settled(number))[-1]
            assert (record.verdict, record.status, record.error) == (Verdict.REJECTED, 401, code)
            assert record.key == ("expired" if code == "expired_api_key" else None)
        assert up.accepted == 0


@pytest.mark.parametrize("header", ["authorization: Bearer ", "Authorization: bearer ", "x-api-key: ", "api-key: "])
async def test_a_valid_key_in_every_header_that_clients_use(header: str) -> None:
    async with gateway_to(whole(openai_whole()), KEYS) as (gate, up), await gate.connect() as client:
        request = chat_request(model="up/m", key=None).replace(b"\r\n", f"\r\n{header}{OTHER}\r\n".encode(), 1)
        await client.send(request)
        assert (await client.response()).status == 200
        (record,) = await gate.settled()
        assert record.key == "other"
        sent = [
            value for name, value in up.requests[0].fields if name.lower() in ("authorization", "x-api-key", "api-key")
        ]
        assert sent == ["Bearer sk-upstream-secret"]


async def test_a_key_that_was_taken_out_of_the_file_is_no_longer_good() -> None:
    async with gateway_to(whole(openai_whole()), KEYS) as (gate, up):
        assert (await gate.ask(model="up/m", key=OTHER)).status == 200
        without = KEYS[: KEYS.index('[[keys]]\nname = "other"')]
        toml = f'[[providers]]\nname = "up"\nkind = "openai"\nbase_url = "{up.base_url}"\n{without}'
        gate.gateway.reload(configured(toml))
        reply = await gate.ask(model="up/m", key=OTHER)
        assert (reply.status, error_of(reply)["code"]) == (401, "invalid_api_key")
        assert (await gate.ask(model="up/m", key=KEY)).status == 200
        await gate.settled(3)


@pytest.mark.parametrize(
    ("dialect", "words"),
    [
        ("opentoken", {"message": "invalid api key", "type": "authentication_error", "code": "invalid_key"}),
        ("aivene", {"message": "invalid api key", "type": "authentication_error"}),
    ],
)
async def test_a_dialect_has_its_own_words_for_it(dialect: str, words: dict[str, str]) -> None:
    async with gateway_to(in_turn(), KEYS) as (gate, _):
        reply = await gate.ask(path=f"/{dialect}/v1/chat/completions", model="up/m", key="sk-nobodys-0123456789")
        assert (reply.status, error_of(reply)) == (401, words)
        await gate.settled()


@pytest.mark.soak
@pytest.mark.alone  # a clock is involved
async def test_the_time_of_a_refusal_reveals_nothing_about_the_key() -> None:
    """Kolmogorov and Smirnov on ten thousand refusals: of keys that are nearly right, and of any others."""
    count = 5000
    chance = random.Random()
    nearly = [KEY[:-1] + letter for letter in "abcdeg"]
    others = ["sk-" + "".join(chance.choices("abcdefghij0123456789", k=len(KEY) - 3)) for _ in nearly]
    took: dict[bool, list[float]] = {True: [], False: []}
    async with gateway_to(in_turn(), KEYS) as (gate, _), await gate.connect() as client:
        order = [True, False] * count
        chance.shuffle(order)
        for is_near in order:
            key = chance.choice(nearly if is_near else others)
            request = f"GET /v1/models HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\n\r\n".encode()
            began = perf_counter()
            await client.send(request)
            assert (await client.response()).status == 401
            took[is_near].append(perf_counter() - began)
    assert distance(took[True], took[False]) < 2.2 * sqrt(2 / count)  # one in ten thousand runs fails by chance


def distance(first: list[float], second: list[float]) -> float:
    """The greatest between the two distributions."""
    ordered = sorted([(value, 1 / len(first)) for value in first] + [(value, -1 / len(second)) for value in second])
    height = most = 0.0
    for _, step in ordered:
        height += step
        most = max(most, abs(height))
    return most


# C25: how often.

RATED = "sk-rated-0123456789abcdef"
RATES = f'{KEYS}[[keys]]\nname = "rated"\nkey = "{RATED}"\nrpm = 3\n'


async def ask_rated(gate: Gate) -> Reply:
    return await gate.ask(model="up/m", key=RATED, stream=True)


async def test_more_requests_than_a_key_may_make() -> None:
    async with gateway_to(stream(openai_stream()), RATES) as (gate, up):
        for left in ("2", "1", "0"):
            reply = await ask_rated(gate)
            assert text_of(reply.body) == "".join(TEXTS)
            assert reply.header("x-ratelimit-limit-requests") == "3"
            assert reply.header("x-ratelimit-remaining-requests") == left
            assert reply.header("x-ratelimit-reset-requests") is not None
            assert reply.header("retry-after") is None
        reply = await ask_rated(gate)
        error = error_of(reply)
        assert (reply.status, error["type"], error["code"]) == (429, "rate_limit_error", "rate_limit_exceeded")
        assert 1 <= int(reply.header("retry-after") or 0) <= 120
        assert reply.header("x-ratelimit-limit-requests") == "3"
        assert reply.header("x-ratelimit-remaining-requests") == "0"
        assert reply.header("x-should-retry") != "false"
        record = (await gate.settled(4))[-1]
        assert (record.verdict, record.status, record.error) == (Verdict.REJECTED, 429, "rate_limit_exceeded")
        assert (record.key, record.usage) == ("rated", None)
        assert len(up.requests) == 3
        reply = await gate.ask(model="up/m", stream=True)
        assert (reply.status, reply.header("x-ratelimit-limit-requests")) == (200, None)
        await gate.settled(5)


async def test_what_is_refused_for_another_reason_does_not_count_nor_do_lists() -> None:
    async with gateway_to(in_turn(), RATES) as (gate, _), await gate.connect() as client:
        for _ in range(5):
            await client.send(f"GET /v1/models HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {RATED}\r\n\r\n".encode())
            assert (await client.response()).status == 200
        for status in (400, 404, 400, 404):
            named: dict[str, Any] = {"model": "nobody/m"} if status == 404 else {}
            await client.send(chat_request(key=RATED, **named))
            assert (await client.response()).status == status
        await gate.settled(9)


async def test_a_reload_does_not_reset_failures() -> None:
    async with gateway_to(stream(openai_stream()), RATES) as (gate, _):
        for _ in range(3):
            await ask_rated(gate)
        gate.gateway.reload(gate.gateway.runtime.config)
        assert (await ask_rated(gate)).status == 429
        await gate.settled(4)


# C32: before the body.


async def expect(client: RawClient, **headers: str) -> Reply:
    """The head alone of a request that waits for `100 Continue`."""
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: a", "expect: 100-continue", "content-length: 1000000"]
    lines += [f"{name}: {value}" for name, value in {"content-type": "application/json", **headers}.items()]
    await client.send("\r\n".join([*lines, "", ""]).encode())
    return await client.response()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer sk-nobodys-0123456789"}, 401),
        ({"authorization": f"Bearer {EXPIRED}"}, 401),
        ({"authorization": f"Bearer {KEY}", "content-type": "text/plain"}, 415),
        ({"authorization": f"Bearer {KEY}", "content-encoding": "gzip"}, 415),
    ],
)
async def test_a_request_that_cannot_succeed_is_not_asked_for_its_body(headers: dict[str, str], status: int) -> None:
    async with gateway_to(in_turn(), KEYS) as (gate, _), await gate.connect() as client:
        reply = await expect(client, **headers)
        assert (reply.status, reply.header("connection")) == (status, "close")
        assert await client.is_closed()
        assert [record.verdict for record in await gate.settled()] == [Verdict.REJECTED]


async def test_a_request_over_its_rate_is_not_asked_for_its_body() -> None:
    async with gateway_to(in_turn(*[whole(openai_whole())] * 3), RATES) as (gate, _):
        for _ in range(3):
            await gate.ask(key=RATED, model="up/m")
        async with await gate.connect() as client:
            assert (await expect(client, authorization=f"Bearer {RATED}")).status == 429
        await gate.settled(4)


async def test_a_request_that_can_succeed_is_asked_for_its_body() -> None:
    async with gateway_to(whole(openai_whole())) as (gate, _), await gate.connect() as client:
        head, _, body = chat_request(model="up/m", headers=(("expect", "100-continue"),)).partition(b"\r\n\r\n")
        await client.send(head + b"\r\n\r\n")
        assert (await client.response()).status == 100
        await client.send(body)
        assert (await client.response()).status == 200
        await gate.settled()
