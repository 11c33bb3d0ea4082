"""Cluster data that policies read: namespaces, ConfigMaps, roles and results of API calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from replay.cel.value.timestamp import Timestamp
from replay.go.time import GoTime
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject, UserInfo
from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import Lister, span_of
from replay.kube.selector import SelectorError, parse_field_selector, parse_label_selector
from replay.kyverno.rules.go_value import as_map, with_floats
from replay.kyverno.rules.jmespath.library import Library
from replay.kyverno.rules.match import Requester, texts_of
from replay.kyverno.rules.response import UndeterminedError

# Time of a policy evaluation. In a log it lies between the arrival of the request and its response.

_SECOND: Final = 10**9
_LAST: Final = 253_402_300_799 * _SECOND
"""End of the year 9999, in nanoseconds. A later time counts as unknown."""
_NO_TIME: Final = "the time of the request is not known"
_Answer = TypeVar("_Answer")


class Moment:
    """Clock of a set's policies. It is set for each request."""

    def __init__(self) -> None:
        """Start without a time."""
        self._lister: Lister | None = None
        self._is_end = False
        self._was_read = False

    def __call__(self) -> GoTime:
        """Return the time for ClusterPolicies. Raises UndeterminedError if it is unknown."""
        self._was_read = True
        nanoseconds = self._nanoseconds()
        if nanoseconds is None:
            raise UndeterminedError(_NO_TIME)
        return GoTime(nanoseconds)

    def timestamp(self) -> Timestamp | Missing:
        """Return the time for CEL policies."""
        nanoseconds = self._nanoseconds()
        if nanoseconds is None:
            return Missing("time.now()", _NO_TIME)
        return Timestamp(nanoseconds // _SECOND, nanoseconds % _SECOND)

    def decide(self, lister: Lister, decide: Callable[[], _Answer], *, may_read: bool) -> _Answer | Missing:
        """Return the decision if it is the same at the start and at the end of the request, otherwise `Missing`.

        `may_read` says that policies may read the time in a way that this clock does not notice.
        """
        first = self.begin(lister, decide)
        if not (self._was_read or may_read):
            return first
        start, end = _span(lister)
        if start == end or self._at(lister, decide, is_end=True) == first:
            return first
        return Missing("webhook", "it depends on the exact time of the request")

    def begin(self, lister: Lister, decide: Callable[[], _Answer]) -> _Answer:
        """Return the decision at the start of a request."""
        return self._at(lister, decide, is_end=False)

    def _nanoseconds(self) -> int | None:
        return None if self._lister is None else _span(self._lister)[self._is_end]

    def _at(self, lister: Lister, decide: Callable[[], _Answer], *, is_end: bool) -> _Answer:
        self._lister, self._is_end, self._was_read = lister, is_end, False
        try:
            return decide()
        finally:
            self._lister = None


def _span(lister: Lister) -> tuple[int | None, int | None]:
    span = span_of(lister)
    if span is None:
        return None, None
    start, end = span[0] * 1000, span[1] * 1000
    return (start, max(start, end)) if start > 0 and end <= _LAST else (None, None)


_NAMESPACE = GroupVersionKind("", "v1", "Namespace")
_CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
_ROLE_BINDING = GroupVersionKind("rbac.authorization.k8s.io", "v1", "RoleBinding")
_CLUSTER_ROLE_BINDING = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding")


class ListedCluster:
    """`replay.kyverno.rules.context.ClusterReads` over the objects of a lister."""

    def __init__(self, lister: Lister, discovery: Discovery, entries: Sequence[JSON], library: Library) -> None:
        """Read the GlobalContextEntries of `entries`."""
        self._lister = lister
        self._discovery = discovery
        self._entries = {str(each["metadata"]["name"]): as_map(each.get("spec")) for each in entries}
        self._library = library

    def namespace(self, name: str) -> JSON:
        """Return a Namespace, or None if it does not exist. Raises UndeterminedError if that is unknown."""
        return known(self._lister.get(_NAMESPACE, "", name), f"namespace {name}")

    def config_map(self, namespace: str, name: str) -> JSON | Missing | None:
        """See `ClusterReads.config_map`."""
        return _object_or_unknown(self._lister.get(_CONFIG_MAP, namespace, name))

    def get_path(self, path: str) -> JSON | Missing | None:
        """See `ClusterReads.get_path`. The answer comes from known objects, without a call."""
        url = urlsplit(path)
        parts = [unquote(part) for part in url.path.split("/") if part]
        if parts[:1] == ["api"] and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[:1] == ["apis"] and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return Missing("apiCall", "the URL path of the call is not that of a resource")
        namespace = None
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        if len(rest) > 2:
            return Missing("apiCall", "replay does not answer calls to subresources")
        resource = self._discovery.resource(GroupVersionResource(group, version, rest[0]))
        if resource is None:
            return None
        query = parse_qsl(url.query, keep_blank_values=True)
        if len(rest) == 2:
            found = _object_or_unknown(self._lister.get(resource.kind, namespace or "", rest[1]))
            return Missing("apiCall", "replay does not answer calls with query parameters") if query else found
        return self._listed(resource, namespace, query)

    def _listed(self, resource: APIResource, namespace: str | None, query: Sequence[tuple[str, str]]) -> JSON | Missing:
        kind = resource.kind
        listed = self._items(kind, namespace)
        if isinstance(listed, Missing):
            return listed
        selected = _selected(listed, query)
        if isinstance(selected, Missing):
            return selected
        listed = selected
        items = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in listed]
        version = f"{kind.group}/{kind.version}" if kind.group else kind.version
        return {"kind": f"{kind.kind}List", "apiVersion": version, "metadata": {}, "items": items}

    def global_entry(self, name: str, projection: str) -> JSON | Missing | None:
        """See `ClusterReads.global_entry`."""
        spec = self._entries.get(name)
        if spec is None:
            return None
        selected = spec.get("kubernetesResource")
        if selected is None:
            return Missing("globalReference", "the GlobalContextEntry calls an API")
        resource = GroupVersionResource(
            selected.get("group") or "", selected.get("version") or "", selected.get("resource") or ""
        )
        found = self._discovery.resource(resource)
        if found is None:
            return Missing("globalReference", "the resource of the GlobalContextEntry is not known")
        items = self._items(found.kind, selected.get("namespace") or None)
        if isinstance(items, Missing) or not projection:
            return items
        wanted = next((each for each in spec.get("projections") or () if each.get("name") == projection), None)
        if wanted is None:
            return None
        return self._library.query(str(wanted.get("jmesPath") or "")).search(with_floats(items))

    def _items(self, kind: GroupVersionKind, namespace: str | None) -> list[JSON] | Missing:
        """Return all objects of a kind, `Missing` if one is partly unknown."""
        listed = self._lister.list(kind, namespace)
        if isinstance(listed, Missing):
            return listed
        items = [_object_or_unknown(each) for each in listed]
        return next((each for each in items if isinstance(each, Missing)), items)


_FIELDS = frozenset({"metadata.name", "metadata.namespace"})
"""Field selectors that the API server supports for every kind."""


def _selected(items: Sequence[JSON], query: Sequence[tuple[str, str]]) -> list[JSON] | Missing:
    """Return the objects that the selectors of a list request select, or `Missing` for any other query parameter."""
    selected = list(items)
    for name, text in query:
        try:
            if name == "labelSelector":
                labels = parse_label_selector(text)
                selected = [each for each in selected if all(term.matches(texts_of(each, "labels")) for term in labels)]
            elif name == "fieldSelector":
                terms = parse_field_selector(text)
                if any(term.key not in _FIELDS for term in terms):
                    return Missing("apiCall", f"replay does not answer lists with the field selector `{text}`")
                selected = [each for each in selected if all(term.matches(_fields(each)) for term in terms)]
            else:
                return Missing("apiCall", f"replay does not answer lists with the parameter `{name}`")
        except SelectorError:
            return Missing("apiCall", f"the API server does not accept `{name}={text}`")
    return selected


def _fields(obj: JSON) -> Mapping[str, str]:
    metadata = as_map(obj.get("metadata"))
    return {f"metadata.{name}": str(metadata.get(name) or "") for name in ("name", "namespace")}


def known(value: JSON | Missing | PartialObject | None, name: str) -> JSON:
    """Return a completely known object, or None if it does not exist. Raises UndeterminedError if it is unknown."""
    value = _object_or_unknown(value)
    if isinstance(value, Missing):
        raise UndeterminedError(f"{name}: {value.reason}")
    return value


def _object_or_unknown(value: JSON | Missing | PartialObject | None) -> JSON | Missing | None:
    """Return an object, or its first unknown part."""
    return value.missing[0] if isinstance(value, PartialObject) else value


def requester_of(request: Mapping[str, Any], lister: Lister, *, reads_roles: bool = True) -> Requester:
    """Return the user of a request, with roles from bindings if a policy reads roles (`pkg/userinfo`)."""
    user = as_map(request.get("userInfo"))
    info = UserInfo(str(user.get("username") or ""), "", tuple(user.get("groups") or ()))
    namespace = str(request.get("namespace") or "")
    if not reads_roles:
        return Requester(info.username, info.groups)
    bindings, cluster_bindings = lister.list(_ROLE_BINDING, None), lister.list(_CLUSTER_ROLE_BINDING, None)
    if isinstance(bindings, Missing) or isinstance(cluster_bindings, Missing):
        reasons = [each.reason for each in (bindings, cluster_bindings) if isinstance(each, Missing)]
        return Requester(info.username, info.groups, unknown=f"the roles of the user are not known: {reasons[0]}")
    roles: set[str] = set()
    cluster_roles: set[str] = set()
    for binding in map(_certain, bindings):
        own = str(binding["metadata"].get("namespace") or "")
        if not _is_bound(binding, info, own):
            continue
        reference = as_map(binding.get("roleRef"))
        if reference.get("kind") == "Role":
            roles.add(f"{own}:{reference.get('name')}")
        elif reference.get("kind") == "ClusterRole" and own == namespace:
            cluster_roles.add(str(reference.get("name")))
    for binding in map(_certain, cluster_bindings):
        reference = as_map(binding.get("roleRef"))
        if reference.get("kind") == "ClusterRole" and _is_bound(binding, info, ""):
            cluster_roles.add(str(reference.get("name")))
    return Requester(info.username, info.groups, tuple(sorted(roles)), tuple(sorted(cluster_roles)))


def _certain(binding: JSON | PartialObject) -> JSON:
    return known(binding, "a binding of roles")


def _is_bound(binding: JSON, user: UserInfo, namespace: str) -> bool:
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), str(subject.get("name") or "")
        if kind == "ServiceAccount":
            home = subject.get("namespace") or namespace
            if home and user.username == f"system:serviceaccount:{home}:{name}":
                return True
        elif (kind == "User" and name == user.username) or (kind == "Group" and name in user.groups):
            return True
    return False
