"""Makes one provider for each combination of address, key and connection settings in the old file's deployments.

Only the parameters that describe the provider are read here. Deployments with the same values share a provider. Its
name is LiteLLM's name, so that callers can still use `{provider}/{model}`; a second provider of the same name gets a
number as suffix.
"""

import re
from typing import Any

from streamweir.config.litellm.tree import Branch
from streamweir.config.litellm.value import take_seconds
from streamweir.config.litellm.variable import REFERENCE, Variables, is_placeholder
from streamweir.config.litellm.vendor import VENDORS, base_url_fault, convert_base_url, kind_for, provider_name

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_RESERVED_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LOCATION = re.compile(r"[a-z0-9-]+")
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)


class Providers:
    def __init__(self, variables: Variables) -> None:
        self._variables = variables
        self._names: dict[str, str] = {}
        self.tables: dict[str, dict[str, Any]] = {}
        """By name, in the order of their first use."""

    def take(self, params: Branch, vendor: str) -> str | None:
        """The name of the provider for these parameters. None if there can be none; a note says why."""
        address = params.take_text("api_base") or params.take_text("base_url")
        base_url = self._base_url(params, vendor, address)
        kind = kind_for(vendor, base_url)
        if base_url is not None and (fault := base_url_fault(base_url, kind)) is not None:
            params.notes.add_dropped(params.path_of("api_base"), fault)
            return None
        if base_url is None and kind == "openai-compatible":
            params.notes.add_dropped(params.path_of("api_base"), "there is none, and this kind needs one")
            return None
        name = provider_name(vendor, kind, base_url)
        settings = self._settings(params, kind)
        if settings is None:
            return None
        key = self._key(params, vendor, kind, name)
        table: dict[str, Any] = {"kind": kind, "base_url": base_url, "api_key": key, **settings}
        self._add_headers(table, params, name)
        timeouts = {
            "total_s": take_seconds(params, "timeout", self._variables),
            "first_event_s": take_seconds(params, "stream_timeout", self._variables),
        }
        table["timeouts"] = {name: value for name, value in timeouts.items() if value is not None} or None
        return self._find_or_add(table, name)

    def _find_or_add(self, table: dict[str, Any], wanted: str) -> str:
        identity = repr(table)
        if identity not in self._names:
            names = (wanted if number == 1 else f"{wanted}-{number}" for number in range(1, 100_000))
            name = next(name for name in names if name not in self.tables)
            self._names[identity] = name
            self.tables[name] = {"name": name, **table}
        return self._names[identity]

    def _base_url(self, params: Branch, vendor: str, address: str | None) -> str | None:
        if address is None:
            default = VENDORS[vendor].base_url
            if default is not None and default.startswith("${"):
                self._variables.reference(default[2:-1])
            return default
        written = self._variables.text(address, params.path_of("api_base"))
        base_url = convert_base_url(vendor, written)
        if base_url != written and written.startswith("${"):
            added = base_url.removeprefix(written)
            params.notes.add_action(
                params.path_of("api_base"), f"the variable must contain the URL without {added}, which is added"
            )
        return base_url

    def _key(self, params: Branch, vendor: str, kind: str, name: str) -> str | None:
        key = params.take_text("api_key")
        if key is not None and is_placeholder(key):
            params.notes.add_action(params.path_of("api_key"), "left out, because it looks like a placeholder")
            return None
        if key is not None:
            return self._variables.secret(key, params.path_of("api_key"), f"{name}_API_KEY")
        if kind == "vertex":
            params.notes.add_action(params.where, "Vertex needs an access token: keep VERTEX_ACCESS_TOKEN set to one")
            return self._variables.reference("VERTEX_ACCESS_TOKEN")
        default = VENDORS[vendor].key
        return (
            self._variables.reference(default) if default is not None and params.get("azure_ad_token") is None else None
        )

    def _settings(self, params: Branch, kind: str) -> dict[str, str] | None:
        """The settings of this kind only. None if one is invalid; a note says why."""
        wanted: dict[str, tuple[tuple[str, ...], str]] = {}
        if kind == "azure":
            wanted["api_version"] = ("api_version",), "${AZURE_API_VERSION:-v1}"
        elif kind == "vertex":
            project = self._variables.reference("VERTEXAI_PROJECT")
            wanted["project"] = ("vertex_project", "vertex_ai_project"), project
            wanted["location"] = ("vertex_location", "vertex_ai_location"), "${VERTEXAI_LOCATION:-us-central1}"
        found = {name: self._word(params, theirs, default) for name, (theirs, default) in wanted.items()}
        return {name: word for name, word in found.items() if word} if all(found.values()) else None

    def _word(self, params: Branch, names: tuple[str, ...], default: str) -> str | None:
        for name in names:
            value = params.take_text(name)
            if value is None:
                continue
            form = _LOCATION if "location" in name else _WORD
            if value.startswith(REFERENCE) or form.fullmatch(value):
                return self._variables.text(value, params.path_of(name))
            params.notes.add_dropped(params.path_of(name), "expected a word without spaces and slashes")
            return None
        return default

    def _add_headers(self, table: dict[str, Any], params: Branch, name: str) -> None:
        headers: dict[str, str] = {}
        token = params.take_text("azure_ad_token")
        if token is not None:
            secret = self._variables.secret(token, params.path_of("azure_ad_token"), f"{name}_AD_TOKEN")
            headers["Authorization"] = f"Bearer {secret}"
        organization = params.take_text("organization") if table["kind"] in ("openai", "openai-compatible") else None
        if organization is not None:
            headers["OpenAI-Organization"] = self._variables.text(organization, params.path_of("organization"))
        for group in (params.branch("headers"), params.branch("extra_headers")):
            for header in group.names():
                self._add_header(headers, group, header, name)
        table["headers"] = headers or None

    def _add_header(self, headers: dict[str, str], group: Branch, header: str, name: str) -> None:
        value = group.take_text(header)
        if value is None:
            return
        if not _HEADER_NAME.fullmatch(header) or header.lower() in _RESERVED_HEADERS:
            group.notes.add_dropped(group.path_of(header), "this header cannot be set")
        elif header.lower() in {known.lower() for known in headers}:
            group.notes.add_dropped(group.path_of(header), "the header is set already")
        elif not value.isascii() or not value.isprintable():
            group.notes.add_dropped(group.path_of(header), "it contains a character that cannot be sent")
        elif _SECRET_HEADER.search(header):
            headers[header] = self._variables.secret(value, group.path_of(header), f"{name}_{header}")
        else:
            headers[header] = self._variables.text(value, group.path_of(header))
