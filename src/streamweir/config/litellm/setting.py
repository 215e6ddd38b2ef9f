"""Converts the settings outside of `model_list`: server, store, keys and routing.

`router_settings` override `litellm_settings`, as in LiteLLM.
"""

import re
from collections.abc import Collection
from typing import Any, NamedTuple

from streamweir.config.checks.weak_key import MIN_KEY_LENGTH
from streamweir.config.file.variable import quoted
from streamweir.config.litellm import unsupported
from streamweir.config.litellm.deployment import MAX_RETRIES, MAX_STREAMS, NEVER_EJECTED, take_health
from streamweir.config.litellm.fallback import Fallbacks, items_of
from streamweir.config.litellm.report import Place
from streamweir.config.litellm.route import STRATEGIES
from streamweir.config.litellm.tree import Branch
from streamweir.config.litellm.value import take_bytes, take_count, take_days, take_first_event, take_seconds
from streamweir.config.litellm.variable import REFERENCE, Variables

Table = tuple[str, dict[str, Any]]
_SCHEMES = ("redis://", "rediss://", "unix://")
_REDIS = {"host": re.compile(r"[A-Za-z0-9._-]+"), "port": re.compile(r"[0-9]{1,5}"), "db": re.compile(r"[0-9]{1,4}")}
_ALWAYS = {
    "litellm_settings": ("drop_params", "turn_off_message_logging"),
    "router_settings": ("enable_weighted_failover",),
    "general_settings": ("enforce_fallback_budget",),
}
"""Settings that are always on here."""
_CHECKS = ("enforce_model_rate_limits", "prompt_caching", "session_affinity")
"""Of `optional_pre_call_checks`: those that are always made here."""
_CHECKS_BY_AFFINITY = ("encrypted_content_affinity", "responses_api_deployment_check")
_NEAREST = "the nearest one: the target with the fewest running requests, and none beyond its limits"


class RoutingGroup(NamedTuple):
    place: Place
    """Of its name."""
    name: str | None
    models: list[tuple[Place, str]]
    strategy: str | None


class Settings:
    def __init__(self, top: Branch, variables: Variables) -> None:
        self._variables = variables
        self._report = top.report
        self._litellm = top.branch("litellm_settings")
        self._router = top.branch("router_settings")
        self._general = top.branch("general_settings")
        self.are_limits_known = False
        """LiteLLM respects the limits of deployments, too."""
        self.strategy = self._read_strategy(self._router) or "weighted"
        self.routing_groups = [self._read_group(each) for each in self._router.branches("routing_groups")]
        self.aliases = self._read_aliases()
        self.fallbacks = Fallbacks(self._router, self._litellm)
        self.retries, self.retries_at = self._read_retries()
        self.default_max_streams = take_count(
            (self._router,), "default_max_parallel_requests", variables, 1, MAX_STREAMS
        )
        self.of_providers = {"retries": self.retries, **take_health(self._router, self._litellm, variables)}
        """Settings of every provider."""
        if self._router.get("disable_cooldowns") is True:
            self._router.take("disable_cooldowns")
            self.of_providers |= NEVER_EJECTED
        self.defaults = self._read_defaults()
        """Parameters of all deployments, and their path."""
        self._read_checks()
        self._default_model = self._general.take_text("completion_model")
        self._tables = self._read_tables()
        self._master = self._read_master_key()
        for section in (self._litellm, self._router, self._general):
            for name in _ALWAYS[section.where]:
                if section.get(name) is True:
                    section.take(name)
        self._litellm.report_remaining(unsupported.LITELLM)
        self._router.report_remaining(unsupported.ROUTER)
        self._general.report_remaining(unsupported.GENERAL)

    def tables(self, models: Collection[str]) -> list[Table]:
        """The tables before the providers. `models`: the names that callers can use."""
        default = self._default_model
        if default is not None and default not in models:
            self._general.drop("completion_model", "there is no such model")
            default = None
        elif default is not None:
            default = quoted(default)
        return [("server", {"default_model": default}), *self._tables]

    def keys(self) -> list[Table]:
        if self._master is None:
            return []
        return [("[[keys]]", {"name": "master", "key": self._master, "scopes": ["chat", "models", "admin"]})]

    def _read_strategy(self, branch: Branch) -> str | None:
        named = branch.take_text("routing_strategy")
        if named is None:
            return None
        found = STRATEGIES.get(named)
        if found is None:
            branch.drop("routing_strategy", "there is no such strategy")
        elif named.startswith("usage-based"):
            self.are_limits_known = True
            branch.note("routing_strategy", _NEAREST)
        elif named == "cost-based-routing":
            self.are_limits_known = True
        return found

    def _read_group(self, branch: Branch) -> RoutingGroup:
        place = branch.place("group_name")
        name = branch.take_text("group_name")
        models: list[tuple[Place, str]] = []
        for at, model in items_of(branch.open("models"), branch.place("models")):
            if isinstance(model, str):
                self._report.convert(at)
                models.append((at, model))
            else:
                self._report.drop(at, "the name of a model was expected")
        strategy = self._read_strategy(branch)
        branch.report_remaining(unsupported.ROUTER)
        return RoutingGroup(place, name, models, strategy)

    def _read_aliases(self) -> dict[str, tuple[str, Place]]:
        branch = self._router.branch("model_group_alias")
        found = {}
        for alias in branch.names():
            value, place = branch.open(alias), branch.place(alias)
            if isinstance(value, dict) and isinstance(value.get("model"), str):
                item = Branch(value, place.path, self._report)
                if item.take("hidden") is True:
                    item.note("hidden", "it can be used, but is listed, too")
                place = item.place("model")
                value = item.take("model")
                item.report_remaining({})
            if isinstance(value, str):
                self._report.convert(place)
                found[alias] = value, place
            else:
                self._report.drop(place, "the name of a model was expected")
        return found

    def _read_retries(self) -> tuple[int | None, list[Place]]:
        at = [each.place("num_retries") for each in (self._router, self._litellm) if each.get("num_retries")]
        found = take_count((self._router, self._litellm), "num_retries", self._variables, 0, MAX_RETRIES)
        if isinstance(found, str):
            self._report.drop(at[0], "a number was expected, not a variable")
            return None, []
        return found, at[:1]

    def _read_defaults(self) -> tuple[dict[str, Any], str]:
        value = self._router.open("default_litellm_params")
        if value is not None and not isinstance(value, dict):
            self._router.drop("default_litellm_params", "a table was expected")
        return value if isinstance(value, dict) else {}, self._router.path_of("default_litellm_params")

    def _read_checks(self) -> None:
        place = self._router.place("optional_pre_call_checks")
        for at, name in items_of(self._router.open("optional_pre_call_checks"), place):
            if name in _CHECKS:
                self._report.convert(at)
                self.are_limits_known = self.are_limits_known or name == "enforce_model_rate_limits"
            elif name in _CHECKS_BY_AFFINITY:
                self._report.note(at, "requests of a conversation stay with a target while it is healthy")
            else:
                self._report.drop(at, unsupported.CHECKS.get(str(name), "there is no equivalent"))

    def _read_tables(self) -> list[Table]:
        timeout = take_seconds(self._router, "timeout", self._variables)
        request_timeout = take_seconds(self._litellm, "request_timeout", self._variables)
        if timeout is not None and request_timeout is not None:
            self._litellm.drop("request_timeout", "router_settings.timeout overrides it")
        timeouts = {
            "first_event_s": take_first_event(self._router, self._variables),
            "total_s": timeout if timeout is not None else request_timeout,
            "keepalive_s": take_seconds(self._litellm, "sse_keepalive_ping_interval_seconds", self._variables),
        }
        limits = {
            "body_bytes": take_bytes(self._general, "max_request_size_mb"),
            "response_bytes": take_bytes(self._general, "max_response_size_mb"),
        }
        is_json = self._litellm.get("json_logs") is True and self._litellm.take("json_logs")
        retention = take_days(self._general, "maximum_spend_logs_retention_period")
        affinity = take_seconds(self._router, "deployment_affinity_ttl_seconds", self._variables)
        return [
            ("server.timeouts", timeouts),
            ("server.limits", limits),
            ("server.log", {"format": "json" if is_json else None}),
            ("store", {"retention_days": retention}),
            ("shared", {"url": self._read_redis()}),
            ("routing", {"affinity_s": affinity}),
        ]

    def _read_redis(self) -> str | None:
        url, place = self._router.take_text("redis_url"), self._router.place("redis_url")
        if url is not None:
            if not url.startswith((REFERENCE, *_SCHEMES)):
                self._report.drop(place, f"an address that begins with {' or '.join(_SCHEMES)} was expected")
                return None
            return self._variables.secret(url, place, "REDIS_URL") if "@" in url else self._variables.text(url, place)
        host = self._router.take_text("redis_host")
        if host is None:
            return None
        password = self._router.take_text("redis_password")
        parts = {"host": host, "port": self._router.take_text("redis_port"), "db": self._router.take_text("redis_db")}
        address = ""
        for mark, (name, value) in zip(("", ":", "/"), parts.items(), strict=True):
            if value is not None and not value.startswith(REFERENCE) and not _REDIS[name].fullmatch(value):
                for each in ("password", *(part for part, text in parts.items() if text is not None)):
                    if each != "password" or password is not None:
                        self._router.drop(f"redis_{each}", f"no address can be made of redis_{name}")
                return None
            at = self._router.place(f"redis_{name}")
            address += mark + self._variables.text(value, at) if value is not None else ""
        return f"redis://{self._redis_user(password)}{address}"

    def _redis_user(self, password: str | None) -> str:
        if password is None:
            return ""
        place = self._router.place("redis_password")
        secret = self._variables.secret(password, place, "REDIS_PASSWORD")
        self._report.note(place, "it is part of an address now: write @ : / ? # % as %XX in the variable")
        return f":{secret}@"

    def _read_master_key(self) -> str | None:
        key = self._general.take_text("master_key")
        if key is None:
            return None
        place = self._general.place("master_key")
        secret = self._variables.secret(key, place, "LITELLM_MASTER_KEY")
        if not key.startswith(REFERENCE) and len(key) < MIN_KEY_LENGTH:
            self._report.note(place, f"it is too short: a key has at least {MIN_KEY_LENGTH} characters")
        return secret
