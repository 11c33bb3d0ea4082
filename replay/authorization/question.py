"""A question to a chain, in the form that each member needs.

A webhook gets a SubjectAccessReview. Its match conditions see it too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from urllib.parse import unquote_to_bytes

from replay.go.format import parse_int
from replay.json import JSON
from replay.kube.attributes import UserInfo
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.selector import Requirement, SelectorError, exact_match, parse_field_selector, parse_label_selector

_RESOURCE_FIELDS = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
_FIELD_OPERATORS = {"=": "In", "!=": "NotIn"}
_LABEL_OPERATORS = {
    "=": "In",
    "==": "In",
    "in": "In",
    "!=": "NotIn",
    "notin": "NotIn",
    "exists": "Exists",
    "!": "DoesNotExist",
}


def spec_from_attributes(attributes: AuthorizationAttributes) -> JSON:
    """Return the `spec` that a webhook gets, without empty fields."""
    spec: JSON = {}
    if attributes.is_resource_request:
        spec["resourceAttributes"] = _resource_attributes(attributes)
    else:
        spec["nonResourceAttributes"] = _set({"path": attributes.path, "verb": attributes.verb})
    return {**spec, **user_fields(attributes.user)}


def user_fields(user: UserInfo) -> JSON:
    """Return the fields `user`, `groups`, `uid` and `extra` that are not empty."""
    extra = {key: list(values) for key, values in user.extra.items()}
    return _set({"user": user.username, "groups": list(user.groups), "extra": extra, "uid": user.uid})


def _resource_attributes(attributes: AuthorizationAttributes) -> JSON:
    fields: JSON = {
        "namespace": attributes.namespace,
        "verb": attributes.verb,
        "group": attributes.api_group,
        "version": attributes.api_version,
        "resource": attributes.resource,
        "subresource": attributes.subresource,
        "name": attributes.name,
    }
    if attributes.field_selector:
        fields["fieldSelector"] = _selector(attributes.field_requirements, _FIELD_OPERATORS)
    if attributes.label_selector:
        fields["labelSelector"] = _selector(attributes.label_requirements, _LABEL_OPERATORS)
    return _set(fields)


def _selector(requirements: Sequence[Requirement], operators: dict[str, str]) -> JSON:
    """Return a selector with the requirements whose operator the API knows.

    Other requirements can be left out, because they only narrow a selection.
    """
    terms = [
        {
            "key": each.key,
            "operator": operators[each.operator],
            **({"values": list(each.values)} if each.values else {}),
        }
        for each in requirements
        if each.operator in operators
    ]
    return {"requirements": terms} if terms else {}


def _set(fields: JSON) -> JSON:
    return {name: value for name, value in fields.items() if value}


def _request_variable(spec: JSON, *, field_selector: bool, label_selector: bool) -> JSON:
    """Return the variable `request` of match conditions.

    It has all texts, even empty ones. It has selectors only if a condition names them.
    """
    request: JSON = {
        "user": spec.get("user", ""),
        "groups": spec.get("groups", []),
        "uid": spec.get("uid", ""),
        "extra": spec.get("extra", {}),
    }
    if "resourceAttributes" in spec:
        attributes = spec["resourceAttributes"]
        request["resourceAttributes"] = {name: attributes.get(name, "") for name in _RESOURCE_FIELDS}
        for name, is_shown in (("fieldSelector", field_selector), ("labelSelector", label_selector)):
            if is_shown and name in attributes:
                request["resourceAttributes"][name] = _selector_variable(attributes[name])
    if "nonResourceAttributes" in spec:
        attributes = spec["nonResourceAttributes"]
        request["nonResourceAttributes"] = {name: attributes.get(name, "") for name in ("verb", "path")}
    return request


def _selector_variable(selector: JSON) -> JSON:
    requirements = selector["requirements"]
    return {"requirements": [{**each, "values": each.get("values", [])} for each in requirements]}


_PLACES = {
    "user": "user.username",
    "uid": "user.uid",
    "groups": "user.groups",
    "resourceAttributes.namespace": "namespace",
    "resourceAttributes.verb": "verb",
    "resourceAttributes.group": "api_group",
    "resourceAttributes.version": "api_version",
    "resourceAttributes.resource": "resource",
    "resourceAttributes.subresource": "subresource",
    "resourceAttributes.name": "name",
    "resourceAttributes.fieldSelector": "field_selector",
    "resourceAttributes.labelSelector": "label_selector",
    "nonResourceAttributes.path": "path",
    "nonResourceAttributes.verb": "verb",
}
_EXTRA = "extra"

View = Callable[[AuthorizationAttributes], Hashable]
"""Function that returns the values of some fields of a question."""


class Question:
    """A question, with its SubjectAccessReview spec and the input of conditions. Both are built once for all webhooks."""

    __slots__ = ("_requests", "_spec", "attributes")

    def __init__(self, attributes: AuthorizationAttributes) -> None:
        """Start without a spec. It is built when the first webhook needs it."""
        self.attributes = attributes
        self._spec: JSON = None
        self._requests: dict[tuple[bool, bool], JSON] = {}

    @property
    def spec(self) -> JSON:
        """See `spec_from_attributes`."""
        if self._spec is None:
            self._spec = spec_from_attributes(self.attributes)
        return self._spec

    def request(self, selectors: tuple[bool, bool]) -> JSON:
        """Return the variable `request`, with or without field and label selectors. See `_request_variable`."""
        variable = self._requests.get(selectors)
        if variable is None:
            field_selector, label_selector = selectors
            variable = _request_variable(self.spec, field_selector=field_selector, label_selector=label_selector)
            self._requests[selectors] = variable
        return variable


def view_of(fields: Iterable[str]) -> View:
    """Return a function that takes the values of these fields. Questions with equal values are equal to a reader."""
    names = sorted(fields)
    of_resources, of_paths = (_values(names, kind) for kind in ("resourceAttributes.", "nonResourceAttributes."))

    def view(attributes: AuthorizationAttributes) -> Hashable:
        return (True, of_resources(attributes)) if attributes.is_resource_request else (False, of_paths(attributes))

    return view


def _values(fields: Iterable[str], kind: str) -> View:
    """Return a function that takes the values of those fields that a kind of question has."""
    own = [name for name in fields if name.startswith(kind) or "." not in name]
    places = [_PLACES[name] for name in own if name != _EXTRA]
    # A view is taken of every question, so that it is made of what needs no Python.
    values: View = attrgetter(*places) if places else _nothing
    if _EXTRA not in own:
        return values
    return lambda attributes: (values(attributes), tuple(attributes.user.extra.items()))


def _nothing(attributes: AuthorizationAttributes) -> Hashable:
    del attributes
    return None


# The authorization question of a request, from its verb and URI.
# See `k8s.io/apiserver/pkg/endpoints/request.RequestInfoFactory`. The verb of an event is already that of the request info.
# Everything else is read from the URI and not from `objectRef`, which has names from bodies and lacks selectors.

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
                raise SelectorError(f"`{parameter}` is not an integer")


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
