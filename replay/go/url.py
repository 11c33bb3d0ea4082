"""URLs as Go's `net/url` parses them, with its error texts, and paths of `path` (Go 1.26).

Go's strings are bytes. Here a text is handled as a string with one character per byte. Bytes that are not UTF-8 after
unescaping become surrogates (`surrogateescape`).
"""

from __future__ import annotations

import posixpath
import re
import string
from enum import Enum

from msgspec import Struct

from replay.go.format import quote
from replay.go.netip import AddressError, parse_address

_MAX_QUERY_PARAMETERS = 10_000
_ALNUM = string.ascii_letters + string.digits
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.ASCII | re.DOTALL)
_USERINFO = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*", re.ASCII)
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})", re.ASCII)


class URLPart(Enum):
    """Part of a URL, by the characters that it holds unescaped."""

    PATH = "$&+,/:;=@"
    HOST = "!$&'()*+,;=:[]<>\""
    ZONE = "!$&'()*+,;=:[]<>\" "
    USER = "$&+,;="
    QUERY = " "
    FRAGMENT = "$&+,/:;=?@!()*"

    @property
    def plain(self) -> frozenset[str]:
        """Characters that need no escape."""
        return _PLAIN[self]


_PLAIN = {part: frozenset(_ALNUM + "-_.~" + part.value.replace(" ", "")) for part in URLPart}


class URLError(ValueError):
    """Text that is not a URL. `str()` is Go's message."""


def to_bytes(text: str) -> str:
    """Return a text with one character for each of its UTF-8 bytes."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


def from_bytes(text: str) -> str:
    """Return the text of bytes. Invalid UTF-8 becomes surrogates."""
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "surrogateescape")


class ParsedURL(Struct):
    """Parsed URL. Every field has one character per byte. `user` is None if absent."""

    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    password: str | None = None
    host: str = ""
    path: str = ""
    raw_path: str = ""
    raw_query: str = ""
    fragment: str = ""
    raw_fragment: str = ""
    force_query: bool = False
    omit_host: bool = False

    @property
    def hostname(self) -> str:
        """Host without port and brackets."""
        return self._host_and_port()[0]

    @property
    def port(self) -> str:
        """Port, empty if none is given."""
        return self._host_and_port()[1]

    def _host_and_port(self) -> tuple[str, str]:
        host, port = self.host, ""
        name, colon, after = host.rpartition(":")
        if colon and _PORT.fullmatch(colon + after):
            host, port = name, after
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        return host, port

    @property
    def user_info(self) -> str | None:
        """`user:password` as it is written in a URL (`Userinfo.String`), or None without `@`."""
        if self.user is None:
            return None
        return escape(self.user, URLPart.USER) + (
            "" if self.password is None else ":" + escape(self.password, URLPart.USER)
        )

    @property
    def escaped_path(self) -> str:
        """Path as it was written if that is a valid encoding, otherwise escaped anew."""
        if self.raw_path and _is_valid_encoding(self.raw_path, URLPart.PATH):
            return self.raw_path
        return "*" if self.path == "*" else escape(self.path, URLPart.PATH)

    def query(self) -> dict[str, list[str]]:
        """Return the query parameters, without malformed ones."""
        parameters: dict[str, list[str]] = {}
        if self.raw_query.count("&") >= _MAX_QUERY_PARAMETERS:
            return parameters
        for pair in self.raw_query.split("&"):
            if not pair or ";" in pair:
                continue
            key, _, value = pair.partition("=")
            try:
                key, value = unescape(key, URLPart.QUERY), unescape(value, URLPart.QUERY)
            except URLError:
                continue
            parameters.setdefault(key, []).append(value)
        return parameters

    def __str__(self) -> str:
        """Return the URL as text, with one character per byte (`URL.String`)."""
        text = f"{self.scheme}:" if self.scheme else ""
        text += self.opaque or self._authority() + self._path(starts=not (text or self._authority()))
        if self.force_query or self.raw_query:
            text += f"?{self.raw_query}"
        if self.fragment:
            valid = self.raw_fragment and _is_valid_encoding(self.raw_fragment, URLPart.FRAGMENT)
            text += "#" + (self.raw_fragment if valid else escape(self.fragment, URLPart.FRAGMENT))
        return text

    def _authority(self) -> str:
        if not self.host and self.user is None and (self.omit_host or not self.scheme):
            return ""
        text = "//" if self.host or self.path or self.user is not None else ""
        text += "" if self.user_info is None else f"{self.user_info}@"
        return text + escape(self.host, URLPart.HOST)

    def _path(self, *, starts: bool) -> str:
        path = self.escaped_path
        if path and not path.startswith("/") and self.host:
            return f"/{path}"
        return f"./{path}" if starts and ":" in path.partition("/")[0] else path


def parse_request_uri(text: str, *, strict_colons: bool = True) -> ParsedURL:
    """Parse an absolute URL or path without fragment (`url.ParseRequestURI`). Raises URLError.

    Without `strict_colons` the host of an http URL can contain colons, as before Go 1.26 (`GODEBUG=urlstrictcolons=0`).
    """
    try:
        return _parse(to_bytes(text), via_request=True, strict_colons=strict_colons)
    except URLError as error:
        raise URLError(f"parse {quote(text)}: {error}") from None


def parse_url(text: str, *, strict_colons: bool = True) -> ParsedURL:
    """Parse any reference with fragment (`url.Parse`). Raises URLError. For `strict_colons` see `parse_request_uri`."""
    reference, _, fragment = text.partition("#")
    try:
        url = _parse(to_bytes(reference), via_request=False, strict_colons=strict_colons)
    except URLError as error:
        raise URLError(f"parse {quote(reference)}: {error}") from None
    if fragment:
        raw = to_bytes(fragment)
        try:
            url.fragment = unescape(raw, URLPart.FRAGMENT)
        except URLError as error:
            raise URLError(f"parse {quote(text)}: {error}") from None
        url.raw_fragment = "" if escape(url.fragment, URLPart.FRAGMENT) == raw else raw
    return url


def _parse(raw: str, *, via_request: bool, strict_colons: bool) -> ParsedURL:
    if _CONTROL.search(raw):
        raise URLError("net/url: invalid control character in URL")
    if not raw and via_request:
        raise URLError("empty url")
    url = ParsedURL()
    if raw == "*":
        url.path = "*"
        return url
    url.scheme, rest = _split_scheme(raw)
    if rest.endswith("?") and rest.count("?") == 1:
        url.force_query, rest = True, rest[:-1]
    else:
        rest, _, url.raw_query = rest.partition("?")
    if not rest.startswith("/"):
        if url.scheme:
            url.opaque = rest
            return url
        _check_relative(rest, via_request=via_request)
    if rest.startswith("//") and (url.scheme or not (via_request or rest.startswith("///"))):
        authority, slash, tail = rest[2:].partition("/")
        rest = slash + tail
        _set_authority(url, authority, strict_colons=strict_colons)
    elif url.scheme and rest.startswith("/"):
        url.omit_host = True
    url.path = unescape(rest, URLPart.PATH)
    url.raw_path = "" if escape(url.path, URLPart.PATH) == rest else rest
    return url


def _split_scheme(raw: str) -> tuple[str, str]:
    if raw.startswith(":"):
        raise URLError("missing protocol scheme")
    match = _SCHEME.fullmatch(raw)
    return (match[1].lower(), match[2]) if match else ("", raw)


def _check_relative(rest: str, *, via_request: bool) -> None:
    if via_request:
        raise URLError("invalid URI for request")
    if ":" in rest.partition("/")[0]:
        raise URLError("first path segment in URL cannot contain colon")


def _set_authority(url: ParsedURL, authority: str, *, strict_colons: bool) -> None:
    userinfo, at, host = authority.rpartition("@")
    url.host = _parse_host(host, one_colon=strict_colons and url.scheme in ("http", "https"))
    if not at:
        return
    if not _USERINFO.fullmatch(userinfo):
        raise URLError("net/url: invalid userinfo")
    user, colon, password = userinfo.partition(":")
    url.user = unescape(user, URLPart.USER)
    url.password = unescape(password, URLPart.USER) if colon else None


def _parse_host(host: str, *, one_colon: bool) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise URLError("invalid IP-literal")
    if bracket == 0:
        return _parse_ip_literal(host)
    colon = host.find(":")
    if colon != -1:
        _check_port(host[colon if one_colon else host.rfind(":") :])
    return unescape(host, URLPart.HOST)


def _parse_ip_literal(host: str) -> str:
    name, closing, port = host[1:].rpartition("]")
    if not closing:
        raise URLError("missing ']' in host")
    _check_port(port)
    port = unescape(port, URLPart.HOST)
    zone = name.find("%25")
    if zone >= 0:
        name = unescape(name[:zone], URLPart.HOST) + unescape(name[zone:], URLPart.ZONE)
    else:
        name = unescape(name, URLPart.HOST)
    try:
        address = parse_address(from_bytes(name))
    except AddressError as error:
        raise URLError(f"invalid host: {error}") from None
    if address.bits == 32:
        raise URLError("invalid IP-literal")
    return f"[{name}]{port}"


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise URLError(f"invalid port {quote(from_bytes(port))} after host")


def unescape(text: str, part: URLPart) -> str:
    """Return a text without `%` escapes. Raises URLError for an escape or byte that the part does not allow."""
    for match in re.finditer(r"%(?:[0-9a-fA-F]{2})?|[^%]", text, re.ASCII | re.DOTALL):
        _check_unescaped(text, match, part)
    if part is URLPart.QUERY:
        text = text.replace("+", " ")
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def _check_unescaped(text: str, match: re.Match[str], part: URLPart) -> None:
    escape = match[0]
    if escape == "%":
        raise URLError(f"invalid URL escape {quote(from_bytes(text[match.start() : match.start() + 3]))}")
    if escape.startswith("%"):
        byte = chr(int(escape[1:], 16))
        forbidden = (part is URLPart.HOST and byte < "\x80") or (
            part is URLPart.ZONE and byte != " " and byte not in URLPart.HOST.plain
        )
        if escape != "%25" and forbidden:
            raise URLError(f"invalid URL escape {quote(escape)}")
    elif part in (URLPart.HOST, URLPart.ZONE) and escape < "\x80" and escape not in part.plain:
        raise URLError(f"invalid character {quote(escape)} in host name")


def escape(text: str, part: URLPart) -> str:
    """Return a text with `%` escapes for characters that need one."""
    plain = part.plain
    return "".join(char if char in plain else f"%{ord(char):02X}" for char in text)


def _is_valid_encoding(text: str, part: URLPart) -> bool:
    return all(char in "!$&'()*+,;=:@[]%" or char in part.plain for char in text)


def clean_path(path: str) -> str:
    """Return the shortest equivalent path, `.` for an empty one (`path.Clean`)."""
    clean = posixpath.normpath(path)
    # POSIX gives exactly two leading slashes a meaning of their own, Go does not.
    return clean[1:] if clean.startswith("//") else clean
