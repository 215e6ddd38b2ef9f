"""The configuration in use as TOML: every setting once, with its origin, and of no secret more than its end."""

import re
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect, structs

from streamweir.config.display.effective import Line, Section, sections_of, toml_of
from streamweir.config.display.origin import Origins
from streamweir.config.file.schema import Reader, field_of
from streamweir.config.load import parse_config
from streamweir.config.model import (
    Config,
    DatedPrice,
    GroupPrice,
    Key,
    LimitRule,
    Limits,
    Log,
    Model,
    PriceGroup,
    Provider,
    Server,
    Shared,
    Store,
    Target,
    Tls,
    Webhook,
)
from streamweir.config.secret import masked, masked_url
from streamweir.config.source import ConfigSource
from streamweir.config.telemetry import Telemetry
from streamweir.policy.pricing.charge_rule import ChargeRules

EVERYTHING = Config(
    server=Server(
        listen="0.0.0.0:80",
        tls=Tls(cert_file="/etc/tls/cert.pem", key_file="/etc/tls/key.pem"),
        trusted_proxies=("10.0.0.0/8", "::1"),
        metrics_public=True,
        limits=Limits(lag_s=0.25, connections=7),
        log=Log(level="debug"),
    ),
    store=Store(url="postgresql://books:hunter2@db.example:5432/books?sslpassword=hunter3", redact=("a+", "b")),
    shared=Shared(url="rediss://:hunter4@cache.example"),
    providers=(
        Provider(
            name="my.provider",
            kind="openai",
            api_key="sk-proj-0123456789abcdef",
            proxy="http://me:hunter5@proxy.example:3128",
            headers={"x-team": "hunter6", "X Odd": "https://hunter7.example"},
        ),
        Provider(name="short", kind="openai", api_key="hunter8"),
    ),
    models=(
        Model(
            id="a/b",
            targets=(
                Target(
                    provider="my.provider",
                    model="m",
                    weight=2,
                    retries=0,
                    proxy="http://me:hunter9@proxy.example:3128",
                    headers={"x-region": "hunter10-and-more"},
                ),
            ),
            price=(DatedPrice(input=0.000001, output=100.0, starts=datetime(2027, 1, 2, tzinfo=UTC)),),
        ),
    ),
    price_groups=(
        PriceGroup(
            name="resale",
            markup_percent=20.0,
            prices=(GroupPrice(model="a*", markup_percent=0.5),),
            charge=ChargeRules(cut="nothing"),
        ),
    ),
    webhooks=(
        Webhook(
            name="ops",
            url="https://hooks.example/services/hunter11?token=hunter12",
            secret="whsec_hunter13-and-more",  # noqa: S106
        ),
    ),
    keys=(
        Key(name="ci", key="sk-ci-0123456789abcdefghij", expires=datetime(2027, 1, 2, tzinfo=UTC), models=()),
        Key(name="bare", key="sk-bare-0123456789abcdefg"),
    ),
    telemetry=Telemetry(headers={"x-token": "hunter14-and-more"}),
    limits=(LimitRule(name="trial", per="user", budget_usd=0.5, key="ci"),),
)


CLEAN_TEXT = "ab.- \"'\\\n\t\x00\x7f${}#=[]\u202e\u200b\u00e9\U0001f600"
"""Quotes, controls, brackets, direction marks: nothing that looks like an address or a secret."""


def shown(config: Config, origins: Origins | None = None) -> list[Section]:
    return sections_of(config, origins if origins is not None else Origins())


def settings(config: Config) -> dict[str, Line]:
    every = [line for section in shown(config) for line in section.lines if line.origin is not None]
    found = {line.path: line for line in every}
    assert len(found) == len(every), "each once"
    return found


def read(text: str) -> Any:
    """As a start reads the file, without checks of several settings."""
    reader = Reader({})
    config = reader.read(tomllib.loads(text), Config)
    assert not reader.problems
    return config


def declared(info: inspect.Type, path: str = "") -> Iterator[str]:
    """The names of all settings below, as their types declare them."""
    kind = field_of(info).type
    match kind:
        case inspect.StructType(fields=fields):
            for each in fields:
                yield from declared(each.type, f"{path}.{each.encode_name}".strip("."))
        case inspect.VarTupleType(item_type=item) if isinstance(field_of(item).type, inspect.StructType):
            yield from declared(item, path)
        case _:
            yield path


def named(sections: list[Section]) -> Iterator[str]:
    """The names of all settings that a text has, also of those that it says are not set."""
    for section in sections:
        table = ""
        for line in section.lines:
            name = line.text.removeprefix("# ").partition(" is ")[0].partition(" = ")[0]
            if line.origin is None:
                table = name.strip("[]")
                if line.text.startswith("#"):
                    yield table
            else:
                yield f"{table}.{name}"


def whole(info: inspect.Type) -> Any:
    """A value in which every table is there, and every list of tables has an entry."""
    match field_of(info).type:
        case inspect.StructType(fields=fields, cls=cls):
            return cls(**{each.name: whole(each.type) for each in fields if each.required or is_table(each.type)})
        case inspect.VarTupleType(item_type=item) if is_table(item):
            return (whole(item),)
        case inspect.DictType():
            return {}
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.IntType() | inspect.FloatType():
            return 1
        case _:
            return () if isinstance(field_of(info).type, inspect.VarTupleType) else "x" * 20


def is_table(info: inspect.Type) -> bool:
    match field_of(info).type:
        case inspect.StructType():
            return True
        case inspect.VarTupleType(item_type=item):
            return is_table(item)
    return False


def test_every_declared_setting_is_there() -> None:
    config = inspect.type_info(Config)
    assert set(named(shown(whole(config)))) == set(declared(config))


def values_of(info: inspect.Type, min_size: int = 0) -> st.SearchStrategy[Any]:
    """Any value of the declared type. Secrets are masked already."""
    field = field_of(info)
    found = _values_of(field.type, min_size, is_secret=field.is_secret)
    return st.none() | found if field.is_optional else found


def _values_of(kind: inspect.Type, min_size: int, *, is_secret: bool) -> st.SearchStrategy[Any]:
    match kind:
        case inspect.StructType(cls=cls, fields=fields):
            required = {each.name: values_of(each.type, min_size=1) for each in fields if each.required}
            optional = {each.name: values_of(each.type) for each in fields if not each.required}
            return st.fixed_dictionaries(required, optional=optional).map(lambda members: cls(**members))
        case inspect.VarTupleType(item_type=item):
            return st.lists(values_of(item), min_size=min_size, max_size=2).map(tuple)
        case inspect.DictType(value_type=item):
            return st.dictionaries(st.text(CLEAN_TEXT, max_size=3), values_of(item), max_size=2)
        case inspect.AnyType():
            text = st.text(CLEAN_TEXT, max_size=5)
            plain = st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
            return st.recursive(
                plain | text, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2)
            )
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType(ge=low, le=high):
            return st.integers(low, high)
        case inspect.FloatType(gt=above, ge=low, le=high):
            return st.floats(low if above is None else above, high, exclude_min=above is not None)
        case inspect.DateTimeType():
            return st.datetimes(timezones=st.just(UTC))
    if is_secret:
        return st.sampled_from(["", "****"])
    assert isinstance(kind, inspect.StrType)
    return st.text(CLEAN_TEXT, min_size=kind.min_length or 0, max_size=min(8, kind.max_length or 8))


@given(values_of(inspect.type_info(Config)), st.booleans())
def test_what_is_shown_is_read_as_the_same_configuration(config: Config, has_defaults: bool) -> None:
    assert read(toml_of(shown(config), has_defaults=has_defaults)) == config


def test_nothing_is_set_by_default() -> None:
    found = settings(Config())
    assert {line.origin for line in found.values()} == {"default"}
    assert [section.name for section in shown(Config())] == list(Config.__struct_fields__)
    assert found["server.default_model"].text == "# default_model is not set"
    assert found["store.url"].text == 'url = "sqlite:///streamweir.db"'
    assert toml_of(shown(Config())).strip() == ""
    lines = toml_of(shown(Config()), has_defaults=True).splitlines()
    assert {"# [shared] is not set", "# [[providers]] is not set", "[server.timeouts]"} <= set(lines)


def test_what_was_given_is_shown() -> None:
    found = settings(EVERYTHING)
    assert {path: line.text.partition(" = ")[2] for path, line in found.items() if not line.is_default} == {
        "server.listen": '"0.0.0.0:80"',
        "server.limits.connections": "7",
        "server.limits.lag_s": "0.25",
        "server.tls.cert_file": '"/etc/tls/cert.pem"',
        "server.tls.key_file": '"/etc/tls/key.pem"',
        "server.trusted_proxies": '["10.0.0.0/8", "::1"]',
        "server.metrics_public": "true",
        "server.log.level": '"debug"',
        "store.url": '"postgresql://****@db.example:5432/books?****"',
        "store.redact": '["a+", "b"]',
        "shared.url": '"rediss://****@cache.example"',
        'providers."my.provider".name': '"my.provider"',
        'providers."my.provider".kind': '"openai"',
        'providers."my.provider".api_key': '"****cdef"',
        'providers."my.provider".proxy': '"http://****@proxy.example:3128"',
        'providers."my.provider".headers.x-team': '"****"',
        'providers."my.provider".headers."X Odd"': '"****"',
        "providers.short.name": '"short"',
        "providers.short.kind": '"openai"',
        "providers.short.api_key": '"****"',
        'models."a/b".id': '"a/b"',
        'models."a/b".targets[0].provider': '"my.provider"',
        'models."a/b".targets[0].model': '"m"',
        'models."a/b".targets[0].weight': "2",
        'models."a/b".targets[0].proxy': '"http://****@proxy.example:3128"',
        'models."a/b".targets[0].headers.x-region': '"****"',
        'models."a/b".targets[0].retries': "0",
        'models."a/b".price[0].input': "0.000001",
        'models."a/b".price[0].output': "100.0",
        'models."a/b".price[0].from': "2027-01-02T00:00:00Z",
        "price_groups.resale.name": '"resale"',
        "price_groups.resale.markup_percent": "20.0",
        "price_groups.resale.prices[0].model": '"a*"',
        "price_groups.resale.prices[0].markup_percent": "0.5",
        "price_groups.resale.charge.cut": '"nothing"',
        "keys.ci.name": '"ci"',
        "keys.ci.key": '"****ghij"',
        "keys.ci.models": "[]",
        "keys.ci.expires": "2027-01-02T00:00:00Z",
        "keys.bare.name": '"bare"',
        "keys.bare.key": '"****defg"',
        "webhooks.ops.name": '"ops"',
        "webhooks.ops.url": '"https://hooks.example/****"',
        "webhooks.ops.secret": '"****more"',
        "telemetry.headers.x-token": '"****"',
        "limits.trial.name": '"trial"',
        "limits.trial.per": '"user"',
        "limits.trial.budget_usd": "0.5",
        "limits.trial.key": '"ci"',
    }
    assert (found["keys.ci.expires"].value, found["keys.ci.models"].value) == ("2027-01-02T00:00:00Z", [])
    assert "hunter" not in repr(shown(EVERYTHING))


def test_a_member_of_a_body_that_looks_like_a_secret_is_not_shown() -> None:
    provider = Provider(
        name="up",
        kind="openai",
        defaults={"temperature": 0.5, "metadata": {"team": "core"}, "tag": "sk-proj-4f9a8b7c6d5e4f9a8b7c6d5e"},
        override={"stop": ["END"], "password": "hunter2", "on": True, "note": "long words " * 99},
        drop=("seed", "user"),
    )
    found = settings(
        Config(providers=(provider,), telemetry=Telemetry(resource={"tier": "1", "tag": "sk-4f9a8b7c6d5e4f9a"}))
    )
    values = {path: line.value for path, line in found.items() if not line.is_default}
    assert {path.removeprefix("providers.up."): value for path, value in values.items()} == {
        "name": "up",
        "kind": "openai",
        "drop": ["seed", "user"],
        "defaults.temperature": 0.5,
        "defaults.metadata": {"team": "core"},
        "defaults.tag": "****",
        "override.stop": ["END"],
        "override.password": "****",
        "override.on": True,
        "override.note": "long words " * 99,
        "telemetry.resource.tier": "1",
        "telemetry.resource.tag": "****",
    }


def test_a_known_secret_and_the_user_of_a_url_are_hidden_everywhere() -> None:
    key = 'sk-proj-"0123456789abcdef'
    provider = Provider(name=f"up {key}", kind="openai", api_key=key, base_url=f"https://up.example/{key}/v1")
    telemetry = Telemetry(endpoint="https://me:pa/ss@otel.example", resource={f"x{key}": "y"})
    config = Config(store=Store(redact=(f"x{key}", "://a@")), providers=(provider,), telemetry=telemetry)
    text = toml_of(shown(config))
    assert "0123456789abc" not in text
    assert "0123456789abc" not in repr(shown(config))
    assert 'base_url = "https://up.example/****/v1"' in text
    assert 'endpoint = "https://****@otel.example"' in text
    assert 'redact = ["x****", "://****@"]' in text
    assert '"x****" = "y"' in text


FILE = """
[server]
default_model = "${MODEL}"
listen = "127.0.0.1:1"
[server.timeouts]
idle_s = "${IDLE}"

[store]
url = "postgresql://me:${PASSWORD:-hunter1}@db/books"
redact = ["${WORD}", "b"]

[[providers]]
name = "up"
kind = "${KIND:-openai}"
api_key = { command = ["vault", "read", "--token", "hunter2", "-f=key", "${ROLE}"], refresh_s = 60 }
connect_s = 7
headers = { a = "${HEADER}", b = "hunter3", c = "${HEADER:-hunter4}" }
override = { "odd.name" = "$${x}$" }

[[providers]]
name = "several"
kind = "openai"
api_keys = ["sk-hunter5-1", { name = "second", file = "key" }]
timeouts.idle_s = 3

[[providers]]
name = "aws"
kind = "bedrock"
region = "us-east-1"
aws = {}

[[providers]]
name = "file"
kind = "openai"
api_key_file = "key"

[[models]]
id = "m"
targets = [{ provider = "up", model = "x" }]
price = { input = 1, output = 2 }

[[keys]]
name = "ci"
key = { file = "ci" }
"""


def source_in(folder: Path, **more: Any) -> ConfigSource:
    (folder / "streamweir.toml").write_bytes(FILE.strip("\n").replace("\n", "\r\n").encode())
    (folder / "key").write_text("sk-hunter6-1")
    (folder / "ci").write_text("sk-hunter7-0123456789")
    (folder / "prod.env").write_text("IDLE=2\nHEADER=sk-hunter8-hunter8\n")
    (folder / "vault").write_text("#!/bin/sh\necho sk-hunter9-1")
    (folder / "vault").chmod(0o755)
    environ = {"MODEL": "m", "WORD": "a", "ROLE": "r", "KIND": "", "PATH": f"{folder}"}
    return ConfigSource(folder / "streamweir.toml", environ, env_file=folder / "prod.env", **more)


def test_where_each_value_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    source = source_in(tmp_path, listen="127.0.0.1:2")
    text = toml_of(sections_of(source.load(), source.origins()))
    assert "hunter" not in text
    at = "streamweir.toml:"
    assert [re.sub(" +# ", " # ", line) for line in text.splitlines() if line] == [
        "[server]",
        'listen = "127.0.0.1:2" # --listen',
        f'default_model = "m" # {at}2, environment variable MODEL',
        "[server.timeouts]",
        f"idle_s = 2.0 # {at}5, IDLE in prod.env",
        "[store]",
        f'url = "postgresql://****@db/books" # {at}8, environment variable PASSWORD is empty or not set',
        f'redact = ["a", "b"] # {at}9, environment variable WORD',
        "[[providers]]",
        f'name = "up" # {at}12',
        f'kind = "openai" # {at}13, environment variable KIND is empty or not set',
        'api_key = { command = ["vault", "read", "--token", "****", "-f=key", "${ROLE}"], refresh_s = 60 } '
        f"# {at}14",
        "[providers.headers]",
        f'a = "${{HEADER}}" # {at}16, HEADER in prod.env',
        f'b = "****" # {at}16',
        f'c = "****" # {at}16, HEADER in prod.env',
        "[providers.timeouts]",
        f"connect_s = 7.0 # {at}15",
        "[providers.override]",
        f'"odd.name" = "$${{x}}$$" # {at}17',
        "[[providers]]",
        f'name = "several" # {at}20',
        f'kind = "openai" # {at}21',
        "[[providers.api_keys]]",
        'name = "1" # set by the gateway',
        f'key = "****" # {at}22',
        "[[providers.api_keys]]",
        f'name = "second" # {at}22',
        "# key is read from a file of its own",
        f'file = "{tmp_path}/key" # {at}22',
        "[providers.timeouts]",
        f"idle_s = 3.0 # {at}23",
        "[[providers]]",
        f'name = "aws" # {at}26',
        f'kind = "bedrock" # {at}27',
        f'region = "us-east-1" # {at}28',
        "[providers.aws]",
        "[[providers]]",
        f'name = "file" # {at}32',
        f'kind = "openai" # {at}33',
        "# api_key is read from a file of its own",
        f'api_key_file = "{tmp_path}/key" # {at}34',
        "[[models]]",
        f'id = "m" # {at}37',
        "[[models.targets]]",
        f'provider = "up" # {at}38',
        f'model = "x" # {at}38',
        "[[models.price]]",
        f"input = 1.0 # {at}39",
        f"output = 2.0 # {at}39",
        "[[keys]]",
        f'name = "ci" # {at}42',
        f'key = {{ file = "ci" }} # {at}43',
    ]
    column = {
        line.index("# ") for line in text.splitlines() if line.startswith(("listen", "default_model", "idle_s = 2"))
    }
    assert len(column) == 1, "aligned"


def test_what_is_shown_can_be_used_as_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    source = source_in(tmp_path)
    first = source.load()
    text = toml_of(sections_of(first, source.origins()), has_defaults=True)
    environ = {"HEADER": "sk-hunter8-hunter8", "ROLE": "r"}
    again = parse_config(text, tmp_path / "other.toml", environ)
    assert again.server == first.server
    assert (again.models, again.keys) == (first.models, first.keys)
    assert [structs.replace(each, headers={}, api_keys=(), api_key="") for each in again.providers] == [
        structs.replace(each, headers={}, api_keys=(), api_key="") for each in first.providers
    ]
    assert again.providers[3].api_key == first.providers[3].api_key
    assert again.providers[0].headers["a"] == "sk-hunter8-hunter8"


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb", "a\u202eb"])
def test_the_name_of_a_file_ends_no_comment(name: str) -> None:
    origins = Origins("[server]\nmetrics_local = true\n", name)
    text = toml_of(shown(Config(server=Server(metrics_local=True)), origins))
    assert text == "[server]\nmetrics_local = true  # a\ufffd" + name[2:].replace("\u202e", "\ufffd") + ":2\n"
    assert tomllib.loads(text) == {"server": {"metrics_local": True}}


@pytest.mark.parametrize(
    ("secret", "shown"),
    [("", ""), ("a", "****"), ("a" * 15, "****"), ("a" * 12 + "bcde", "****bcde")],
)
def test_the_end_of_a_secret_is_shown_where_it_is_long(secret: str, shown: str) -> None:
    assert masked(secret) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("none", "none"),
        ("sqlite:////srv/books.db", "sqlite:////srv/books.db"),
        ("postgresql://db.example/books", "postgresql://db.example/books"),
        ("postgresql://me@db.example/books", "postgresql://****@db.example/books"),
        ("postgresql://me:pass/w?rd#@db.example/books", "postgresql://****@db.example/books"),
        ("postgresql://me:p@ss@db.example", "postgresql://****@db.example"),
        ("postgresql://db.example/books?user=me@server&password=hunter2", "postgresql://****"),
        ("postgresql:///books?host=/run&password=hunt@er2", "postgresql://****"),
        ("postgresql://me:a?b=c@db.example/books", "postgresql://****"),
        ("postgresql:///books?password=pass", "postgresql:///books?****"),
        ("unix:///run/valkey.sock#pass", "unix:///run/valkey.sock#****"),
        ("redis://:pass@[::1]:6379/0", "redis://****@[::1]:6379/0"),
    ],
)
def test_an_address_is_shown_without_its_user(url: str, shown: str) -> None:
    assert masked_url(url) == shown
