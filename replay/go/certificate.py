"""Certificates with RSA keys, as Go writes them to JSON (`crypto/x509.ParseCertificate`).

A malformed or unusual certificate is refused with a reason of our own.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any, Final

from replay.go.asn1 import (
    BIT_STRING,
    BOOLEAN,
    INTEGER,
    OCTET_STRING,
    OID,
    SEQUENCE,
    SET,
    UTC_TIME,
    ASN1Error,
    DERReader,
    DERValue,
    bit_string,
    boolean,
    elements,
    object_identifier,
    text_of,
)

_RSA: Final = (1, 2, 840, 113549, 1, 1, 1)
_AUTHORITY: Final = (1, 3, 6, 1, 5, 5, 7, 1, 1)
_OCSP: Final = (1, 3, 6, 1, 5, 5, 7, 48, 1)
_ISSUERS: Final = (1, 3, 6, 1, 5, 5, 7, 48, 2)
_USAGES: Final = (
    (2, 5, 29, 37, 0),
    *((1, 3, 6, 1, 5, 5, 7, 3, number) for number in range(1, 10)),
    (1, 3, 6, 1, 4, 1, 311, 10, 3, 3),
    (2, 16, 840, 1, 113730, 4, 1),
    (1, 3, 6, 1, 4, 1, 311, 2, 1, 22),
    (1, 3, 6, 1, 4, 1, 311, 61, 1, 1),
)
"""Extended key usages, in the order of Go's constants."""
_NAMES: Final = {
    3: "CommonName",
    5: "SerialNumber",
    6: "Country",
    7: "Locality",
    8: "Province",
    9: "StreetAddress",
    10: "Organization",
    11: "OrganizationalUnit",
    17: "PostalCode",
}
"""Attributes of names below 2.5.4."""
_SINGLE: Final = ("SerialNumber", "CommonName")


class CertificateError(Exception):
    """Bytes that are not a certificate, or one that is not supported here. `str()` is the reason."""


class UnreadKeyError(CertificateError):
    """Certificate whose key is not an RSA key."""


def certificate_fields(data: bytes) -> dict[str, Any]:
    """Return the fields of a DER certificate by their Go names. Raises CertificateError."""
    try:
        return _fields(data)
    except (ASN1Error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise CertificateError(f"the certificate is not read: {error}") from None


def _fields(data: bytes) -> dict[str, Any]:
    outer = DERReader(data)
    whole = outer.read(SEQUENCE, "Certificate")
    if outer.rest:
        raise CertificateError("the certificate is followed by other data")
    reader = DERReader(whole.data)
    signed = reader.read(SEQUENCE, "TBSCertificate")
    reader.any()
    signature = bit_string(reader.read(BIT_STRING, "BitString").data)
    body = DERReader(signed.data)
    # The version is optional: absent in certificates of version 1. Nothing here depends on it.
    if body.rest[:1] == b"\xa0":
        body.any()
    serial = int.from_bytes(body.read(INTEGER, "int").data, signed=True)
    body.any()
    issuer = body.read(SEQUENCE, "RDNSequence")
    validity = DERReader(body.read(SEQUENCE, "validity").data)
    not_before, not_after = _time(validity.any()), _time(validity.any())
    subject = body.read(SEQUENCE, "RDNSequence")
    key = body.read(SEQUENCE, "publicKeyInfo")
    public_key = _public_key(key.data)
    extensions = _extensions(body)
    return {
        "Raw": _base64(whole.encoding),
        "RawTBSCertificate": _base64(signed.encoding),
        "RawSubjectPublicKeyInfo": _base64(key.encoding),
        "RawSubject": _base64(subject.encoding),
        "RawIssuer": _base64(issuer.encoding),
        "Signature": _base64(signature),
        "PublicKeyAlgorithm": 1,
        "PublicKey": public_key,
        "SerialNumber": _int64(serial),
        "Issuer": _name(issuer.data),
        "NotBefore": not_before,
        "NotAfter": not_after,
        "Extensions": [
            {"Id": list(identifier), "Critical": critical, "Value": _base64(value)}
            for identifier, critical, value in extensions
        ]
        or None,
        **_extended({identifier: value for identifier, _, value in extensions}),
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _int64(value: int) -> int:
    """Return the low 64 bits with the sign (`big.Int.Int64`)."""
    low = abs(value) & (2**64 - 1)
    low -= 2**64 if low >= 2**63 else 0
    return -low if value < 0 else low


def _time(value: DERValue) -> str:
    text = value.data.decode("ascii")
    if value.header.tag == UTC_TIME:
        # Two-digit years from 50 on belong to the 20th century (RFC 5280, 4.1.2.5.1).
        text = ("19" if text[:2] >= "50" else "20") + text
    instant = dt.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=dt.UTC)
    # `%Y` does not pad years before 1000.
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")


def _public_key(data: bytes) -> dict[str, Any]:
    reader = DERReader(data)
    algorithm = DERReader(reader.read(SEQUENCE, "AlgorithmIdentifier").data)
    if object_identifier(algorithm.read(OID, "ObjectIdentifier").data) != _RSA:
        raise UnreadKeyError("certificate should use rsa algorithm")
    key = DERReader(DERReader(bit_string(reader.read(BIT_STRING, "BitString").data)).read(SEQUENCE, "key").data)
    modulus, exponent = (int.from_bytes(key.read(INTEGER, "int").data, signed=True) for _ in range(2))
    return {"N": str(modulus), "E": exponent}


def _name(data: bytes) -> dict[str, Any]:
    """Return the fields of a name (`pkix.Name`)."""
    fields: dict[str, Any] = dict.fromkeys(sorted(_NAMES.values()))
    fields |= dict.fromkeys(_SINGLE, "")
    names = []
    for part in elements(data, SET):
        for attribute in elements(part.data, SEQUENCE):
            reader = DERReader(attribute.data)
            identifier = object_identifier(reader.read(OID, "ObjectIdentifier").data)
            text = text_of(reader.any())
            if text is None:
                raise CertificateError("a name of the certificate has a part that is no text")
            names.append({"Type": list(identifier), "Value": text})
            field = _NAMES.get(identifier[3]) if identifier[:3] == (2, 5, 4) and len(identifier) == 4 else None
            if field in _SINGLE:
                fields[field] = text
            elif field is not None:
                fields[field] = [*(fields[field] or ()), text]
    return {**fields, "Names": names or None, "ExtraNames": None}


def _extensions(body: DERReader) -> list[tuple[tuple[int, ...], bool, bytes]]:
    found = []
    while body.rest:
        part = body.any()
        # What else can stand here are unique identifiers of issuer and subject, which Go does not show.
        if part.encoding[:1] != b"\xa3":
            continue
        for each in elements(DERReader(part.data).read(SEQUENCE, "Extensions").data, SEQUENCE):
            reader = DERReader(each.data)
            identifier = object_identifier(reader.read(OID, "ObjectIdentifier").data)
            critical = reader.rest[:1] == bytes([BOOLEAN]) and boolean(reader.read(BOOLEAN, "bool").data)
            found.append((identifier, critical, reader.read(OCTET_STRING, "").data))
    return found


def _extended(extensions: Mapping[tuple[int, ...], bytes]) -> dict[str, Any]:
    """Return the fields that come from extensions.

    Raises CertificateError for extensions that Go decodes but that are not decoded here.
    """
    standard = {identifier[3]: data for identifier, data in extensions.items() if identifier[:3] == (2, 5, 29)}
    if 30 in standard:
        raise CertificateError("certificates with name constraints are not read")
    fields: dict[str, Any] = {
        "KeyUsage": _key_usage(standard[15]) if 15 in standard else 0,
        "ExtKeyUsage": _extended_usages(standard[37]) if 37 in standard else None,
        "AuthorityKeyId": _authority_key(standard[35]) if 35 in standard else None,
        "PolicyIdentifiers": _policies(standard[32]) if 32 in standard else None,
        "CRLDistributionPoints": _revocation_lists(standard[31]) if 31 in standard else None,
        "ExtraExtensions": None,
        "PermittedDNSDomainsCritical": False,
        **_basic(standard.get(19)),
        **_alternative_names(standard.get(17)),
        **_authority_access(extensions.get(_AUTHORITY)),
    }
    for kind in ("DNSDomains", "IPRanges", "EmailAddresses", "URIDomains"):
        fields |= {f"Permitted{kind}": None, f"Excluded{kind}": None}
    return fields


def _sequence(data: bytes) -> DERReader:
    return DERReader(DERReader(data).read(SEQUENCE, "").data)


def _key_usage(data: bytes) -> int:
    value = DERReader(data).read(BIT_STRING, "BitString").data
    bits = "".join(f"{byte:08b}" for byte in value[1:])
    return sum(1 << index for index, bit in enumerate(bits[:9]) if bit == "1")


def _extended_usages(data: bytes) -> list[int] | None:
    found = [object_identifier(each.data) for each in _values(_sequence(data))]
    return [_USAGES.index(each) for each in found if each in _USAGES] or None


def _values(reader: DERReader) -> Iterator[DERValue]:
    while reader.rest:
        yield reader.any()


def _authority_key(data: bytes) -> str | None:
    return next((_base64(each.data) for each in _values(_sequence(data)) if each.encoding[:1] == b"\x80"), None)


def _policies(data: bytes) -> list[list[int]]:
    policies = elements(DERReader(data).read(SEQUENCE, "").data, SEQUENCE)
    return [list(object_identifier(DERReader(each.data).read(OID, "").data)) for each in policies]


def _revocation_lists(data: bytes) -> list[str] | None:
    found = []
    for point in elements(DERReader(data).read(SEQUENCE, "").data, SEQUENCE):
        for name in _values(DERReader(point.data)):
            if name.encoding[:1] == b"\xa0":
                full = DERReader(name.data).any()
                uris = [each for each in _values(DERReader(full.data)) if each.encoding[:1] == b"\x86"]
                found += [each.data.decode("ascii") for each in uris if full.encoding[:1] == b"\xa0"]
    return found or None


def _basic(data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {"BasicConstraintsValid": False, "IsCA": False, "MaxPathLen": 0, "MaxPathLenZero": False}
    reader = _sequence(data)
    is_authority = reader.rest[:1] == bytes([BOOLEAN]) and boolean(reader.read(BOOLEAN, "bool").data)
    # Go writes -1 for "no limit", because 0 is a limit of its own.
    length = int.from_bytes(reader.read(INTEGER, "int").data) if reader.rest else -1
    return {
        "BasicConstraintsValid": True,
        "IsCA": is_authority,
        "MaxPathLen": length,
        "MaxPathLenZero": length == 0,
    }


def _alternative_names(data: bytes | None) -> dict[str, Any]:
    found: dict[str, list[str]] = {"EmailAddresses": [], "DNSNames": [], "IPAddresses": []}
    for each in _values(_sequence(data)) if data is not None else ():
        kind = each.encoding[0]
        if kind == 0x87:
            found["IPAddresses"].append(str(ip_address(each.data)))
        elif kind in (0x81, 0x82):
            found["EmailAddresses" if kind == 0x81 else "DNSNames"].append(each.data.decode("ascii"))
    return {name: names or None for name, names in found.items()}


def _authority_access(data: bytes | None) -> dict[str, Any]:
    found: dict[tuple[int, ...], list[str]] = {_OCSP: [], _ISSUERS: []}
    for each in elements(DERReader(data).read(SEQUENCE, "").data, SEQUENCE) if data is not None else ():
        reader = DERReader(each.data)
        method = object_identifier(reader.read(OID, "").data)
        place = reader.any()
        if method in found and place.encoding[:1] == b"\x86":
            found[method].append(place.data.decode("ascii"))
    return {"OCSPServer": found[_OCSP] or None, "IssuingCertificateURL": found[_ISSUERS] or None}
