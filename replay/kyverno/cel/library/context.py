"""Functions that read the cluster and other services (`libs/resource`, `globalcontext`, `http`, `imagedata`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from replay.cel.declare.library import Function, Implementation, Library, Overload, VariableDecl
from replay.cel.value.bounds import UndeterminedError
from replay.cel.value.equality import NO_SUCH_OVERLOAD, find, map_keys
from replay.cel.value.types import ANY, DYN, STRING, map_type, opaque_type
from replay.cel.value.values import EvalError, OpaqueValue, Value
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.gvk import GroupVersionResource

_RESOURCE, _GVR = opaque_type("resource.Context"), opaque_type("schema.GroupVersionResource")
_GLOBAL, _HTTP, _IMAGE = (
    opaque_type("globalcontext.Context"),
    opaque_type("http.Context"),
    opaque_type("imagedata.Context"),
)
_OBJECT = map_type(STRING, ANY)
_TEXTS = map_type(STRING, STRING)
_HTTP_REFUSED = (
    "request failed: http calls are not allowed in namespaced policies: set --allowHTTPInNamespacedPolicies to enable"
)
_GLOBAL_REFUSED = "failed to get global reference: globalContext.* is not allowed in namespaced policies"


class ResourceError(Exception):
    """Refusal of the API server. `str()` is its message."""


class Reader(Protocol):
    """Reader of the cluster at the time of a request. Anything unknown is `Missing`."""

    def get(self, api_version: str, resource: str, namespace: str, name: str) -> JSON | Missing | None:
        """Return an object, or None if it does not exist. Raises ResourceError."""
        ...

    def list(self, api_version: str, resource: str, namespace: str, labels: Mapping[str, str]) -> JSON | Missing:
        """Return the list of objects with these labels. An empty namespace means all namespaces. Raises ResourceError."""
        ...

    def resource_of(self, api_version: str, kind: str) -> GroupVersionResource | Missing:
        """Return the resource of a kind. Raises ResourceError."""
        ...

    def global_entry(self, name: str, projection: str) -> JSON | Missing:
        """Return the value of a GlobalContextEntry. Raises ResourceError."""
        ...


class _Receiver(OpaqueValue):
    """Value that functions are called on. It is equal only to itself."""

    __slots__ = ()

    def equal(self, other: Value) -> bool:
        """Return whether both are the same value."""
        if not isinstance(other, type(self)):
            raise EvalError(NO_SUCH_OVERLOAD)
        return self is other


class _Resources(_Receiver):
    """Value of `resource`. It records what it reads in `answers`."""

    __slots__ = ("answers", "reader")
    cel_type = _RESOURCE

    def __init__(self, reader: Reader, answers: list[JSON]) -> None:
        self.reader = reader
        self.answers = answers


class _GlobalContext(_Receiver):
    """Value of `globalContext`. `reader` is None for a namespaced policy, which may not use it."""

    __slots__ = ("answers", "reader")
    cel_type = _GLOBAL

    def __init__(self, reader: Reader | None, answers: list[JSON]) -> None:
        self.reader = reader
        self.answers = answers


class _RefusedHTTP(_Receiver):
    """Value of `http` for a namespaced policy, which may not use it."""

    __slots__ = ()
    cel_type = _HTTP


class _ResourceName(OpaqueValue):
    """Resource of a kind, as `toGVR` returns it."""

    __slots__ = ("resource",)
    cel_type = _GVR

    def __init__(self, resource: GroupVersionResource) -> None:
        self.resource = resource

    @property
    def api_version(self) -> str:
        """Group and version, as in `apiVersion`."""
        return f"{self.resource.group}/{self.resource.version}" if self.resource.group else self.resource.version

    def equal(self, other: Value) -> bool:
        """Return whether both are the same resource."""
        return isinstance(other, _ResourceName) and self.resource == other.resource


def context_bindings(reader: Reader, namespace: str, answers: list[JSON]) -> dict[str, Value]:
    """Return the values of `resource`, `globalContext`, `http` and `image` for a policy.

    `namespace` is empty for cluster-wide policies. What is read is appended to `answers`.
    """
    return {
        "resource": _Resources(reader, answers),
        "globalContext": _GlobalContext(None if namespace else reader, answers),
        "http": _RefusedHTTP() if namespace else Missing("http", "an external service answers the call"),
        "image": Missing("image", "the image registry answers `getMetadata`"),
    }


def _known(value: JSON | Missing, answers: list[JSON]) -> JSON:
    if isinstance(value, Missing):
        raise UndeterminedError(f"{value.path}: {value.reason}")
    answers.append(value)
    return value


def _get(resources: _Resources, api_version: str, resource: str, namespace: str, name: str) -> JSON:
    try:
        return _known(resources.reader.get(api_version, resource, namespace, name), resources.answers)
    except ResourceError as error:
        raise EvalError(f"failed to get resource: {error}") from None


def _list(resources: _Resources, api_version: str, resource: str, namespace: str, labels: Value = None) -> JSON:
    wanted = {} if labels is None else {key: find(labels, key)[1] for key in map_keys(labels)}
    try:
        return _known(resources.reader.list(api_version, resource, namespace, wanted), resources.answers)
    except ResourceError as error:
        raise EvalError(f"failed to list resource: {error}") from None


def _post(*_: Value) -> Value:
    raise UndeterminedError("resource.Post: only the API server can answer the call")


def _to_gvr(resources: _Resources, api_version: str, kind: str) -> _ResourceName:
    try:
        found = resources.reader.resource_of(api_version, kind)
    except ResourceError as error:
        raise EvalError(f"failed to map kind to resource: {error}") from None
    if isinstance(found, Missing):
        raise UndeterminedError(f"{found.path}: {found.reason}")
    return _ResourceName(found)


def _global(context: _GlobalContext, name: str, projection: str = "") -> JSON:
    if context.reader is None:
        raise EvalError(_GLOBAL_REFUSED)
    try:
        return _known(context.reader.global_entry(name, projection), context.answers)
    except ResourceError as error:
        raise EvalError(f"failed to get global reference: {error}") from None


def _http(*_: Value) -> Value:
    raise EvalError(_HTTP_REFUSED)


def _client(context: _RefusedHTTP, bundle: str) -> _RefusedHTTP:
    if "-----BEGIN CERTIFICATE-----" not in bundle:
        raise EvalError("request failed: failed to parse PEM CA bundle for APICall")
    return context


def _metadata(*_: Value) -> Value:
    raise UndeterminedError("image.getMetadata: only the image registry can answer the call")


def _functions(name: str, *overloads: Overload) -> Iterator[Function]:
    """Yield a function under its old name and under the new name, which begins with a lower-case letter."""
    for spelt, suffix in ((name, "pascal"), (name[0].lower() + name[1:], "camel")):
        yield Function(
            spelt,
            tuple(
                Overload(f"{each.id}_{suffix}", each.args, each.result, member=True, implementation=each.implementation)
                for each in overloads
            ),
        )


def _of_resources(namespace: str) -> Iterator[Function]:
    """Yield the functions of `resource`. In a namespaced policy they read only its namespace."""
    place = () if namespace else (STRING,)

    def placed(body: Implementation, before: int) -> Implementation:
        """Return an implementation that passes the policy's namespace after `before` arguments."""
        if not namespace:
            return body
        return lambda *args: body(*args[:before], namespace, *args[before:])

    def named(body: Implementation) -> Implementation:
        """Return an implementation that takes the resource as one `toGVR` value, after the receiver."""
        placed_body = placed(body, 3)
        return lambda context, gvr, *args: placed_body(context, gvr.api_version, gvr.resource.resource, *args)

    texts, gvr = (_RESOURCE, STRING, STRING, *place), (_RESOURCE, _GVR, *place)
    listed, got = placed(_list, 3), placed(_get, 3)
    yield from _functions(
        "List",
        Overload("resource_list_string_string", texts, _OBJECT, implementation=listed),
        Overload("resource_list_string_string_map", (*texts, _TEXTS), _OBJECT, implementation=listed),
        Overload("list_resources_gvr", gvr, _OBJECT, implementation=named(_list)),
        Overload("list_resources_gvr_map", (*gvr, _TEXTS), _OBJECT, implementation=named(_list)),
    )
    yield from _functions(
        "Get",
        Overload("resource_get_string_string_string", (*texts, STRING), _OBJECT, implementation=got),
        Overload("resource_get_gvr_string", (*gvr, STRING), _OBJECT, implementation=named(_get)),
        Overload("globalcontext_get_string", (_GLOBAL, STRING), DYN, implementation=_global),
        Overload("globalcontext_get_string_string", (_GLOBAL, STRING, STRING), DYN, implementation=_global),
        Overload("http_get_string", (_HTTP, STRING), ANY, implementation=_http),
        Overload("http_get_string_headers", (_HTTP, STRING, _TEXTS), ANY, implementation=_http),
    )
    posts = [Overload("resource_post_string_string_map", (*texts, _OBJECT), _OBJECT, implementation=_post)]
    if not namespace:
        cluster = (_RESOURCE, STRING, STRING, _OBJECT)
        posts.append(Overload("resource_post_string_string_cluster_map", cluster, _OBJECT, implementation=_post))
    yield from _functions(
        "Post",
        *posts,
        Overload("http_post_string_any", (_HTTP, STRING, ANY), ANY, implementation=_http),
        Overload("http_post_string_any_headers", (_HTTP, STRING, ANY, _TEXTS), ANY, implementation=_http),
    )
    yield from _functions(
        "ToGVR",
        Overload("convert_to_gvr_string_string", (_RESOURCE, STRING, STRING), _GVR, implementation=_to_gvr),
    )
    yield from _functions("Client", Overload("http_client_string", (_HTTP, STRING), _HTTP, implementation=_client))
    yield from _functions(
        "GetMetadata", Overload("imagedata_get_string", (_IMAGE, STRING), DYN, implementation=_metadata)
    )


def context_library(namespace: str) -> Library:
    """Return the library of `resource`, `globalContext`, `http` and `image`.

    `namespace` is empty for cluster-wide policies.
    """
    return Library(
        name="kyverno.context",
        functions=tuple(_of_resources(namespace)),
        variables=(
            VariableDecl("resource", _RESOURCE),
            VariableDecl("globalContext", _GLOBAL),
            VariableDecl("http", _HTTP),
            VariableDecl("image", _IMAGE),
        ),
    )
