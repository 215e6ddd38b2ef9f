"""Converts the entries of `model_list`: each becomes a deployment in a group, or a note that says why not.

A wildcard entry for all models of a provider only creates the provider, because every model of a provider can be
requested as `{provider}/{model}`. These entries are read first, so that the provider gets the name that callers use.
"""

from typing import Any

from streamweir.config.litellm import unsupported
from streamweir.config.litellm.provider import Providers
from streamweir.config.litellm.route import Deployment, ordered_targets
from streamweir.config.litellm.tree import Branch, number_of
from streamweir.config.litellm.value import take_price
from streamweir.config.litellm.variable import REFERENCE, Variables
from streamweir.config.litellm.vendor import is_for_chat, split_model, upstream_model, why_unsupported, wire_of
from streamweir.policy.route import MAX_NAME_LENGTH


class Deployments:
    def __init__(self, top: Branch, variables: Variables) -> None:
        self.groups: dict[str, list[Deployment]] = {}
        self.providers = Providers(variables)
        self._credentials: dict[str, tuple[str, dict[str, Any]]] = {}
        self._used: set[str] = set()
        for credential in top.branches("credential_list"):
            self._read_credential(credential)
        entries = list(top.branches("model_list"))
        for entry in sorted(entries, key=lambda entry: not _is_wildcard(entry)):
            self._read(entry)
        self.groups = {name: ordered_targets(group, top.notes) for name, group in self.groups.items()}
        for name, (where, _) in self._credentials.items():
            if name not in self._used:
                top.notes.add_dropped(where, "no deployment uses it")

    def _read_credential(self, credential: Branch) -> None:
        name = credential.take_text("credential_name")
        values = credential.take("credential_values")
        credential.take("credential_info")
        if name is None or not isinstance(values, dict):
            credential.discard("it needs a name and values")
            return
        self._credentials[name] = credential.path_of("credential_values"), values
        credential.report_remaining({})

    def _read(self, entry: Branch) -> None:
        name, params, info = entry.take_text("model_name"), entry.branch("litellm_params"), entry.branch("model_info")
        model = params.take_text("model")
        if name is None or model is None:
            entry.discard("it needs a model_name and litellm_params.model")
            return
        self._add_credential(params)
        vendor, own = split_model(model, params.take_text("custom_llm_provider"))
        mode = info.take_text("mode")
        fault = _why_unsupported(name, model, vendor, own, mode)
        if fault is not None or vendor is None:
            entry.discard(fault or "its provider is unknown")
            return
        if number_of(params.get("weight")) == 0:
            entry.discard("its weight is 0")
            return
        wire = wire_of(vendor, own, mode)
        own = upstream_model(vendor, own)
        provider = self.providers.take(params, vendor)
        if provider is None:
            entry.discard("a target needs it")
            return
        deployment = _read_deployment(entry, params, info, provider, own)._replace(wire=wire)
        if not own.endswith("*"):
            self.groups.setdefault(name, []).append(deployment)
        elif (name, own) != (f"{provider}/*", "*"):
            entry.notes.add_action(entry.where, f"callers name its models as {provider}/MODEL")
        for branch, reasons in ((params, unsupported.DEPLOYMENT), (info, unsupported.MODEL_INFO), (entry, {})):
            branch.report_remaining(reasons)

    def _add_credential(self, params: Branch) -> None:
        name = params.take_text("litellm_credential_name")
        if name is None:
            return
        if name not in self._credentials:
            params.notes.add_dropped(
                params.path_of("litellm_credential_name"), "there is no such credential in the file"
            )
            return
        self._used.add(name)
        where, values = self._credentials[name]
        params.set_defaults(values, where)


def _is_wildcard(entry: Branch) -> bool:
    return "*" in str(entry.get("model_name"))


def _why_unsupported(name: str, model: str, vendor: str | None, own: str, mode: str | None) -> str | None:
    """Why the deployment cannot be converted. None if it can."""
    if model.startswith(REFERENCE):
        return "its provider is in an environment variable"
    if not is_for_chat(own, mode):
        return "it is not a chat model"
    if vendor is None or (own in ("", "*") and not model.partition("/")[1]):
        return "its provider is unknown"
    if "*" in name and not own.endswith("*"):
        return "a model needs a name without *"
    for text in (name, own):
        if len(text) > MAX_NAME_LENGTH or not text.isprintable() or text != text.strip():
            return "its name is not allowed here"
    return why_unsupported(vendor, own)


def _read_deployment(entry: Branch, params: Branch, info: Branch, provider: str, own: str) -> Deployment:
    if params.get("drop_params") is True:
        params.take("drop_params")  # always the case here
    paths = {
        name: branch.path_of(name)
        for branch in (info, entry, params)
        for name in ("rpm", "tpm", "weight", "input_cost_per_token")
        if branch.get(name) is not None
    }
    return Deployment(
        where=entry.where,
        path_of=lambda name: paths.get(name, entry.where),
        provider=provider,
        model=own,
        weight=params.take_number("weight"),
        rpm=params.take_number("rpm") or entry.take_number("rpm") or info.take_number("rpm"),
        tpm=params.take_number("tpm") or entry.take_number("tpm") or info.take_number("tpm"),
        order=params.take_number("order"),
        price=take_price((params, info)),
    )
