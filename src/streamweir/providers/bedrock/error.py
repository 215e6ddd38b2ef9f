"""Failures of Amazon Bedrock: what each exception is, and what an operator can do about it.

A failed response has the exception's name in `x-amzn-errortype`, before `:` or `#`, and its text in `message`; inside a
stream both are in an exception frame. The name decides, not the status: a quota is reported with 400, a model that is
being loaded with 429. The OpenAI compatible API and Anthropic's have the bodies of these APIs, which their own readers
read, but their gateway in front refuses credentials in AWS's words.
"""

import re
from collections.abc import Mapping

from msgspec import structs

from streamweir.core.errors import ErrorReport, StreamweirError
from streamweir.providers import failure
from streamweir.providers.advice import Advice, ReadError, advised
from streamweir.wire import jsonio

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,79}")
_AUTH, _MODEL, _LIMIT = "upstream_auth_failed", "upstream_model_not_found", "upstream_rate_limited"
_OVERLOADED = "upstream_overloaded"

STATUSES = {
    "validationexception": 400,
    "accessdeniedexception": 403,
    "unrecognizedclientexception": 403,
    "invalidsignatureexception": 403,
    "expiredtokenexception": 403,
    "resourcenotfoundexception": 404,
    "throttlingexception": 429,
    "servicequotaexceededexception": 429,  # sent with 400, and not the caller's fault
    "modelnotreadyexception": 503,  # sent with 429, but it is no limit: another try can succeed
    "modeltimeoutexception": 504,
    "modelerrorexception": 500,
    "modelstreamerrorexception": 500,
    "internalserverexception": 500,
    "serviceunavailableexception": 503,
}
"""What each exception means, as a status for `failure.classify`."""

_EXPIRED = (
    "The gateway's AWS credentials have expired. Renew them where they come from; credentials of a role, a container "
    "or an instance are renewed by the gateway itself."
)
_CLOCK = "The clock of the gateway's machine differs from that of AWS by more than five minutes. Set it."
_WRONG_KEY = (
    "AWS does not know the gateway's access key, or its session token is missing or wrong. Check access_key_id and "
    "session_token."
)
_NO_ACCESS = (
    "The AWS account has no access to this model in the provider's region. Enable the model in the Amazon Bedrock "
    "console, or set the region where it is enabled."
)
_DENIED = (
    "AWS denied the gateway access. Check that the model is enabled in the provider's region, and that the IAM policy "
    "of the gateway's identity allows bedrock:InvokeModel and bedrock:InvokeModelWithResponseStream."
)
_UNKNOWN = (
    "Amazon Bedrock does not know this model or inference profile in the provider's region. Check the id, and region: "
    "models differ between regions."
)
_QUOTA = (
    "The quota of the AWS account for this model is reached. Try again later, use a cross-region inference profile, or "
    "request a higher quota in Service Quotas."
)

_DENIED_ACTION, _ACTION = r"User: .{{1,300}} is not authorized to perform: ({})", r"[a-z-]{1,32}:[A-Za-z]{1,64}"

_NOT_AT_MANTLE = (
    "The AWS account has no access to this model at bedrock-mantle, or the model is on another path there. Enable the "
    "model, or set another wire for the target."
)

_ROWS = (
    # About one model, although the status is that of wrong credentials. The text begins with the model, which callers
    # choose: these rows are the first, so that no name is taken for another failure.
    Advice(_AUTH, _NOT_AT_MANTLE, ("access_denied",), statuses=(401, 403)),
    Advice(_AUTH, _NOT_AT_MANTLE, text=r".{1,300} is not enabled for this account", statuses=(401, 403)),
    # Credentials. The first ones are told apart by their texts, because one exception has several causes.
    Advice(
        _AUTH,
        "The gateway's requests are signed for another region than that of the address. Set region to the region in "
        "base_url.",
        text=r"Credential should be scoped to a valid region",
        is_of_account=True,
    ),
    Advice(
        _AUTH,
        "The gateway's requests are signed for another service than that of the address. Use the address of the "
        "provider's kind: bedrock-runtime for bedrock, bedrock-mantle for bedrock-mantle.",
        text=r"Credential should be scoped to correct service",
        is_of_account=True,
    ),
    Advice(_AUTH, _CLOCK, text=r"Signature (?:expired|not yet current)", is_of_account=True),
    Advice(_AUTH, _CLOCK, ("requestexpired", "requesttimetooskewed", "requestinthefuture"), is_of_account=True),
    Advice(_AUTH, _EXPIRED, text=r"The security token included in the request is expired", is_of_account=True),
    Advice(_AUTH, _EXPIRED, ("expiredtokenexception", "expiredtoken"), is_of_account=True),
    Advice(
        _AUTH,
        _WRONG_KEY,
        ("unrecognizedclientexception", "unrecognizedclient", "invalidclienttokenid"),
        is_of_account=True,
    ),
    Advice(_AUTH, _WRONG_KEY, text=r"The security token included in the request is invalid", is_of_account=True),
    Advice(
        _AUTH,
        "AWS did not accept the gateway's signature. Check secret_access_key, and that no proxy changes requests.",
        ("invalidsignatureexception", "signaturedoesnotmatch", "incompletesignature", "incompletesignatureexception"),
        is_of_account=True,
    ),
    Advice(
        _AUTH,
        "Amazon Bedrock refused the API key: it is wrong, has expired, or was made for another region. Create another "
        "one, or use AWS credentials.",
        text=r"(?:Authentication failed|Invalid (?:API Key|bearer token)|(?:The )?(?:API Key|bearer token) "
        r"(?:included in the request )?(?:is (?:not valid|invalid|expired)|has expired))",
        statuses=(401, 403),
        is_of_account=True,
    ),
    Advice(
        _AUTH,
        "The request reached AWS without credentials. Set api_key or the table aws, and check that no proxy removes "
        "headers.",
        ("missingauthenticationtokenexception", "missingauthenticationtoken"),
        is_of_account=True,
    ),
    # Permissions, and access to models.
    Advice(
        _AUTH,
        "A policy of the AWS account or organization denies the gateway the action {}. Its administrator must allow "
        "it.",
        text=_DENIED_ACTION.format(_ACTION) + r" .{0,400}explicit deny",
    ),
    Advice(
        _AUTH,
        "The gateway's AWS identity lacks the permission {}. Attach the managed policy "
        "AmazonBedrockMantleInferenceAccess to it.",
        text=_DENIED_ACTION.format(r"bedrock-mantle:[A-Za-z]{1,64}"),
    ),
    Advice(
        _AUTH,
        "The gateway's AWS identity lacks the permission {} for the default project of the account, which this wire "
        "needs besides the model. Allow it in its IAM policy, for arn:aws:bedrock:*:*:project/default.",
        text=_DENIED_ACTION.format(_ACTION) + r" on resource: arn:[a-z-]{1,20}:bedrock:[^ ]{1,80}:project/",
    ),
    Advice(
        _AUTH,
        "The gateway's AWS identity lacks the permission {} for this model. Allow it in its IAM policy, for the "
        "foundation model and for the inference profile.",
        text=_DENIED_ACTION.format(_ACTION),
    ),
    Advice(_AUTH, _NO_ACCESS, text=r"You don.t have access to the model"),
    Advice(
        _AUTH,
        "The AWS account has no valid payment method, which this model needs. Add one in the billing console.",
        text=r"Model access is denied due to INVALID_PAYMENT",
    ),
    Advice(
        _AUTH,
        "The AWS account's subscription for this model is not complete. Invoke the model once with an identity that "
        "has the permissions aws-marketplace:Subscribe and aws-marketplace:ViewSubscriptions.",
        text=r"Model access is denied due to",
    ),
    Advice(
        _AUTH,
        "The AWS account may not invoke this model. Enable the model in the Amazon Bedrock console; new accounts must "
        "ask AWS support.",
        text=r"(?:Your (?:AWS )?account is not authorized to invoke this API operation|Operation not allowed)",
    ),
    Advice(
        _MODEL,
        "Anthropic's models need a form with the details of the use case. Submit it in the Amazon Bedrock console.",
        text=r"Model use case details have not been submitted",
    ),
    Advice(
        _MODEL,
        "Anthropic's models need a form with the details of the use case. Submit it in the Amazon Bedrock console.",
        ("ftuformnotfilled",),
    ),
    Advice(
        _AUTH,
        "The AWS account's subscription for this model is still being made. Try again in some minutes.",
        ("mpagreementbeingcreated",),
    ),
    Advice(_AUTH, _DENIED, ("accessdeniedexception", "accessdenied", "notauthorized")),
    # Names of models.
    Advice(
        _MODEL,
        "Amazon Bedrock serves this model through inference profiles only. Use the id of one, which begins with a "
        "group of regions such as us., eu. or global., or an ARN.",
        text=r"(?:Invocation of model ID .{1,300} with on-demand throughput isn"
        r"|The provided model (?:doesn.t|does not) support on-demand throughput)",
    ),
    Advice(
        _AUTH,
        "Anthropic does not offer its models in the country of the AWS account or of the gateway's address. Use "
        "another model, or run the gateway elsewhere.",
        text=r"Access to Anthropic models is not allowed from unsupported countries",
    ),
    Advice(
        _MODEL, _UNKNOWN, text=r"The provided (?:model identifier|inference profile)\b.{0,80} is(?:n.t)? (?:in)?valid"
    ),
    Advice(
        _MODEL,
        "Amazon Bedrock does not serve this model on the provider's wire. Set another wire for the target.",
        text=r"(?:This action doesn.t support the model"
        r"|(?:The )?model .{1,300} (?:isn.t supported on this route|does not support the .{1,60} API))",
    ),
    Advice(
        _MODEL,
        "This version of the model has ended, or is closed for the AWS account. Use a newer one.",
        text=r"(?:This model version has reached the end|Access denied\. This model is marked by provider as Legacy)",
    ),
    Advice(_MODEL, _UNKNOWN, ("resourcenotfoundexception", "resourcenotfound")),
    # Limits.
    Advice(
        _LIMIT,
        "The daily quota of the AWS account for this model is used up. Wait, or request a higher quota in Service "
        "Quotas.",
        text=r"Too many tokens per day",
        statuses=(429,),
    ),
    Advice(_LIMIT, _QUOTA, ("throttlingexception", "throttling", "servicequotaexceededexception")),
    Advice(
        _OVERLOADED,
        "Amazon Bedrock is still loading the model. Try again in a moment.",
        ("modelnotreadyexception",),
    ),
)


def read_error(
    status: int, headers: Mapping[str, str], body: bytes, read: ReadError = failure.read_error
) -> StreamweirError:
    """A failed response. `read`: the reader of the wire."""
    value = _object_in(body)
    name = _name_in(headers.get("x-amzn-errortype", "")) or _name_in(value.get("__type"))
    meaning = STATUSES.get(name.lower(), status)
    # An exception is in the body of AWS's own API, which has no error object; its text can begin with a capital.
    text = next((text for key in ("message", "Message") if isinstance(text := value.get(key), str)), "")
    if text:
        error = failure.classify(failure.ErrorDetails({"message": text}), meaning, failure.retry_after_s(headers))
    else:
        error = read(meaning, headers, body)
        text = error.report.text if error.report is not None else ""
    code = error.report.code or "" if error.report is not None else ""
    if name:
        error.report = structs.replace(error.report or ErrorReport(), type=name)
    return advised(_ROWS, (name.lower(), code.lower()), text, meaning, error)


def read_exception(name: str, data: bytes | None) -> StreamweirError:
    """An exception frame: `name` as it was sent, such as `throttlingException`."""
    return read_error(STATUSES.get(name.lower(), 500), {"x-amzn-errortype": name}, data or b"")


def _name_in(value: object) -> str:
    """`ThrottlingException:http://...`, `com.amazon.coral.service#ExpiredTokenException`."""
    text = value if isinstance(value, str) else ""
    found = _NAME.match(text.partition(":")[0].rpartition("#")[2])
    return found[0] if found is not None else ""


def _object_in(body: bytes) -> Mapping[str, object]:
    try:
        value = jsonio.decode(body)
    except jsonio.InvalidJson:
        return {}
    return value if isinstance(value, dict) else {}
