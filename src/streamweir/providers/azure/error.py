"""Failures of Azure OpenAI and Microsoft Foundry: what an operator can do about each.

The bodies are OpenAI's, with other codes: names such as `DeploymentNotFound`, or the status as text. Requests with a
wrong key, a wrong address or a wrong `api-version` are refused by the front of the service, in its own words.
"""

from collections.abc import Mapping

from streamweir.core.errors import StreamweirError
from streamweir.providers import failure
from streamweir.providers.advice import Advice, ReadError, advised
from streamweir.wire import jsonio

_AUTH, _MODEL, _LIMIT = "upstream_auth_failed", "upstream_model_not_found", "upstream_rate_limited"

_ROLE = (
    "The gateway's Entra identity may not use this resource. Grant it the role Cognitive Services OpenAI User there "
    "(in Foundry: Foundry User); that takes effect after some minutes."
)
_VERSION = (
    "Azure does not know this api_version, or not this path in it. Use an api_version that it documents, or leave it "
    "out: "
    'then the v1 API is used. The base_url must have no path, such as "https://RESOURCE.openai.azure.com".'
)

_ROWS = (
    # Permissions and credentials.
    Advice(
        _AUTH,
        _ROLE,
        text=r"(?:Principal does not have access to API/Operation|The principal .{1,200} lacks the required data)",
    ),
    Advice(
        _AUTH,
        "The gateway's Entra identity is of another tenant than the resource. Set tenant_id to that of the resource, "
        "and use an identity of that tenant.",
        text=r"(?:Token tenant .{0,100}does not match|Tenant provided in token does not match)",
        is_of_account=True,
    ),
    Advice(
        _AUTH,
        "The resource accepts Entra tokens only under a name of its own. Give it a custom subdomain, and use that in "
        "base_url.",
        text=r"Please provide a custom subdomain",
        is_of_account=True,
    ),
    Advice(
        _AUTH,
        "API keys are disabled for this resource. Use [providers.entra] with an Entra identity.",
        ("authenticationtypedisabled",),
        is_of_account=True,
    ),
    Advice(
        _AUTH,
        "API keys are disabled for this resource. Use [providers.entra] with an Entra identity.",
        text=r"Key based authentication is (?:disabled|not permitted)",
        is_of_account=True,
    ),
    Advice(
        _AUTH,
        "The resource's network rules do not let the gateway in. Allow its address there, or use the private endpoint.",
        text=r"(?:Access denied due to Virtual Network|Public (?:network )?access is disabled)",
    ),
    Advice(
        _AUTH,
        "Azure does not accept the gateway's Entra token: there is none, it is for another scope, or has expired. "
        "Without an api_key [providers.entra] is needed; leave scope out, and check the clock of the machine.",
        text=r"(?:Unauthorized\. )?Access token is (?:missing|invalid)",
        statuses=(401,),
        is_of_account=True,
    ),
    Advice(
        _AUTH,
        "Azure does not accept the API key for this address, or there is none. Set api_key to a key of the same "
        "resource that base_url names.",
        text=r"Access denied due to (?:invalid subscription key|missing subscription key)",
        is_of_account=True,
    ),
    Advice(_AUTH, _ROLE, ("permissiondenied",), statuses=(401, 403)),
    # Names and versions.
    Advice(
        _MODEL,
        "The resource has no deployment of this name. Use the name of the deployment, which can differ from that of "
        "its model; a new one can be used after some minutes.",
        ("deploymentnotfound",),
    ),
    Advice(
        _MODEL,
        _VERSION,
        ("unsupportedapiversion", "invalidapiversionparameter", "missingapiversionparameter"),
    ),
    Advice(
        _MODEL,
        _VERSION,
        text=r"(?:API version not supported|Missing required query parameter: ?'?api-version|"
        r"The requested API version|Unsupported api.version)",
        statuses=(400, 404),
    ),
    Advice(_MODEL, _VERSION, text=r"Resource not found", statuses=(404,)),
    Advice(
        _MODEL,
        "The deployment's model does not serve this API. Use another deployment, or another wire.",
        ("operationnotsupported",),
        statuses=(400,),
    ),
    # Limits.
    Advice(
        _LIMIT,
        "The rate limit of the deployment is reached. Try again later, or raise its tokens per minute, within the "
        "quota of the subscription.",
        text=r"(?:Requests to the .{1,200} have exceeded|Your requests to .{1,200} have exceeded)",
        statuses=(429,),
    ),
    Advice(
        "upstream_quota_exhausted",
        "The quota of calls of the Azure resource is used up. Raise it, or use another resource.",
        text=r"Out of call volume quota",
        statuses=(403, 429),
    ),
)


def read_error(
    status: int, headers: Mapping[str, str], body: bytes, read: ReadError = failure.read_error
) -> StreamweirError:
    """A failed response. `read`: the reader of the wire."""
    error = read(status, headers, body)
    value = _error_in(body)
    text = value.get("message")
    name = str(value.get("code")).lower()
    return advised(_ROWS, (name,), text if isinstance(text, str) else "", status, error)


def _error_in(body: bytes) -> Mapping[str, object]:
    """The front of the service sends `{"statusCode": 401, "message": "..."}`, or the same inside of `error`."""
    try:
        value = jsonio.decode(body)
    except jsonio.InvalidJson:
        return {}
    error = value.get("error", value) if isinstance(value, dict) else None
    return error if isinstance(error, dict) else {}
