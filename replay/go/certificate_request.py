"""Certificate requests, PKCS #10 (`crypto/x509.ParseCertificateRequest`), as far as their subject goes.

Whether a point lies on its curve is not computed, and of names beside the subject only the form is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from replay.go.asn1 import (
    BIT_STRING,
    INTEGER,
    OID,
    SEQUENCE,
    SET,
    ASN1Error,
    Reader,
    Value,
    bit_string,
    elements,
    integer,
    object_identifier,
    syntax_error,
    text_of,
)

_COMMON_NAME: Final = (2, 5, 4, 3)
_ORGANIZATION: Final = (2, 5, 4, 10)
_ATTRIBUTES: Final = (
    "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:%s "
    "stringType:0 timeType:0 set:false omitEmpty:false}"
)


class Subject(NamedTuple):
    """The common name, the last of several, and the organizations."""

    common_name: str = ""
    organization: tuple[str, ...] = ()


def parse_certificate_request(data: bytes) -> Subject:
    """The subject of a request in DER; raises ASN1Error with Go's text."""
    reader = Reader(data)
    request = Reader(reader.read(SEQUENCE, "certificateRequest").data)
    told = Reader(request.read(SEQUENCE, "tbsCertificateRequest").data)
    integer(told.read(INTEGER, "int").data)
    subject = told.any()
    key = Reader(told.read(SEQUENCE, "publicKeyInfo").data)
    algorithm, parameters = _algorithm(key)
    bits = bit_string(key.read(BIT_STRING, "BitString").data)
    told.read(0, "", context=True, parameters=_ATTRIBUTES % "0xc000000000")
    _algorithm(request)
    bit_string(request.read(BIT_STRING, "BitString").data)
    if reader.rest:
        raise syntax_error("trailing data")
    _check_key(algorithm, parameters, bits)
    return _subject(subject.whole)


def _algorithm(reader: Reader) -> tuple[tuple[int, ...], bytes]:
    """The identifier of an algorithm, and its parameters as they stand there."""
    inner = Reader(reader.read(SEQUENCE, "AlgorithmIdentifier").data)
    identifier = object_identifier(inner.read(OID, "ObjectIdentifier").data)
    return identifier, inner.any().whole if inner.rest else b""


def _subject(data: bytes) -> Subject:
    reader = Reader(data)
    sequence = reader.read(SEQUENCE, "RDNSequence")
    if reader.rest:
        raise ASN1Error("x509: trailing data after X.509 Subject")
    common_name, organization = "", []
    for name, text in _names(elements(sequence.data, SET)):
        if name == _COMMON_NAME:
            common_name = text
        if name == _ORGANIZATION:
            organization.append(text)
    return Subject(common_name, tuple(organization))


def _names(sets: Sequence[Value]) -> Iterator[tuple[tuple[int, ...], str]]:
    """The attributes of a name that are strings; all of them are read first."""
    found = []
    for each in sets:
        for attribute in elements(each.data, SEQUENCE):
            reader = Reader(attribute.data)
            name = object_identifier(reader.read(OID, "ObjectIdentifier").data)
            found.append((name, text_of(reader.any())))
    return ((name, text) for name, text in found if text is not None)


_RSA: Final = (1, 2, 840, 113549, 1, 1, 1)
_ECDSA: Final = (1, 2, 840, 10045, 2, 1)
_ED25519: Final = (1, 3, 101, 112)
_COORDINATE_BYTES: Final = {
    (1, 3, 132, 0, 33): 28,
    (1, 2, 840, 10045, 3, 1, 7): 32,
    (1, 3, 132, 0, 34): 48,
    (1, 3, 132, 0, 35): 66,
}
"""The curves that there are, with the size of a coordinate."""


def _check_key(algorithm: tuple[int, ...], parameters: bytes, bits: bytes) -> None:
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
    if modulus is None or not modulus.data:
        raise ASN1Error("x509: invalid RSA modulus")
    exponent = _value(sequence.data[len(modulus.whole) :], INTEGER)
    if exponent is None or not 0 < len(exponent.data) <= 8:
        raise ASN1Error("x509: invalid RSA public exponent")
    if int.from_bytes(modulus.data, signed=True) <= 0:
        raise ASN1Error("x509: RSA modulus is not a positive number")
    if int.from_bytes(exponent.data, signed=True) <= 0:
        raise ASN1Error("x509: RSA public exponent is not a positive number")


def _check_ecdsa(parameters: bytes, bits: bytes) -> None:
    curve = _value(parameters, OID)
    if curve is None:
        raise ASN1Error("x509: invalid ECDSA parameters")
    size = _COORDINATE_BYTES.get(object_identifier(curve.data))
    if size is None:
        raise ASN1Error("x509: unsupported elliptic curve")
    if len(bits) != 1 + 2 * size or bits[0] != 4:
        raise ASN1Error("ecdsa: invalid uncompressed public key")


def _value(data: bytes, tag: int) -> Value | None:
    try:
        return Reader(data).read(tag, "")
    except ASN1Error:
        return None
