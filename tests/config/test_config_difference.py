"""What differs between two configurations, and what is kept of reloads, without secrets and bounded."""

from typing import Any

import pytest
from msgspec import structs

from streamweir.config.display.difference import MAX_CHANGES, Change, difference
from streamweir.config.error import ConfigError, ConfigProblem
from streamweir.config.model import Config, Key, Limits, Model, Provider, Server, Shared, Store, Target, Timeouts, Tls
from streamweir.config.reload_log import MAX_RELOADS, ReloadLog

UP = Provider(name="up", kind="openai", api_key="sk-proj-0123456789abcdef")
OTHER = Provider(name="other", kind="groq", headers={"x-team": "hunter1-and-more"})


def changes(before: Config, after: Config) -> list[tuple[str, ...]]:
    found = difference(before, after)
    assert found.more == 0
    return [(each.path, each.what, each.before, each.after) for each in found.changes]


def replaced(config: Config, **members: Any) -> Config:
    return structs.replace(config, **members)


def test_the_same_configuration_has_no_changes() -> None:
    config = Config(providers=(UP, OTHER))
    assert changes(config, replaced(config)) == []


def test_each_setting_by_itself() -> None:
    before = Config(server=Server(default_model="a", timeouts=Timeouts(idle_s=20.0)), store=Store(redact=("a",)))
    after = Config(server=Server(health_listen="[::1]:1", limits=Limits(lag_s=2.0)), store=Store(redact=("a", "b")))
    assert changes(before, after) == [
        ("server.health_listen", "added", "", '"[::1]:1"'),
        ("server.default_model", "removed", '"a"', ""),
        ("server.timeouts.idle_s", "changed", "20.0", "60.0"),
        ("server.limits.lag_s", "changed", "1.0", "2.0"),
        ("store.redact", "changed", '["a"]', '["a", "b"]'),
    ]


def test_tables_are_compared_by_name_and_added_without_defaults() -> None:
    before = Config(providers=(UP, OTHER), models=(Model(id="m", targets=(Target(provider="up", model="x"),)),))
    third = Provider(name="third", kind="openai", base_url="https://x.example", retries=2)
    after = Config(providers=(third, UP), models=(Model(id="m", targets=(Target(provider="up", model="y"),)),))
    assert changes(before, after) == [
        ("providers.third.name", "added", "", '"third"'),
        ("providers.third.kind", "added", "", '"openai"'),
        ("providers.third.base_url", "added", "", '"https://x.example"'),
        ("models.m.targets[0].model", "changed", '"x"', '"y"'),
        ("providers.other.name", "removed", '"other"', ""),
        ("providers.other.kind", "removed", '"groq"', ""),
        ("providers.other.headers.x-team", "removed", '"****"', ""),
    ]


def test_another_order_is_a_change() -> None:
    before, after = Config(providers=(UP, OTHER)), Config(providers=(OTHER, UP))
    assert changes(before, after) == [("providers", "moved", '["up", "other"]', '["other", "up"]')]


def test_secrets_are_masked_and_so_are_those_of_the_other_configuration() -> None:
    new = structs.replace(UP, api_key="sk-proj-9876543210fedcba", base_url="https://x/sk-proj-0123456789abcdef")
    before = Config(
        providers=(UP,), store=Store(url="postgresql://me:hunter2@db/a", redact=("sk-proj-9876543210fedcba",))
    )
    after = Config(providers=(new,), store=Store(url="postgresql://me:hunter3@db/a"))
    assert changes(before, after) == [
        ("store.url", "changed", '"postgresql://****@db/a"', '"postgresql://****@db/a"'),
        ("store.redact", "changed", '["****"]', "[]"),
        ("providers.up.base_url", "added", "", '"https://x/****"'),
        ("providers.up.api_key", "changed", '"****cdef"', '"****dcba"'),
    ]


def test_what_needs_a_restart() -> None:
    tls = Tls(cert_file="a", key_file="b")
    before = Config(server=Server(node="a"), shared=Shared(url="redis://a"))
    after = Config(
        server=Server(node="b", tls=tls, dialect="x"), shared=Shared(url="redis://b"), store=Store(url="none")
    )
    found = difference(before, after)
    assert found.for_restart == ["server.node", "server.tls", "store.url", "shared.url"]
    assert {each.path for each in found.changes if not each.needs_restart} == {"server.dialect"}


def test_it_is_bounded() -> None:
    many = tuple(Key(name=f"{number}", key="x" * 3000, models=("m" * 3000,)) for number in range(MAX_CHANGES))
    found = difference(Config(), Config(server=Server(node="b"), keys=many))
    assert (len(found.changes), found.more) == (MAX_CHANGES, 2 * MAX_CHANGES + 1)
    assert max(len(each.after) for each in found.changes) == 200
    assert all(isinstance(each, Change) for each in found.changes)


@pytest.mark.parametrize("count", [1, MAX_RELOADS + 5])
def test_reloads_are_kept_the_newest_first(count: int) -> None:
    log = ReloadLog()
    for number in range(count):
        log.taken(number, "request", difference(Config(), Config(server=Server(node=f"{number}"))))
    assert [each.at_ms for each in log.reloads] == list(range(count))[::-1][:MAX_RELOADS]
    assert log.reloads[0].changes[0].after == f'"{count - 1}"'


def test_why_a_reload_was_refused() -> None:
    log = ReloadLog()
    problems = [ConfigProblem(f"keys[{number}]", "x" * 1000) for number in range(30)]
    log.refused(1, "secret", ConfigError("server.dialect", "unknown", file="a.toml", more=problems))
    (refused,) = log.reloads
    assert (refused.is_taken, refused.cause, refused.changes) == (False, "secret", [])
    assert refused.problems[0] == "a.toml: server.dialect: unknown"
    assert (len(refused.problems), len(refused.problems[1]), refused.problems[-1]) == (21, 400, "and 11 more")
