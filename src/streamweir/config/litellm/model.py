"""Makes the models and the providers of the new file.

Models are the groups of the old file, and other names for them: aliases, routing groups, deployments that a fallback
names by their ids, and models of a wildcard that an alias or a fallback names. LiteLLM asks a group once and then
`num_retries` times, and so each order of it and each of its fallbacks: the sum is `max_attempts`.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from streamweir.config.file.variable import quoted
from streamweir.config.litellm.deployment import Deployment
from streamweir.config.litellm.provider import Credential, Providers
from streamweir.config.litellm.report import Place, Report
from streamweir.config.litellm.route import (
    Group,
    credential,
    groups_of,
    limits_of,
    make_group,
    model_table,
    target_identity,
    weights_of,
)
from streamweir.config.litellm.setting import RoutingGroup, Settings, Table
from streamweir.policy.routing.route import MAX_NAME_LENGTH, matches_pattern

_MAX_ATTEMPTS = 20
_DEFAULT_ATTEMPTS = 3
_DEFAULT_RETRIES = 2
"""LiteLLM's, if the file has none."""
_ALSO_LIMIT = "LiteLLM only shares requests by it; here it is a limit, too"


class Models:
    def __init__(self, deployments: Iterable[Deployment], settings: Settings, report: Report) -> None:
        self._settings = settings
        self._report = report
        self._providers = Providers(settings.of_providers)
        all_of_them = [_with_streams(each, settings.default_max_streams) for each in deployments]
        self._wildcards = [each for each in all_of_them if each.is_wildcard]
        if not settings.are_limits_known:
            for deployment in all_of_them:
                for limit in deployment.limits.keys() & {"rpm", "tpm"}:
                    report.note(deployment.places[limit], _ALSO_LIMIT)
        self._groups = groups_of(all_of_them, report)
        self._models: dict[str, Group] = {**self._groups}
        self._group_names: dict[str, str] = {}  # of aliases
        self._strategies: dict[str, str] = {}
        self._served: dict[str, tuple[Deployment, str]] = {}  # models of wildcards
        self._add_others()
        settings.fallbacks.check(set(self._models), self._resolve, {each.group for each in self._wildcards})

    @property
    def names(self) -> Collection[str]:
        return self._models.keys()

    def tables(self) -> list[Table]:
        providers = self._add_wildcards()
        models: list[Table] = []
        for name, group in self._models.items():
            report = self._report if name in self._groups else Report()  # for another name, they would be duplicates
            strategy = self._strategies.get(name, self._settings.strategy)
            if name in self._served:
                wildcard, model = self._served[name]
                table: dict[str, Any] = {"targets": [{"provider": providers[wildcard.where], "model": quoted(model)}]}
            else:
                table = model_table(group, strategy, self._providers, report)
            lists = self._fallbacks_of(name)
            written = {kind: [quoted(other) for other in others] for kind, others in lists.items()}
            table = {"id": quoted(name), **table, **written, "max_attempts": self._max_attempts(name)}
            models.append(("[[models]]", table))
        return [*(("[[providers]]", table) for table in self._providers.tables), *models]

    def _add_wildcards(self) -> dict[str, str]:
        """The provider of each. They are the first ones, so that they get the names that callers use."""
        names: dict[str, str] = {}
        pools: dict[str, list[Deployment]] = {}
        for each in self._wildcards:
            pools.setdefault(target_identity(each), []).append(each)
        for pool in pools.values():
            first = pool[0]
            settings = {name: value for name, value in first.settings.items() if name != "max_output_tokens"}
            keys = {each.key: each for each in pool if each.key is not None}
            if len(keys) > 1:
                weights = weights_of([pool], "weighted", self._report)
                credentials = [credential(key, [each], weights[each.where]) for key, each in keys.items()]
            else:
                credentials = [Credential(key, {}) for key in keys]
                settings |= limits_of(pool)
            name = self._providers.of_wildcard(first.connection, credentials, settings)
            names |= {each.where: name for each in pool}
        return names

    def _add_others(self) -> None:
        for group in self._settings.routing_groups:
            self._add_routing_group(group)
        for alias, (name, place) in self._settings.aliases.items():
            self._add_alias(alias, name, place)
        own = [each for group in self._groups.values() for each in group.deployments]
        ids = {each.id: each for each in own if each.id is not None}
        named = self._settings.fallbacks.names()
        for name in sorted(named - self._models.keys()):
            if name in ids:
                self._models[name] = make_group(name, [ids[name]], Report())
            else:
                self._add_from_wildcard(name)
        for each in own:
            if each.id is not None and (each.id not in self._models or each.id not in named):
                self._report.drop(each.places["id"], "targets have no ids")

    def _add_alias(self, alias: str, name: str, place: Place) -> None:
        if alias in self._models:
            self._report.drop(place, "there is a model of that name")
        elif _is_no_name(alias):
            self._report.drop(place, "its name is not allowed here")
        elif name not in self._models and not self._add_from_wildcard(name):
            self._report.drop(place, "there is no such model")
        else:
            self._models[alias] = self._models[name]
            self._group_names[alias] = name
            if name in self._served:
                self._served[alias] = self._served[name]
            if name in self._strategies:
                self._strategies[alias] = self._strategies[name]

    def _add_routing_group(self, group: RoutingGroup) -> None:
        own: list[Deployment] = []
        for place, name in group.models:
            if name not in self._groups:
                self._report.drop(place, "there is no such model")
                continue
            own += self._groups[name].deployments
            if group.strategy is not None:
                self._strategies[name] = group.strategy
        if group.name is None:
            return
        if not own or group.name in self._models or _is_no_name(group.name):
            self._report.drop(group.place, "no model can be made of it")
            return
        self._models[group.name] = make_group(group.name, own, Report())
        if group.strategy is not None:
            self._strategies[group.name] = group.strategy

    def _add_from_wildcard(self, name: str) -> bool:
        """Makes a model of one that a wildcard serves."""
        if "*" in name or _is_no_name(name):
            return False
        for each in sorted(self._wildcards, key=lambda each: -len(each.group)):
            model = _matched(name, each.group, each.model)
            if model is not None:
                self._models[name] = make_group(name, [each], Report())
                self._served[name] = each, model
                return True
        return False

    def _resolve(self, name: str) -> str | None:
        """The model that answers for a name."""
        if name in self._models:
            return name
        return next((model for model in self._models if matches_pattern(name, model)), None)

    def _fallbacks_of(self, name: str) -> dict[str, list[str]]:
        return self._settings.fallbacks.of(name, self._group_names.get(name, name))

    def _chain(self, name: str) -> Iterator[str]:
        """The model and its fallbacks, each once."""
        waiting, seen = [name], {name}
        while waiting:
            current = waiting.pop(0)
            yield current
            for other in self._fallbacks_of(current).get("fallbacks", ()):
                found = self._resolve(other)
                if found is not None and found not in seen:
                    seen.add(found)
                    waiting.append(found)

    def _max_attempts(self, name: str) -> int | None:
        attempts = sum(self._attempts_of(self._models[each]) for each in self._chain(name))
        if attempts > _MAX_ATTEMPTS:
            for place in self._settings.retries_at:
                self._report.note(place, f"there are at most {_MAX_ATTEMPTS} attempts for a request")
        return min(attempts, _MAX_ATTEMPTS) if attempts != _DEFAULT_ATTEMPTS else None

    def _attempts_of(self, group: Group) -> int:
        default = self._settings.retries if self._settings.retries is not None else _DEFAULT_RETRIES
        own = [each.retries for each in group.deployments]
        retries = max(default if each is None else each for each in own)
        return (1 + retries) * len(group.stages)


def _with_streams(deployment: Deployment, default: int | str | None) -> Deployment:
    if default is None or deployment.limits:
        return deployment
    return deployment._replace(limits={"max_streams": default})


def _matched(name: str, pattern: str, model: str) -> str | None:
    """The model for a name that matches a pattern: what `*` stands for is inserted."""
    found = re.fullmatch("(.*)".join(map(re.escape, pattern.split("*"))), name)
    if found is None or not all(found.groups()):
        return None
    parts: list[str] = list(found.groups())
    pieces = model.split("*")
    if len(parts) != len(pieces) - 1:
        return None
    return "".join(part for pair in zip(pieces, [*parts, ""], strict=True) for part in pair)


def _is_no_name(text: str) -> bool:
    return not text.isprintable() or text != text.strip() or not 0 < len(text) <= MAX_NAME_LENGTH
