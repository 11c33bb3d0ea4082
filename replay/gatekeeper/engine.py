"""Gatekeeper asked alone about AdmissionRequests: `replay plugin gatekeeper`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from replay.errors import ManifestError
from replay.gatekeeper.inventory import inventory_of
from replay.gatekeeper.policy_set import GatekeeperPolicies
from replay.gatekeeper.typed_namespace import typed_namespace
from replay.gatekeeper.webhook import EMPTY_REQUEST, Answer, mutate, validate
from replay.json import JSON
from replay.kube.json_patch import diff
from replay.manifests.read.documents import Unreadable, read_file, split_documents
from replay.manifests.read.node import Mapping as MappingNode
from replay.manifests.read.node import Node, Scalar
from replay.manifests.read.node import Number as NumberText
from replay.manifests.read.node import Sequence as SequenceNode
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml


class Case(Protocol):
    """One request as it reached either webhook."""

    @property
    def id(self) -> str:
        """What names it."""
        ...

    @property
    def mutating(self) -> dict[str, JSON] | None:
        """The request of the mutating webhook."""
        ...

    @property
    def validating(self) -> dict[str, JSON] | None:
        """The request of the validating webhook."""
        ...


def decide(config: Path, cases: Iterator[Case], cluster: Sequence[dict[str, JSON]]) -> Iterator[dict[str, JSON]]:
    """Yield a line for each case that is not allowed unchanged, first one of the objects that are refused."""
    engine = GatekeeperEngine(read_objects(config), cluster)
    if refused := engine.refused():
        yield {"load": refused}
    for case in cases:
        yield {"id": case.id, **engine.results(case.mutating, case.validating)}


def read_objects(path: Path) -> list[JSON]:
    """The objects of a file of YAML documents; raises `ManifestError`."""
    found: list[JSON] = []
    try:
        for document in split_documents(str(path), read_file(path)):
            value = plain(read_yaml(document.data, document.line).node)
            if isinstance(value, dict):
                found += value.get("items") or [] if value.get("kind") == "List" else [value]
    except Unreadable as error:
        raise ManifestError(str(error)) from None
    except YAMLSyntaxError as error:
        raise ManifestError(str(error), path=str(path), line=error.position.line) from None
    return found


def plain(node: Node) -> JSON:
    """A node as JSON."""
    match node:
        case MappingNode():
            return {entry.key: plain(entry.value) for entry in node.entries}
        case SequenceNode():
            return [plain(item) for item in node.items]
        case Scalar(value=NumberText(text=text)):
            return int(text) if text.lstrip("-").isdecimal() else float(text)
    return node.value


class GatekeeperEngine:
    """Policies and a cluster that does not change."""

    def __init__(self, policies: Iterable[JSON], cluster: Iterable[JSON]) -> None:
        """The objects of a set, and those of the cluster."""
        self.policies = GatekeeperPolicies(policies)
        objects = list(cluster)
        self._namespaces = {
            value["metadata"]["name"]: typed_namespace(value)
            for value in objects
            if value.get("kind") == "Namespace" and value.get("apiVersion") == "v1"
        }
        self._inventory = inventory_of(self.policies, objects)

    def refused(self) -> list[str]:
        """The objects of the set that are refused, with the reason."""
        return [str(each) for each in self.policies.refused]

    def results(self, mutating: Mapping[str, JSON] | None, validating: Mapping[str, JSON] | None) -> dict[str, Any]:
        """What each phase says about one case; a phase without its request is asked about an empty one."""
        mutating, validating = mutating or EMPTY_REQUEST, validating or EMPTY_REQUEST
        answers = {
            "mutate": mutate(self.policies, mutating, self._namespaces.get),
            "validate": validate(self.policies, validating, self._namespaces.get, self._inventory),
        }
        unknown = [reason for answer in answers.values() for reason in answer.undetermined]
        if unknown:
            return {"undetermined": unknown}
        return {
            "mutate": _line(answers["mutate"], mutating),
            "validate": _line(answers["validate"], validating),
        }


def _line(answer: Answer, request: Mapping[str, JSON]) -> dict[str, Any]:
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
    """The action of a violation: `scoped` where the constraint says so, else the only one."""
    return own if own == "scoped" else actions[0]
