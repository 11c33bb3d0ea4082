"""Parameter objects of a binding (`policy/generic.CollectParams`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from msgspec import Struct

from replay.cel.value.values import TypedMap
from replay.cellib.activation import TYPED_SINCE
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.json import JSON
from replay.kube.admissionregistration import ParamKind, ParamRef
from replay.kube.attributes import Missing, PartialObject
from replay.kube.discovery import APIResource, Discovery
from replay.kube.engine_policy import ENGINES
from replay.kube.go_object import DecodeError, round_trip
from replay.kube.gvk import GroupVersionKind, GroupVersionResource, split_api_version
from replay.kube.lister import Lister
from replay.kube.schema import Schema, Schemas
from replay.matching.matcher import labels_of
from replay.matching.selectors import MatchSelectorError, Selector, selector_from_label_selector

_CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


class ParamsError(Struct, frozen=True):
    """A policy or binding that is unusable for the request. `message` is the server's text without its prefix."""

    message: str


Params = Sequence[JSON | PartialObject | None]
"""Parameters, one per evaluation, or None if the policy takes none or the binding names none."""

NO_PARAMS: Params = (None,)


def param_kind(kind: ParamKind, discovery: Discovery, lister: Lister) -> APIResource | ParamsError | Missing:
    """Return the resource of a `paramKind`.

    The result is a `ParamsError` if it does not exist, because the whole policy is then misconfigured. A kind that
    discovery lacks may still be a custom one. That is only certain if the CRDs are known. A policy engine makes
    those of its parameters.
    """
    gvk = GroupVersionKind(*split_api_version(kind.api_version), kind.kind)
    api_resource = discovery.of_kind(gvk)
    if api_resource is not None:
        return api_resource
    if any(gvk.group == engine.parameters for engine in ENGINES if engine.parameters):
        return APIResource(
            GroupVersionResource(gvk.group, gvk.version, gvk.kind.lower()), gvk, namespaced=False, custom=True
        )
    crds = lister.list(_CRD, None)
    if isinstance(crds, Missing):
        return Missing("params", f"the kind {kind.api_version} {kind.kind} is not known: {crds.reason}", crds.fix)
    shown = f"{gvk.group}/{gvk.version}, Kind={gvk.kind}"
    return ParamsError(f"failed to find resource referenced by paramKind: '{shown}'")


def collect_params(
    api_resource: APIResource | None,
    param_ref: ParamRef | None,
    namespace: str,
    lister: Lister,
    version: KubernetesVersion = NEWEST,
) -> Params | ParamsError | Missing:
    """Return the parameters of one binding for a request in `namespace` (empty for cluster scope).

    `api_resource` is that of the policy's `paramKind`, None if it has none: then `paramRef` is ignored.
    """
    if api_resource is None or param_ref is None:
        return NO_PARAMS
    # The checks, their order and their texts are those of `generic.CollectParams`.
    if not api_resource.namespaced:
        if param_ref.namespace:
            return ParamsError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        namespace = ""
    else:
        namespace = param_ref.namespace or namespace
        if not namespace:
            text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            return ParamsError(text)
    params = _find(api_resource, param_ref, namespace, lister)
    if isinstance(params, (ParamsError, Missing)):
        return params
    # Without `Deny` the binding is skipped, because there is no parameter to evaluate it with.
    if not params and param_ref.parameter_not_found_action == "Deny":
        return ParamsError("no params found for policy binding with `Deny` parameterNotFoundAction")
    cached = [_as_cached(param, api_resource, version) for param in params]
    return next((param for param in cached if isinstance(param, Missing)), None) or cached


def _find(
    api_resource: APIResource, param_ref: ParamRef, namespace: str, lister: Lister
) -> Sequence[JSON | PartialObject] | ParamsError | Missing:
    """Find parameters by name or selector, or an empty list if there are none."""
    if param_ref.name and param_ref.selector is not None:
        return ParamsError("paramRef.name and paramRef.selector are mutually exclusive")
    if param_ref.name:
        param = lister.get(api_resource.kind, namespace, param_ref.name)
        return param if isinstance(param, Missing) else [] if param is None else [param]
    if param_ref.selector is None:
        return ParamsError("one of name or selector must be provided")
    try:
        selector = selector_from_label_selector(param_ref.selector)
    except MatchSelectorError as error:
        return ParamsError(str(error))
    objects = lister.list(api_resource.kind, namespace if api_resource.namespaced else None)
    return objects if isinstance(objects, Missing) else _select(objects, selector)


def _select(objects: Sequence[JSON | PartialObject], selector: Selector) -> list[JSON | PartialObject] | Missing:
    """Return the objects that a selector matches, or `Missing` if a label that it needs is unknown."""
    selected = []
    # One unknown label makes the whole selection unknown, because the number of evaluations depends on it.
    for obj in objects:
        labels = labels_of(obj)
        if isinstance(labels, Missing):
            return labels
        matched = selector.matches(labels)
        if isinstance(matched, Missing):
            return matched
        if matched:
            selected.append(obj)
    return selected


def _as_cached(
    param: JSON | PartialObject, api_resource: APIResource, version: KubernetesVersion
) -> JSON | PartialObject | Missing:
    """Return the parameter as the server's cache has it, with its kind (`wrappedParam` of the validating dispatcher).

    A built-in kind is decoded into its Go type: unknown and empty fields are dropped, and so is managedFields. A custom
    kind keeps its JSON, decoded once more.
    """
    if isinstance(param, PartialObject):
        return PartialObject(_typed_meta(param.value, api_resource), param.missing)
    schema = None if api_resource.custom else _schema(api_resource.kind)
    if schema is None:
        is_read_again = version.minor >= TYPED_SINCE
        return _typed_meta(as_read_again(param) if is_read_again else param, api_resource)
    try:
        return _typed_meta(round_trip(schema, param), api_resource)
    except DecodeError as error:
        name = (param.get("metadata") or {}).get("name", "")
        reason = f"{api_resource.kind.kind} `{name}` of the snapshot is not valid: {error}"
        return Missing("params", reason, "take the snapshot again")


def _typed_meta(param: JSON, api_resource: APIResource) -> JSON:
    partial: dict[str, Any] = {"apiVersion": api_resource.kind.api_version, "kind": api_resource.kind.kind, **param}
    metadata = partial.get("metadata")
    # The server's informers of built-in kinds drop managedFields (`BuildGenericConfig`, `WithTransform`).
    if not api_resource.custom and isinstance(metadata, dict) and "managedFields" in metadata:
        partial["metadata"] = {name: value for name, value in metadata.items() if name != "managedFields"}
    return partial


def as_read_again(value: JSON) -> JSON:
    """Return JSON after encoding and decoding, as custom resources reach CEL.

    A double without a fraction becomes an int.
    """
    if isinstance(value, dict):
        return {key: as_read_again(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_read_again(item) for item in value]
    # Go writes a double below 1e21 without exponent.
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**63
    return int(value) if is_whole else value


class GoParam(NamedTuple):
    """A parameter as mutations see it: a Go object without apiVersion and kind, which typed caches omit."""

    kind: GroupVersionKind
    value: TypedMap


def go_param(param: JSON | PartialObject | None) -> GoParam | None:
    """Return a parameter of a built-in kind as mutations see it, None for other kinds.

    The mutating dispatcher does not wrap those.
    """
    value = param.value if isinstance(param, PartialObject) else param
    if value is None:
        return None
    kind = GroupVersionKind(*split_api_version(value["apiVersion"]), value["kind"])
    if _schema(kind) is None:
        return None
    bare = {name: part for name, part in value.items() if name not in {"apiVersion", "kind"}}
    struct: Any = PartialObject(bare, param.missing) if isinstance(param, PartialObject) else bare
    return GoParam(kind, TypedMap(struct))


_DYNAMIC = frozenset({"apiextensions.k8s.io", "apiregistration.k8s.io"})
"""Built-in groups without typed informers (client-go `informers/generic.go`).

The server holds their objects as plain JSON.
"""


@cache
def _schemas() -> Schemas:
    return Schemas()


def _schema(kind: GroupVersionKind) -> Schema | None:
    """Return the schema of a kind whose parameters are Go objects, None for other kinds."""
    return None if kind.group in _DYNAMIC else _schemas().for_kind(kind)
