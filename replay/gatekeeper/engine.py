"""`replay plugin gatekeeper`: decisions of Gatekeeper for AdmissionRequests, against a fixed cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from replay.gatekeeper.constraint import stored
from replay.gatekeeper.policy_set import GatekeeperPolicies
from replay.gatekeeper.rego.value import UNDEFINED, Value
from replay.gatekeeper.webhook import EMPTY_REQUEST, GatekeeperAnswer, mutate, validate
from replay.json import JSON
from replay.kube.admission_request import PhaseRequests
from replay.kube.json_patch import diff
from replay.kube.schema import OBJECT_META_FIELDS
from replay.manifests.read.values import yaml_values

# Cluster objects as policies see them: the namespace of a request, and `data.inventory` (`gatekeeper/pkg/target`).


def typed_namespace(value: Mapping[str, JSON]) -> dict[str, Any]:
    """Return a Namespace as Gatekeeper's client decodes it into Go's type (`k8s.io/api/core/v1`).

    Fields that the type does not have, and empty ones, are dropped.
    """
    metadata = {
        name: item
        for name in OBJECT_META_FIELDS
        if (item := (value.get("metadata") or {}).get(name)) not in (None, "", {}, [])
    }
    spec, status = value.get("spec") or {}, value.get("status") or {}
    return {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {"finalizers": spec["finalizers"]} if spec.get("finalizers") else {},
        "status": {name: status[name] for name in ("phase", "conditions") if status.get(name)},
    }


def _inventory_of(policies: GatekeeperPolicies, objects: Iterable[Mapping[str, JSON]]) -> Value:
    """Return the inventory of a set: the cluster's synchronized objects by namespace, apiVersion, kind and name."""
    return inventory_of_all(value for value in objects if _is_synced(policies, value))


def _is_synced(policies: GatekeeperPolicies, value: Mapping[str, JSON]) -> bool:
    group, _, version = str(value.get("apiVersion") or "").rpartition("/")
    kind = str(value.get("kind") or "")
    return (group, version, kind) in policies.synced and not policies.excludes_synced(group, kind, value)


def inventory_of_all(objects: Iterable[Mapping[str, JSON]]) -> Value:
    """Return the inventory of these objects, or undefined if there are none."""
    found: dict[str, Any] = {}
    for value in objects:
        api_version, kind = str(value.get("apiVersion") or ""), str(value.get("kind") or "")
        metadata = value.get("metadata") or {}
        namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
        scope = (
            found.setdefault("namespace", {}).setdefault(namespace, {})
            if namespace
            else found.setdefault("cluster", {})
        )
        scope.setdefault(api_version, {}).setdefault(kind, {})[name] = stored(value)
    return found or UNDEFINED


def decide(
    config: Path, cases: Iterator[PhaseRequests], cluster: Sequence[dict[str, JSON]]
) -> Iterator[dict[str, JSON]]:
    """Decide cases with the policies of a file, and yield a result line per case.

    A first line `load` names the refused objects. Raises ManifestError if the file cannot be read.
    """
    engine = GatekeeperEngine(_read(config), cluster)
    if refused := engine.refused():
        yield {"load": refused}
    for case in cases:
        if (unknown := case.unknown) is not None:
            yield {"id": case.id, "undetermined": [f"{unknown.path}: {unknown.reason}"]}
            continue
        yield {"id": case.id, **engine.results(case.mutating, case.validating)}


def _read(path: Path) -> list[JSON]:
    """Return the objects of a file, with `List` objects split into their items. Raises ManifestError."""
    values = (value for value in yaml_values(path) if isinstance(value, dict))
    return [each for value in values for each in (value.get("items") or [] if value.get("kind") == "List" else [value])]


class GatekeeperEngine:
    """Policies of a set, with a fixed cluster."""

    def __init__(self, policies: Iterable[JSON], cluster: Iterable[JSON]) -> None:
        """`policies` are the objects of the set, `cluster` those of the cluster."""
        self.policies = GatekeeperPolicies(policies)
        objects = list(cluster)
        self._namespaces = {
            value["metadata"]["name"]: typed_namespace(value)
            for value in objects
            if value.get("kind") == "Namespace" and value.get("apiVersion") == "v1"
        }
        self._inventory = _inventory_of(self.policies, objects)

    def refused(self) -> list[str]:
        """Return the refused objects of the set, with the reason."""
        return [str(each) for each in self.policies.refused]

    def results(self, mutating: Mapping[str, JSON] | None, validating: Mapping[str, JSON] | None) -> dict[str, Any]:
        """Return each phase's result for one case. A phase without its request gets an empty one."""
        mutating, validating = mutating or EMPTY_REQUEST, validating or EMPTY_REQUEST
        answers = {
            "mutate": mutate(self.policies, mutating, self._namespaces.get),
            "validate": validate(self.policies, validating, self._namespaces.get, lambda: self._inventory),
        }
        unknown = [": ".join(filter(None, each)) for answer in answers.values() for each in answer.undetermined]
        if unknown:
            return {"undetermined": unknown}
        return {
            "mutate": _line(answers["mutate"], mutating),
            "validate": _line(answers["validate"], validating),
        }


def _line(answer: GatekeeperAnswer, request: Mapping[str, JSON]) -> dict[str, Any]:
    line: dict[str, Any] = {"allowed": answer.allowed}
    if answer.code:
        line["code"] = answer.code
    if answer.code == 403:
        line["reason"] = "Forbidden"
    if answer.message:
        line["message"] = answer.message
    if answer.denials:
        line["denials"] = sorted(answer.denials)
    if answer.warnings:
        line["warnings"] = sorted(answer.warnings)
    if answer.violations:
        line["results"] = [
            {
                "constraint": each.constraint.name,
                "kind": each.constraint.template.kind,
                "action": _action(each.constraint.action, each.actions),
                "actions": list(each.actions),
                "msg": each.message,
            }
            for each in answer.violations
        ]
    if answer.object is not None:
        line["patch"] = list(diff(request.get("object"), answer.object))
    return line


def _action(own: str, actions: tuple[str, ...]) -> str:
    """Return the action of a violation: `scoped` if the constraint says so, otherwise its only action."""
    return own if own == "scoped" else actions[0]
