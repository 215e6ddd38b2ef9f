"""Certificates for scripted upstreams: made on the spot, for any name and any dates, by nothing but this file.

A self-signed X.509 certificate over an ECDSA key on P-256, in the DER that OpenSSL reads. The
arithmetic is the textbook's and not safe against anyone who can measure it: for tests alone.
"""

import base64
import hashlib
import secrets
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

# NIST P-256: the field, the coefficient, the order of the group, its generator.
_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
_A = -3
_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
Point = tuple[int, int] | None


@dataclass(frozen=True)
class Certificate:
    """Two PEM files. A client that trusts `cert_file` trusts this server and no other."""

    cert_file: Path
    key_file: Path

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert_file, self.key_file)
        return context


def make_certificate(
    folder: Path, name: str = "127.0.0.1", valid_from: datetime | None = None, valid_to: datetime | None = None
) -> Certificate:
    """Self-signed, for a host name or an address, valid now unless other dates are given."""
    now = datetime.now(UTC)
    secret = secrets.randbelow(_N - 1) + 1
    body = _certified(name, valid_from or now - timedelta(days=1), valid_to or now + timedelta(days=1), secret)
    signed = _sequence(body, _SIGNATURE_KIND, _bits(_signature(body, secret)))
    cert_file, key_file = folder / f"{name}.crt", folder / f"{name}.key"
    cert_file.write_text(_pem("CERTIFICATE", signed))
    key_file.write_text(_pem("EC PRIVATE KEY", _private_key(secret)))
    return Certificate(cert_file, key_file)


def _certified(name: str, valid_from: datetime, valid_to: datetime, secret: int) -> bytes:
    subject = _sequence(_der(0x31, _sequence(_oid("55 04 03"), _der(0x0C, name.encode()))))
    dates = _sequence(
        *(_der(0x18, date.astimezone(UTC).strftime("%Y%m%d%H%M%SZ").encode()) for date in (valid_from, valid_to))
    )
    public = _sequence(_sequence(_oid("2A 86 48 CE 3D 02 01"), _CURVE), _bits(_encoded(_times(secret, _G))))
    try:
        alternative = _der(0x87, ip_address(name).packed)
    except ValueError:
        alternative = _der(0x82, name.encode())
    names = _sequence(_oid("55 1D 11"), _der(0x04, _sequence(alternative)))
    authority = _sequence(_oid("55 1D 13"), _der(0x01, b"\xff"), _der(0x04, _sequence(_der(0x01, b"\xff"))))
    extensions = _der(0xA3, _sequence(names, authority))
    version, serial = _der(0xA0, _number(2)), _number(secrets.randbits(64) + 1)
    return _sequence(version, serial, _SIGNATURE_KIND, subject, dates, subject, public, extensions)


def _signature(message: bytes, secret: int) -> bytes:
    digest = int.from_bytes(hashlib.sha256(message).digest())
    nonce = secrets.randbelow(_N - 1) + 1
    point = _times(nonce, _G)
    assert point is not None
    r = point[0] % _N
    return _sequence(_number(r), _number(pow(nonce, -1, _N) * (digest + r * secret) % _N))


def _private_key(secret: int) -> bytes:
    public = _der(0xA1, _bits(_encoded(_times(secret, _G))))
    return _sequence(_number(1), _der(0x04, secret.to_bytes(32)), _der(0xA0, _CURVE), public)


def _plus(one: Point, other: Point) -> Point:
    if one is None or other is None:
        return one or other
    if one[0] == other[0] and (one[1] + other[1]) % _P == 0:
        return None
    if one == other:
        slope = (3 * one[0] ** 2 + _A) * pow(2 * one[1], -1, _P)
    else:
        slope = (other[1] - one[1]) * pow(other[0] - one[0], -1, _P)
    x = (slope**2 - one[0] - other[0]) % _P
    return x, (slope * (one[0] - x) - one[1]) % _P


def _times(factor: int, point: Point) -> Point:
    total: Point = None
    while factor:
        if factor & 1:
            total = _plus(total, point)
        point = _plus(point, point)
        factor >>= 1
    return total


def _encoded(point: Point) -> bytes:
    assert point is not None
    return b"\x04" + point[0].to_bytes(32) + point[1].to_bytes(32)


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(length)]) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _der(0x30, b"".join(parts))


def _number(value: int) -> bytes:
    return _der(0x02, value.to_bytes(value.bit_length() // 8 + 1))


def _bits(content: bytes) -> bytes:
    return _der(0x03, b"\x00" + content)


def _oid(encoded: str) -> bytes:
    return _der(0x06, bytes.fromhex(encoded))


def _pem(label: str, der: bytes) -> str:
    text = base64.encodebytes(der).decode()
    return f"-----BEGIN {label}-----\n{text}-----END {label}-----\n"


_CURVE = _oid("2A 86 48 CE 3D 03 01 07")
_SIGNATURE_KIND = _sequence(_oid("2A 86 48 CE 3D 04 03 02"))
