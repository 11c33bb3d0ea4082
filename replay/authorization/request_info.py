"""The authorization question of a request, from its verb and URI.

See `k8s.io/apiserver/pkg/endpoints/request.RequestInfoFactory`. The verb of an event is already that of the request
info. Everything else is read from the URI and not from `objectRef`, which has names from bodies and lacks selectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote_to_bytes

from replay.go.format import parse_int
from replay.kube.attributes import UserInfo
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.selector import SelectorError, exact_match, parse_field_selector, parse_label_selector

_VERBS_IN_PATH = frozenset(["proxy", "watch"])
_NAMESPACE_SUBRESOURCES = frozenset(["status", "finalize"])
_VERBS_WITH_SELECTORS = frozenset(["list", "watch", "deletecollection"])
_VERBS_WITH_NAME_SELECTOR = frozenset(["list", "watch"])
_INTEGER_PARAMETERS = ("limit", "timeoutSeconds")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_NO_TEXT = re.compile("[\ud800-\udfff]")
_MAX_QUERY_PARAMETERS = 10_000

Query = dict[str, list[str]]


def attributes_from_uri(user: UserInfo, verb: str, uri: str) -> AuthorizationAttributes:
    """Return the authorization question of a request. `uri` is the path and query that the client sent."""
    raw_path, _, raw_query = uri.partition("?")
    path = _unescaped(raw_path)
    parts = path.strip("/").split("/")
    group, rest = _resource_parts(parts)
    if rest is None:
        return AuthorizationAttributes(user, verb, path=path, resource_request=False)
    version, verb_in_path, rest = rest[0], rest[1] in _VERBS_IN_PATH, rest[1:]
    if verb_in_path:
        rest = rest[1:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 1:
        namespace = rest[1]
        # `namespaces/<name>/pods` is about pods, but `namespaces/<name>/status` is about the namespace itself.
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    query = _query(raw_query) if raw_query and not verb_in_path and verb in _VERBS_WITH_SELECTORS else {}
    if not name and verb in _VERBS_WITH_NAME_SELECTOR:
        name = _selected_name(query)
    return AuthorizationAttributes(
        user,
        verb,
        path=path,
        api_group=group,
        resource=rest[0] if rest else "",
        subresource=rest[2] if len(rest) > 2 and verb != "proxy" else "",
        namespace=namespace,
        name=name,
        field_selector=query.get("fieldSelector", [""])[0],
        label_selector=query.get("labelSelector", [""])[0],
        api_version=version,
        resource_request=True,
    )


def _resource_parts(parts: Sequence[str]) -> tuple[str, list[str] | None]:
    """Return `(group, [version, …])` of a resource path. The list is None for any other path."""
    if len(parts) >= 3 and parts[0] == "api":
        return "", list(parts[1:])
    if len(parts) >= 4 and parts[0] == "apis":
        return parts[1], list(parts[2:])
    return "", None


def _selected_name(query: Query) -> str:
    """Return `metadata.name` of the field selector, or "" if the server cannot decode the list options."""
    try:
        _check_list_options(query)
        requirements = parse_field_selector(query.get("fieldSelector", [""])[0])
    except SelectorError:
        return ""
    name = exact_match(requirements, "metadata.name")
    # The server ignores names that cannot be part of a path (`IsValidPathSegmentName`).
    is_segment = name is not None and name not in (".", "..") and "/" not in name and "%" not in name
    return name if name is not None and is_segment else ""


def _check_list_options(query: Query) -> None:
    """Raise SelectorError if a parameter cannot be converted to a field of `ListOptions`."""
    if query.get("labelSelector"):
        parse_label_selector(query["labelSelector"][0])
    for parameter in _INTEGER_PARAMETERS:
        for text in query.get(parameter, [])[:1]:
            if parse_int(text) is None:
                raise SelectorError(f"`{parameter}` is no integer")


def _query(text: str) -> Query:
    """Return the parameters of a query, without malformed ones (`url.Values`)."""
    parameters: Query = {}
    pairs = text.split("&")
    # Go's `url.ParseQuery` gives up on a query with more parameters, and returns none of them.
    if len(pairs) > _MAX_QUERY_PARAMETERS:
        return parameters
    for key, value in _well_formed(pairs):
        parameters.setdefault(key, []).append(value)
    return parameters


def _well_formed(pairs: Iterable[str]) -> Iterable[tuple[str, str]]:
    for pair in pairs:
        if pair and ";" not in pair and not _BAD_ESCAPE.search(pair):
            key, _, value = pair.partition("=")
            yield _unescaped(key.replace("+", " ")), _unescaped(value.replace("+", " "))


def _unescaped(text: str) -> str:
    """Return a part of a URL without escapes.

    Bytes that are not UTF-8 become U+FFFD one by one, as in Go's JSON encoder.
    """
    if "%" not in text:
        return text
    return _NO_TEXT.sub("\ufffd", unquote_to_bytes(text).decode("utf-8", "surrogateescape"))
