"""The entries of `model_list`: each a deployment of ours in a group, or a note that says why it is none.

An entry that stands for all models of a provider makes the provider, and nothing more is needed: every
model of a provider can be asked for as `{provider}/{model}`. Those entries are read first, so that
the provider has the name by which callers know its models.
"""

from typing import Any

from streamweir.config.litellm import unsupported
from streamweir.config.litellm.provider import Providers
from streamweir.config.litellm.route import Deployment, put_in_order
from streamweir.config.litellm.tree import Branch, number_of
from streamweir.config.litellm.value import take_price
from streamweir.config.litellm.variable import REFERENCE, Variables
from streamweir.config.litellm.vendor import has_no_kind, is_for_chat, own_model, split_model
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
        for entry in sorted(entries, key=lambda entry: not _stands_for_all(entry)):
            self._read(entry)
        self.groups = {name: put_in_order(group, top.notes) for name, group in self.groups.items()}
        for name, (where, _) in self._credentials.items():
            if name not in self._used:
                top.notes.lose(where, "no deployment uses it")

    def _read_credential(self, credential: Branch) -> None:
        name = credential.take_text("credential_name")
        values = credential.take("credential_values")
        credential.take("credential_info")
        if name is None or not isinstance(values, dict):
            credential.drop("it needs a name and values")
            return
        self._credentials[name] = credential.at("credential_values"), values
        credential.leave({})

    def _read(self, entry: Branch) -> None:
        name, params, info = entry.take_text("model_name"), entry.branch("litellm_params"), entry.branch("model_info")
        model = params.take_text("model")
        if name is None or model is None:
            entry.drop("it needs a model_name and litellm_params.model")
            return
        self._add_credential(params)
        vendor, own = split_model(model, params.take_text("custom_llm_provider"))
        fault = _fault(name, model, vendor, own, info.take_text("mode"))
        if fault is not None or vendor is None:
            entry.drop(fault or "its provider is unknown")
            return
        if number_of(params.peek("weight")) == 0:
            entry.drop("its weight is 0")
            return
        own = own_model(vendor, own)
        provider = self.providers.take(params, vendor)
        if provider is None:
            entry.drop("a target needs it")
            return
        deployment = _read_deployment(entry, params, info, provider, own)
        if not own.endswith("*"):
            self.groups.setdefault(name, []).append(deployment)
        elif (name, own) != (f"{provider}/*", "*"):
            entry.notes.ask(entry.where, f"callers name its models as {provider}/MODEL")
        for branch, reasons in ((params, unsupported.DEPLOYMENT), (info, unsupported.MODEL_INFO), (entry, {})):
            branch.leave(reasons)

    def _add_credential(self, params: Branch) -> None:
        name = params.take_text("litellm_credential_name")
        if name is None:
            return
        if name not in self._credentials:
            params.notes.lose(params.at("litellm_credential_name"), "there is no such credential in the file")
            return
        self._used.add(name)
        where, values = self._credentials[name]
        params.put_under(values, where)


def _stands_for_all(entry: Branch) -> bool:
    return "*" in str(entry.peek("model_name"))


def _fault(name: str, model: str, vendor: str | None, own: str, mode: str | None) -> str | None:
    """Why there is no such deployment here, if there is none."""
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
    return has_no_kind(vendor, own)


def _read_deployment(entry: Branch, params: Branch, info: Branch, provider: str, own: str) -> Deployment:
    if params.peek("drop_params") is True:
        params.take("drop_params")  # as it is here anyway
    places = {
        name: branch.at(name)
        for branch in (info, entry, params)
        for name in ("rpm", "tpm", "weight", "input_cost_per_token")
        if branch.peek(name) is not None
    }
    return Deployment(
        where=entry.where,
        at=lambda name: places.get(name, entry.where),
        provider=provider,
        model=own,
        weight=params.take_number("weight"),
        rpm=params.take_number("rpm") or entry.take_number("rpm") or info.take_number("rpm"),
        tpm=params.take_number("tpm") or entry.take_number("tpm") or info.take_number("tpm"),
        order=params.take_number("order"),
        price=take_price((params, info)),
    )
