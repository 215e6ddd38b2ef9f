"""A file becomes a configuration, or one error that names every path and reason."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from streamweir.config.check import check_workers
from streamweir.config.error import ConfigError
from streamweir.config.load import load_config
from streamweir.config.model import (
    Config,
    DatedPrice,
    Key,
    Limits,
    Log,
    Model,
    Provider,
    ProviderTimeouts,
    Server,
    Shared,
    Target,
    Timeouts,
    Tls,
)

GOOD = "sk-sw-4f9a0c7be2d85163"
DESIGN = """
[server]
listen = "127.0.0.1:8080"
dialect = "openai"                # openai | opentoken | aivene | bitseek
default_model = "local/smollm2"   # used where a dialect lets the model be absent

[server.timeouts]                 # seconds; a provider may override any of them
connect_s = 5
first_event_s = 120
idle_s = 60
total_s = 600
commit_s = 10                     # the longest the status is held back
keepalive_s = 15
write_stall_s = 30
drain_s = 600

[store]
url = "sqlite:///streamweir.db"   # or postgresql://user:password@host/db

[shared]                          # optional: limits across processes and nodes
url = "redis://127.0.0.1:6379/0"

[[providers]]
name = "openai"
kind = "openai"                   # openai | azure | anthropic | gemini | local | sim | a vendor of the compatible table
base_url = "https://api.openai.com/v1"
api_key = "${OPENAI_API_KEY}"

[[models]]                        # optional: an alias with several targets
id = "gpt-4o"
targets = [{ provider = "openai", model = "gpt-4o" }, { provider = "azure-eu", model = "gpt4o", weight = 1 }]
strategy = "priority"             # priority | weighted | fastest
price = { input = 2.5, output = 10.0, cache_read = 1.25, cache_write = 2.5, cache_write_1h = 4.0 }

[[keys]]                          # optional: keys that the operator manages in the file
name = "ci"
key = "${STREAMWEIR_CI_KEY}"      # at least 16 characters
rpm = 600                         # optional, as are: tpm, budget_usd, budget_period, models, dialect, scopes, expires
tpm = 100_000
budget_usd = 20
budget_period = "month"
models = ["gpt-4o", "local/*"]
dialect = "openai"
scopes = ["chat"]
expires = 2027-01-31T12:00:00+01:00

# The design names these two and leaves them out.
[[providers]]
name = "azure-eu"
kind = "azure"
base_url = "https://eu.openai.azure.com"

[[providers]]
name = "local"
kind = "local"
"""
ENVIRON = {"OPENAI_API_KEY": "sk-openai-canary", "STREAMWEIR_CI_KEY": GOOD}


def load(folder: Path, text: str, listen: str | None = None, **environ: str) -> Config:
    path = folder / "streamweir.toml"
    path.write_text(text)
    return load_config(path, environ, listen=listen)


_PLACE = re.compile(r"^(:\d+:\d+)?: ")


def problems(folder: Path, text: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(folder, text, **environ)
    return [_PLACE.sub("", line.removeprefix(f"{folder}/streamweir.toml")) for line in str(refused.value).splitlines()]


def test_what_the_design_shows(tmp_path: Path) -> None:
    assert load(tmp_path, DESIGN, **ENVIRON) == Config(
        server=Server(default_model="local/smollm2"),
        shared=Shared(url="redis://127.0.0.1:6379/0"),
        providers=(
            Provider(
                name="openai", kind="openai", base_url="https://api.openai.com/v1", api_key=ENVIRON["OPENAI_API_KEY"]
            ),
            Provider(name="azure-eu", kind="azure", base_url="https://eu.openai.azure.com"),
            Provider(name="local", kind="local"),
        ),
        models=(
            Model(
                id="gpt-4o",
                targets=(Target(provider="openai", model="gpt-4o"), Target(provider="azure-eu", model="gpt4o")),
                price=(DatedPrice(input=2.5, output=10.0, cache_read=1.25, cache_write=2.5, cache_write_1h=4.0),),
            ),
        ),
        keys=(
            Key(
                name="ci",
                key=GOOD,
                rpm=600,
                tpm=100_000,
                budget_usd=20.0,
                budget_period="month",
                models=("gpt-4o", "local/*"),
                dialect="openai",
                scopes=("chat",),
                expires=datetime(2027, 1, 31, 11, tzinfo=UTC),
            ),
        ),
    )


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, "") == Config()
    assert load(tmp_path, "\ufeff") == Config()


def test_every_other_setting(tmp_path: Path) -> None:
    (tmp_path / "pem").write_text("x")
    text = f"""
    [server]
    listen = "0.0.0.0:443"
    trusted_proxies = ["10.0.0.0/8", "::1"]
    metrics_public = true
    timeouts = {{ silence_s = 0, keep_s = 0.5 }}
    limits = {{ body_bytes = 1024, connections = 10, abandoned = 0 }}
    tls = {{ cert_file = "pem", key_file = "{tmp_path}/pem" }}
    log = {{ format = "json", level = "debug" }}
    [[providers]]
    name = "v"
    kind = "vertex"
    project = "p"
    location = "eu"
    proxy = "http://user:password@proxy:3128"
    ca_file = "pem"
    headers = {{ X-Team = "a b", authorization = "$${{literal}}" }}
    max_connections = 5
    cancel_stops_billing = false
    models = ["gemini-2.5-flash"]
    [providers.timeouts]
    first_event_s = 5
    commit_s = 0
    [[keys]]
    name = "one key"
    key = "{GOOD}"
    workspace = "w"
    max_streams = 3
    """
    pem = str(tmp_path / "pem")
    assert load(tmp_path, text) == Config(
        server=Server(
            listen="0.0.0.0:443",
            trusted_proxies=("10.0.0.0/8", "::1"),
            metrics_public=True,
            timeouts=Timeouts(silence_s=0.0, keep_s=0.5),
            limits=Limits(body_bytes=1024, connections=10, abandoned=0),
            tls=Tls(cert_file=pem, key_file=pem),
            log=Log(format="json", level="debug"),
        ),
        providers=(
            Provider(
                name="v",
                kind="vertex",
                project="p",
                location="eu",
                proxy="http://user:password@proxy:3128",
                ca_file=pem,
                headers={"X-Team": "a b", "authorization": "${literal}"},
                max_connections=5,
                cancel_stops_billing=False,
                models=("gemini-2.5-flash",),
                timeouts=ProviderTimeouts(first_event_s=5.0, commit_s=0.0),
            ),
        ),
        keys=(Key(name="one key", key=GOOD, workspace="w", max_streams=3),),
    )


@pytest.mark.parametrize(
    ("written", "listen"),
    [
        ("${HOST}:80", "127.0.0.1:80"),
        ("${HOST}:${PORT}", "127.0.0.1:8081"),
        ("127.0.0.1:${NONE:-82}", "127.0.0.1:82"),
        ("127.0.0.1:${EMPTY:-83}", "127.0.0.1:83"),
        ("127.0.0.1:${PORT:-84}", "127.0.0.1:8081"),
        ("127.0.0.1:8${EMPTY}5", "127.0.0.1:85"),
        ("127.0.0.1:8${NONE:-}6", "127.0.0.1:86"),
        ("${WITH_DOLLAR}", "[::1]:1"),
    ],
)
def test_variables_in_a_text(tmp_path: Path, written: str, listen: str) -> None:
    environ = {"HOST": "127.0.0.1", "PORT": "8081", "EMPTY": "", "WITH_DOLLAR": "[::1]:1"}
    assert load(tmp_path, f'[server]\nlisten = "{written}"', **environ).server.listen == listen


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("a$$b", "a$b"),
        ("a$b", "a$b"),
        ("$", "$"),
        ("$$$$", "$$"),
        ("$${X}", "${X}"),
        ("$$${X}", "$x"),
        ("${X}", "x"),
        ("${DEEP}", "${X}"),  # what comes out is not looked at again
        ("${NONE:-$$}", "$$"),
        ("${NONE:-a:-b}", "a:-b"),
    ],
)
def test_dollar_signs(tmp_path: Path, written: str, value: str) -> None:
    text = f"[[providers]]\nname = 'p'\nkind = 'openai'\nheaders = {{ h = '{written}' }}"
    assert load(tmp_path, text, X="x", DEEP="${X}").providers[0].headers == {"h": value}


def test_names_of_keys_are_taken_as_they_are(tmp_path: Path) -> None:
    text = '[[providers]]\nname = "p"\nkind = "openai"\nheaders = { "x-$$-${X}" = "${X}" }'
    assert problems(tmp_path, text, X="x") == ['providers.p.headers."x-$$-${X}": is not the name of a header']


def test_numbers_and_switches_out_of_the_environment(tmp_path: Path) -> None:
    text = f"""
    [server]
    metrics_public = "${{SWITCH}}"
    default_model = "${{NONE:-}}"
    timeouts = {{ idle_s = "${{IDLE}}", total_s = "${{NONE:-7}}" }}
    limits = {{ connections = "${{NONE:-}}", body_bytes = "${{BODY}}" }}
    log = {{ level = "${{LEVEL}}" }}
    [[keys]]
    name = "a"
    key = "{GOOD}"
    rpm = "${{RPM:-60}}"
    expires = "${{EXPIRES}}"
    budget_period = "${{EMPTY}}"
    """
    environ = {"SWITCH": "TRUE", "IDLE": "1.5", "BODY": "2048", "EXPIRES": "2027-01-31", "EMPTY": "", "LEVEL": "error"}
    config = load(tmp_path, text, **environ)
    assert config.server == Server(
        metrics_public=True,
        timeouts=Timeouts(idle_s=1.5, total_s=7.0),
        limits=Limits(body_bytes=2048),
        log=Log(level="error"),
    )
    assert config.keys == (Key(name="a", key=GOOD, rpm=60, expires=datetime(2027, 1, 31, tzinfo=UTC)),)


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2027-01-31T12:00:00Z", datetime(2027, 1, 31, 12, tzinfo=UTC)),
        ("2027-01-31T12:00:00-05:00", datetime(2027, 1, 31, 17, tzinfo=UTC)),
        ("2027-01-31T12:00:00", datetime(2027, 1, 31, 12, tzinfo=UTC)),
        ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
        ('"2027-01-31 12:00+01:00"', datetime(2027, 1, 31, 11, tzinfo=UTC)),
        ('"2027-01-31"', datetime(2027, 1, 31, tzinfo=UTC)),
    ],
)
def test_moments(tmp_path: Path, written: str, moment: datetime) -> None:
    config = load(tmp_path, f'[[keys]]\nname = "a"\nkey = "{GOOD}"\nexpires = {written}')
    assert config.keys[0].expires == moment


def cases() -> list[tuple[str, str]]:
    """Each is a file, its last line a comment with what is said of it."""
    found = (Path(__file__).parent / "mistakes.txt").read_text().split("\n\n")
    return [(text, text.strip().rpartition("\n# ")[2]) for text in found]


ABOVE_0 = "expected a number above 0, at most 86400"
DEEP = "more than 100 tables and lists are nested in each other"
ODD = [
    ("[server]\nlisten = ", "not TOML: Invalid value"),
    ("[server]\nlisten = x\n\n", "not TOML: Invalid value"),
    ("[server", "not TOML: Expected ']' at the end of a table declaration"),
    ("a = 1\na = 2", "not TOML: Cannot overwrite a value"),
    (f"server.timeouts.idle_s = {'9' * 400}", f"server.timeouts.idle_s: {ABOVE_0}, got {'9' * 60}"),
    (f"server.log.format = '{'x' * 99}'", f'server.log.format: expected "auto", "json" or "text", got "{"x" * 57}..."'),
    (f"a = {'9' * 5000}", "not TOML: a whole number has too many digits"),
    (f"a = {'[' * 5000}{']' * 5000}", DEEP),
    (f"a = {'[' * 150}{']' * 150}", DEEP),
    (f"providers = [{{ defaults.{'a.' * 5000}b = 1 }}]", DEEP),
    (f"keys = [{{ name = '{'n' * 65}', key = '{GOOD}' }}]", "keys[0].name: expected text of 1 to 64 characters, got "),
]


@pytest.mark.parametrize(("text", "line"), cases(), ids=lambda text: text.rpartition("# ")[2][:70])
def test_problems_are_reported_in_one_line(tmp_path: Path, text: str, line: str) -> None:
    assert problems(tmp_path, text, CANARY="sk-canary-value", EMPTY="") == [line]


@pytest.mark.parametrize(("text", "line"), ODD, ids=lambda text: text[:40])
def test_what_is_oddly_wrong_too(tmp_path: Path, text: str, line: str) -> None:
    (said,) = problems(tmp_path, text)
    assert said.startswith(line)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = """
    [server]
    listne = 1
    dialect = 2
    [server.timeouts]
    idle_s = "abc"
    [[providers]]
    name = "openai"
    api_kye = "canary"
    api_key = "${NONE}"
    [[keys]]
    rpm = 0
    """
    assert problems(tmp_path, text) == [
        "server.listne: unknown key, did you mean listen?",
        "server.dialect: expected text, got 2",
        'server.timeouts.idle_s: expected a number, got "abc"',
        "providers.openai.kind: missing: expected text",
        "providers.openai.api_kye: unknown key, did you mean api_key?",
        "providers.openai.api_key: the environment variable NONE is not set",
        "keys[0].name: missing: expected text of 1 to 64 characters",
        "keys[0].key: missing: expected text",
        "keys[0].rpm: expected a whole number from 1 to 1000000000, got 0",
    ]


def test_mistakes_of_names_and_of_values_are_reported_together(tmp_path: Path) -> None:
    """And none that only follows from another."""
    text = """
    [[providers]]
    name = "claude"
    kind = "anthropc"
    rmp = 5
    [[providers]]
    name = "own"
    kind = "openai-compatible"
    bas_url = "http://h/v1"
    [[providers]]
    kind = "openai"
    [[providers]]
    name = "eu"
    kind = "azure"
    api_key = { command = ["never-run"] }
    [[models]]
    id = "m"
    targets = [
        { provider = "claude", model = "x", wieght = 1 },
        { provider = "nobody", model = "y" },
        "z",
    ]
    fallbacks = ["nothing"]
    [[keys]]
    name = "a"
    key = "${NONE}"
    [[keys]]
    name = "b"
    key = "short"
    """
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text)
    found = [(refused.value.positions[where], where, reason) for where, reason in refused.value.problems]
    assert [(at[0], where) for at, where, _ in found] == [
        (4, "providers.claude.kind"),
        (5, "providers.claude.rmp"),
        (9, "providers.own.bas_url"),
        (10, "providers[2].name"),
        (12, "providers.eu.base_url"),
        (19, "models.m.targets[0].wieght"),
        (21, "models.m.targets[2]"),
        (23, "models.m.fallbacks[0]"),
        (26, "keys.a.key"),
        (29, "keys.b.key"),
    ]
    reasons = {where: reason for _, where, reason in found}
    assert (
        reasons["providers.claude.kind"].endswith("did you mean anthropic or groq?")
        or "did you mean anthropic" in (reasons["providers.claude.kind"])
    )
    assert reasons["providers.claude.rmp"] == "unknown key, did you mean rpm?"
    assert reasons["keys.a.key"] == "the environment variable NONE is not set"


def test_a_mistyped_name_hides_no_mistake_of_a_setting_that_is_there(tmp_path: Path) -> None:
    text = 'serve = 1\n[server]\nlistne = "x"\nlisten = "nowhere"\n[server.cors]\norigins = ["null"]\n'
    found = [line.partition(":")[0] for line in problems(tmp_path, text)]
    assert found == ["serve", "server.listne", "server.listen", "server.cors.origins[0]"]


def test_the_error_is_a_value(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, "serve = 1\n[server]\ndialect = 2")
    error = refused.value
    assert (error.where, error.reason) == ("serve", "unknown key, did you mean server?")
    assert len(error.problems) == 2
    assert error.file == str(tmp_path / "streamweir.toml")
    assert str(ConfigError("a.b", "no")) == "a.b: no"
    assert str(ConfigError("", "no", file="f")) == "f: no"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file or directory$"):
        load_config(tmp_path / "none.toml", {})
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory$"):
        load_config(tmp_path, {})
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe9'")
    with pytest.raises(ConfigError, match=r"latin\.toml: is not UTF-8 text$"):
        load_config(tmp_path / "latin.toml", {})
    with pytest.raises(ConfigError, match="not TOML"):
        load(tmp_path, "a = " + "9" * 5000)


def test_the_address_of_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    assert load(tmp_path, "[server]\nlisten = 'nonsense'", listen="[::1]:9").server.listen == "[::1]:9"
    with pytest.raises(ConfigError, match=r"server\.listen: expected HOST:PORT"):
        load(tmp_path, "", listen="${X}")
    with pytest.raises(ConfigError, match=r"server\.listen: without"):
        load(tmp_path, "", listen="0.0.0.0:8080")


@pytest.mark.parametrize("folder", [".", "sub"])
def test_files_are_looked_for_from_where_the_file_lies(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "ca.pem").write_text("x")
    text = "[[providers]]\nname = 'p'\nkind = 'openai'\nca_file = 'ca.pem'"
    (tmp_path / folder / "s.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    config = load_config(Path(folder) / "s.toml", {})
    assert config.providers[0].ca_file == str((tmp_path / folder / "ca.pem").absolute())


def test_files_that_are_missing(tmp_path: Path) -> None:
    text = """
    server.tls = { cert_file = "cert.pem", key_file = "key\\u0000.pem" }
    [[providers]]
    name = "p"
    kind = "openai"
    ca_file = "."
    """
    assert problems(tmp_path, text) == [
        "server.tls.cert_file: file not found",
        "server.tls.key_file: file not found",
        "providers.p.ca_file: file not found",
    ]


def test_equal_files_are_equal_configurations(tmp_path: Path) -> None:
    before, same = (load(tmp_path, DESIGN, **ENVIRON) for _ in range(2))
    assert before == same
    assert before != load(tmp_path, DESIGN, **{**ENVIRON, "OPENAI_API_KEY": "another"})
    assert before.providers[1:] == load(tmp_path, DESIGN, **{**ENVIRON, "OPENAI_API_KEY": "another"}).providers[1:]


def test_without_a_store_no_budget_can_be_kept(tmp_path: Path) -> None:
    text = f'[store]\nurl = "none"\n[[keys]]\nname = "a"\nkey = "{GOOD}"\nbudget_usd = 1\n'
    with pytest.raises(ConfigError, match=r"keys\.a\.budget_usd: needs a database"):
        load(tmp_path, text)


@pytest.mark.parametrize("name", ["rpm", "tpm", "max_streams", "budget_usd"])
def test_several_workers_need_something_shared_for_a_limit(name: str) -> None:
    config = Config(keys=(structs.replace(Key(name="a", key=GOOD), **{name: 5}),))
    assert check_workers(config, 1) == []
    reason = "a limit with 2 workers needs [shared] (Valkey or Redis)"
    assert check_workers(config, 2) == [(f"keys.a.{name}", reason)]
    assert check_workers(Config(keys=config.keys, shared=Shared(url="redis://h")), 2) == []


@pytest.mark.parametrize("name", ["rpm", "tpm", "max_streams"])
@pytest.mark.parametrize("where", ["providers.p", "models.m.targets[0]"])
def test_limits_of_targets_need_something_shared_too(name: str, where: str) -> None:
    limit = {name: 5}
    target = Target(provider="p", model="x", **(limit if where.startswith("models") else {}))  # type: ignore[arg-type]
    config = Config(
        providers=(structs.replace(Provider(name="p", kind="sim"), **(limit if where == "providers.p" else {})),),
        models=(Model(id="m", targets=(target,)),),
    )
    assert check_workers(config, 1) == []
    reason = "a limit with 2 workers needs [shared] (Valkey or Redis)"
    assert check_workers(config, 2) == [(f"{where}.{name}", reason)]
    assert check_workers(structs.replace(config, shared=Shared(url="redis://h")), 2) == []


def test_limits_of_one_target_do_not_contradict_each_other(tmp_path: Path) -> None:
    text = """
    [[providers]]
    name = "p"
    kind = "openai"
    [[models]]
    id = "a"
    targets = [{ provider = "p", model = "x", rpm = 5, max_streams = 2 }]
    [[models]]
    id = "b"
    targets = [{ provider = "p", model = "x", rpm = 6 }, { provider = "p", model = "y", rpm = 7 }]
    """
    with pytest.raises(ConfigError, match=r"models\.b\.targets\[0\]\.rpm: is 6, but 5 in models\.a\.targets\[0\]"):
        load(tmp_path, text)
    assert load(tmp_path, text.replace("rpm = 6", "rpm = 5")).models[1].targets[1].rpm == 7


def test_what_is_redacted_is_a_regular_expression(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"store\.redact\[1\]: not a regular expression"):
        load(tmp_path, '[store]\nredact = ["a+", "("]\n')


@pytest.mark.parametrize(
    "lines",
    [
        "timeouts = { first_event_s = 5, idle_s = 7 }",
        "first_event_s = 5\nidle_s = 7",
        "first_event_s = 5\ntimeouts = { idle_s = 7 }",
    ],
)
def test_a_providers_timeouts_stand_in_a_table_or_beside_the_rest(tmp_path: Path, lines: str) -> None:
    file = tmp_path / "streamweir.toml"
    file.write_text(f'[[providers]]\nname = "a"\nkind = "openai"\n{lines}\n[[keys]]\nname = "k"\nkey = "{GOOD}"\n')
    assert load_config(file, {}).providers[0].timeouts == ProviderTimeouts(first_event_s=5, idle_s=7)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("idle_s = 7\ntimeouts = { idle_s = 8 }", "providers.a.idle_s: unknown key"),
        ('idle_s = "soon"', 'providers.a.timeouts.idle_s: expected a number, got "soon"'),
        ("write_stall_s = 7", "providers.a.write_stall_s: unknown key"),
    ],
)
def test_a_providers_timeout_that_cannot_be_taken(tmp_path: Path, lines: str, problem: str) -> None:
    file = tmp_path / "streamweir.toml"
    file.write_text(f'[[providers]]\nname = "a"\nkind = "openai"\n{lines}\n')
    with pytest.raises(ConfigError) as caught:
        load_config(file, {})
    assert problem in str(caught.value)


def test_members_of_a_body_keep_their_types(tmp_path: Path) -> None:
    file = tmp_path / "streamweir.toml"
    file.write_text(
        '[[providers]]\nname = "p"\nkind = "openai"\ndrop = ["seed"]\noverride = { user = "${TEAM}", on = true }\n'
        "[providers.defaults]\ntemperature = 0.5\ntop_k = 3\nstop = ['END', '$$']\n"
        "metadata = { a = 'b', c = [{ d = 1 }] }\n"
    )
    (provider,) = load_config(file, {"TEAM": "core"}).providers
    assert provider.defaults == {
        "temperature": 0.5,
        "top_k": 3,
        "stop": ["END", "$"],
        "metadata": {"a": "b", "c": [{"d": 1}]},
    }
    assert (provider.override, provider.drop) == ({"user": "core", "on": True}, ("seed",))
    assert type(provider.override["user"]) is str
