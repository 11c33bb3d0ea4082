"""Functions that read the cluster and other services (`libs/resource`, `globalcontext`, `http`, `imagedata`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from replay.cel.declare.library import Function, Implementation, Library, Overload, VariableDecl
from replay.cel.value.bounds import UndeterminedError
from replay.cel.value.equality import NO_SUCH_OVERLOAD, elements, find, map_keys
from replay.cel.value.types import ANY, BOOL, DYN, STRING, list_type, map_type, opaque_type
from replay.cel.value.values import EvalError, OpaqueValue, Value
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource, split_api_version
from replay.kube.lister import Lister
from replay.kyverno.cel.library.data import as_json
from replay.kyverno.rules.go_value import as_map

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


class _ResourceError(Exception):
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
    except _ResourceError as error:
        raise EvalError(f"failed to get resource: {error}") from None


def _list(resources: _Resources, api_version: str, resource: str, namespace: str, labels: Value = None) -> JSON:
    wanted = {} if labels is None else {key: find(labels, key)[1] for key in map_keys(labels)}
    try:
        return _known(resources.reader.list(api_version, resource, namespace, wanted), resources.answers)
    except _ResourceError as error:
        raise EvalError(f"failed to list resource: {error}") from None


def _post(*_: Value) -> Value:
    raise UndeterminedError("resource.Post: only the API server can answer the call")


def _to_gvr(resources: _Resources, api_version: str, kind: str) -> _ResourceName:
    try:
        found = resources.reader.resource_of(api_version, kind)
    except _ResourceError as error:
        raise EvalError(f"failed to map kind to resource: {error}") from None
    if isinstance(found, Missing):
        raise UndeterminedError(f"{found.path}: {found.reason}")
    return _ResourceName(found)


def _global(context: _GlobalContext, name: str, projection: str = "") -> JSON:
    if context.reader is None:
        raise EvalError(_GLOBAL_REFUSED)
    try:
        return _known(context.reader.global_entry(name, projection), context.answers)
    except _ResourceError as error:
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


def _resource_functions(namespace: str) -> Iterator[Function]:
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
        functions=tuple(_resource_functions(namespace)),
        variables=(
            VariableDecl("resource", _RESOURCE),
            VariableDecl("globalContext", _GLOBAL),
            VariableDecl("http", _HTTP),
            VariableDecl("image", _IMAGE),
        ),
    )


# CEL function `generator.Apply`, which records the objects to create (`libs/generator`).

_GENERATOR = opaque_type("generator.Context")
_OBJECTS = list_type(map_type(STRING, ANY))


class _Generator(OpaqueValue):
    """Value of `generator`. It records objects in order."""

    __slots__ = ("objects",)
    cel_type = _GENERATOR

    def __init__(self, objects: list[JSON]) -> None:
        self.objects = objects

    def equal(self, other: Value) -> bool:
        """Return whether both are the same value."""
        if not isinstance(other, _Generator):
            raise EvalError(NO_SUCH_OVERLOAD)
        return self is other


def generator_binding(objects: list[JSON]) -> Value:
    """Return the value of `generator`, which appends to `objects`."""
    return _Generator(objects)


def _apply(generator: _Generator, namespace: str, objects: Value) -> bool:
    for each in elements(objects):
        obj = as_map(as_json(each))
        items = obj.get("items") if str(obj.get("kind") or "").endswith("List") else None
        for item in items if isinstance(items, list) else [obj]:
            metadata = {**as_map(as_map(item).get("metadata"))}
            if namespace:
                metadata["namespace"] = namespace
            generator.objects.append({**as_map(item), "metadata": metadata})
    return True


def _in(namespace: str) -> Implementation:
    return lambda generator, objects: _apply(generator, namespace, objects)


def generator_library(namespace: str) -> Library:
    """Return the library of `generator`. In a namespaced policy it creates objects only in the policy's namespace."""
    overload = (
        Overload("generator_apply_list", (_GENERATOR, _OBJECTS), BOOL, member=True, implementation=_in(namespace))
        if namespace
        else Overload(
            "generator_apply_string_list", (_GENERATOR, STRING, _OBJECTS), BOOL, member=True, implementation=_apply
        )
    )
    return Library(
        name="kyverno.generator",
        functions=(Function("Apply", (overload,)), Function("apply", (overload,))),
        variables=(VariableDecl("generator", _GENERATOR),),
    )


# Cluster reads of expressions, answered as by the API server or as by Kyverno's CLI.

GlobalEntry = Callable[[str, str], JSON | Missing | None]
"""Function that returns a GlobalContextEntry's value by name and projection, or None if there is no such entry."""


class ListerReader:
    """`replay.kyverno.cel.library.context.Reader` over the objects of a cluster (`pkg/cel/libs/context.go`)."""

    def __init__(self, lister: Lister, discovery: Discovery, global_entry: GlobalEntry) -> None:
        """`discovery` knows the resources of the cluster."""
        self._lister = lister
        self._discovery = discovery
        self._global_entry = global_entry

    def get(self, api_version: str, resource: str, namespace: str, name: str) -> JSON | Missing | None:
        """See `Reader.get`."""
        if "/" in resource:
            return Missing("resource.Get", f"replay does not answer reads of the subresource {resource}")
        found = self._api_resource(api_version, resource)
        return None if found is None else self._lister.get(found.kind, namespace, name)

    def list(self, api_version: str, resource: str, namespace: str, labels: Mapping[str, str]) -> JSON | Missing:
        """See `Reader.list`."""
        found = self._api_resource(api_version, resource)
        if found is None:
            raise _ResourceError("the server could not find the requested resource")
        items = self._lister.list(found.kind, namespace or None)
        if isinstance(items, Missing):
            return items
        kept = [item for item in items if labels.items() <= as_map(_metadata_of(item).get("labels")).items()]
        return {"apiVersion": api_version, "kind": f"{found.kind.kind}List", "metadata": {}, "items": kept}

    def resource_of(self, api_version: str, kind: str) -> GroupVersionResource | Missing:
        """See `Reader.resource_of`."""
        wanted = GroupVersionKind(*split_api_version(api_version), kind)
        resource = next((each.resource for each in self._discovery if each.kind == wanted), None)
        if resource is None:
            raise _ResourceError(f'no matches for kind "{kind}" in version "{api_version}"')
        return resource

    def global_entry(self, name: str, projection: str) -> JSON | Missing:
        """See `Reader.global_entry`."""
        value = self._global_entry(name, projection)
        return value if value is not None else Missing("globalContext", f"GlobalContextEntry `{name}` is not known")

    def _api_resource(self, api_version: str, resource: str) -> APIResource | None:
        return self._discovery.resource(GroupVersionResource(*split_api_version(api_version), resource))


class OfflineReader(ListerReader):
    """Reader as in Kyverno's CLI, which keeps objects by resource and namespace (`pkg/cel/libs/fake_context.go`)."""

    def get(self, api_version: str, resource: str, namespace: str, name: str) -> JSON | Missing | None:
        """See `Reader.get`. There are no subresources."""
        return None if "/" in resource else super().get(api_version, resource, namespace, name)

    def list(
        self,
        api_version: str,
        resource: str,
        namespace: str,
        labels: Mapping[str, str],  # noqa: ARG002 - the CLI does not look at them
    ) -> JSON | Missing:
        """See `Reader.list`. It returns the objects of exactly one namespace, and fails if the resource has no objects."""
        found = self._api_resource(api_version, resource)
        every = self._lister.list(found.kind, None) if found is not None else ()
        if isinstance(every, Missing):
            return every
        if not every:
            group = split_api_version(api_version)[0]
            raise _ResourceError(
                f"{resource}.{group} resource not found" if group else f"{resource} resource not found"
            )
        return {"items": [item for item in every if str(_metadata_of(item).get("namespace") or "") == namespace]}


def _metadata_of(obj: JSON) -> dict[str, Any]:
    return as_map(as_map(obj).get("metadata"))
