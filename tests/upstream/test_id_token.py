"""ID tokens: which are accepted, and every way in which one is not."""

import hmac
import json
from base64 import urlsafe_b64decode
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from streamweir.upstream.oidc.documents import ProviderFault, PublicKey, decoded, keys_in
from streamweir.upstream.oidc.id_token import LEEWAY_S, Expected, UnknownKey, verified
from support.entra_server import private_key
from support.oidc_server import b64, b64_int, ec_key, jwk, signed

NOW = 1_800_000_000
ISSUER, CLIENT, NONCE, ACCESS = "https://idp.example", "client", "n-0S6_WzA2Mj", "access.token"
AT_HASH = b64(sha256(ACCESS.encode()).digest()[:16])
GOOD: dict[str, Any] = {
    "iss": ISSUER,
    "sub": "248289761001",
    "aud": CLIENT,
    "exp": NOW + 300,
    "iat": NOW - 1,
    "nonce": NONCE,
    "at_hash": AT_HASH,
}
KEYS = keys_in({"keys": [jwk(1), jwk(2), jwk(1, "EC"), jwk(3, alg="PS256")]})


def check(token: str, keys: tuple[PublicKey, ...] = KEYS, **more: Any) -> dict[str, Any]:
    expected: dict[str, Any] = {
        "issuer": ISSUER,
        "client_id": CLIENT,
        "nonce": NONCE,
        "access_token": ACCESS,
        "now_s": NOW,
    }
    return verified(token, keys, Expected(**(expected | more)))


def claims(**changes: Any) -> dict[str, Any]:
    """None takes a claim out."""
    return {name: value for name, value in (GOOD | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("made", "number", "alg"),
    [
        ({}, 1, "RS256"),
        ({}, 2, "PS256"),
        ({}, 1, "ES256"),
        ({}, 3, "PS256"),
        ({"at_hash": None}, 1, "RS256"),
        ({"aud": [CLIENT]}, 1, "RS256"),
        ({"aud": ["other", CLIENT], "azp": CLIENT}, 1, "RS256"),
        ({"azp": CLIENT, "nbf": NOW + LEEWAY_S, "iat": NOW + LEEWAY_S}, 1, "RS256"),
        ({"exp": NOW - LEEWAY_S + 1}, 1, "RS256"),
        ({"exp": NOW + 0.5}, 1, "RS256"),
        ({"groups": ["a"], "name": "Ada \N{SNOWMAN}"}, 1, "RS256"),
    ],
)
def test_it_is_accepted(made: dict[str, Any], number: int, alg: str) -> None:
    assert check(signed(claims(**made), number, alg=alg)) == claims(**made)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"iss": "https://idp.example/"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"iss": [ISSUER]}, "another issuer"),
        ({"aud": "other"}, "another client"),
        ({"aud": None}, "another client"),
        ({"aud": []}, "another client"),
        ({"aud": {CLIENT: 1}}, "another client"),
        ({"aud": f"{CLIENT} other"}, "another client"),
        ({"aud": ["other", CLIENT]}, "issued to another client"),
        ({"azp": "other"}, "issued to another client"),
        ({"aud": [CLIENT, CLIENT], "azp": ["x"]}, "issued to another client"),
        ({"sub": None}, "who it is about"),
        ({"sub": ""}, "who it is about"),
        ({"sub": 5}, "who it is about"),
        ({"sub": "x" * 256}, "who it is about"),
        ({"sub": "a\nb"}, "who it is about"),
        ({"sub": "a\0b"}, "who it is about"),
        ({"exp": NOW - LEEWAY_S}, "has expired"),
        ({"exp": 0}, "has expired"),
        ({"exp": None}, "when it was issued"),
        ({"exp": str(NOW + 300)}, "when it was issued"),
        ({"exp": True}, "when it was issued"),
        ({"exp": 10**400}, "when it was issued"),
        ({"exp": -1}, "when it was issued"),
        ({"iat": None}, "when it was issued"),
        ({"iat": NOW + LEEWAY_S + 1}, "of the future"),
        ({"nbf": NOW + LEEWAY_S + 1}, "of the future"),
        ({"nbf": "soon"}, "of the future"),
        ({"nonce": None}, "another sign-in"),
        ({"nonce": ""}, "another sign-in"),
        ({"nonce": NONCE + "x"}, "another sign-in"),
        ({"nonce": [NONCE]}, "another sign-in"),
        ({"at_hash": b64(bytes(16))}, "another access token"),
        ({"at_hash": 5}, "another access token"),
    ],
)
def test_its_claims_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ProviderFault, match=reason):
        check(signed(claims(**changes)))


def test_an_access_token_that_was_not_sent_has_no_hash() -> None:
    with pytest.raises(ProviderFault, match="another access token"):
        check(signed(GOOD), access_token=None)


def hmac_signed(secret: bytes) -> str:
    """As if the public key were a shared secret."""
    data = f"{b64(json.dumps({'alg': 'HS256', 'kid': 'RSA-1'}).encode())}.{b64(json.dumps(GOOD).encode())}"
    return f"{data}.{b64(hmac.new(secret, data.encode(), sha256).digest())}"


def unsigned(alg: str, signature: str = "") -> str:
    return f"{b64(json.dumps({'alg': alg, 'kid': 'RSA-1'}).encode())}.{b64(json.dumps(GOOD).encode())}.{signature}"


PUBLIC = private_key(1).public_key()
FORMATS = [
    PUBLIC.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    PUBLIC.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    PUBLIC.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
]


@pytest.mark.parametrize(
    "token",
    [
        *(hmac_signed(secret) for secret in (*FORMATS, b"", b"client")),
        *(unsigned(alg, signature) for alg in ("none", "None", "NONE", "", "HS256") for signature in ("", "AA", "x")),
        signed(GOOD, header={"alg": "RS512"}),
        signed(GOOD, header={"alg": "EdDSA"}),
        signed(GOOD, header={"alg": ["RS256"]}),
        signed(GOOD, header={"alg": None}),
        signed(GOOD, header={"alg": {"RS256": 1}}),
    ],
)
def test_other_ways_to_sign_are_refused(token: str) -> None:
    with pytest.raises(ProviderFault, match=r"must be RS256, PS256 or ES256|not a signed token"):
        check(token)


def altered(token: str, part: int, **changes: Any) -> str:
    parts = token.split(".")
    found = json.loads(urlsafe_b64decode(parts[part] + "=" * (-len(parts[part]) % 4)))
    parts[part] = b64(json.dumps(found | changes).encode())
    return ".".join(parts)


@pytest.mark.parametrize(
    "token",
    [
        signed(GOOD, 2, header={"kid": "RSA-1"}),  # another's key
        signed(GOOD, 1, alg="PS256", header={"alg": "RS256"}),
        signed(GOOD, 1, header={"alg": "PS256"}),
        signed(GOOD, 2, alg="ES256", header={"kid": "EC-1"}),
        altered(signed(GOOD), 1, sub="root"),
        altered(signed(GOOD), 0, kid="RSA-2"),
        signed(GOOD)[:-4] + "AAAA",
        signed(GOOD, alg="ES256")[:-2],
        signed(GOOD, alg="ES256").rpartition(".")[0] + "." + b64(bytes(64)),
        signed(GOOD, alg="ES256").rpartition(".")[0] + "." + b64(bytes(31) + b"\1" + bytes(31) + b"\1"),
        signed(GOOD).rpartition(".")[0] + "." + b64(bytes(256)),
        signed(GOOD).rpartition(".")[0] + "." + b64(bytes(10_000)),
        # its own key in the token: nobody looks there
        signed(GOOD, 4, header={"kid": "RSA-1", "jwk": jwk(4), "jku": "https://evil.example/keys", "x5c": ["AAAA"]}),
    ],
)
def test_a_wrong_signature_is_refused(token: str) -> None:
    with pytest.raises(ProviderFault, match="signature of the ID token is not valid"):
        check(token)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (signed(GOOD, 1, header={"kid": "EC-1"}), "not the one of its key"),
        (signed(GOOD, 1, alg="ES256", header={"kid": "RSA-1"}), "not the one of its key"),
        (signed(GOOD, 3), "not the one of its key"),
        (signed(GOOD, 1, header={"kid": None}), "does not say which of several keys"),
        (signed(GOOD, header={"crit": ["exp"]}), "extensions"),
        (signed(GOOD, header={"b64": False}), "extensions"),
        (signed(b"[]"), "not a JSON object"),
        (signed(b"{"), "not a JSON object"),
        (signed(b"\xff"), "not a JSON object"),
        (signed(json.dumps(GOOD).encode()[:-1] + b', "sub": "root"}'), "not a JSON object"),
        (signed(b'{"a":' * 100 + b"1" + b"}" * 100), "not a JSON object"),
        *((token, "not a signed token") for token in ("", ".", "..", "a.b.c", "....", "\N{SNOWMAN}.a.b", "e30.e30.")),
        (signed(GOOD) + ".", "not a signed token"),
        (signed(GOOD) + "=", "not a signed token"),
        (" " + signed(GOOD), "not a signed token"),
        (signed(GOOD).replace(".", "\n.", 1), "not a signed token"),
        ("x" * 200_000 + ".a.b", "not a signed token"),
    ],
)
def test_what_is_no_token_of_this_provider_is_refused(token: str, reason: str) -> None:
    with pytest.raises(ProviderFault, match=reason):
        check(token)


def test_a_key_that_is_not_published_is_told_apart() -> None:
    for id in ("RSA-9", "", 5, ["RSA-1"]):
        with pytest.raises(UnknownKey):
            check(signed(GOOD, header={"kid": id}))
    assert check(signed(GOOD, header={"kid": None}), keys_in({"keys": [jwk(1, kid=None)]})) == GOOD, (
        "there is one alone"
    )


def test_nothing_of_a_token_is_in_an_error() -> None:
    token = signed(claims(iss="https://canary.example", aud="canary"), header={"kid": "canary"})
    for keys in (KEYS, keys_in({"keys": [jwk(1, kid="canary")]})):
        with pytest.raises(ProviderFault) as caught:
            check(token, keys)
        assert "canary" not in str(caught.value)


def test_keys_that_cannot_be_used_are_left_out() -> None:
    short = jwk(1, n=b64_int((1 << 1023) + 1))
    broken: list[Any] = [
        short,
        jwk(1, n=b64(b"\xff" * 4096)),
        jwk(1, n="not base64!"),
        jwk(1, n=5),
        jwk(1, e=b64_int(1)),
        jwk(1, e=b64_int(4)),
        jwk(1, e=b64(b"\xff" * 9)),
        jwk(1, use="enc"),
        jwk(1, key_ops=["sign"]),
        jwk(1, alg="RS512"),
        jwk(1, alg="HS256"),
        jwk(1, kid=7),
        jwk(1, "EC", crv="P-384"),
        jwk(1, "EC", x=b64(bytes(32))),
        jwk(1, "EC", x=b64(b"\1" * 33)),
        jwk(1, "EC", alg="ES384"),
        {"kty": "oct", "k": b64(b"secret"), "alg": "HS256"},
        {},
        5,
        None,
    ]
    assert keys_in({"keys": [*broken, jwk(1)]}) == keys_in({"keys": [jwk(1)]})
    wrong: Any
    for wrong in ({}, {"keys": {}}, {"keys": None}, {"keys": [jwk(1)] * 101}):
        with pytest.raises(ProviderFault, match="not a list"):
            keys_in(wrong)


def test_a_point_that_is_not_on_the_curve_verifies_nothing() -> None:
    point = ec_key(1).public_key().public_numbers()
    keys = keys_in({"keys": [jwk(1, "EC", y=b64_int(point.y ^ 1, 32))]})
    with pytest.raises(ProviderFault, match="signature"):
        check(signed(GOOD, alg="ES256"), keys)


def test_base64url_has_one_form() -> None:
    assert decoded("-_8") == b"\xfb\xff"
    for wrong in ("+/8", "-_8=", "-_", "A", "A\n", " AA", "\N{SNOWMAN}"):
        assert decoded(wrong) is None, wrong
