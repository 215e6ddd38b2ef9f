"""No secret is seen: not in a printed configuration, not in an error, not in a traceback with its values."""

import pickle
import traceback
from pathlib import Path

import pytest

from streamweir.config.error import ConfigError
from streamweir.config.load import load_config
from streamweir.config.model import Config, Key, Provider, Secret, Shared, Store
from streamweir.config.secret import MIN_SECRET_LENGTH, secrets_of

CANARY = "canary-6d1f0a93c57b28e4"
FROM_FILE = "canary-file-b28e46d1f0a9"
FILE = """
[store]
url = "postgresql://user:${CANARY}@host/db"
[shared]
url = "redis://:${CANARY}@host"
[[providers]]
name = "p"
kind = "openai"
api_key = "${CANARY}"
proxy = "http://user:${CANARY}@proxy:1"
headers = { authorization = "Bearer ${CANARY}" }
[[providers]]
name = "several"
kind = "openai"
api_keys = ["${CANARY}", { name = "file", file = "key" }]
[[keys]]
name = "k"
key = "${CANARY}"
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "s.toml").write_text(FILE)
    (tmp_path / "key").write_text(f"{FROM_FILE}\n")
    return load_config(tmp_path / "s.toml", {"CANARY": CANARY})


def test_printing_shows_none(config: Config) -> None:
    assert CANARY not in repr(config)
    assert CANARY not in f"{config}{config.providers}{config.keys[0]}"
    assert FROM_FILE not in repr(config)
    assert repr(config.keys[0]).startswith("Key(name='k', key='****', ")
    assert "headers={'authorization': '****'}" in repr(config.providers[0])
    assert repr(Provider(name="p", kind="sim").api_key) == "''"


def test_they_are_included_on_request(config: Config) -> None:
    provider = config.providers[0]
    assert (provider.api_key, config.keys[0].key) == (CANARY, CANARY)
    assert provider.headers == {"authorization": f"Bearer {CANARY}"}
    assert f"Bearer {provider.api_key}" == f"Bearer {CANARY}"
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 (our own)


def test_those_that_a_text_may_quote_are_known_to_the_letter(config: Config) -> None:
    # The longest first: if one that is part of another were masked before it, the rest of that would be visible.
    assert secrets_of(config) == sorted([f"Bearer {CANARY}", CANARY, FROM_FILE], key=len, reverse=True)
    short = Provider(name="p", kind="openai", api_key="x" * (MIN_SECRET_LENGTH - 1), headers={"x-team": "research"})
    assert secrets_of(Config(providers=(short,))) == [], "words are not secrets"


def test_the_repr_hides_secrets() -> None:
    made = (
        Key(name="k", key=CANARY),
        Provider(name="p", kind="openai", api_key=CANARY, headers={"a": CANARY}, proxy=CANARY),
        Store(url=CANARY),
        Shared(url=CANARY),
    )
    assert CANARY not in repr(made)
    assert isinstance(made[0].key, Secret)


@pytest.mark.parametrize(
    "wrong",
    [
        "[[keys]]\nname = 'k2'\nkey = '${CANARY}'",
        "[[keys]]\nname = 'k2'\nkey = ' ${CANARY}'",
        "[[keys]]\nname = 'k2'\nkey = 'canary-6d1f0a93c57b28e4'",
        "[[keys]]\nname = 'k2'\nkey = 'x'\nscopes = ['${CANARY}']",
        "[[keys]]\nname = 'k2'\nkey = 'x'\nrpm = '${CANARY}'",
        "[[keys]]\nname = 'k2'\nkey = 'x'\ndialect = '${CANARY}'",
        "[[providers]]\nname = 'q'\nkind = '${CANARY}'",
        "[[providers]]\nname = 'q'\nkind = 'openai'\nbase_url = '${CANARY}'",
        "[[providers]]\nname = 'q'\nkind = 'openai'\nbase_url = 'https://u:canary-6d1f0a93c57b28e4@h'",
        "[[providers]]\nname = 'q'\nkind = 'openai'\nbase_url = 'https://h/?canary-6d1f0a93c57b28e4'",
        "[[providers]]\nname = 'q'\nkind = 'openai'\nproxy = 'https://u:canary-6d1f0a93c57b28e4@h'",
        "[[providers]]\nname = 'q'\nkind = 'openai'\nheaders = { a = \"canary-6d1f0a93c57b28e4\\n\" }",
        "[[providers]]\nname = 'q'\nkind = 'openai'\napikey = 'canary-6d1f0a93c57b28e4'",
        "[[providers]]\nname = 'q'\nkind = 'openai'\napi_keys = 'canary-6d1f0a93c57b28e4'",
        "[[providers]]\nname = 'q'\nkind = 'openai'\napi_keys = '${CANARY}'",
        "[[providers]]\nname = 'q'\nkind = 'openai'\napi_keys = [['canary-6d1f0a93c57b28e4']]",
        "[[providers]]\nname = 'q'\nkind = 'openai'\napi_keys = ['${CANARY}', '${CANARY}']",
        "[[providers]]\nname = 'q'\nkind = 'openai'\napi_keys = [' canary-6d1f0a93c57b28e4']",
        "[[providers]]\nname = 'q'\nkind = 'openai'\napi_keys = [{ key = 'canary-6d1f0a93c57b28e4', wieght = 1 }]",
        "[[providers]]\nname = 'q'\nkind = 'openai'\napi_key = '${CANARY}'\napi_keys = ['canary']",
        "[[models]]\nid = 'm'\ntargets = [{ provider = '${CANARY}', model = 'x' }]",
        "[server]\nlisten = '${CANARY}'",
        "[server]\ndefault_model = '${CANARY}'",
        "[server]\ntrusted_proxies = ['${CANARY}']",
        "[server]\ndialect = 'x${CANARY}'",
        "x = 'canary-6d1f0a93c57b28e4' y",
    ],
)
def test_no_error_shows_one(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "s.toml").write_text(wrong + FILE)
    (tmp_path / "key").write_text(FROM_FILE)
    with pytest.raises(ConfigError) as refused:
        load_config(tmp_path / "s.toml", {"CANARY": CANARY})
    error = refused.value
    shown = "".join(traceback.TracebackException.from_exception(error).format())
    assert CANARY not in f"{error}{error!r}{error.problems}{shown}"
