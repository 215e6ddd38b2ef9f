"""Converts the entries of `model_list`: each becomes a deployment of a group, or is left out with a reason.

A wildcard entry for all models of a provider only creates the provider, because every model of a provider can be
requested as `{provider}/{model}`. A wildcard name for one model is a pattern alias.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from streamweir.config.litellm import unsupported
from streamweir.config.litellm.bedrock import region_in
from streamweir.config.litellm.parameter import take_parameters
from streamweir.config.litellm.price import take_price
from streamweir.config.litellm.provider import Connection, Connections
from streamweir.config.litellm.report import Place, Unusable
from streamweir.config.litellm.tree import Branch, number_of
from streamweir.config.litellm.value import Number, take_count, take_first_event, take_seconds
from streamweir.config.litellm.variable import REFERENCE, Variables
from streamweir.config.litellm.vendor import (
    BEDROCK,
    is_supported,
    split_model,
    upstream_model,
    why_unsupported,
    wire_of,
)
from streamweir.policy.routing.route import MAX_NAME_LENGTH

MAX_RETRIES = 20
MAX_FAILURES = 1_000_000
NEVER_EJECTED = {"max_failures": 0, "cooldown_s": 0}
MAX_LIMIT = 1_000_000_000
MAX_STREAMS = 1_000_000
LIMITS = ("rpm", "tpm", "max_streams")


class Deployment(NamedTuple):
    """A target with one key, and its settings in the old file."""

    where: str
    group: str
    id: str | None
    """The name by which a fallback can name this deployment alone."""
    connection: Connection
    key: str | None
    model: str
    settings: Mapping[str, Any]
    """Of the target, without its limits."""
    limits: Mapping[str, Number]
    weight: Decimal | None
    order: Decimal | None
    retries: int | None
    price_places: list[Place]
    places: Mapping[str, Place]
    """Where the settings are that are decided about with the others of the group."""

    @property
    def is_wildcard(self) -> bool:
        return "*" in self.model


class Deployments:
    def __init__(self, top: Branch, defaults: Mapping[str, Any], defaults_at: str, variables: Variables) -> None:
        """`defaults`: parameters of all deployments, which are at the path `defaults_at`."""
        self.all: list[Deployment] = []
        self._defaults = defaults
        self._defaults_at = defaults_at
        self._variables = variables
        self._connections = Connections(variables)
        self._credentials: dict[str, Branch] = {}
        self._values: dict[str, dict[str, Any]] = {}  # of the credentials
        used: set[str] = set()
        for credential in top.branches("credential_list"):
            self._read_credential(credential)
        for entry in top.branches("model_list"):
            try:
                deployment, name = self._read(entry)
            except Unusable as fault:
                entry.discard(str(fault))
            else:
                self.all.append(deployment)
                used.add(name or "")
        for name, credential in self._credentials.items():
            if name not in used:
                credential.discard("no deployment uses it")

    def _read_credential(self, credential: Branch) -> None:
        name = credential.take_text("credential_name")
        values = credential.open("credential_values")
        if name is None or not isinstance(values, dict):
            credential.discard("it needs a name and values")
        elif name in self._credentials:
            credential.discard("there is another one of that name")
        else:
            self._credentials[name] = credential
            self._values[name] = values
            credential.report_remaining({"credential_info": "it only describes the credential"})

    def _read(self, entry: Branch) -> tuple[Deployment, str | None]:
        """With the name of its credential."""
        name, params, info = entry.take_text("model_name"), entry.branch("litellm_params"), entry.branch("model_info")
        model = params.take_text("model")
        model_at = params.place("model")
        if name is None or model is None:
            raise Unusable("it needs a model_name and litellm_params.model")
        credential = self._add_credential(params)
        params.set_defaults(self._defaults, self._defaults_at)
        vendor, own = split_model(model, params.take_text("custom_llm_provider"))
        mode = info.take_text("mode")
        fault = _why_unsupported(name, model, vendor, own, mode)
        if fault is not None or vendor is None:
            raise Unusable(fault or "its provider is unknown")
        wire = wire_of(vendor, own, mode)
        region = region_in(own) if vendor in BEDROCK else None
        own = upstream_model(vendor, own)
        connection, key = self._connections.take(params, vendor, region)
        deployment = self._read_settings(entry, params, info, name, connection, own, wire)
        deployment = deployment._replace(key=key, places={**deployment.places, "model": model_at})
        if deployment.is_wildcard:
            _report_wildcard(deployment, info)
        if deployment.is_wildcard and (name, own) != (f"{connection.name}/*", "*"):
            entry.note("model_name", f"callers name its models as {connection.name}/MODEL")
        elif "*" in name and not deployment.is_wildcard:
            entry.note("model_name", "here * stands for any text without a slash")
        for branch, reasons in ((params, unsupported.DEPLOYMENT), (info, unsupported.MODEL_INFO), (entry, {})):
            branch.report_remaining(reasons)
        return deployment, credential

    def _read_settings(
        self,
        entry: Branch,
        params: Branch,
        info: Branch,
        name: str,
        connection: Connection,
        own: str,
        wire: str | None,
    ) -> Deployment:
        all_three, variables = (params, entry, info), self._variables
        places = {
            ours: branch.place(theirs)
            for branch in (info, entry, params)
            for ours, theirs in (*((each, each) for each in LIMITS[:2]), *_OTHER_PLACES.items())
            if branch.get(theirs) is not None
        }
        limits = {each: take_count(all_three, each, variables, 1, MAX_LIMIT) for each in LIMITS[:2]}
        limits["max_streams"] = take_count((params, info), "max_parallel_requests", variables, 1, MAX_STREAMS)
        for branch in all_three:
            if branch.get("drop_params") is True:
                branch.take("drop_params")  # always the case here
        retries = take_count((params,), "num_retries", variables, 0, MAX_RETRIES)
        health = take_health(info, params, variables)
        price, price_places = take_price((params, info))
        timeouts = {
            "first_event_s": take_first_event(params, variables),
            "total_s": take_seconds(params, "timeout", variables),
            "keepalive_s": take_seconds(params, "keepalive_seconds", variables),
        }
        settings = {
            "cost": price if "*" not in own else None,
            "wire": wire,
            "max_output_tokens": take_count((info,), "max_output_tokens", variables, 1, 10_000_000),
            "retries": retries,
            **health,
            "timeouts": {each: value for each, value in timeouts.items() if value is not None} or None,
            **take_parameters(params, connection.kind, own, wire),
        }
        return Deployment(
            where=entry.where,
            group=name,
            id=info.take_text("id"),
            connection=connection,
            key=None,
            model=own,
            settings={each: value for each, value in settings.items() if value is not None},
            limits={each: value for each, value in limits.items() if value is not None},
            weight=_take_share(params, "weight"),
            order=_take_share(params, "order"),
            retries=retries if isinstance(retries, int) else None,
            price_places=price_places,
            places=places,
        )

    def _add_credential(self, params: Branch) -> str | None:
        name = params.take_text("litellm_credential_name")
        if name is None:
            return None
        if name not in self._credentials:
            params.drop("litellm_credential_name", "there is no such credential in the file")
            return None
        params.set_defaults(self._values[name], self._credentials[name].path_of("credential_values"))
        return name


_OTHER_PLACES = {
    "id": "id",
    "max_streams": "max_parallel_requests",
    "order": "order",
    "retries": "num_retries",
    "weight": "weight",
}


def take_health(first: Branch, second: Branch, variables: Variables) -> dict[str, Any]:
    """When a target is ejected, and for how long. LiteLLM has one time for failures and for rate limits; 0: never."""
    found: dict[str, Any] = {}
    has_fails = next((each for each in (first, second) if each.get("allowed_fails") is not None), first)
    fails = take_count((first, second), "allowed_fails", variables, 0, MAX_FAILURES - 1)
    if isinstance(fails, int):
        found["max_failures"] = fails + 1  # LiteLLM waits for more failures than allowed
        has_fails.note("allowed_fails", "failures in a row are counted, not those of a minute")
    elif fails is not None:
        has_fails.drop("allowed_fails", "a number was expected, not a variable")
    at, other = (first, second) if first.get("cooldown_time") is not None else (second, first)
    if number_of(at.get("cooldown_time")) == 0:
        at.take("cooldown_time")
        found |= NEVER_EJECTED
    seconds = take_seconds(at, "cooldown_time", variables)
    if other.take("cooldown_time") is not None:
        other.drop("cooldown_time", f"{at.where} overrides it")
    if seconds is not None:
        found["ejection_s"] = found["cooldown_s"] = seconds
    return found


def _report_wildcard(deployment: Deployment, info: Branch) -> None:
    if "max_output_tokens" in deployment.settings:
        info.drop("max_output_tokens", "it is a setting of one model")
    for place in deployment.price_places:
        info.report.drop(place, "a price belongs to one model")
    if deployment.order is not None:
        info.report.drop(deployment.places["order"], "all keys of a provider are used")


def _take_share(params: Branch, name: str) -> Decimal | None:
    number = params.take_number(name)
    if number is not None and number < 0:
        params.drop(name, "a number of at least 0 was expected")
        return None
    return number


def _why_unsupported(name: str, model: str, vendor: str | None, own: str, mode: str | None) -> str | None:
    """Why the deployment cannot be converted. None if it can."""
    if model.startswith(REFERENCE):
        return "its provider is in an environment variable"
    if not is_supported(own, mode):
        return "it is not a model for chat, text or embeddings"
    if vendor is None or (own in ("", "*") and not model.partition("/")[1]):
        return "its provider is unknown"
    for text in (name, own):
        if len(text) > MAX_NAME_LENGTH or not text.isprintable() or text != text.strip():
            return "its name is not allowed here"
    return why_unsupported(vendor, own)
