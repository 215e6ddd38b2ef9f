"""What the values mean together: names that exist, are unique and fit each other; keys that cannot be guessed."""

import secrets
import string
from typing import Any, Literal
from uuid import uuid4

import pytest

from streamweir.config.address import base_url_of, is_loopback, split_listen
from streamweir.config.check import check, check_listen, kinds
from streamweir.config.checks.weak_key import is_easy_to_guess
from streamweir.config.cloud import AwsAuth
from streamweir.config.model import (
    Config,
    Cors,
    Key,
    Model,
    Price,
    Provider,
    ProviderTimeouts,
    Server,
    Shared,
    Store,
    Target,
)
from streamweir.frontends.chat.table import DIALECTS
from streamweir.providers.registry import provider_names

GOOD = "sk-sw-4f9a0c7be2d85163"
OTHER = "sk-sw-0e6b3a9f71c4d852"


def said(config: Config) -> list[str]:
    return [f"{where}: {reason}" for where, reason in check(config)]


def provider(kind: str = "openai", name: str = "p", **more: object) -> Provider:
    return Provider(name=name, kind=kind, **more)  # type: ignore[arg-type]


def of_provider(kind: str = "openai", name: str = "p", **more: object) -> list[str]:
    return said(Config(providers=(provider(kind, name, **more),)))


def of_key(**more: object) -> list[str]:
    members: dict[str, object] = {"name": "a", "key": GOOD, **more}
    return said(Config(keys=(Key(**members),)))  # type: ignore[arg-type]


def of_model(*targets: Target, model_id: str = "m") -> list[str]:
    providers = (provider(name="openai"), provider(name="azure-eu"))
    return said(Config(providers=providers, models=(Model(id=model_id, targets=targets),)))


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("localhost:0", ("localhost", 0)),
        ("my-host.example:65535", ("my-host.example", 65535)),
        ("[::1]:80", ("::1", 80)),
        ("[::ffff:1.2.3.4]:80", ("::ffff:1.2.3.4", 80)),
        ("", None),
        (":8080", None),
        ("8080", None),
        ("127.0.0.1", None),
        ("127.0.0.1:", None),
        ("127.0.0.1:65536", None),
        ("127.0.0.1:-1", None),
        ("127.0.0.1:http", None),
        ("::1:80", None),
        ("[::1]", None),
        ("[1.2]:80", None),
        ("http://127.0.0.1:80", None),
        ("127.0.0.1:80/", None),
        ("host name:80", None),
    ],
)
def test_where_to_listen(listen: str, address: tuple[str, int] | None) -> None:
    assert split_listen(listen) == address
    assert bool(said(Config(server=Server(listen=listen)))) is (address is None)


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),  # noqa: S104 (refused)
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("my-host", False),
    ],
)
def test_without_keys_only_this_machine_may_ask(host: str, alone: bool) -> None:
    listen = f"[{host}]:80" if ":" in host else f"{host}:80"
    config = Config(server=Server(listen=listen))
    assert is_loopback(host) is alone
    reason = "without [[keys]] it must be a loopback address, such as 127.0.0.1:8080"
    assert check_listen(config) == ([] if alone else [("server.listen", reason)])
    assert check_listen(Config(server=Server(listen=listen), keys=(Key(name="a", key=GOOD),))) == []


def test_dialects() -> None:
    expected = f"expected {', '.join(DIALECTS)}"
    assert said(Config(server=Server(dialect="open"))) == [f'server.dialect: unknown dialect "open": {expected}']
    assert of_key(dialect="OpenAI") == [f'keys.a.dialect: unknown dialect "OpenAI": {expected}']
    assert of_key(dialect="bitseek") == []


def test_origins_are_as_browsers_send_them() -> None:
    fine = ("https://app.example.com", "http://localhost:3000", "http://[::1]:8000", "https://a.example:8443")
    assert said(Config(server=Server(cors=Cors(origins=fine)))) == []
    assert said(Config(server=Server(cors=Cors(origins=("*",))))) == []
    odd: tuple[str, ...] = (
        "https://app.example.com/",
        "https://App.example.com",
        "app.example.com",
        "https://*.example.com",
        "null",
    )
    odd += ("https://a.example:443", "https://user@a.example", "ftp://a.example", "https://a.example:x")
    faults = said(Config(server=Server(cors=Cors(origins=odd))))
    named = [fault.partition(":")[0] for fault in faults]
    assert named == [f"server.cors.origins[{place}]" for place in range(len(odd))]
    assert "names no others" not in str(faults)
    (both,) = said(Config(server=Server(cors=Cors(origins=("*", "https://a.example")))))
    assert both == 'server.cors.origins: "*" allows every origin: name no others beside it'
    (none,) = said(Config(server=Server(cors=Cors(origins=()))))
    assert "is empty" in none


def test_trusted_proxies() -> None:
    assert said(Config(server=Server(trusted_proxies=("10.0.0.1", "10.0.0.0/33")))) == [
        'server.trusted_proxies[1]: expected an IP address or a network such as 10.0.0.0/8, got "10.0.0.0/33"'
    ]


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ("m", None),
        ("openai/gpt-4o", None),
        ("openai/a/b", None),
        ("n", ' "n" (known: m, openai/...)'),
        ("openai/", ' "openai/", did you mean openai/...?'),
        ("opnai/x", ' "opnai/x", did you mean openai/...?'),
    ],
)
def test_the_default_model_is_served(asked: str, fault: str | None) -> None:
    models = (Model(id="m", targets=(Target(provider="openai", model="x"),)),)
    config = Config(server=Server(default_model=asked), providers=(provider(name="openai"),), models=models)
    assert said(config) == ([f"server.default_model: no model and no provider is named{fault}"] if fault else [])


def test_the_default_model_may_be_a_name_that_a_pattern_matches_and_not_the_pattern() -> None:
    models = (Model(id="claude-*", targets=(Target(provider="p", model="x"),)),)

    def faults(asked: str) -> list[str]:
        return said(Config(server=Server(default_model=asked), providers=(provider(),), models=models))

    assert faults("claude-opus") == []
    assert faults("claude-*") == ["server.default_model: expected the name of one model, without *"]
    assert faults("claude") == [
        'server.default_model: no model and no provider is named "claude", did you mean claude-*?'
    ]


def test_an_empty_file_has_no_default_model() -> None:
    assert said(Config(server=Server(default_model="a/b"))) == [
        'server.default_model: no model and no provider is named "a/b" (known: none)'
    ]


@pytest.mark.parametrize(
    ("url", "is_good"),
    [
        ("sqlite:///streamweir.db", True),
        ("sqlite:////var/lib/streamweir.db", True),
        ("postgresql://user:canary@host:5432/db", True),
        ("postgresql://user:canary@host:port/db", False),
        ("postgresql://user:canary@[host/db", False),
        ("mysql://user:canary@host/db", False),
        ("streamweir.db", False),
    ],
)
def test_the_store(url: str, is_good: bool) -> None:
    lines = said(Config(store=Store(url=url)))
    assert (lines == []) is is_good
    assert all(line.startswith("store.url: ") and "canary" not in line for line in lines)


def test_the_shared_store() -> None:
    assert said(Config(shared=Shared(url="rediss://:canary@h:1/0"))) == []
    assert said(Config(shared=Shared(url="http://:canary@h"))) == [
        "shared.url: must begin with redis:// or rediss:// or valkey:// or valkeys:// or unix://"
    ]


def test_the_kinds_are_the_providers_and_what_is_inside() -> None:
    assert kinds() == sorted([*provider_names(), "local", "sim"])


@pytest.mark.parametrize("kind", ["local", "sim", *provider_names()])
def test_every_kind_can_be_configured(kind: str) -> None:
    needed = {
        "azure": {"base_url": "https://mine.openai.azure.com"},
        "snowflake": {"base_url": "https://mine.snowflakecomputing.com/api/v2/cortex/v1"},
        "openai-compatible": {"base_url": "http://10.0.0.5:8000/v1/"},
        "vertex": {"project": "mine"},
        "bedrock": {"region": "us-east-1"},
        "bedrock-mantle": {"region": "us-east-1"},
    }
    made = provider(kind, **needed.get(kind, {}))
    assert said(Config(providers=(made,))) == []
    address = base_url_of(made)
    assert (address is None) is (kind in ("local", "sim"))
    assert address is None or (address.startswith("http") and not address.endswith("/"))


@pytest.mark.parametrize("kind", ["azure", "snowflake", "openai-compatible"])
def test_kinds_without_a_public_address(kind: str) -> None:
    assert of_provider(kind) == [f'providers.p.base_url: missing: the kind "{kind}" has no public address']


@pytest.mark.parametrize(
    ("kind", "near"),
    [
        ("opnai", ", did you mean openai?"),
        ("OpenAI", ", did you mean openai?"),
        ("mistal", ", did you mean mistral?"),
        ("vllmm", ", did you mean vllm?"),
    ],
)
def test_an_unknown_kind_names_the_nearest(kind: str, near: str) -> None:
    (line,) = of_provider(kind)
    assert line.startswith(f'providers.p.kind: unknown kind "{kind}"{near[:-1]}')


def test_an_unknown_kind_that_is_near_to_nothing() -> None:
    (line,) = of_provider("@@@@")
    assert line == f'providers.p.kind: unknown kind "@@@@" (known: {", ".join(kinds())})'


@pytest.mark.parametrize(
    ("location", "address"),
    [
        (None, "https://aiplatform.googleapis.com/v1"),
        ("global", "https://aiplatform.googleapis.com/v1"),
        ("us", "https://aiplatform.us.rep.googleapis.com/v1"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com/v1"),
        ("europe-west4", "https://europe-west4-aiplatform.googleapis.com/v1"),
    ],
)
@pytest.mark.parametrize("kind", ["vertex", "gemini"])
def test_vertex_is_where_its_location_is(kind: str, location: str | None, address: str) -> None:
    assert base_url_of(provider(kind, project="mine", location=location)) == address
    assert base_url_of(provider(kind, project="mine", location=location, base_url="http://h/v1/")) == "http://h/v1"
    assert of_provider(kind, project="mine", location=location) == []


@pytest.mark.parametrize(
    ("region", "runtime", "mantle"),
    [
        ("eu-central-1", "bedrock-runtime.eu-central-1.amazonaws.com", "bedrock-mantle.eu-central-1.api.aws"),
        ("us-gov-west-1", "bedrock-runtime.us-gov-west-1.amazonaws.com", "bedrock-mantle.us-gov-west-1.api.aws"),
        (
            "cn-north-1",
            "bedrock-runtime.cn-north-1.amazonaws.com.cn",
            "bedrock-mantle.cn-north-1.api.amazonwebservices.com.cn",
        ),
        (
            "eusc-de-east-1",
            "bedrock-runtime.eusc-de-east-1.amazonaws.eu",
            "bedrock-mantle.eusc-de-east-1.api.amazonwebservices.eu",
        ),
    ],
)
def test_bedrock_is_where_its_region_is(region: str, runtime: str, mantle: str) -> None:
    for kind, host in (("bedrock", runtime), ("bedrock-mantle", mantle)):
        assert base_url_of(provider(kind, region=region)) == f"https://{host}"
        assert base_url_of(provider(kind, region=region, base_url="http://h/")) == "http://h"
        assert of_provider(kind, region=region) == []


def test_what_bedrock_needs() -> None:
    missing = 'providers.p.region: missing: the kind "bedrock" needs the region, such as eu-central-1'
    assert of_provider("bedrock") == [missing]
    assert of_provider("bedrock", base_url="https://h") == [missing], "requests are signed for a region"
    assert of_provider("bedrock", base_url="https://h", api_key="k") == []
    for region in ("eu", "eu-central-1/../", "EU-central-1", "eu-central-1.evil.test"):
        wrong = ["providers.p.region: expected the name of a region such as eu-central-1"]
        assert of_provider("bedrock", region=region) == wrong
    assert of_provider("openai", region="eu-central-1", aws=AwsAuth()) == [
        f'providers.p.{name}: does not apply to the kind "openai"' for name in ("region", "aws")
    ]
    signed = {"region": "eu-central-1"}
    assert of_provider("bedrock", **signed, api_key="k", aws=AwsAuth()) == [
        "providers.p.aws: has no effect with a key: leave one of them out"
    ]
    assert of_provider("bedrock", **signed, aws=AwsAuth(access_key_id="i")) == [
        "providers.p.aws.secret_access_key: missing: an access key has an id and a secret"
    ]
    assert of_provider("bedrock", **signed, aws=AwsAuth(secret_access_key="s")) == [  # noqa: S106
        "providers.p.aws.access_key_id: missing: an access key has an id and a secret"
    ]
    assert of_provider("bedrock", **signed, aws=AwsAuth(source="static")) == [
        'providers.p.aws.access_key_id: missing: the source "static" needs the access key'
    ]
    assert of_provider("bedrock", **signed, aws=AwsAuth(access_key_id="i", secret_access_key="s")) == []  # noqa: S106
    assert of_provider("bedrock", **signed, base_url="https://bedrock-runtime.REGION.amazonaws.com") == [
        "providers.p.base_url: REGION is a placeholder: replace it by your own name"
    ]
    assert of_provider("bedrock", **signed, base_url="https://h/openai/v1") == [
        "providers.p.base_url: must not end in /openai/v1, which the gateway adds"
    ]


def test_settings_that_mean_nothing_for_their_kind() -> None:
    assert of_provider("vertex") == ['providers.p.project: missing: the kind "vertex" needs the project']
    assert of_provider("gemini", location="eu") == ["providers.p.location: has no effect without project"]
    assert of_provider("gemini", project="x", location="EU/../") == [
        "providers.p.location: expected the name of a location such as global or europe-west4"
    ]
    assert of_provider("openai", api_version="1", project="x", location="eu") == [
        f'providers.p.{name}: does not apply to the kind "openai"' for name in ("api_version", "project", "location")
    ]
    assert of_provider("azure", api_version="2024-10-21", base_url="https://mine.openai.azure.com") == []
    assert of_provider("sim", base_url="http://canary", proxy="http://canary:1", ca_file="x") == [
        f'providers.p.{name}: does not apply to the kind "sim"' for name in ("base_url", "proxy", "ca_file")
    ]


@pytest.mark.parametrize(
    ("base_url", "fault"),
    [
        ("https://api.example.com/v1", None),
        ("http://[::1]:8000/v1", None),
        ("http://localhost", None),
        ("ftp://canary/v1", "must begin with https:// or http://"),
        ("canary.example.com/v1", "must begin with https:// or http://"),
        ("", "must begin with https:// or http://"),
        ("https://", "has no host"),
        ("https:///canary", "has no host"),
        ("https://canary:x/v1", "is not a valid URL: the host or the port cannot be read"),
        ("https://canary:99999/v1", "is not a valid URL: the host or the port cannot be read"),
        ("https://[canary/v1", "is not a valid URL: the host or the port cannot be read"),
        ("https://user:canary@h/v1", "must not contain a user name or password: use api_key"),
        ("https://canary@h/v1", "must not contain a user name or password: use api_key"),
        ("https://h/v1?key=canary", "must not have a query or a fragment"),
        ("https://h/v1?", "must not have a query or a fragment"),
        ("https://h/v1#canary", "must not have a query or a fragment"),
        ("https://h/v1 canary", "must be plain ASCII without spaces"),
        ("https://h/v1\n", "must be plain ASCII without spaces"),
        ("https://hé/v1", "must be plain ASCII without spaces"),
        ("https://h/v1/chat/completions", "must not end in /chat/completions, which the gateway adds"),
        ("https://h/v1/messages/", "must not end in /messages, which the gateway adds"),
    ],
)
def test_addresses(base_url: str, fault: str | None) -> None:
    lines = of_provider("openai-compatible", base_url=base_url)
    assert lines == ([f"providers.p.base_url: {fault}"] if fault else [])


@pytest.mark.parametrize(
    ("kind", "base_url", "fault"),
    [
        ("azure", "https://RESOURCE.openai.azure.com", "RESOURCE is a placeholder: replace it by your own name"),
        ("azure", "https://resource.openai.azure.com", None),
        ("azure", "https://mine.openai.azure.com/openai", "must not end in /openai, which the gateway adds"),
        ("azure", "https://mine.openai.azure.com/openai/v1/", "must not end in /openai/v1, which the gateway adds"),
        ("azure", "https://gateway.example/azure", None),
        (
            "snowflake",
            "https://ACCOUNT.snowflakecomputing.com/x",
            "ACCOUNT is a placeholder: replace it by your own name",
        ),
        ("snowflake", "https://mine.snowflakecomputing.com/x", None),
    ],
)
def test_addresses_with_a_placeholder(kind: str, base_url: str, fault: str | None) -> None:
    assert of_provider(kind, base_url=base_url) == ([f"providers.p.base_url: {fault}"] if fault else [])


@pytest.mark.parametrize(
    ("proxy", "fault"),
    [
        ("http://proxy:3128", None),
        ("http://user:canary@[::1]:3128/", None),
        ("https://canary:3128", "must begin with http://"),
        ("socks5://canary:3128", "must begin with http://"),
        ("http://user:canary@proxy", "must name the port: http://HOST:PORT"),
        ("http://canary:1/path", "must be http://HOST:PORT, with nothing after it"),
        ("http://canary:1?q", "must be http://HOST:PORT, with nothing after it"),
        ("http://canary:x", "is not a valid URL: the host or the port cannot be read"),
    ],
)
def test_proxies(proxy: str, fault: str | None) -> None:
    assert of_provider(proxy=proxy) == ([f"providers.p.proxy: {fault}"] if fault else [])


@pytest.mark.parametrize("name", ["a/b", "a b", "-a", ".a", "a\n", "é", "a:b"])
def test_names_of_providers(name: str) -> None:
    (line,) = of_provider(name=name)
    assert "callers name models as NAME/MODEL" in line


@pytest.mark.parametrize("value", ["canary\n", "can ary", "canary\x7f", "cänary", "\ud800canary"])
def test_a_providers_key_can_be_sent(value: str) -> None:
    assert of_provider(api_key=value) == [
        "providers.p.api_key: contains a character that cannot be sent, such as a space or a line break"
    ]


def test_headers() -> None:
    headers = {
        "x-good": "a b",
        "X-Good": "canary",
        "Content-Length": "1",
        "accept-encoding": "gzip",
        "a b": "canary",
        "x-bad": "canary\r\nx: y",
        "": "canary",
        "X-Amzn-Bedrock-GuardrailVersion": "1",
        "X-Amzn-Bedrock-Service-Tier": "canary",
    }
    assert of_provider(headers=headers) == [
        "providers.p.headers.X-Good: is set twice: header names are case-insensitive",
        "providers.p.headers.Content-Length: is a header that the gateway sets itself",
        "providers.p.headers.accept-encoding: is a header that the gateway sets itself",
        'providers.p.headers."a b": is not the name of a header',
        "providers.p.headers.x-bad: contains a character that cannot be sent, such as a line break",
        'providers.p.headers."": is not the name of a header',
        "providers.p.headers.X-Amzn-Bedrock-Service-Tier: changes the price at which the request was admitted",
    ]


def test_names_of_models() -> None:
    expected = "expected a model name of 1 to 256 characters, without spaces around it"
    assert of_provider(models=("a/b:c?d e", "", " a", "a\n", "x" * 257)) == [
        f"providers.p.models[{at}]: {expected}" for at in (1, 2, 3, 4)
    ]
    target = Target(provider="openai", model="x" * 2048)
    assert of_model(target, model_id="a b") == []
    assert of_model(target, model_id="a ") == [f'models."a ".id: {expected}']
    assert of_model(Target(provider="openai", model="x" * 2049)) == [
        "models.m.targets[0].model: expected a model name of 1 to 2048 characters, without spaces around it"
    ]


def test_targets() -> None:
    assert of_model() == ["models.m.targets: must name at least one target"]
    twice = Target(provider="openai", model="x"), Target(provider="openai", model="x", weight=2)
    assert of_model(*twice) == ["models.m.targets[1]: is listed twice: use weight to give a target a larger share"]
    assert of_model(Target(provider="azure-us", model="x"), Target(provider="?", model="x")) == [
        'models.m.targets[0].provider: there is no provider "azure-us", did you mean azure-eu?',
        'models.m.targets[1].provider: there is no provider "?" (known: openai, azure-eu)',
    ]


def of_fallbacks(setting: str, names: tuple[str, ...]) -> list[str]:
    """The faults of the model `chat` with these fallbacks. There is a cycle, too: that of `large` is `chat`."""
    targets = (Target(provider="openai", model="x"),)
    models = (
        Model(id="chat", targets=targets, **{setting: names}),  # type: ignore[arg-type]
        Model(id="large", targets=targets, fallbacks=("chat",)),
        Model(id="claude-*", targets=targets),
        Model(id="cha*", targets=targets),
    )
    return said(Config(providers=(provider(name="openai"),), models=models))


@pytest.mark.parametrize("setting", ["fallbacks", "context_fallbacks", "content_filter_fallbacks"])
def test_fallbacks_are_models_that_exist(setting: str) -> None:
    served = ("large", "claude-opus", "claude-*", "openai/gpt-4o", "cha*", "charlie")
    assert of_fallbacks(setting, served) == []
    assert of_fallbacks(setting, ("large", "lrge", "opnai/x", "openai/../x", "large", "chat")) == [
        f'models.chat.{setting}[1]: no model and no provider is named "lrge", did you mean large?',
        f'models.chat.{setting}[2]: no model and no provider is named "opnai/x", did you mean openai/...?',
        f'models.chat.{setting}[3]: no model and no provider is named "openai/../x", did you mean openai/...?',
        f'models.chat.{setting}[4]: "large" is listed twice',
        f'models.chat.{setting}[5]: "chat" is the model itself',
    ]


def test_a_target_has_one_longest_answer() -> None:
    def target(most: int | None, name: str = "x") -> Target:
        return Target(provider="p", model=name, max_output_tokens=most)

    models = [("a", target(500)), ("b", target(None)), ("c", target(500)), ("d", target(9, "y")), ("e", target(501))]
    made = tuple(Model(id=name, targets=(to,)) for name, to in models)
    assert said(Config(providers=(provider(),), models=made)) == [
        "models.e.targets[0].max_output_tokens: is 501, but 500 in models.a.targets[0], which is the same target"
    ]


def test_the_settings_of_a_target_are_its_own() -> None:
    ways = [
        Target(provider="p", model="x", retries=1, headers={"x-a": "canary"}, proxy="http://a:canary@b:1"),
        Target(provider="p", model="x", timeouts=ProviderTimeouts(idle_s=3), weight=7),
        Target(provider="p", model="x", retries=0, headers={"x-a": "other"}, proxy="http://a:other@b:1"),
    ]
    made = tuple(Model(id=name, targets=(way,)) for name, way in zip("abc", ways, strict=True))
    assert said(Config(providers=(provider(),), models=made)) == [
        "models.c.targets[0].proxy: differs from models.a.targets[0].proxy, which is the same target",
        "models.c.targets[0].headers: differs from models.a.targets[0].headers, which is the same target",
        "models.c.targets[0].retries: is 0, but 1 in models.a.targets[0], which is the same target",
    ]


def test_what_must_stay_in_a_body_is_refused_with_the_reason() -> None:
    own: dict[str, Any] = {
        "defaults": {"n": 2, "temperature": 1, "generationConfig": {"candidateCount": 2, "topK": 1}},
        "override": {"max_tokens": "many", "odd key": {"stream": True}},
        "drop": ("seed", "max_tokens", "model"),
    }
    expected = [
        "defaults.n: decides how many answers are made and paid, which only the caller may",
        "defaults.generationConfig.candidateCount: decides how many answers are made and paid, which only the caller"
        " may",
        "override.max_tokens: must be a whole number above 0",
        'drop[1]: "max_tokens" is the limit of the answer, for which the request was admitted: lower it with override',
        'drop[2]: "model" chooses the model: use the target\'s model, or another target',
    ]
    assert said(Config(providers=(provider(**own),))) == [f"providers.p.{line}" for line in expected]
    target = Target(provider="p", model="x", **own)
    assert said(Config(providers=(provider(),), models=(Model(id="m", targets=(target,)),))) == [
        f"models.m.targets[0].{line}" for line in expected
    ]


def test_an_address_of_a_target_that_cannot_be_used_is_refused() -> None:
    wrong = Target(
        provider="p",
        model="x",
        base_url="https://user@eu.example/v1",
        proxy="socks5://canary:1",
        headers={"host": "canary", "x y": "z"},
    )
    assert said(Config(providers=(provider(),), models=(Model(id="m", targets=(wrong,)),))) == [
        "models.m.targets[0].base_url: must not contain a user name or password: use api_key",
        "models.m.targets[0].proxy: must begin with http://",
        "models.m.targets[0].headers.host: is a header that the gateway sets itself",
        'models.m.targets[0].headers."x y": is not the name of a header',
    ]
    built_in = (Provider(name="s", kind="sim"),)
    target = Target(provider="s", model="x", base_url="http://a/v1", proxy="http://a:1", headers={"x-a": "b"})
    assert said(Config(providers=built_in, models=(Model(id="m", targets=(target,)),))) == [
        'models.m.targets[0].base_url: does not apply to the kind "sim"',
        'models.m.targets[0].proxy: does not apply to the kind "sim"',
    ]


def test_the_wire_of_a_target() -> None:
    def target(wire: Literal["chat", "responses"] | None, to: str = "p") -> Target:
        return Target(provider=to, model="x", wire=wire)

    models = [("a", target("chat")), ("b", target(None)), ("c", target("responses")), ("d", target("responses", "q"))]
    made = tuple(Model(id=name, targets=(to,)) for name, to in models)
    kinds = (
        provider(),
        provider(name="q", kind="mistral", wire="chat"),
        provider(name="r", kind="gemini", wire="responses"),
    )
    assert said(Config(providers=kinds, models=made)) == [
        'providers.r.wire: the kind "gemini" has "chat" alone',
        'models.d.targets[0].wire: the kind "mistral" has "chat" alone',
        "models.c.targets[0].wire: is responses, but chat in models.a.targets[0], which is the same target",
    ]


def test_names_that_are_there_twice() -> None:
    providers = (provider(name="a"), provider(name="b"), provider(name="a"))
    models = tuple(Model(id="m", targets=(Target(provider="a", model="x"),)) for _ in range(3))
    keys = (Key(name="k", key=GOOD), Key(name="k", key=OTHER))
    assert said(Config(providers=providers, models=models, keys=keys)) == [
        'providers[2].name: "a" is already used by providers[0]',
        'models[1].id: "m" is already used by models[0]',
        'models[2].id: "m" is already used by models[0]',
        'keys[1].name: "k" is already used by keys[0]',
    ]


def test_keys_with_the_same_secret() -> None:
    keys = (Key(name="a", key=GOOD), Key(name="b", key=OTHER), Key(name="c", key=GOOD))
    assert said(Config(keys=keys)) == ["keys.c.key: is the same as keys.a.key"]


@pytest.mark.parametrize(
    ("secret", "fault"),
    [
        ("", "must have 16 to 512 characters"),
        ("sk-1234", "must have 16 to 512 characters"),
        ("4f9a0c7be2d8516", "must have 16 to 512 characters"),
        ("4f9a0c7be2d85163", None),
        ("4f9a0c7b" * 65, "must have 16 to 512 characters"),
        ("4f9a0c7be2d8 5163", "contains a character that cannot be sent, such as a space or a line break"),
        ("4f9a0c7be2d85163\n", "contains a character that cannot be sent, such as a space or a line break"),
        ("4f9a0c7be2d8é5163", "contains a character that cannot be sent, such as a space or a line break"),
        ("changeme-changeme-1", "is too easy to guess: create one with `openssl rand -hex 24`"),
    ],
)
def test_the_form_of_a_key(secret: str, fault: str | None) -> None:
    assert of_key(key=secret) == ([f"keys.a.key: {fault}"] if fault else [])


@pytest.mark.parametrize(
    "secret",
    [
        "changeme-changeme-changeme",
        "change_me_change_me_1234",
        "sk-your-api-key-here",
        "aaaaaaaaaaaaaaaaaaaa",
        "abababababababababab",
        "password-password-111",
        "00000000-0000-0000-0000-000000000000",
    ],
)
def test_placeholder_keys(secret: str) -> None:
    assert is_easy_to_guess(secret)


def test_keys_that_a_generator_makes() -> None:
    letters = string.ascii_letters + string.digits
    for _ in range(200):
        assert not is_easy_to_guess(secrets.token_hex(24))
        assert not is_easy_to_guess(f"sk-sw-{secrets.token_urlsafe(32)}")
        assert not is_easy_to_guess("".join(secrets.choice(letters) for _ in range(24)))
        assert not is_easy_to_guess(str(uuid4()))
    for chosen in ("correct-horse-battery-staple", "sk-test-0123456789abcdef", "streamweir-master-key"):
        assert not is_easy_to_guess(chosen)


def test_the_rest_of_a_key() -> None:
    assert of_key(models=("gpt-4o", "local/*", "*"), scopes=("admin",), budget_usd=1.0, budget_period="day") == []
    pattern = "expected a model id, or a prefix followed by *"
    assert of_key(models=("", "a*b", "**")) == [f"keys.a.models[{at}]: {pattern}" for at in range(3)]
    assert of_key(scopes=()) == ["keys.a.scopes: must name at least one scope"]
    assert of_key(scopes=("metrics",)) == of_key(scopes=("metrics", "metrics")) == []
    alone = "keys.a.scopes: the scope metrics goes with no other: such a key reads /metrics and nothing else"
    assert of_key(scopes=("chat", "metrics")) == of_key(scopes=("admin", "metrics")) == [alone]
    assert of_key(budget_period="day") == ["keys.a.budget_period: has no effect without budget_usd"]
    for name in (" a", "a\n"):
        (line,) = of_key(name=name)
        assert line.endswith(".name: must be plain text without spaces at the start or end")


def test_a_price_may_be_nothing() -> None:
    assert Price(input=0.0, output=0.0) == Price(input=0.0, output=0.0, cache_read=None)
