"""A new configuration under running streams: docs/spec/failures.md G20 and G21.

A running request keeps its provider, key and connection; the next one uses the new configuration; an invalid file
changes nothing. By `SIGHUP` to a real process, and step by step in the test's own loop.
"""

import asyncio
import re
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from conftest import SOAKS
from support.answers import TEXTS, openai_stream, openai_whole
from support.gateway import KEY, Gate, chat_request, configured, gateway, providers, text_of
from support.raw_client import RawClient, Reply
from support.script import End, Head, Seen, Send, Step, Wait, in_turn, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import BEGUN, REST, Program, begin, served, write_config

WHOLE = "".join(TEXTS)
RELOADS = 100 if SOAKS else 5
CALLERS = 20 if SOAKS else 4
OTHER_KEY = "sk-Wm4sTzB8nVq3LxHd7RkPf2Yc"


def provider(url: str, api_key: str = "sk-upstream-secret", more: str = "") -> str:
    return f'[[providers]]\nname = "up"\nkind = "openai"\nbase_url = "{url}"\napi_key = "{api_key}"\n{more}'


async def load(program: Program, stop: asyncio.Event) -> int:
    """One caller that asks again and again, on one connection, and is always answered."""
    count = 0
    async with await program.connect() as client:
        while not stop.is_set():
            await client.send(chat_request(model="up/m", stream=bool(count % 2)))
            reply = await client.response()
            assert reply.status == 200, reply
            count += 1
    return count


async def test_g20_hangups_under_load(tmp_path: Path) -> None:
    go_on, stop = asyncio.Event(), asyncio.Event()

    def script(request: Seen) -> list[Step]:
        if request.json["model"] == "long":
            return [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
        return list(stream(openai_stream()) if request.json.get("stream") else whole(openai_whole()))

    async with ScriptedUpstream(script) as one, ScriptedUpstream(script) as other, AsyncExitStack() as stack:
        places = [one.base_url, other.base_url]
        program = await stack.enter_async_context(served(tmp_path, provider(places[0], "sk-of-number-0")))
        callers = [asyncio.ensure_future(load(program, stop)) for _ in range(CALLERS)]
        streams = []
        for number in range(1, RELOADS + 1):
            client = await stack.enter_async_context(await program.connect())
            streams.append(await begin(client, model="up/long"))
            write_config(tmp_path, provider(places[number % 2], f"sk-of-number-{number}"))
            program.signal(signal.SIGHUP)
            await program.logged("configuration reloaded")
            reply = await program.answer(chat_request(model=f"up/new-{number}"))
            assert reply.status == 200
            assert not [each for each in callers if each.done()]

        write_config(tmp_path, provider(places[0], more='first_event_s = "soon"\n'))
        program.signal(signal.SIGHUP)
        refused = await program.logged("configuration not reloaded, the previous one stays active")
        assert refused["level"] == "error"
        assert re.search(r"streamweir\.toml:\d+:\d+: providers\.up\.timeouts\.first_event_s", refused["reason"])
        assert (await program.answer(chat_request(model="up/after"))).status == 200

        go_on.set()
        for each in streams:
            assert text_of((await each.rest()).body) == WHOLE
        stop.set()
        assert all(await asyncio.gather(*callers))
        program.signal(signal.SIGTERM)
        assert await program.status() == 0
        verdicts = {each["verdict"] for each in program.requests()}
        assert verdicts == {"completed"}

        sent = {each.json["model"]: (up, each) for up in (one, other) for each in up.requests}
        for number in range(1, RELOADS + 1):
            up, request = sent[f"new-{number}"]
            assert up is (one, other)[number % 2]
            assert request.headers["authorization"] == f"Bearer sk-of-number-{number}"
        assert sent["after"][0] is (one, other)[RELOADS % 2], "the one before stays"


def reload(gate: Gate, toml: str) -> None:
    gate.gateway.reload(configured(toml))


async def ask(gate: Gate, **members: Any) -> Reply:
    return await gate.ask(**{"model": "up/m", "stream": True, **members})


async def test_g21_a_running_stream_keeps_the_old_key_and_the_next_request_has_the_new() -> None:
    go_on = asyncio.Event()
    script = in_turn([Head(), Send(BEGUN), Wait(go_on), Send(REST), End()], stream(openai_stream()))
    async with ScriptedUpstream(script) as up, gateway(provider(up.base_url, "sk-the-old-one")) as gate:
        async with await gate.connect() as client:
            running = await begin(client)
            reload(gate, provider(up.base_url, "sk-the-new-one"))
            assert text_of((await ask(gate)).body) == WHOLE
            assert [each.headers["authorization"] for each in up.requests] == [
                "Bearer sk-the-old-one",
                "Bearer sk-the-new-one",
            ]
            assert not up.aborts
            go_on.set()
            assert text_of((await running.rest()).body) == WHOLE
        assert [each.verdict for each in await gate.settled(2)] == ["completed"] * 2


async def test_a_provider_at_the_same_address_keeps_its_connections() -> None:
    async with ScriptedUpstream(stream(openai_stream())) as up:
        toml = providers(up=up.base_url)
        async with gateway(toml) as gate:
            await ask(gate)
            reload(gate, f'{toml}[[models]]\nid = "m"\ntargets = [{{ provider = "up", model = "m" }}]\n')
            await ask(gate, model="m")
            reload(gate, toml.replace("api_key = ", 'api_keys = ["sk-a", "sk-b"] # '))
            await ask(gate)
            assert up.accepted == 1
            assert up.requests[-1].headers["authorization"] in ("Bearer sk-a", "Bearer sk-b")


async def test_a_provider_that_was_taken_out_ends_with_its_last_stream() -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
    async with ScriptedUpstream(script) as up, gateway(provider(up.base_url)) as gate, await gate.connect() as client:
        running = await begin(client)
        reload(gate, '[[providers]]\nname = "sim"\nkind = "sim"\n')
        assert (await ask(gate)).status == 404
        assert (await ask(gate, model="sim/hello")).status == 200
        go_on.set()
        assert text_of((await running.rest()).body) == WHOLE
        await up.vacated()


async def test_keys_are_those_of_the_new_file_but_not_for_a_stream_that_runs() -> None:
    go_on = asyncio.Event()
    script = in_turn([Head(), Send(BEGUN), Wait(go_on), Send(REST), End()], stream(openai_stream()))
    async with ScriptedUpstream(script) as up, gateway(provider(up.base_url)) as gate, await gate.connect() as client:
        running = await begin(client)
        reload(gate, provider(up.base_url) + f'[[keys]]\nname = "other"\nkey = "{OTHER_KEY}"\n')
        assert (await ask(gate)).status == 401
        assert (await ask(gate, key=OTHER_KEY)).status == 200
        go_on.set()
        assert text_of((await running.rest()).body) == WHOLE
        assert [each.key for each in await gate.settled(3)] == [None, "other", "test"]


async def sent_in_two(client: RawClient, at: int) -> bytes:
    """All but the last bytes of a request; gives those."""
    request = chat_request(model="up/m", stream=True)
    await client.send(request[:-at])
    return request[-at:]


async def test_a_request_that_was_admitted_before_the_reload_is_served_as_it_was_admitted() -> None:
    async with (
        ScriptedUpstream(stream(openai_stream())) as old,
        ScriptedUpstream(stream(openai_stream())) as new,
        gateway(provider(old.base_url)) as gate,
        await gate.connect() as client,
        await gate.connect() as probe,
    ):
        rest = await sent_in_two(client, 5)
        await probe.send(chat_request(key=KEY, body=b""))  # its answer tells that the bytes before it were read
        assert (await probe.response()).status == 400
        reload(gate, provider(new.base_url))
        await client.send(rest)
        assert text_of((await client.response()).body) == WHOLE
        assert (len(old.requests), len(new.requests)) == (1, 0)
        await old.vacated()


async def test_a_key_that_a_reload_removes_while_its_body_is_sent_is_refused() -> None:
    async with (
        ScriptedUpstream(stream(openai_stream())) as up,
        gateway(provider(up.base_url)) as gate,
        await gate.connect() as client,
        await gate.connect() as probe,
    ):
        rest = await sent_in_two(client, 5)
        await probe.send(chat_request(key=KEY, body=b""))
        assert (await probe.response()).status == 400
        reload(gate, provider(up.base_url) + f'[[keys]]\nname = "other"\nkey = "{OTHER_KEY}"\n')
        await client.send(rest)
        reply = await client.response()
        assert (reply.status, b"invalid_api_key" in reply.body) == (401, True)
        assert not up.requests


async def test_an_attempt_after_the_reload_goes_where_the_first_one_went() -> None:
    fail = asyncio.Event()
    broken: list[Step] = [Wait(fail), Head(500, "application/json"), Send(b"{}"), End()]
    async with (
        ScriptedUpstream(in_turn(broken, stream(openai_stream()))) as old,
        ScriptedUpstream(stream(openai_stream())) as new,
        gateway(provider(old.base_url)) as gate,
        await gate.connect() as client,
    ):
        await client.send(chat_request(model="up/m", stream=True))
        await old.seen(1)
        reload(gate, provider(new.base_url))
        fail.set()
        assert text_of((await client.response()).body) == WHOLE
        (record,) = await gate.settled()
        assert [each.error for each in record.attempts] == ["upstream_server_error", None]
        assert (len(old.requests), len(new.requests)) == (2, 0)
        await old.vacated()


async def test_a_request_that_waits_for_a_connection_gets_one_after_a_reload() -> None:
    go_on = asyncio.Event()
    script = in_turn([Head(), Send(BEGUN), Wait(go_on), Send(REST), End()], stream(openai_stream()))
    async with (
        ScriptedUpstream(script) as old,
        ScriptedUpstream(stream(openai_stream())) as new,
        gateway(provider(old.base_url, more="max_connections = 1\n")) as gate,
        await gate.connect() as client,
        await gate.connect() as second,
    ):
        running = await begin(client)
        await second.send(chat_request(model="up/m", stream=True))
        place = gate.gateway.runtime.providers["up"]
        while not getattr(place.upstream, "waiting", 0):
            await asyncio.sleep(0)
        reload(gate, provider(new.base_url))
        go_on.set()
        assert text_of((await running.rest()).body) == WHOLE
        assert text_of((await second.response()).body) == WHOLE
        assert (len(old.requests), len(new.requests)) == (2, 0)
        await old.vacated()
