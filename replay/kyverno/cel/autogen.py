"""Policies that Kyverno generates for pod controllers (`pkg/cel/autogen`, `pkg/cel/policies/*/autogen`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kyverno.cel.request import CELRequest, Object
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.response import UndeterminedError

# Pods inside objects of custom kinds (`pkg/cel/autogen/extract`).

_POD = {"group": "", "version": "v1", "kind": "Pod"}
_PODS = {"group": "", "version": "v1", "resource": "pods"}


class ExtractionError(Exception):
    """Object without a pod template. `str()` is Kyverno's message."""


def extracted_requests(request: CELRequest) -> list[tuple[str, CELRequest]]:
    """Return a request for each pod template, with the template's path. Raises ExtractionError and UndeterminedError."""
    new, old = _pod_object(request.object), _pod_object(request.old_object)
    source = new or old
    if not source:
        raise ExtractionError("extraction mode: expected an unstructured object, got *unstructured.Unstructured")
    templates = dict(_templates(source.get("spec"), "spec"))
    if not templates:
        kind = f"{source.get('apiVersion') or ''}/{source.get('kind') or ''}"
        raise ExtractionError(f"extraction mode: no pod template found in {kind}")
    others = dict(_templates(old.get("spec"), "spec")) if new and old else {}
    made = []
    for path, template in templates.items():
        pods = [_pod(template, request), _pod(others[path], request) if path in others else None]
        if not new:
            # Without a new object, the pod was made from the old one.
            pods.reverse()
        made.append((path, _for_pod(request, *pods)))
    return made


def _pod_object(obj: Object) -> dict[str, Any]:
    if isinstance(obj, Missing | PartialObject):
        missing = obj if isinstance(obj, Missing) else obj.missing[0]
        raise UndeterminedError(f"{missing.path}: {missing.reason}")
    return as_map(obj)


def _templates(node: JSON, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the pod templates below a node, but none within a template.

    Kyverno walks maps in Go's random order. Here the keys are sorted.
    """
    if isinstance(node, dict):
        if _is_template(node):
            yield path, node
            return
        for key in sorted(node):
            yield from _templates(node[key], f"{path}.{key}")
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from _templates(item, f"{path}[{index}]")


def _is_template(node: dict[str, Any]) -> bool:
    containers = as_map(node.get("spec")).get("containers")
    return (
        isinstance(node.get("metadata", {}), dict)
        and isinstance(containers, list)
        and bool(containers)
        and all(
            isinstance(each, dict)
            and isinstance(each.get("name"), str)
            and each["name"]
            and isinstance(each.get("image"), str)
            for each in containers
        )
    )


def _pod(template: dict[str, Any], request: CELRequest) -> JSON:
    metadata = dict(template.get("metadata") or {})
    for key, value in (("name", request.name), ("namespace", request.namespace)):
        if not isinstance(metadata.get(key), str) or not metadata[key]:
            metadata[key] = value
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _for_pod(request: CELRequest, new: JSON, old: JSON) -> CELRequest:
    """Return the request as one for a pod. An absent object is null here."""
    metadata = as_map((new or old)["metadata"])
    named = {
        **request.request,
        "kind": _POD,
        "requestKind": _POD,
        "resource": _PODS,
        "requestResource": _PODS,
        "requestSubResource": request.subresource,
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "object": new,
        "oldObject": old,
    }
    made = CELRequest(named, request.namespace_object, request.time)
    made.object, made.old_object = new, old
    return made


_GROUPS = {
    **dict.fromkeys(("daemonsets", "deployments", "replicasets", "statefulsets"), "apps"),
    **dict.fromkeys(("jobs", "cronjobs"), "batch"),
}
_TEMPLATE, _CRON_JOB, EXTRACTED = "defaults", "cronjobs", "extract"
"""Ways to find the pod template of a controller: at one of two paths, or anywhere in an object of a custom kind."""

_PATHS = {_TEMPLATE: "spec.template", _CRON_JOB: "spec.jobTemplate.spec.template"}
_ROOTS = r"\b(object|oldObject|Object)"
_SPEC = re.compile(rf"{_ROOTS}\.spec", re.ASCII)
_LABELS = re.compile(rf"{_ROOTS}\.metadata\.labels", re.ASCII)
_ANNOTATIONS = re.compile(rf"{_ROOTS}\.metadata\.annotations", re.ASCII)
_OWN_NAMESPACE = r"(?!\.namespace(?![A-Za-z0-9_]))"
"""Suffix that excludes `metadata.namespace`: a template has no namespace of its own."""


class Generated(NamedTuple):
    """Spec of a generated policy. `is_extracted` says that it evaluates the pods found inside an object."""

    spec: dict[str, Any]
    is_extracted: bool


class _Target(NamedTuple):
    group: str
    version: str
    resource: str


def generated_specs(
    spec: Mapping[str, Any], controllers: Sequence[str] | None, *, mutates: bool
) -> Iterator[Generated]:
    """Yield the specs generated from one spec. `controllers` None means all controllers that Kyverno knows."""
    constraints = as_map(spec.get("matchConstraints"))
    if not _is_for_pods(constraints):
        return
    targets: dict[str, set[_Target]] = {}
    for name in _GROUPS if controllers is None else controllers:
        form, target = _resolved(name)
        if target is not None:
            targets.setdefault(form, set()).add(target)
    for form in sorted(targets):
        made = {**spec, "matchConstraints": _constraints(constraints, targets[form])}
        if form != EXTRACTED:
            made = _rewritten_mutations(made, _PATHS[form]) if mutates else _rewritten(made, _PATHS[form])
        yield Generated(made, form == EXTRACTED)


def _is_for_pods(constraints: Mapping[str, Any]) -> bool:
    """Return whether a policy matches only `v1` Pods, with no selector but that of namespaces (`CanAutoGen`)."""
    if constraints.get("excludeResourceRules"):
        return False
    selector = as_map(constraints.get("objectSelector"))
    rules: Sequence[Mapping[str, Any]] = constraints.get("resourceRules") or ()
    if selector.get("matchLabels") or selector.get("matchExpressions") or len(rules) != 1:
        return False
    rule = rules[0]
    wanted = (("apiGroups", ""), ("apiVersions", "v1"), ("resources", "pods"))
    return not rule.get("resourceNames") and all(list(rule.get(name) or ()) == [value] for name, value in wanted)


def _resolved(name: str) -> tuple[str, _Target | None]:
    """Return the form and the resource of a controller. A custom one is written `<resource>.<version>.<group>`."""
    if group := _GROUPS.get(name):
        return _CRON_JOB if name == "cronjobs" else _TEMPLATE, _Target(group, "v1", name)
    parts = name.split(".", 2)
    if len(parts) == 3 and all(parts):
        return EXTRACTED, _Target(parts[2], parts[1], parts[0])
    return "", None


def _constraints(constraints: Mapping[str, Any], targets: Iterable[_Target]) -> JSON:
    """Return match constraints for some controllers, with the operations and namespaces of the original."""
    operations = constraints["resourceRules"][0].get("operations")
    if not operations:
        return None
    versions: dict[tuple[str, str], list[str]] = {}
    for target in sorted(targets):
        versions.setdefault((target.group, target.version), []).append(target.resource)
    rules = [
        {"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources}
        for (group, version), resources in versions.items()
    ]
    return {"resourceRules": rules, "namespaceSelector": constraints.get("namespaceSelector")}


def _rewritten(value: Any, path: str) -> Any:
    """Return a validating policy's texts with the paths of a pod replaced by those of its template."""
    if isinstance(value, dict):
        return {key: _rewritten(item, path) for key, item in value.items()}
    if isinstance(value, list):
        return [_rewritten(item, path) for item in value]
    if not isinstance(value, str):
        return value
    for part in ("spec", "metadata"):
        for root in ("object", "oldObject"):
            value = re.sub(rf"{root}\.{part}{_OWN_NAMESPACE}", f"{root}.{path}.{part}", value)
    return value


def _rewritten_mutations(spec: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a mutating policy with its match conditions and apply configurations rewritten for a template."""
    made = dict(spec)
    if conditions := spec.get("matchConditions"):
        made["matchConditions"] = [
            {**each, "expression": _in_template(each["expression"], path)} for each in conditions
        ]
    mutations = []
    for each in spec.get("mutations") or ():
        configuration = each.get("applyConfiguration")
        if configuration and configuration.get("expression"):
            rewritten = {**configuration, "expression": _in_template(configuration["expression"], path)}
            mutations.append({**each, "applyConfiguration": rewritten})
        else:
            mutations.append(each)
    return {**made, "mutations": mutations}


def _in_template(expression: str, path: str) -> str:
    """Return an expression about a pod rewritten for its template (`convertPodToTemplateExpression`)."""
    expression = _SPEC.sub(rf"\1.{path}.spec", expression)
    expression = _LABELS.sub(rf"\1.{path}.metadata.labels", expression)
    expression = _ANNOTATIONS.sub(rf"\1.{path}.metadata.annotations", expression)
    text = expression.strip()
    body = text.removeprefix("Object").lstrip(" \t\r\n")
    if not text.startswith("Object") or not body.startswith("{"):
        return expression
    end = _closing(body)
    if end <= 1:
        return expression
    # The configuration itself moves too: `Object{...}` becomes `Object{spec: Object.spec{template: ...}}`.
    opening = "Object{"
    name = "Object"
    for part in path.split("."):
        name = f"{name}.{part}"
        opening += f"{part}: {name}{{"
    return f"{opening}{body[1:end]}{'}' * (path.count('.') + 2)}{body[end + 1 :]}"


def _closing(body: str) -> int:
    """Return the index of the brace that closes the first one of a text, or 0 if there is none."""
    depth = 0
    for index, character in enumerate(body):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if not depth:
            return index
    return 0
