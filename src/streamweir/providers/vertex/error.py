"""Failures of Google's Vertex AI: what an operator can do about each.

Google's error object has a status in words, a message, and details: `ErrorInfo` names the reason, `RetryInfo` says how
long to wait. Claude on Vertex answers with an error of Anthropic's API, or with Google's, because Google's
front refuses credentials, quotas and unknown models before Anthropic's API sees the request.
"""

from collections.abc import Mapping

from streamweir.core.errors import StreamweirError
from streamweir.providers.advice import Advice, ReadError, advised
from streamweir.providers.anthropic import error as anthropic
from streamweir.providers.gemini import error as gemini
from streamweir.wire import jsonio

_AUTH, _MODEL, _LIMIT = "upstream_auth_failed", "upstream_model_not_found", "upstream_rate_limited"
_PREDICT = "aiplatform.endpoints.predict"

_ROWS = (
    # Credentials.
    Advice(
        _AUTH,
        "Google does not accept the gateway's access token: it has expired. Without api_key the gateway gets tokens by "
        "itself, and renews them.",
        ("access_token_expired",),
        is_of_account=True,
    ),
    Advice(
        _AUTH,
        "Vertex AI needs an access token, and api_key is something else. Leave api_key out, or use the "
        "kind gemini, which takes API keys.",
        ("access_token_type_unsupported",),
        is_of_account=True,
    ),
    Advice(
        _AUTH,
        "Google does not accept the gateway's access token. Check the credentials of the table google, or that api_key "
        "is an access token, which lasts for an hour.",
        statuses=(401,),
        is_of_account=True,
    ),
    # Permissions, and access.
    Advice(
        _AUTH,
        "The Vertex AI API is not enabled in the project, or the project does not exist. Enable "
        "aiplatform.googleapis.com in the project, and check the setting project.",
        ("service_disabled", "consumer_invalid", "api_disabled"),
    ),
    Advice(
        _AUTH,
        "The Vertex AI API is not enabled in the project. Enable aiplatform.googleapis.com there.",
        text=r"(?:Vertex AI|Agent Platform|Gemini Enterprise Agent Platform) API has not been used in project",
    ),
    Advice(
        _AUTH,
        "Billing is disabled for the project. Link it to a billing account.",
        ("billing_disabled",),
        is_of_account=True,
    ),
    Advice(
        _AUTH,
        "The gateway's identity may not use the project for quota and billing. Grant it the role Service Usage "
        "Consumer (roles/serviceusage.serviceUsageConsumer).",
        ("user_project_denied",),
    ),
    Advice(
        _AUTH,
        "The gateway's identity lacks the permission {} in the project. Grant it the role Vertex AI User "
        "(roles/aiplatform.user), and check project and location.",
        text=r"Permission '([a-zA-Z.]{1,80})' denied",
    ),
    Advice(
        _AUTH,
        f"The gateway's identity lacks the permission {_PREDICT} in the project. Grant it the role Vertex AI User "
        "(roles/aiplatform.user), and check project and location.",
        ("iam_permission_denied",),
    ),
    Advice(
        _AUTH,
        "An organization policy, or a perimeter of VPC Service Controls, does not let the gateway use this model. "
        "Allow it there.",
        ("security_policy_violated", "org_restriction_violation", "resource_usage_restriction_violated"),
    ),
    Advice(
        _AUTH,
        "An organization policy of the project does not allow this model. Allow it in "
        "constraints/vertexai.allowedModels.",
        text=r"Organization Policy constraint constraints/vertexai\.allowedModels",
    ),
    # Models and locations.
    Advice(
        _MODEL,
        "Vertex AI does not serve this model in the provider's location. Set a location where it is served, such as "
        "global.",
        text=r"(?:Publisher Model .{1,300} is not servable in|The model .{1,200} is not (?:available|supported) in )",
    ),
    Advice(
        _MODEL,
        "Vertex AI does not know this model in the provider's location, or the project has no access to it. Check its "
        "name and version, set a location where it is served, such as global, and enable partner models in Model "
        "Garden.",
        text=r"(?:(?:Publisher Model|Model|The model) .{1,300} (?:was |is )?not found"
        r"|Project .{1,80} is not allowed to use Publisher Model)",
    ),
    Advice(
        _MODEL,
        "Vertex AI does not know this model in the provider's location. Check its name, project and location.",
        statuses=(404,),
    ),
    # Limits.
    Advice(
        _LIMIT,
        "The project's quota for this model is used up, or it is 0. Try again later, use another location, or request "
        "a higher quota in the Google Cloud console.",
        text=r"Quota exceeded for",
        statuses=(429,),
    ),
    Advice(
        _LIMIT,
        "Vertex AI has no capacity left for this request. Try again later, use the location global, or buy provisioned "
        "throughput.",
        text=r"Resource (?:has been )?exhausted",
        statuses=(429,),
    ),
)


def read_error(
    status: int, headers: Mapping[str, str], body: bytes, read: ReadError = gemini.read_error
) -> StreamweirError:
    """A failed response. `read`: the reader of the wire."""
    value = _error_in(body)
    error = read(status, headers, body)
    if not value:
        return error
    text, details = value.get("message"), value.get("details")
    names = {str(value.get(name)).lower() for name in ("status", "reason")}
    if isinstance(details, list):
        names |= {str(detail.get("reason")).lower() for detail in details if isinstance(detail, dict)}
    return advised(_ROWS, names, text if isinstance(text, str) else "", status, error)


def read_claude_error(status: int, headers: Mapping[str, str], body: bytes) -> StreamweirError:
    """Of Anthropic's API, or of Google's front."""
    return read_error(status, headers, body, _read_either)


def _read_either(status: int, headers: Mapping[str, str], body: bytes) -> StreamweirError:
    read: ReadError = gemini.read_error if _is_of_google(_error_in(body)) else anthropic.read_error
    return read(status, headers, body)


def _is_of_google(error: Mapping[str, object]) -> bool:
    return isinstance(error.get("code"), int) or isinstance(error.get("status"), str)


def _error_in(body: bytes) -> Mapping[str, object]:
    try:
        value = jsonio.decode(body)
    except jsonio.InvalidJson:
        return {}
    if isinstance(value, list) and value:  # quirk: some paths wrap the error in an array
        value = value[0]
    error = value.get("error") if isinstance(value, dict) else None
    return error if isinstance(error, dict) else {}
