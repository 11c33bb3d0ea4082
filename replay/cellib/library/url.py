"""URLs in CEL (apiserver `pkg/cel/library/urls.go`, `pkg/cel/url.go`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from replay.cel.declare.cost import ONE
from replay.cel.declare.library import Function, Implementation, Library, overloaded
from replay.cel.value.equality import NO_SUCH_OVERLOAD
from replay.cel.value.types import BOOL, STRING, list_type, map_type, struct_type
from replay.cel.value.values import EvalError, OpaqueValue, Value
from replay.cellib.library.cost import argument_estimate, first_traversal, nominal_cost
from replay.cellib.version import KubernetesVersion
from replay.go.url import ParsedURL, URLError, from_bytes, parse_request_uri, parse_url

URL_TYPE = struct_type("kubernetes.URL")


class URLValue(OpaqueValue):
    """A URL, or an absolute path."""

    __slots__ = ("url",)
    cel_type = URL_TYPE
    go_type = "cel.URL"
    native_go_type = "*url.URL"

    def __init__(self, url: ParsedURL) -> None:
        """`url` is the parsed URL."""
        self.url = url

    def __str__(self) -> str:
        """Return the text of the URL."""
        return from_bytes(str(self.url))

    def equal(self, other: Value) -> bool:
        """Return whether the texts are equal. Raises `EvalError` for a value other than a URL."""
        if not isinstance(other, URLValue):
            raise EvalError(NO_SUCH_OVERLOAD)
        return str(self.url) == str(other.url)


def _parse(text: str, *, strict_colons: bool = True) -> URLValue:
    try:
        # The first knows what a URI is, the second what a fragment is.
        parse_request_uri(text, strict_colons=strict_colons)
        return URLValue(parse_url(text, strict_colons=strict_colons))
    except URLError as error:
        raise EvalError(f"URL parse error during conversion from string: {error}") from None


def _is_url(text: str, *, strict_colons: bool = True) -> bool:
    try:
        parse_request_uri(text, strict_colons=strict_colons)
    except URLError:
        return False
    return True


def _query(value: URLValue) -> dict[str, list[str]]:
    return {from_bytes(key): [*map(from_bytes, values)] for key, values in value.url.query().items()}


def _part(name: str, id_: str, part: Callable[[ParsedURL], str]) -> Function:
    row = (id_, (URL_TYPE,), STRING, lambda value: from_bytes(part(value.url)))
    return overloaded(name, row, member=True, cost=nominal_cost)


def _parsers(parse: Implementation, is_url: Implementation) -> tuple[Function, Function]:
    return (
        overloaded(
            "url",
            ("string_to_url", (STRING,), URL_TYPE, parse),
            cost=first_traversal,
            estimate=argument_estimate(sized=True),
        ),
        overloaded("isURL", ("is_url_string", (STRING,), BOOL, is_url)),
    )


URL = Library(
    name="kubernetes.urls",
    functions=(
        *_parsers(_parse, _is_url),
        _part("getScheme", "url_get_scheme", lambda url: url.scheme),
        _part("getHost", "url_get_host", lambda url: url.host),
        _part("getHostname", "url_get_hostname", lambda url: url.hostname),
        _part("getPort", "url_get_port", lambda url: url.port),
        _part("getEscapedPath", "url_get_escaped_path", lambda url: url.escaped_path),
        overloaded(
            "getQuery",
            ("url_get_query", (URL_TYPE,), map_type(STRING, list_type(STRING)), _query),
            member=True,
            cost=nominal_cost,
        ),
    ),
    equality={URL_TYPE.name: ONE},
)
"""`url`, `isURL` and the members of URLs."""

_UNTIL_1_35 = replace(
    URL,
    functions=(*URL.functions, *_parsers(partial(_parse, strict_colons=False), partial(_is_url, strict_colons=False))),
)


def has_strict_colons(server: KubernetesVersion) -> bool:
    """Return whether a server is built with Go 1.26, which allows no colon in the host of http URLs."""
    return server.minor >= 36


def urls(server: KubernetesVersion) -> Library:
    """Return the library of a server."""
    return URL if has_strict_colons(server) else _UNTIL_1_35
