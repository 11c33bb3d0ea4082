"""A URL as Go 1.26 parses it (`net/url.Parse`), with its errors."""

from __future__ import annotations

import ipaddress
import re
import string
from dataclasses import dataclass

from replay.go.format import quote

_HEX = frozenset(string.hexdigits)
_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-_.~")
_HOST = _UNRESERVED | frozenset("!$&'()*+,;=:[]<>\"")
_USER_INFO = _UNRESERVED | frozenset("$&+,;=")
_ALLOWED_USER_INFO = _UNRESERVED | frozenset(":!$&'()*+,;=%@")
_PORT = re.compile(r"(?::[0-9]*)?")


class URLError(Exception):
    """The text is no URL; `str()` is Go's wording."""


@dataclass(frozen=True, slots=True)
class URL:
    """The parts that validation looks at; `user_info` is None where there is no `@`."""

    scheme: str = ""
    host: str = ""
    user_info: str | None = None
    raw_query: str = ""
    fragment: str = ""


def parse_url(text: str) -> URL:
    """Parse an absolute or relative URL.

    Raises URLError.
    """
    before, _, fragment = text.partition("#")
    try:
        scheme, host, user_info, raw_query = _parse(before)
    except URLError as error:
        raise URLError(f"parse {quote(before)}: {error}") from error
    try:
        return URL(scheme, host, user_info, raw_query, _unescape(fragment))
    except URLError as error:
        raise URLError(f"parse {quote(text)}: {error}") from error


def _parse(text: str) -> tuple[str, str, str | None, str]:
    if any(character < " " or character == "\x7f" for character in text):
        raise URLError("net/url: invalid control character in URL")
    if text == "*":
        return "", "", None, ""
    scheme, rest = _scheme(text)
    rest, _, raw_query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return scheme, "", None, raw_query
        if ":" in rest.partition("/")[0]:
            raise URLError("first path segment in URL cannot contain colon")
    host, user_info = "", None
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        host, user_info = _authority(scheme, authority)
        rest = slash + path
    _unescape(rest)
    return scheme, host, user_info, raw_query


def _scheme(text: str) -> tuple[str, str]:
    """`(scheme, rest)`: letters, then also digits, `+`, `-`, `.`, up to a colon."""
    if text.startswith(":"):
        raise URLError("missing protocol scheme")
    match = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*):", text)
    return (match[1].lower(), text[match.end() :]) if match else ("", text)


def _authority(scheme: str, authority: str) -> tuple[str, str | None]:
    user_info, at, host = authority.rpartition("@")
    host = _host(scheme, host)
    if not at:
        return host, None
    if not set(user_info) <= _ALLOWED_USER_INFO:
        raise URLError("net/url: invalid userinfo")
    name, colon, password = user_info.partition(":")
    return host, f"{_escaped(_unescape(name))}{colon}{_escaped(_unescape(password))}"


def _host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise URLError("invalid IP-literal")
    if bracket == 0:
        return _ip_literal(host)
    colon = host.find(":") if scheme in ("http", "https") else host.rfind(":")
    if colon >= 0 and not _PORT.fullmatch(host, colon):
        raise URLError(f"invalid port {quote(host[colon:])} after host")
    return _unescape(host, host=True)


def _ip_literal(host: str) -> str:
    """`[address%25zone]:port`; a zone may hold what a host may."""
    end = host.rfind("]")
    if end < 0:
        raise URLError("missing ']' in host")
    port = host[end + 1 :]
    if not _PORT.fullmatch(port):
        raise URLError(f"invalid port {quote(port)} after host")
    address = _unescape(host[1:end], host=True)
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError as error:
        raise URLError(f"invalid host: ParseAddr({quote(address)}): unable to parse IP") from error
    if parsed.version == 4:
        raise URLError("invalid IP-literal")
    return f"[{address}]{port}"


def _unescape(text: str, *, host: bool = False) -> str:
    """Percent escapes resolved; in a host only bytes beyond ASCII and the percent sign may be escaped."""
    data, at = bytearray(), 0
    while at < len(text):
        character = text[at]
        if character == "%":
            digits = text[at + 1 : at + 3]
            if len(digits) < 2 or not set(digits) <= _HEX:
                raise URLError(f"invalid URL escape {quote(text[at : at + 3])}")
            if host and int(digits[0], 16) < 8 and digits != "25":
                raise URLError(f"invalid URL escape {quote(text[at : at + 3])}")
            data.append(int(digits, 16))
            at += 3
            continue
        if host and character < "\x80" and character not in _HOST:
            raise URLError(f"invalid character {quote(character)} in host name")
        data += character.encode("utf-8", errors="surrogateescape")
        at += 1
    return data.decode("utf-8", errors="surrogateescape")


def _escaped(text: str) -> str:
    return "".join(
        character
        if character in _USER_INFO
        else "".join(f"%{byte:02X}" for byte in character.encode("utf-8", errors="surrogateescape"))
        for character in text
    )
