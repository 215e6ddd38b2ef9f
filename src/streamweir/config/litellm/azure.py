"""Converts the parameters of a deployment at Azure that say how the gateway gets tokens of Entra."""

from streamweir.config.litellm.report import Unusable
from streamweir.config.litellm.tree import Branch
from streamweir.config.litellm.variable import Variables, is_placeholder

_NAMES = ("tenant_id", "client_id", "client_secret")


def take_entra(params: Branch, variables: Variables, name: str) -> dict[str, str]:
    """The table `entra`, or nothing. `name`: of the provider, for a variable that must be named here."""
    key = params.get("api_key")
    has_key = isinstance(key, str) and not is_placeholder(key)
    found = {each: value for each in _NAMES if (value := params.take_text(each)) is not None}
    if not found:
        return {}
    if has_key or params.get("azure_ad_token") is not None:
        for each in found:
            params.drop(each, f"{'api_key' if has_key else 'azure_ad_token'} is used")
        return {}
    if len(found) < len(_NAMES):
        raise Unusable(f"of {', '.join(_NAMES)} it has only {', '.join(found)}")
    secret = variables.secret(found["client_secret"], params.place("client_secret"), f"{name}_CLIENT_SECRET")
    return {each: variables.text(found[each], params.place(each)) for each in _NAMES[:2]} | {"client_secret": secret}
