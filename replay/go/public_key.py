"""Public keys as certificates carry them (`crypto/x509.parsePublicKey`): whether Go reads them."""

from __future__ import annotations

from typing import Final, NamedTuple

from replay.go.asn1 import INTEGER, OID, SEQUENCE, ASN1Error, DERReader, DERValue, is_minimal, object_identifier

_RSA: Final = (1, 2, 840, 113549, 1, 1, 1)
_ECDSA: Final = (1, 2, 840, 10045, 2, 1)
_ED25519: Final = (1, 3, 101, 112)


class _Curve(NamedTuple):
    """`y² = x³ - 3x + b` modulo a prime; how Go names a coordinate that is not below it."""

    name: str
    prime: int
    b: int
    element: str


_CURVES: Final = {
    (1, 3, 132, 0, 33): _Curve(
        "P224", 2**224 - 2**96 + 1, 0xB4050A850C04B3ABF54132565044B0B7D7BFD8BA270B39432355FFB4, "P224Element"
    ),
    (1, 2, 840, 10045, 3, 1, 7): _Curve(
        "P256",
        2**256 - 2**224 + 2**192 + 2**96 - 1,
        0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
        "P256 element",
    ),
    (1, 3, 132, 0, 34): _Curve(
        "P384",
        2**384 - 2**128 - 2**96 + 2**32 - 1,
        0xB3312FA7E23EE7E4988E056BE3F82D19181D9C6EFE8141120314088F5013875AC656398D8A2ED19D2A85C8EDD3EC2AEF,
        "P384Element",
    ),
    (1, 3, 132, 0, 35): _Curve(
        "P521",
        2**521 - 1,
        0x51953EB9618E1C9A1F929A21A0B68540EEA2DA725B99B315F3B8B489918EF109E156193951EC7E937B1652C0BD3BB1BF073573DF883D2C34F1EF451FD46B503F00,
        "P521Element",
    ),
}


def check_public_key(algorithm: tuple[int, ...], parameters: bytes, bits: bytes) -> None:
    """Raise ASN1Error for a public key that Go does not read (`parsePublicKey`)."""
    if algorithm == _RSA:
        _check_rsa(parameters, bits)
    elif algorithm == _ECDSA:
        _check_ecdsa(parameters, bits)
    elif algorithm == _ED25519:
        if parameters:
            raise ASN1Error("x509: Ed25519 key encoded with illegal parameters")
        if len(bits) != 32:
            raise ASN1Error("x509: wrong Ed25519 public key size")


def _check_rsa(parameters: bytes, bits: bytes) -> None:
    if parameters != b"\x05\x00":
        raise ASN1Error("x509: RSA key missing NULL parameters")
    sequence = _value(bits, SEQUENCE)
    if sequence is None:
        raise ASN1Error("x509: invalid RSA public key")
    modulus = _value(sequence.data, INTEGER)
    if modulus is None or not is_minimal(modulus.data):
        raise ASN1Error("x509: invalid RSA modulus")
    exponent = _value(sequence.data[len(modulus.encoding) :], INTEGER)
    if exponent is None or not is_minimal(exponent.data) or len(exponent.data) > 8:
        raise ASN1Error("x509: invalid RSA public exponent")
    if int.from_bytes(modulus.data, signed=True) <= 0:
        raise ASN1Error("x509: RSA modulus is not a positive number")
    if int.from_bytes(exponent.data, signed=True) <= 0:
        raise ASN1Error("x509: RSA public exponent is not a positive number")


def _check_ecdsa(parameters: bytes, bits: bytes) -> None:
    try:
        identifier = object_identifier(DERReader(parameters).read(OID, "").data)
    except ASN1Error:
        raise ASN1Error("x509: invalid ECDSA parameters") from None
    curve = _CURVES.get(identifier)
    if curve is None:
        raise ASN1Error("x509: unsupported elliptic curve")
    if bits[:1] != b"\x04":
        raise ASN1Error("ecdsa: invalid uncompressed public key")
    _check_point(curve, bits[1:])


def _check_point(curve: _Curve, data: bytes) -> None:
    size = (curve.prime.bit_length() + 7) // 8
    if len(data) != 2 * size:
        raise ASN1Error(f"invalid {curve.name} point encoding")
    x, y = int.from_bytes(data[:size]), int.from_bytes(data[size:])
    if x >= curve.prime or y >= curve.prime:
        raise ASN1Error(f"invalid {curve.element} encoding")
    if (y * y - x * x * x + 3 * x - curve.b) % curve.prime:
        raise ASN1Error(f"{curve.name} point not on curve")


def _value(data: bytes, tag: int) -> DERValue | None:
    try:
        return DERReader(data).read(tag, "")
    except ASN1Error:
        return None
