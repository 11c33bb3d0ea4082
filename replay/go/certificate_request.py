"""Subject and public key of certificate requests, PKCS #10 (`crypto/x509.ParseCertificateRequest`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from replay.go.asn1 import (
    BIT_STRING,
    BOOLEAN,
    INTEGER,
    OCTET_STRING,
    OID,
    SEQUENCE,
    SET,
    ASN1Error,
    DERReader,
    DERValue,
    bit_string,
    boolean,
    elements,
    integer,
    is_minimal,
    object_identifier,
    syntax_error,
    text_of,
)

_RSA: Final = (1, 2, 840, 113549, 1, 1, 1)
_ECDSA: Final = (1, 2, 840, 10045, 2, 1)
_ED25519: Final = (1, 3, 101, 112)


class _Curve(NamedTuple):
    """Curve `y² = x³ - 3x + b` modulo a prime. `element` is Go's name for a coordinate in its errors."""

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


def _check_public_key(algorithm: tuple[int, ...], parameters: bytes, bits: bytes) -> None:
    """Raise ASN1Error for a public key that Go refuses (`parsePublicKey`)."""
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
    # 4 says that both coordinates follow. Go reads no compressed points here.
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


_COMMON_NAME: Final = (2, 5, 4, 3)
_ORGANIZATION: Final = (2, 5, 4, 10)
_ATTRIBUTES: Final = (
    "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:%s "
    "stringType:0 timeType:0 set:false omitEmpty:false}"
)


class Subject(NamedTuple):
    """Common name, the last of several, and organizations."""

    common_name: str = ""
    organization: tuple[str, ...] = ()


def parse_certificate_request(data: bytes) -> Subject:
    """Return the subject of a DER request. Raises ASN1Error with Go's text."""
    reader = DERReader(data)
    request = DERReader(reader.read(SEQUENCE, "certificateRequest").data)
    info = DERReader(request.read(SEQUENCE, "tbsCertificateRequest").data)
    integer(info.read(INTEGER, "int").data)
    subject = info.any()
    key = DERReader(info.read(SEQUENCE, "publicKeyInfo").data)
    algorithm, parameters = _algorithm(key)
    bits = bit_string(key.read(BIT_STRING, "BitString").data)
    attributes = elements(info.read(0, "", context=True, parameters=_ATTRIBUTES % "0xc000000000").data, -1)
    _algorithm(request)
    bit_string(request.read(BIT_STRING, "BitString").data)
    if reader.rest:
        raise syntax_error("trailing data")
    _check_public_key(algorithm, parameters, bits)
    subject_name = _subject(subject.encoding)
    _check_extensions(attributes)
    return subject_name


def _algorithm(reader: DERReader) -> tuple[tuple[int, ...], bytes]:
    """Return the identifier of an algorithm, and its encoded parameters."""
    inner = DERReader(reader.read(SEQUENCE, "AlgorithmIdentifier").data)
    identifier = object_identifier(inner.read(OID, "ObjectIdentifier").data)
    return identifier, inner.any().encoding if inner.rest else b""


def _subject(data: bytes) -> Subject:
    reader = DERReader(data)
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


def _names(sets: Sequence[DERValue]) -> Iterator[tuple[tuple[int, ...], str]]:
    """Return the string attributes of a name. All attributes are decoded first, so that an error in any counts."""
    names = []
    for each in sets:
        for attribute in elements(each.data, SEQUENCE):
            reader = DERReader(attribute.data)
            name = object_identifier(reader.read(OID, "ObjectIdentifier").data)
            names.append((name, text_of(reader.any())))
    return ((name, text) for name, text in names if text is not None)


_EXTENSIONS: Final = (1, 2, 840, 113549, 1, 9, 14)
_ALTERNATIVE_NAMES: Final = (2, 5, 29, 17)
_IA5_NAMES: Final = {0x81: "rfc822Name", 0x82: "dNSName", 0x86: "uniformResourceIdentifier"}
_ADDRESS: Final = 0x87


def _check_extensions(attributes: Sequence[DERValue]) -> None:
    """Raise ASN1Error for extensions that Go refuses (`parseCSRExtensions`)."""
    identifiers: set[tuple[int, ...]] = set()
    for values in filter(None, map(_requested_extensions, attributes)):
        reader = DERReader(values[0].encoding)
        extensions = [_extension(each.data) for each in elements(reader.read(SEQUENCE, "").data, SEQUENCE)]
        for identifier, value in extensions:
            if identifier in identifiers:
                raise ASN1Error("x509: certificate request contains duplicate requested extensions")
            identifiers.add(identifier)
            if identifier == _ALTERNATIVE_NAMES:
                _check_names(value)


def _requested_extensions(attribute: DERValue) -> list[DERValue]:
    """Return the values of an attribute that requests extensions. There are none for another attribute."""
    try:
        outer = DERReader(attribute.encoding)
        reader = DERReader(outer.read(SEQUENCE, "").data)
        identifier = object_identifier(reader.read(OID, "ObjectIdentifier").data)
        values = elements(reader.read(SET, "").data, -1)
    except ASN1Error:
        return []
    return values if identifier == _EXTENSIONS else []


def _extension(data: bytes) -> tuple[tuple[int, ...], bytes]:
    reader = DERReader(data)
    identifier = object_identifier(reader.read(OID, "ObjectIdentifier").data)
    if reader.rest[:1] == bytes([BOOLEAN]):
        boolean(reader.read(BOOLEAN, "bool").data)
    return identifier, reader.read(OCTET_STRING, "").data


def _check_names(data: bytes) -> None:
    """Raise ASN1Error for malformed alternative names (`parseSANExtension`). URIs are not parsed."""
    try:
        reader = DERReader(DERReader(data).read(SEQUENCE, "").data)
    except ASN1Error:
        raise ASN1Error("x509: invalid subject alternative names") from None
    while reader.rest:
        first = reader.rest[0]
        try:
            name = reader.any()
        except ASN1Error:
            raise ASN1Error("x509: invalid subject alternative name") from None
        if first in _IA5_NAMES and not name.data.isascii():
            raise ASN1Error(f"x509: SAN {_IA5_NAMES[first]} is malformed")
        if first == _ADDRESS and len(name.data) not in (4, 16):
            raise ASN1Error(f"x509: cannot parse IP address of length {len(name.data)}")
