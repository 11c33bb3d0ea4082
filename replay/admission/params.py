"""The parameter objects of a binding (`policy/generic.CollectParams`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from replay.json import JSON
from replay.kube.admissionregistration import ParamKind, ParamRef
from replay.kube.attributes import Missing, PartialObject
from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupVersionKind, split_api_version
from replay.kube.lister import Lister
from replay.matching.matcher import labels_of
from replay.matching.selectors import Selector, SelectorError, selector_from_label_selector

_CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


@dataclass(frozen=True, slots=True)
class ConfigurationError:
    """A policy or binding cannot be used for the request; `message` is the server's text without its prefix."""

    message: str


Params = Sequence[JSON | PartialObject | None]
"""One evaluation for each; None where the policy takes no parameters or the binding names none."""

NO_PARAMS: Params = (None,)


def param_kind(kind: ParamKind, discovery: Discovery, lister: Lister) -> APIResource | ConfigurationError | Missing:
    """The resource of a `paramKind`; without it the whole policy is misconfigured.

    A kind that nothing here knows may still be a custom one: that is decided only where the CRDs are known.
    """
    gvk = GroupVersionKind(*split_api_version(kind.api_version), kind.kind)
    api_resource = discovery.of_kind(gvk)
    if api_resource is not None:
        return api_resource
    crds = lister.list(_CRD, None)
    if isinstance(crds, Missing):
        return Missing("params", f"the kind {kind.api_version} {kind.kind} is not known: {crds.reason}", crds.fix)
    shown = f"{gvk.group}/{gvk.version}, Kind={gvk.kind}"
    return ConfigurationError(f"failed to find resource referenced by paramKind: '{shown}'")


def collect_params(
    api_resource: APIResource | None, param_ref: ParamRef | None, namespace: str, lister: Lister
) -> Params | ConfigurationError | Missing:
    """The parameters for one binding and a request in `namespace` (empty for cluster scope).

    `api_resource` is that of the policy's `paramKind`, None if it has none: then `paramRef` is ignored.
    """
    if api_resource is None or param_ref is None:
        return NO_PARAMS
    if not api_resource.namespaced:
        if param_ref.namespace:
            return ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        namespace = ""
    else:
        namespace = param_ref.namespace or namespace
        if not namespace:
            text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            return ConfigurationError(text)
    params = _find(api_resource, param_ref, namespace, lister)
    if isinstance(params, (ConfigurationError, Missing)):
        return params
    if not params and param_ref.parameter_not_found_action == "Deny":
        return ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [_as_seen_by_cel(param, api_resource) for param in params]


def _find(
    api_resource: APIResource, param_ref: ParamRef, namespace: str, lister: Lister
) -> Sequence[JSON | PartialObject] | ConfigurationError | Missing:
    """By name or by selector; an empty list if there are none."""
    if param_ref.name and param_ref.selector is not None:
        return ConfigurationError("paramRef.name and paramRef.selector are mutually exclusive")
    if param_ref.name:
        param = lister.get(api_resource.kind, namespace, param_ref.name)
        return param if isinstance(param, Missing) else [] if param is None else [param]
    if param_ref.selector is None:
        return ConfigurationError("one of name or selector must be provided")
    try:
        selector = selector_from_label_selector(param_ref.selector)
    except SelectorError as error:
        return ConfigurationError(str(error))
    objects = lister.list(api_resource.kind, namespace if api_resource.namespaced else None)
    return objects if isinstance(objects, Missing) else _select(objects, selector)


def _select(objects: Sequence[JSON | PartialObject], selector: Selector) -> list[JSON | PartialObject] | Missing:
    """The objects that a selector matches, unless labels that it needs are not known."""
    selected = []
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


def _as_seen_by_cel(param: JSON | PartialObject, api_resource: APIResource) -> JSON | PartialObject:
    """The parameter as the server's cache holds it: kind and apiVersion set, built-in kinds without managedFields."""
    if isinstance(param, PartialObject):
        return PartialObject(_as_seen_by_cel(param.value, api_resource), param.missing)
    seen: dict[str, Any] = {"apiVersion": api_resource.kind.api_version, "kind": api_resource.kind.kind, **param}
    metadata = seen.get("metadata")
    if not api_resource.custom and isinstance(metadata, dict) and "managedFields" in metadata:
        seen["metadata"] = {name: value for name, value in metadata.items() if name != "managedFields"}
    return seen
