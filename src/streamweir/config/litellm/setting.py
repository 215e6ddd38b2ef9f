"""Converts the settings outside of `model_list`: server, store, keys and routing.

`router_settings` override `litellm_settings`, as in LiteLLM.
"""

import re
from collections.abc import Mapping
from typing import Any

from streamweir.config.error import entry, member
from streamweir.config.litellm import unsupported
from streamweir.config.litellm.tree import Branch, Notes
from streamweir.config.litellm.value import take_bytes, take_days, take_seconds
from streamweir.config.litellm.variable import REFERENCE, Variables
from streamweir.config.weak_key import MIN_KEY_LENGTH

Table = tuple[str, dict[str, Any]]
Named = tuple[str, str]
"""The path in the file, and the name."""
_SCHEMES = ("redis://", "rediss://", "unix://")
_REDIS = {"host": re.compile(r"[A-Za-z0-9._-]+"), "port": re.compile(r"[0-9]{1,5}"), "db": re.compile(r"[0-9]{1,4}")}


class Settings:
    def __init__(self, top: Branch, variables: Variables) -> None:
        self._variables = variables
        self._notes = top.notes
        self._litellm = top.branch("litellm_settings")
        self._router = top.branch("router_settings")
        self._general = top.branch("general_settings")
        self.strategy = self._router.take_text("routing_strategy")
        self.aliases = self._read_aliases()
        self._fallbacks = self._read_fallbacks()
        self._default_fallbacks = self._named(*self._either("default_fallbacks"))
        self._default_model = self._general.take_text("completion_model")
        self._tables = self._read_tables()
        self._master = self._read_master_key()
        for name in ("drop_params", "turn_off_message_logging"):
            if self._litellm.get(name) is True:
                self._litellm.take(name)  # always the case here
        self._litellm.report_remaining(unsupported.LITELLM)
        self._router.report_remaining(unsupported.ROUTER)
        self._general.report_remaining(unsupported.GENERAL)

    def tables(self, models: Mapping[str, object]) -> list[Table]:
        """The tables before the providers. `models`: the names that callers can use."""
        default = self._default_model
        if default is not None and default not in models:
            self._notes.add_dropped(self._general.path_of("completion_model"), "there is no such model")
            default = None
        return [("server", {"default_model": default}), *self._tables]

    def keys(self) -> list[Table]:
        if self._master is None:
            return []
        return [("[[keys]]", {"name": "master", "key": self._master, "scopes": ["chat", "models", "admin"]})]

    def fallbacks_of(self, name: str, group: str, groups: Mapping[str, object]) -> list[str]:
        """The fallback groups of `group`, if it is requested as `name`."""
        known = (self._fallbacks.get(each) for each in (name, group, "*"))
        others = next((each for each in known if each is not None), self._default_fallbacks)
        found = [self.aliases.get(other, other) for _, other in others]
        return [other for other in found if other in groups and other != group]

    def report_unknown(self, groups: Mapping[str, object]) -> None:
        """Adds notes for fallbacks with unknown models."""
        for name, others in (*self._fallbacks.items(), ("*", self._default_fallbacks)):
            is_unknown = name != "*" and self.aliases.get(name, name) not in groups
            for where, other in others:
                if is_unknown or self.aliases.get(other, other) not in groups:
                    self._notes.add_dropped(where, "there is no such model")

    def _either(self, name: str) -> tuple[Any, str]:
        """The value in `router_settings`, else in `litellm_settings`, and its path."""
        ours, others = self._router.take(name), self._litellm.take(name)
        if ours is not None and others is not None:
            self._notes.add_dropped(self._litellm.path_of(name), f"router_settings.{name} overrides it")
        return (ours, self._router.path_of(name)) if ours is not None else (others, self._litellm.path_of(name))

    def _read_aliases(self) -> dict[str, str]:
        branch = self._router.branch("model_group_alias")
        found = {}
        for alias in branch.names():
            value = branch.take(alias)
            if isinstance(value, dict):
                if value.get("hidden"):
                    self._notes.add_dropped(branch.path_of(alias), "it can be used, but not hidden")
                value = value.get("model")
            if isinstance(value, str):
                found[alias] = value
            else:
                self._notes.add_dropped(branch.path_of(alias), "the name of a model was expected")
        return found

    def _read_fallbacks(self) -> dict[str, list[Named]]:
        value, where = self._either("fallbacks")
        found: dict[str, list[Named]] = {}
        for path, item in _items(value, where):
            if isinstance(item, dict):
                for name, others in item.items():
                    found.setdefault(name, []).extend(self._named(others, member(path, name)))
            else:
                self._notes.add_dropped(path, "a table was expected")
        return found

    def _named(self, value: object, where: str) -> list[Named]:
        """The model names in a list, whose items may also be tables with parameters."""
        found = []
        for path, item in _items(value, where):
            name = item.get("model") if isinstance(item, dict) else item
            if isinstance(name, str):
                found.append((path, name))
            if not isinstance(name, str):
                self._notes.add_dropped(path, "the name of a model was expected")
            elif isinstance(item, dict):
                self._notes.add_dropped(path, "the caller sets the parameters of a request")
        return found

    def _read_tables(self) -> list[Table]:
        timeout = take_seconds(self._router, "timeout", self._variables)
        request_timeout = take_seconds(self._litellm, "request_timeout", self._variables)
        if timeout is not None and request_timeout is not None:
            self._notes.add_dropped(self._litellm.path_of("request_timeout"), "router_settings.timeout overrides it")
        first = take_seconds(self._router, "stream_timeout", self._variables)
        limits = {
            "body_bytes": take_bytes(self._general, "max_request_size_mb"),
            "response_bytes": take_bytes(self._general, "max_response_size_mb"),
        }
        is_json = self._litellm.get("json_logs") is True and self._litellm.take("json_logs")
        retention = take_days(self._general, "maximum_spend_logs_retention_period")
        return [
            (
                "server.timeouts",
                {"first_event_s": first, "total_s": timeout if timeout is not None else request_timeout},
            ),
            ("server.limits", limits),
            ("server.log", {"format": "json" if is_json else None}),
            ("store", {"retention_days": retention}),
            ("shared", {"url": self._read_redis()}),
        ]

    def _read_redis(self) -> str | None:
        url, where = self._router.take_text("redis_url"), self._router.path_of("redis_url")
        if url is not None:
            if not url.startswith((REFERENCE, *_SCHEMES)):
                self._notes.add_dropped(where, f"an address that begins with {' or '.join(_SCHEMES)} was expected")
                return None
            return self._variables.secret(url, where, "REDIS_URL") if "@" in url else self._variables.text(url, where)
        host = self._router.take_text("redis_host")
        if host is None:
            return None
        password = self._router.take_text("redis_password")
        parts = {"host": host, "port": self._router.take_text("redis_port"), "db": self._router.take_text("redis_db")}
        address = ""
        for mark, (name, value) in zip(("", ":", "/"), parts.items(), strict=True):
            where = self._router.path_of(f"redis_{name}")
            if value is not None and not value.startswith(REFERENCE) and not _REDIS[name].fullmatch(value):
                self._notes.add_dropped(where, "no address can be made of it")
                return None
            address += mark + self._variables.text(value, where) if value is not None else ""
        return f"redis://{self._redis_user(password)}{address}"

    def _redis_user(self, password: str | None) -> str:
        if password is None:
            return ""
        where = self._router.path_of("redis_password")
        self._notes.add_action(where, "it is part of an address now: write @ : / ? # % as %XX in the variable")
        return f":{self._variables.secret(password, where, 'REDIS_PASSWORD')}@"

    def _read_master_key(self) -> str | None:
        key = self._general.take_text("master_key")
        if key is None:
            return None
        where = self._general.path_of("master_key")
        if not key.startswith(REFERENCE) and len(key) < MIN_KEY_LENGTH:
            self._notes.add_action(where, f"it is too short: a key has at least {MIN_KEY_LENGTH} characters")
        return self._variables.secret(key, where, "LITELLM_MASTER_KEY")


def models_of(groups: Mapping[str, object], aliases: Mapping[str, str], notes: Notes) -> dict[str, str]:
    """The names that callers can use, with their groups."""
    found = {name: name for name in groups}
    for alias, name in aliases.items():
        where = member("router_settings.model_group_alias", alias)
        if name not in groups:
            notes.add_dropped(where, "there is no such model")
        elif alias in found:
            notes.add_dropped(where, "there is a model of that name")
        elif not alias.isprintable() or alias != alias.strip():
            notes.add_dropped(where, "its name is not allowed here")
        else:
            found[alias] = name
    return found


def _items(value: object, where: str) -> list[tuple[str, Any]]:
    """The items of a list; a single value counts as a list of one."""
    if isinstance(value, list):
        return [(entry(where, index), item) for index, item in enumerate(value)]
    return [(where, value)] if value is not None else []
