"""Failures of the three clouds: the code of each, and what its message tells the operator to do."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamweir.core.errors import MAX_RECORDED_LENGTH, StreamweirError, UpstreamError
from streamweir.providers import failure
from streamweir.providers.anthropic import error as anthropic
from streamweir.providers.azure import error as azure_error
from streamweir.providers.azure.chat import EMBEDDINGS as AZURE_EMBEDDINGS
from streamweir.providers.azure.chat import PROVIDER as AZURE
from streamweir.providers.bedrock import error as bedrock
from streamweir.providers.registry import provider_named
from streamweir.providers.vertex import error as vertex
from streamweir.wire.native import NativeWire

Read = Callable[[int, Mapping[str, str], bytes], StreamweirError]
AUTH, MODEL, LIMIT = "upstream_auth_failed", "upstream_model_not_found", "upstream_rate_limited"
USER = "User: arn:aws:sts::123456789012:assumed-role/gateway/i-0 is not authorized to perform: "
RESOURCE = "on resource: arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-sonnet-4"

BEDROCK: list[tuple[int, str, str, str, str]] = [
    # status, exception, text, our code, a word of the remedy
    (403, "ExpiredTokenException", "The security token included in the request is expired", AUTH, "expired"),
    (403, "UnrecognizedClientException", "The security token included in the request is invalid.", AUTH, "access_key"),
    (403, "InvalidSignatureException", "Credential should be scoped to a valid region.", AUTH, "Set region"),
    (403, "InvalidSignatureException", "Credential should be scoped to correct service: 'bedrock'", AUTH, "service"),
    (403, "InvalidSignatureException", "Signature expired: 20261118T1 is now earlier than 2", AUTH, "clock"),
    (403, "InvalidSignatureException", "Signature not yet current: 20261118T1", AUTH, "clock"),
    (400, "RequestExpired", "Request has expired. Timestamp date is 2026", AUTH, "clock"),
    (403, "RequestTimeTooSkewed", "The difference between the request time and", AUTH, "clock"),
    (403, "InvalidSignatureException", "The request signature we calculated does not match", AUTH, "secret_access_key"),
    (403, "MissingAuthenticationTokenException", "Missing Authentication Token", AUTH, "without credentials"),
    (403, "AccessDeniedException", "Authentication failed: Please make sure your API Key is valid.", AUTH, "API key"),
    (403, "AccessDeniedException", f"{USER}bedrock:InvokeModel {RESOURCE}", AUTH, "permission bedrock:InvokeModel for"),
    (
        403,
        "AccessDeniedException",
        f"{USER}bedrock:InvokeModel on resource: arn:aws:bedrock:us-east-1:123456789012:project/default because no",
        AUTH,
        "permission bedrock:InvokeModel for the default project",
    ),
    (
        403,
        "AccessDeniedException",
        f"{USER}bedrock-mantle:CreateInference on resource: arn:aws:bedrock-mantle:us-east-1:123456789012:project/x",
        AUTH,
        "permission bedrock-mantle:CreateInference. Attach the managed policy",
    ),
    (
        403,
        "AccessDeniedException",
        f"{USER}bedrock:InvokeModel {RESOURCE} with an explicit deny in a service control policy",
        AUTH,
        "denies the gateway the action bedrock:InvokeModel.",
    ),
    (403, "AccessDeniedException", "You don't have access to the model with the specified model ID.", AUTH, "Enable"),
    (403, "AccessDeniedException", "Model access is denied due to IAM user or service role", AUTH, "Subscribe"),
    (403, "AccessDeniedException", "Model access is denied due to INVALID_PAYMENT_INSTRUMENT:A", AUTH, "payment"),
    (403, "AccessDeniedException", "The API Key has expired.", AUTH, "Create another one"),
    (403, "AccessDeniedException", "API Key may not use this model", AUTH, "IAM policy"),
    (403, "AccessDeniedException", "no", AUTH, "IAM policy"),
    (400, "NotAuthorized", "You do not have permission to perform this action.", AUTH, "IAM policy"),
    (403, "MPAgreementBeingCreated", "m", AUTH, "subscription for this model is still"),
    (400, "ValidationException", "Operation not allowed", AUTH, "support"),
    (400, "ValidationException", "The provided model identifier is invalid.", MODEL, "region"),
    (
        400,
        "ValidationException",
        "Invocation of model ID anthropic.claude-sonnet-4-5-v1:0 with on-demand throughput isn\u2019t supported.",
        MODEL,
        "inference profiles",
    ),
    (400, "ValidationException", "The provided model doesn't support on-demand throughput.", MODEL, "profiles"),
    (400, "ValidationException", "The provided model doesn\u2019t support on-demand throughput.", MODEL, "profiles"),
    (
        400,
        "ValidationException",
        "Access to Anthropic models is not allowed from unsupported countries, regions, or territories.",
        AUTH,
        "country",
    ),
    (403, "AccessDeniedException", "The bearer token included in the request is invalid.", AUTH, "another region"),
    (400, "ValidationException", "This action doesn't support the model that you provided.", MODEL, "wire"),
    (404, "ResourceNotFoundException", "Could not resolve the foundation model from the model id", MODEL, "region"),
    (404, "ResourceNotFoundException", "Model use case details have not been submitted for this", MODEL, "form"),
    (404, "ResourceNotFoundException", "This model version has reached the end of its life.", MODEL, "newer"),
    (429, "ThrottlingException", "Too many requests, please wait before trying again.", LIMIT, "Service Quotas"),
    (429, "ThrottlingException", "Too many tokens per day, please wait.", LIMIT, "daily"),
    (400, "ServiceQuotaExceededException", "Your request exceeds the service quota.", LIMIT, "Service Quotas"),
    (429, "ModelNotReadyException", "The model is not ready.", "upstream_overloaded", "loading"),
    (408, "ModelTimeoutException", "late", "upstream_timeout", ""),
    (424, "ModelErrorException", "m", "upstream_server_error", ""),
    (424, "ModelStreamErrorException", "m", "upstream_server_error", ""),
    (500, "InternalServerException", "m", "upstream_server_error", ""),
    (503, "ServiceUnavailableException", "m", "upstream_overloaded", ""),
    (400, "ValidationException", "Input is too long for requested model.", "context_length_exceeded", "too long"),
    (400, "ValidationException", "The number of input tokens exceeds the limit", "context_length_exceeded", ""),
    (400, "ValidationException", "The maximum tokens you requested exceeds the model limit", "invalid_value", ""),
    # The caller's words are not at the beginning of a message.
    (400, "ValidationException", "Bad name: The provided model doesn't support on-demand", "invalid_value", "Bad"),
    (400, "ValidationException", "Malformed: Signature expired. Operation not allowed", "invalid_value", "Malformed"),
]


@pytest.mark.parametrize(("status", "name", "text", "code", "word"), BEDROCK, ids=str)
def test_bedrock(status: int, name: str, text: str, code: str, word: str) -> None:
    body = json.dumps({"message": text}).encode()
    suffix = ":http://internal.amazon.com/coral/com.amazon.bedrock/"
    responses = [
        bedrock.read_error(status, {"x-amzn-errortype": name + suffix}, body),
        bedrock.read_error(status, {}, json.dumps({"__type": f"com.amazon#{name}", "Message": text}).encode()),
        bedrock.read_exception(name[:1].lower() + name[1:], body),
    ]
    for error in responses:
        assert (error.code, word in error.message) == (code, True), error
        assert error.report is not None
        assert (error.report.type or "").lower() == name.lower()
        assert error.report.text == text
        assert "123456789012" not in error.message


@pytest.mark.parametrize(
    ("name", "is_of_account"),
    [
        ("ExpiredTokenException", True),
        ("UnrecognizedClientException", True),
        ("InvalidSignatureException", True),
        ("AccessDeniedException", False),
        ("ThrottlingException", False),
    ],
)
def test_a_refused_credential_is_told_from_a_refused_model(name: str, is_of_account: bool) -> None:
    error = bedrock.read_error(403, {"x-amzn-errortype": name}, b'{"message":"no"}')
    assert (error.is_of_account, error.is_only_in_text and error.is_of_account) == (is_of_account, False)


def test_other_wires_of_bedrock_have_their_own_errors() -> None:
    body = b'{"error":{"message":"Missing `messages`","type":"invalid_request_error","param":"messages"}}'
    error = bedrock.read_error(400, {}, body)
    assert (error.code, error.param) == ("invalid_value", "messages")
    body = b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens"}}'
    error = bedrock.read_error(400, {}, body, anthropic.read_error)
    assert error.native is not None
    assert (error.code, error.native.type) == ("context_length_exceeded", "invalid_request_error")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'{"message": 5}', b'{"Message": []}', b"\xff"])
@pytest.mark.parametrize("header", ["", ":", "#", "1", "#:x", "Made" * 1000, "\u00e4"])
def test_what_cannot_be_read_is_no_fault(body: bytes, header: str) -> None:
    headers = {"x-amzn-errortype": header}
    assert bedrock.read_error(500, headers, body).code == "upstream_server_error"
    assert bedrock.read_exception(header, body).code == "upstream_server_error"
    assert vertex.read_claude_error(500, headers, body).code == "upstream_server_error"
    assert azure_error.read_error(500, headers, body).code == "upstream_server_error"


def reason(name: str) -> list[dict[str, Any]]:
    return [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": name}]


VERTEX: list[tuple[int, dict[str, Any], str, str]] = [
    (401, {"status": "UNAUTHENTICATED", "message": "m", "details": reason("ACCESS_TOKEN_EXPIRED")}, AUTH, "expired"),
    (401, {"message": "m", "details": reason("ACCESS_TOKEN_TYPE_UNSUPPORTED")}, AUTH, "api_key"),
    (401, {"status": "UNAUTHENTICATED", "message": "Request had invalid authentication"}, AUTH, "access token"),
    (403, {"message": "m", "details": reason("SERVICE_DISABLED")}, AUTH, "Enable"),
    (403, {"message": "Vertex AI API has not been used in project 7 before or it is disabled."}, AUTH, "Enable"),
    (403, {"message": "m", "details": reason("BILLING_DISABLED")}, AUTH, "billing account"),
    (403, {"message": "m", "details": reason("USER_PROJECT_DENIED")}, AUTH, "Service Usage Consumer"),
    (
        403,
        {"message": "Permission 'aiplatform.endpoints.predict' denied on resource '//x' (or it may not exist)."},
        AUTH,
        "aiplatform.endpoints.predict in the project. Grant it the role Vertex AI User",
    ),
    (403, {"message": "denied", "details": reason("IAM_PERMISSION_DENIED")}, AUTH, "roles/aiplatform.user"),
    (403, {"message": "m", "details": reason("SECURITY_POLICY_VIOLATED")}, AUTH, "perimeter"),
    (403, {"message": "no"}, AUTH, "credentials"),
    (
        404,
        {"message": "Publisher Model `projects/p/locations/l/publishers/google/models/x` was not found or your"},
        MODEL,
        "Model Garden",
    ),
    (404, {"message": "<html>"}, MODEL, "location"),
    (400, {"message": "Publisher Model `projects/p` is not servable in region us-west9."}, MODEL, "such as global"),
    (429, {"message": "Quota exceeded for aiplatform.googleapis.com/online_prediction"}, LIMIT, "higher quota"),
    (429, {"message": "Resource exhausted. Please try again later."}, LIMIT, "capacity"),
    (429, {"message": "slow down"}, LIMIT, "rate limit"),
    (400, {"status": "INVALID_ARGUMENT", "message": "Role: Quota exceeded for x"}, "invalid_value", "Role"),
]


@pytest.mark.parametrize(("status", "error", "code", "word"), VERTEX, ids=str)
def test_vertex(status: int, error: dict[str, Any], code: str, word: str) -> None:
    value = {"error": {"code": status, **error}}
    for body in (json.dumps(value).encode(), json.dumps([value]).encode()):
        for read in (vertex.read_error, vertex.read_claude_error):
            found = read(status, {}, body)
            assert (found.code, word in found.message) == (code, True), found


def test_claude_on_vertex_has_anthropics_errors_too() -> None:
    body = b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8"}}'
    error = vertex.read_claude_error(400, {}, body)
    assert error.code == "context_length_exceeded"
    assert error.native is not None
    assert error.native.wire == NativeWire.ANTHROPIC_MESSAGES


def test_googles_wait_is_kept() -> None:
    details = [{"retryDelay": "7s"}]
    body = json.dumps({"error": {"message": "Quota exceeded for x", "details": details}}).encode()
    assert vertex.read_error(429, {}, body).retry_after_s == 7


AZURE_ERRORS: list[tuple[int, dict[str, Any], str, str]] = [
    (
        401,
        {"code": "401", "message": "Access denied due to invalid subscription key or wrong API endpoint."},
        AUTH,
        "key of the same resource",
    ),
    (401, {"code": "PermissionDenied", "message": "Principal does not have access to API/Operation."}, AUTH, "role"),
    (
        401,
        {"code": "PermissionDenied", "message": "The principal `x` lacks the required data action `y`"},
        AUTH,
        "Cognitive Services OpenAI User",
    ),
    (401, {"code": "401", "message": "Unauthorized. Access token is missing, invalid, audience is"}, AUTH, "scope"),
    (400, {"code": "BadRequest", "message": "Token tenant a does not match resource tenant."}, AUTH, "tenant_id"),
    (400, {"code": "BadRequest", "message": "Please provide a custom subdomain for token"}, AUTH, "subdomain"),
    (403, {"code": "AuthenticationTypeDisabled", "message": "Key based"}, AUTH, "Entra"),
    (403, {"code": "403", "message": "Access denied due to Virtual Network/Firewall rules."}, AUTH, "network rules"),
    (404, {"code": "DeploymentNotFound", "message": "The API deployment for this"}, MODEL, "name of the deployment"),
    (404, {"code": "404", "message": "Resource not found"}, MODEL, "api_version"),
    (400, {"code": "BadRequest", "message": "API version not supported"}, MODEL, "api_version"),
    (429, {"code": "429", "message": "Requests to the ChatCompletions_Create Operation under Azure"}, LIMIT, ""),
    (
        429,
        {"code": "429", "message": "Requests to the X Operation under Azure OpenAI API version Y have exceeded token"},
        LIMIT,
        "tokens per minute",
    ),
    (400, {"code": "content_filter", "message": "The response was filtered"}, "content_filter", "filtered"),
    (400, {"code": "invalid_value", "message": "bad: Resource not found"}, "invalid_value", "bad"),
]


@pytest.mark.parametrize(("status", "error", "code", "word"), AZURE_ERRORS, ids=str)
def test_azure(status: int, error: dict[str, Any], code: str, word: str) -> None:
    body = json.dumps({"error": error}).encode()
    readers: list[Read] = [
        AZURE.read_error,
        AZURE_EMBEDDINGS.read_error,
        provider_named("azure-responses").read_error,
        provider_named("text/azure").read_error,
    ]
    for read in readers:
        found = read(status, {}, body)
        assert (found.code, word in found.message) == (code, True), found


def test_azures_front_has_no_error_object() -> None:
    body = b'{"statusCode": 401, "message": "Access denied due to invalid subscription key."}'
    assert "key of the same resource" in AZURE.read_error(401, {}, body).message


def test_every_message_is_a_sentence_of_the_gateway() -> None:
    for rows in (bedrock._ROWS, vertex._ROWS, azure_error._ROWS):
        for row in rows:
            assert row.code in UpstreamError.codes
            assert row.message.endswith(".")
            assert len(row.message) <= MAX_RECORDED_LENGTH
            assert row.names or row.text or row.statuses
            assert row.message.count("{}") == re.compile(row.text).groups


def test_a_model_that_azure_serves_on_responses_alone_is_still_found_there() -> None:
    message = "The chatCompletion operation does not work with the specified model, codex."
    error = AZURE.read_error(
        400, {}, json.dumps({"error": {"code": "OperationNotSupported", "message": message}}).encode()
    )
    assert error.is_of_wire


def test_the_common_reader_is_as_before() -> None:
    assert failure.read_error(404, {}, b'{"error":{"code":"DeploymentNotFound"}}').message.startswith("The provider")


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "Message", "code", "status", "details", "reason", "type", "__type"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=40)
@given(value=ANY, status=st.sampled_from([400, 401, 403, 404, 408, 424, 429, 500, 503]), name=st.text(max_size=12))
def test_every_refusal_becomes_an_error(value: Any, status: int, name: str) -> None:
    body, headers = json.dumps(value).encode(), {"x-amzn-errortype": name}
    for read in (bedrock.read_error, vertex.read_error, vertex.read_claude_error, azure_error.read_error):
        assert isinstance(read(status, headers, body), StreamweirError)
    assert isinstance(bedrock.read_exception(name, body), StreamweirError)
