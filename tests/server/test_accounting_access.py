"""Which requests are admitted, and the refusals of the others in each dialect (C19 to C22, C26, G22).

No refused request reaches the upstream, and nothing is charged. A refusal leaves one row in the log; without a known
key it is in no workspace. The keys are those of the store, created and changed while the gateway runs.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, RateLimitError

from streamweir.store.db.clock import now_ms
from support.accounting_gateway import (
    EACH_DIALECT,
    MILLI,
    MODEL,
    PROMPT,
    UNPRICED,
    AccountingSetup,
    error_of,
    keeping,
    max_prompt,
    path_of,
    set_clock,
)
from support.answers import openai_whole
from support.gateway import KEY, chat_request
from support.raw_client import Reply
from support.script import in_turn, whole

each_dialect = pytest.mark.parametrize("dialect", EACH_DIALECT)
HOUR_MS = 3_600_000
STRANGER = "sk-sw-nobody-has-ever-had-this-one"

Words = tuple[int, str, str | None]
"""Status, type and code."""
_AUTHENTICATION = (401, "authentication_error", None)


class Refused(NamedTuple):
    """What one case is called in the log, and in each dialect that has its own words for it."""

    error: str
    openai: Words
    opentoken: Words
    aivene: Words
    message: str
    text: str | None = None
    """The message of OpenToken and Aivene, where the services give one."""
    aivene_says_it: bool = True
    param: str | None = None
    retry_after: str | None = None
    is_known: bool = True
    """Whose key it is, or was, is known."""

    def words(self, dialect: str) -> Words:
        found: Words = getattr(self, "openai" if dialect == "bitseek" else dialect)
        return found

    def document(self, dialect: str) -> dict[str, Any]:
        """In the order of the dialect's members."""
        _, kind, code = self.words(dialect)
        has_text = dialect == "opentoken" or (dialect == "aivene" and self.aivene_says_it)
        message = self.text if self.text is not None and has_text else self.message
        members: dict[str, dict[str, Any]] = {
            "openai": {"message": message, "type": kind, "param": self.param, "code": code},
            "opentoken": {"message": message, "type": kind, "code": code},
            "aivene": {"message": message, "type": kind},
            "bitseek": {"message": message, "type": kind, "code": code},
        }
        return members[dialect]


INVALID = "invalid_request_error"
CASES = {
    "no key": Refused(
        "missing_api_key",
        (401, INVALID, "missing_api_key"),
        (401, "authentication_error", "missing_auth"),
        _AUTHENTICATION,
        "No API key was sent: use 'Authorization: Bearer KEY'.",
        is_known=False,
    ),
    "wrong key": Refused(
        "invalid_api_key",
        (401, INVALID, "invalid_api_key"),
        (401, "authentication_error", "invalid_key"),
        _AUTHENTICATION,
        "The API key is not valid.",
        "invalid api key",
        is_known=False,
    ),
    "expired key": Refused(
        "expired_api_key",
        (401, INVALID, "expired_api_key"),
        (401, "authentication_error", "expired_key"),
        _AUTHENTICATION,
        "The API key has expired.",
        "api key has expired",
    ),
    "revoked key": Refused(
        "key_revoked",
        (401, INVALID, "key_revoked"),
        (401, "authentication_error", "invalid_key"),
        _AUTHENTICATION,
        "The API key has been revoked.",
        "invalid api key",
        aivene_says_it=False,
    ),
    "no scope": Refused(
        "insufficient_permissions",
        (403, "permission_error", "insufficient_permissions"),
        (403, "permission_error", "insufficient_scope"),
        (403, "permission_error", None),
        "This key has no scope 'chat'.",
    ),
    "unknown model": Refused(
        "model_not_found",
        (404, INVALID, "model_not_found"),
        (400, INVALID, "model_not_found"),
        (404, INVALID, None),
        'model "nobody/gpt-4o" not found. Did you mean "up/gpt-4o"?',
        param="model",
    ),
    "forbidden model": Refused(
        "model_not_found",
        (404, INVALID, "model_not_found"),
        (400, INVALID, "model_not_found"),
        (404, INVALID, None),
        'This key may not use the model "up/gpt-4o". It may use: "m", "up/small*".',
        param="model",
    ),
    "spend limit": Refused(
        "budget_exceeded",
        (429, "insufficient_quota", "budget_exceeded"),
        (429, INVALID, "spend_limit_exceeded"),
        (402, "billing_error", None),
        "The spend limit of this API key is reached.",
        "api key spend limit exceeded",
    ),
    "no credit": Refused(
        "insufficient_quota",
        (429, "insufficient_quota", "insufficient_quota"),
        (402, INVALID, "insufficient_credit"),
        (402, "insufficient_balance", None),
        "The credit balance is used up.",
        "insufficient credit balance",
    ),
    "no price, but a budget": Refused(
        "model_unpriced",
        (403, "permission_error", "model_unpriced"),
        (403, "permission_error", "model_unpriced"),
        (403, "permission_error", None),
        'The model "free" has no price, and this key has a spend limit. '
        "Set its `price` under [[models]] in the configuration, or ask for a model that has one.",
        param="model",
    ),
    "no price, but credit": Refused(
        "model_unpriced",
        (403, "permission_error", "model_unpriced"),
        (403, "permission_error", "model_unpriced"),
        (403, "permission_error", None),
        'The model "free" has no price, and this key has a spend limit. '
        "Set its `price` under [[models]] in the configuration, or ask for a model that has one.",
        param="model",
    ),
}


async def asked(setup: AccountingSetup, case: str, dialect: str) -> Reply:
    """A request that is refused for this reason."""
    path = path_of(dialect)
    secret: str | None = None
    model = "m"
    if case == "wrong key":
        secret = STRANGER
    elif case == "expired key":
        secret = await setup.new_key("late", at_ms=now_ms() - 2 * HOUR_MS, expires_ms=now_ms() - HOUR_MS)
    elif case == "revoked key":
        secret = await setup.new_key("gone")
        await setup.revoke(secret)
    elif case == "no scope":
        secret = await setup.new_key("reader", scopes=("models",))
    elif case == "unknown model":
        secret, model = await setup.new_key("wide"), "nobody/gpt-4o"
    elif case == "forbidden model":
        secret, model = await setup.new_key("narrow", models=("m", "up/small*")), "up/gpt-4o"
    elif case == "spend limit":
        secret = await setup.new_key("poor", budget_nano=0)
    elif case == "no credit":
        secret = await setup.new_key("unpaid", await setup.new_workspace("unpaid", 0))
    elif case == "no price, but a budget":
        secret, model = await setup.new_key("rich", budget_nano=10**15), "free"
    elif case == "no price, but credit":
        secret, model = await setup.new_key("paid", await setup.new_workspace("paid", 10**15)), "free"
    return await setup.gate.ask(path=path, key=secret, model=model, max_tokens=4)


@each_dialect
async def test_refusals_have_the_format_of_the_dialect(dialect: str, tmp_path: Path) -> None:
    async with keeping(in_turn(), tmp_path, MODEL + UNPRICED) as setup:
        for number, (case, expected) in enumerate(CASES.items(), start=1):
            reply = await asked(setup, case, dialect)
            status, _, _ = expected.words(dialect)
            error = error_of(reply)
            details = error.pop("budget", None)
            assert (details is not None) == (dialect == "openai" and case in ("spend limit", "no credit")), case
            for amounts in (" Limit $", " Credit $"):  # test_limit_refusal has the rest
                error["message"] = error["message"].partition(amounts)[0]
            assert (reply.status, error) == (status, expected.document(dialect)), case
            assert list(error) == list(expected.document(dialect))
            assert reply.header("x-should-retry") == ("false" if expected.retry_after is None else "true"), case
            assert reply.header("retry-after") == expected.retry_after, case
            assert reply.header("www-authenticate") == ("Bearer" if status == 401 else None)
            assert reply.header("content-type") == "application/json"
            record = (await setup.gate.settled(number))[-1]
            rows = await setup.rows()
            assert len(rows) == number, case
            row = rows[-1]
            assert row.request_id == record.id == reply.header("x-request-id")
            assert (row.verdict, row.error, row.status) == ("rejected", expected.error, status), case
            assert (row.price, row.usage, row.attempts, row.target) == (None, None, [], None)
            assert (row.dialect, row.key_id) == (dialect, record.key_id)
            assert expected.is_known == (row.key_id is not None) == (row.workspace_id is not None), case
        assert [kind for kind, _, _ in await setup.ledger()] == ["credit"]
        assert setup.up.accepted == 0


@pytest.mark.parametrize(
    ("dialect", "is_streamed"), [("openai", False), ("opentoken", True), ("aivene", False), ("bitseek", True)]
)
async def test_a_forbidden_model_looks_like_an_unknown_one(dialect: str, is_streamed: bool, tmp_path: Path) -> None:
    """Byte for byte, but for what differs between any two answers (C20)."""
    async with keeping(in_turn(), tmp_path) as setup:
        secret = await setup.new_key(models=("m",), budget_nano=MILLI, rpm=100, tpm=10_000, max_streams=2)
        heads = []
        for model in ("up/model", "xx/model"):
            reply = await setup.gate.ask(path=path_of(dialect), key=secret, model=model, stream=is_streamed)
            varying = [value for name, value in reply.headers if name in ("date", "x-request-id")]
            head, body = reply.head, reply.body.replace(b"xx/", b"up/")
            for value in varying:
                head = head.replace(value.encode(), b"")
            heads.append((head, body))
        assert heads[0] == heads[1]
        assert {row.error for row in await setup.rows()} == {"model_not_found"}
        assert setup.up.accepted == 0


# Keys of the store, while the gateway runs.


async def statuses(setup: AccountingSetup, *secrets: str) -> list[int]:
    return [(await setup.gate.ask(model="m", key=secret, max_tokens=5)).status for secret in secrets]


async def test_a_key_is_good_as_soon_as_it_is_made_and_not_before(tmp_path: Path) -> None:
    async with keeping(whole(openai_whole()), tmp_path) as setup:
        secret = await setup.new_key("new")
        assert secret.startswith("sk-sw-")
        assert await statuses(setup, secret, secret[:-1]) == [200, 401]
        row, _ = await setup.rows()
        assert (row.key_name, row.key_id, row.workspace_id) == ("new", setup.key_id(secret), "default")


async def test_a_change_holds_for_the_next_request(tmp_path: Path) -> None:
    async with keeping(whole(openai_whole(usage=(PROMPT, 5))), tmp_path) as setup:
        secret = await setup.new_key(rpm=1, budget_nano=1000 * MILLI)
        assert await statuses(setup, secret, secret) == [200, 429]
        await setup.change(secret, rpm=3)
        assert await statuses(setup, secret, secret, secret) == [200, 200, 429]
        await setup.change(secret, rpm=None, budget_nano=24 * MILLI)  # just what it has spent
        assert await statuses(setup, secret) == [429]
        await setup.change(secret, budget_nano=(24 + max_prompt(model="m", max_tokens=5) + 5) * MILLI)  # as is held
        assert await statuses(setup, secret) == [200]
        await setup.change(secret, budget_nano=None, models=("other",))
        assert await statuses(setup, secret) == [404]
        await setup.change(secret, models=None, scopes=("models",))
        assert await statuses(setup, secret) == [403]
        await setup.change(secret, scopes=("chat",), dialect="opentoken", name="renamed")
        assert error_of(await setup.gate.ask(model="zz", key=secret))["code"] == "model_not_found"
        row = (await setup.rows())[-1]
        assert (row.key_name, row.dialect, row.status) == ("renamed", "opentoken", 400)
        assert len(setup.up.requests) == 4


async def test_a_rotated_key_has_two_good_secrets_for_the_time_of_grace(tmp_path: Path) -> None:
    async with keeping(whole(openai_whole()), tmp_path) as setup:
        first = await setup.new_key(rpm=100)
        second = await setup.rotate(first, grace_ms=HOUR_MS)
        assert await statuses(setup, first, second) == [200, 200]
        third = await setup.rotate(second, grace_ms=HOUR_MS)  # the one before the last is over at once
        assert await statuses(setup, first, second, third) == [401, 200, 200]
        id = setup.key_id(third)
        last = await setup.rotate(third, grace_ms=0)
        replies = [await setup.gate.ask(model="m", key=secret) for secret in (second, third)]
        assert [error_of(reply)["code"] for reply in replies] == ["invalid_api_key"] * 2
        assert await statuses(setup, last) == [200]
        rows = [row for row in await setup.rows() if row.status == 200]
        assert {row.key_id for row in rows} == {id}
        assert len(rows) == len(setup.up.requests) == 5


async def test_the_time_of_grace_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with keeping(whole(openai_whole()), tmp_path) as setup:
        old = await setup.new_key()
        new = await setup.rotate(old, grace_ms=HOUR_MS)
        assert await statuses(setup, old, new) == [200, 200]
        set_clock(monkeypatch, now_ms() + HOUR_MS + 1)
        assert await statuses(setup, old, new) == [401, 200]


async def test_a_key_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with keeping(whole(openai_whole()), tmp_path) as setup:
        expires_ms = now_ms() + HOUR_MS
        secret = await setup.new_key(expires_ms=expires_ms)
        set_clock(monkeypatch, expires_ms - 1)
        assert await statuses(setup, secret) == [200]
        set_clock(monkeypatch, expires_ms)
        assert error_of(await setup.gate.ask(model="m", key=secret))["code"] == "expired_api_key"
        await setup.change(secret, expires_ms=None)
        assert await statuses(setup, secret) == [200]


async def test_a_key_of_the_file_has_a_row_too(tmp_path: Path) -> None:
    async with keeping(whole(openai_whole()), tmp_path) as setup:
        assert await statuses(setup, KEY) == [200]
        row = await setup.row()
        assert (row.key_id, row.key_name, row.workspace_id, row.price) == ("file:test", "test", "default", 12 * MILLI)


async def test_an_unpriced_model_costs_null_where_no_money_is_limited(tmp_path: Path) -> None:
    """NULL and not 0: nobody may take it for free (G22)."""
    async with keeping(whole(openai_whole(usage=(7, 5))), tmp_path, UNPRICED) as setup:
        reply = await setup.gate.ask(model="free", max_tokens=5)
        assert reply.status == 200
        row = await setup.row()
        assert (row.verdict, row.price, row.held, row.prompt_tokens, row.completion_tokens) == (
            "completed",
            None,
            0,
            7,
            5,
        )
        assert await setup.ledger() == [("hold", 0, None), ("settle", 0, None)]


async def test_a_key_that_is_revoked_while_the_body_comes_is_not_let_in(tmp_path: Path) -> None:
    """It was good by the head: what runs was ended before this began to."""
    async with keeping(in_turn(), tmp_path) as setup, await setup.gate.connect() as client:
        secret = await setup.new_key("gone")
        head, _, body = chat_request(key=secret, model="m").partition(b"\r\n\r\n")
        await client.send(head + b"\r\n\r\n" + body[:10])
        await setup.gate.has_read()
        await setup.revoke(secret)
        await client.send(body[10:])
        reply = await client.response()
        assert (reply.status, error_of(reply)["code"]) == (401, "key_revoked")
        row = await setup.row()
        assert (row.verdict, row.error, row.key_name) == ("rejected", "key_revoked", "gone")
        assert setup.up.accepted == 0


async def test_models_need_their_own_scope(tmp_path: Path) -> None:
    async with keeping(in_turn(), tmp_path) as setup, await setup.gate.connect() as client:
        secret = await setup.new_key("talker", scopes=("chat",))
        await client.send(f"GET /v1/models HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {secret}\r\n\r\n".encode())
        reply = await client.response()
        assert (reply.status, error_of(reply)["message"]) == (403, "This key has no scope 'models'.")
        assert (await setup.row()).error == "insufficient_permissions"


@pytest.mark.parametrize("code", ["insufficient_quota", "budget_exceeded"])
async def test_the_official_sdk_does_not_try_again_what_no_time_helps(code: str, tmp_path: Path) -> None:
    """C26: it would, twice, if it were not told."""
    attempts = 0

    async def count(_: object) -> None:
        nonlocal attempts
        attempts += 1

    async with keeping(in_turn(), tmp_path) as setup:
        if code == "insufficient_quota":
            secret = await setup.new_key("unpaid", await setup.new_workspace("unpaid", 0))
        else:
            secret = await setup.new_key("poor", budget_nano=0)
        web = DefaultAsyncHttpxClient(event_hooks={"request": [count]})
        url = f"{setup.gate.base_url}/v1"
        async with AsyncOpenAI(base_url=url, api_key=secret, max_retries=2, http_client=web) as sdk:
            with pytest.raises(RateLimitError) as caught:
                await sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello"}])
        assert (caught.value.status_code, caught.value.code, caught.value.type) == (429, code, "insufficient_quota")
        assert attempts == 1
        assert (await setup.row()).error == code
        assert setup.up.accepted == 0
