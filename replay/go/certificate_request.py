"""Certificate requests, PKCS #10 (`crypto/x509.ParseCertificateRequest`), as far as their subject goes.

Of names beside the subject the form is looked at, and URIs are not taken apart.
"""

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
    object_identifier,
    syntax_error,
    text_of,
)
from replay.go.public_key import check_public_key

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
    check_public_key(algorithm, parameters, bits)
    subject_name = _subject(subject.encoding)
    _check_extensions(attributes)
    return subject_name


def _algorithm(reader: DERReader) -> tuple[tuple[int, ...], bytes]:
    """The identifier of an algorithm, and its parameters as they stand there."""
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
    """The attributes of a name that are strings; all of them are read first."""
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
    """Raise ASN1Error for extensions that Go does not read (`parseCSRExtensions`)."""
    identifiers: set[tuple[int, ...]] = set()
    for values in filter(None, map(_asked_extensions, attributes)):
        reader = DERReader(values[0].encoding)
        extensions = [_extension(each.data) for each in elements(reader.read(SEQUENCE, "").data, SEQUENCE)]
        for identifier, value in extensions:
            if identifier in identifiers:
                raise ASN1Error("x509: certificate request contains duplicate requested extensions")
            identifiers.add(identifier)
            if identifier == _ALTERNATIVE_NAMES:
                _check_names(value)


def _asked_extensions(attribute: DERValue) -> list[DERValue]:
    """The values of an attribute that asks for extensions; what is none is passed over."""
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
    """Raise ASN1Error for alternative names that are malformed (`parseSANExtension`); URIs are not taken apart."""
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
