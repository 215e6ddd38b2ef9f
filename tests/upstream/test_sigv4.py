"""Signatures against botocore's: an independent implementation by the vendor of the service."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.upstream.cloud.sigv4 import AwsKeys, Signer
from streamweir.upstream.head import Fields
from support.aws_server import IssuedKeys, expected_signature
from support.script import Seen

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"  # noqa: S105
KEYS = AwsKeys(access_key_id="AKIDEXAMPLE", secret_access_key=SECRET)
TEMPORARY = AwsKeys(access_key_id="ASIDEXAMPLE", secret_access_key=SECRET, session_token="a/b+c==")  # noqa: S106
HOST = "bedrock-runtime.eu-central-1.amazonaws.com"
JSON = (("content-type", "application/json"),)


def signed(
    path: str,
    headers: Fields = JSON,
    body: bytes = b"{}",
    *,
    keys: AwsKeys = KEYS,
    prefix: str = "",
    operators: Fields = (),
    method: str = "POST",
    at_s: float = 1_700_000_000.0,
) -> tuple[str, str]:
    """The signature, and botocore's for the same request."""
    signer = Signer(region="eu-central-1", service="bedrock", host=HOST, prefix=prefix, headers=operators)
    digest = sha256(body).hexdigest()
    added = signer.sign(keys, method=method, path=path, headers=headers, body_digest=digest, at_s=at_s)
    replaced = {name.lower() for name, _ in operators}
    sent = [("host", HOST), *(field for field in headers if field[0].lower() not in replaced), *operators, *added]
    fields = {name.lower(): value for name, value in sent}
    names = fields["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    issued = IssuedKeys(keys.access_key_id, keys.secret_access_key, keys.session_token, 0.0)
    seen = Seen(0, 0, method, prefix + path, list(fields.items()), body)
    own = fields["authorization"].partition("Signature=")[2]
    return own, expected_signature(seen, issued, names, "eu-central-1", "bedrock")


@pytest.mark.parametrize(
    "path",
    [
        "/model/amazon.nova-lite-v1%3A0/converse-stream",
        "/model/arn%3Aaws%3Abedrock%3Aeu-central-1%3A123456789012%3Ainference-profile%2Feu.a.b-v1%3A0/converse",
        "/openai/v1/chat/completions",
        "/foundation-models?byOutputModality=TEXT&byInferenceType=ON_DEMAND&a",
        "/foundation-models?b=2&b=1&a=%20x&c=",
        "/",
        "/a//b/./c/../d/",
        "/a/~b/c'd(e)*!",
    ],
)
@pytest.mark.parametrize("prefix", ["", "/gateway/v1"])
def test_paths_and_queries(path: str, prefix: str) -> None:
    own, theirs = signed(path, prefix=prefix)
    assert own == theirs


@pytest.mark.parametrize("keys", [KEYS, TEMPORARY], ids=["lasting", "temporary"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_keys_methods_and_headers(keys: AwsKeys, method: str) -> None:
    headers = (*JSON, ("X-Amzn-Bedrock-Trace", "ENABLED"), ("x-amz-meta", "  a   b\tc "), ("x-other", "not signed"))
    own, theirs = signed("/a", headers, b"" if method == "GET" else b"{}", keys=keys, method=method)
    assert own == theirs


def test_the_operators_headers_are_signed_as_they_are_sent() -> None:
    operators = (("Content-Type", "text/x"), ("X-Amz-Team", "one"), ("x-team", "two"))
    own, theirs = signed("/a", (*JSON, ("x-amz-team", "replaced")), operators=operators)
    assert own == theirs
    assert own != signed("/a")[0]


def test_a_guardrail_of_the_operator_is_signed() -> None:
    one, two = (signed("/a", operators=(("X-Amzn-Bedrock-GuardrailIdentifier", name),)) for name in ("one", "two"))
    assert one[0] == one[1]
    assert one[0] != two[0]


def test_another_host_of_the_operator() -> None:
    own, theirs = signed("/a", operators=(("Host", "vpce-1.example"),))
    assert own == theirs


def test_the_derived_key_changes_with_the_day_and_the_secret() -> None:
    signer = Signer(region="r", service="s", host="h")
    noon = 1_700_000_000.0

    def sign(keys: AwsKeys, at_s: float) -> str:
        return signer.sign(keys, method="GET", path="/", headers=(), body_digest="0", at_s=at_s)[-1][1]

    other = AwsKeys(access_key_id="AKIDEXAMPLE", secret_access_key="another")  # noqa: S106
    first = sign(KEYS, noon)
    assert len({first, sign(KEYS, noon + 86_400), sign(other, noon)}) == 3
    assert sign(KEYS, noon) == first


@given(
    path=st.text(st.characters(min_codepoint=0x24, max_codepoint=0x7E, exclude_characters="?%"), max_size=40),
    body=st.binary(max_size=200),
    value=st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20),
    at_s=st.integers(0, 4_000_000_000),
)
def test_any_request(path: str, body: bytes, value: str, at_s: int) -> None:
    own, theirs = signed(f"/{path}", (*JSON, ("x-amz-value", value)), body, keys=TEMPORARY, at_s=float(at_s))
    assert own == theirs


def test_nothing_shows_the_keys() -> None:
    shown = repr(TEMPORARY) + str(TEMPORARY)
    assert not any(secret in shown for secret in (SECRET, "a/b+c==", "ASIDEXAMPLE"))
