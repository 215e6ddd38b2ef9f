"""Makes the providers of the old file's deployments: one for each combination of address, keys and connection settings.

`Connections` reads the parameters of a deployment that describe a provider. `Providers` chooses the provider of a
target: deployments with the same values share one. Settings of a target hold for a provider and a model, so a
deployment with other settings for the same model gets a provider of its own. Its name is LiteLLM's name, so that
callers can still use `{provider}/{model}`; a second provider of the same name gets a number as suffix.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from streamweir.config.checks.header_check import fault_of_header_name
from streamweir.config.litellm.azure import take_entra
from streamweir.config.litellm.bedrock import ENDPOINT, take_bedrock
from streamweir.config.litellm.report import Unusable
from streamweir.config.litellm.tree import Branch
from streamweir.config.litellm.variable import REFERENCE, Variables, is_placeholder
from streamweir.config.litellm.vendor import VENDORS, base_url_fault, convert_base_url, kind_for, provider_name

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LOCATION = re.compile(r"[a-z0-9-]+")
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z0-9][A-Za-z0-9_]{0,63})\}")


class Connection(NamedTuple):
    name: str
    """The name that its provider should get."""
    kind: str
    table: Mapping[str, Any]
    """The settings of the provider, without a name and keys."""


class Credential(NamedTuple):
    key: str
    settings: Mapping[str, Any]
    """Its weight and limits."""


class _Provider:
    def __init__(self, name: str, table: dict[str, Any]) -> None:
        self.name = name
        self.table = table
        self.targets: dict[str, str] = {}  # the settings of each model
        self.is_for_all = False
        """Callers name its models themselves, which then must not have the settings of a target."""


class Providers:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings`: those of all providers."""
        self._settings = settings
        self._found: dict[str, list[_Provider]] = {}
        self._by_name: dict[str, _Provider] = {}

    @property
    def tables(self) -> list[dict[str, Any]]:
        """In the order of their first use."""
        return [provider.table for provider in self._by_name.values()]

    def of_wildcard(
        self, connection: Connection, credentials: Sequence[Credential], settings: Mapping[str, Any]
    ) -> str:
        """The name of the provider for all models of a connection. `settings`: its own."""
        provider = self._choose(connection, credentials, settings)
        provider.is_for_all = True
        return provider.name

    def of_target(
        self, connection: Connection, credentials: Sequence[Credential], model: str, settings: Mapping[str, Any]
    ) -> str:
        """The name of the provider of a target. `settings`: the target's."""
        provider = self._choose(connection, credentials, {}, model, settings)
        provider.targets[model] = repr(settings)
        return provider.name

    def _choose(
        self,
        connection: Connection,
        credentials: Sequence[Credential],
        own: Mapping[str, Any],
        model: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> _Provider:
        keys: dict[str, Any] = {"api_key": credentials[0].key} if credentials else {}
        if len(credentials) > 1:
            keys = {"api_keys": [_entry(each) for each in credentials]}
        base_url = connection.table.get("base_url")
        table = {"kind": connection.kind, "base_url": base_url, **keys, **connection.table, **self._settings, **own}
        has_limits = any({"rpm", "tpm", "max_streams"} & each.settings.keys() for each in credentials)
        # The limits of a key hold for all models of its provider, but in the old file for one model.
        identity = repr((table, model if has_limits else None))
        candidates = self._found.setdefault(identity, [])
        for provider in candidates:
            fits = model is None or provider.targets.get(model, repr(settings)) == repr(settings)
            if fits and not (provider.is_for_all and settings):
                return provider
        names = (connection.name if number == 1 else f"{connection.name}-{number}" for number in range(1, 100_000))
        name = next(name for name in names if name not in self._by_name)
        provider = self._by_name[name] = _Provider(name, {"name": name, **table})
        candidates.append(provider)
        return provider


def _entry(credential: Credential) -> dict[str, Any]:
    variable = _VARIABLE.fullmatch(credential.key)
    return {"name": variable["name"] if variable else None, "key": credential.key, **credential.settings}


class Connections:
    def __init__(self, variables: Variables) -> None:
        self._variables = variables

    def take(self, params: Branch, vendor: str, region: str | None = None) -> tuple[Connection, str | None]:
        """The connection of these parameters, and its key. Raises `Unusable`. `region`: in the model's name."""
        at = next((each for each in ("api_base", ENDPOINT) if params.get(each)), "base_url")
        address = params.take_text(at)
        base_url = self._base_url(params, vendor, address, at)
        kind = kind_for(vendor, base_url)
        if base_url is not None and (fault := base_url_fault(base_url, kind)) is not None:
            raise Unusable(f"its {at} {fault}")
        if base_url is None and kind == "openai-compatible":
            raise Unusable("it has no api_base, and this kind needs one")
        name = provider_name(vendor, kind, base_url)
        table: dict[str, Any] = {"base_url": base_url, **self._settings(params, kind, name, region)}
        key = self._key(params, vendor, name) if "entra" not in table else None
        table["headers"] = self._headers(params, kind, name) or None
        return Connection(name, kind, table), key

    def _base_url(self, params: Branch, vendor: str, address: str | None, at: str) -> str | None:
        if address is None:
            default = VENDORS[vendor].base_url
            if default is not None and default.startswith("${"):
                self._variables.reference(default[2:-1])
            return default
        written = self._variables.text(address, params.place(at))
        base_url = convert_base_url(vendor, written)
        if base_url != written and written.startswith("${"):
            added = base_url.removeprefix(written)
            params.note(at, f"the variable must contain the URL without {added}, which is added")
        return base_url

    def _key(self, params: Branch, vendor: str, name: str) -> str | None:
        key = params.take_text("api_key")
        if key is not None and is_placeholder(key):
            params.note("api_key", "no key is sent, because it looks like a placeholder")
            return None
        if key is not None:
            return self._variables.secret(key, params.place("api_key"), f"{name}_API_KEY")
        default = VENDORS[vendor].key
        return (
            self._variables.reference(default) if default is not None and params.get("azure_ad_token") is None else None
        )

    def _settings(self, params: Branch, kind: str, name: str, region: str | None) -> dict[str, Any]:
        """The settings of this kind only."""
        if kind == "azure":
            version = {"api_version": self._word(params, ("api_version",), "${AZURE_API_VERSION:-v1}")}
            entra = take_entra(params, self._variables, name)
            return {**version, "entra": entra} if entra else version
        if kind == "vertex":
            project = self._word(params, ("vertex_project", "vertex_ai_project"), "")
            location = ("vertex_location", "vertex_ai_location")
            return {
                "project": project or self._variables.reference("VERTEXAI_PROJECT"),
                "location": self._word(params, location, "${VERTEXAI_LOCATION:-us-central1}"),
                "google": self._google(params),
            }
        if kind in ("bedrock", "bedrock-mantle"):
            return take_bedrock(params, self._variables, name, region)
        return {}

    def _google(self, params: Branch) -> dict[str, str] | None:
        """Without a file both use the application default credentials."""
        written = params.get("vertex_credentials")
        if not isinstance(written, str) or written.lstrip().startswith("{"):
            return None
        file = self._variables.text(params.take_text("vertex_credentials") or "", params.place("vertex_credentials"))
        if file.startswith("${"):
            params.note("vertex_credentials", "the variable must contain the name of a file")
        return {"credentials_file": file}

    def _word(self, params: Branch, names: tuple[str, ...], default: str) -> str:
        for name in names:
            value = params.take_text(name)
            if value is None:
                continue
            form = _LOCATION if "location" in name else _WORD
            if value.startswith(REFERENCE) or form.fullmatch(value):
                return self._variables.text(value, params.place(name))
            raise Unusable(f"its {name} is not a word without spaces and slashes")
        return default

    def _headers(self, params: Branch, kind: str, name: str) -> dict[str, str]:
        headers: dict[str, str] = {}
        token = params.take_text("azure_ad_token")
        if token is not None:
            secret = self._variables.secret(token, params.place("azure_ad_token"), f"{name}_AD_TOKEN")
            headers["Authorization"] = f"Bearer {secret}"
        if isinstance(params.get("organization"), list):
            params.open("organization")
            params.drop("organization", "write one deployment for each organization")
        organization = params.take_text("organization") if kind in ("openai", "openai-compatible") else None
        if organization is not None:
            headers["OpenAI-Organization"] = self._variables.text(organization, params.place("organization"))
        for group in (params.branch("headers"), params.branch("extra_headers")):
            for header in group.names():
                self._add_header(headers, group, header, name)
        return headers

    def _add_header(self, headers: dict[str, str], group: Branch, header: str, name: str) -> None:
        value = group.take_text(header)
        if value is None:
            return
        if fault_of_header_name(header) is not None:
            group.drop(header, "this header cannot be set")
        elif header.lower() in {known.lower() for known in headers}:
            group.drop(header, "the header is set already")
        elif not value.isascii() or not value.isprintable():
            group.drop(header, "it contains a character that cannot be sent")
        elif _SECRET_HEADER.search(header):
            headers[header] = self._variables.secret(value, group.place(header), f"{name}_{header}")
        else:
            headers[header] = self._variables.text(value, group.place(header))
