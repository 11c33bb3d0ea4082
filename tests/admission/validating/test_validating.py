"""Validating policies against the API server's own dispatcher (k8s.io/apiserver 0.37.1), run on the same inputs.

`data/validating.jsonl` holds policies, bindings, namespaces, parameters and an AdmissionRequest a line, and what the
dispatcher made of them; its first line holds what a case has where it says nothing else. Equal warnings are one, as the
recorder of a running server sees to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from replay.admission.decision import Decision, Denial
from replay.admission.validating.plugin import ValidatingAdmission
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, Operation, UserInfo
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import ObjectTracker
from replay.manifests.manifest_set import manifest_set_from_objects


class DenyAll:
    """Nobody may do anything."""

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:  # noqa: ARG002
        return AuthorizationDecision(allowed=False, reason="denied")


def attributes_from_admission_request(request: Mapping[str, Any], namespaces: Sequence[JSON] = ()) -> Attributes:
    """The attributes behind an AdmissionRequest that matched as it was sent."""
    user = request["userInfo"]
    namespace = request.get("namespace", "")
    found = [each for each in namespaces if each["metadata"]["name"] == namespace]
    return Attributes(
        operation=Operation(request["operation"]),
        kind=GroupVersionKind(**request["requestKind"]),
        resource=GroupVersionResource(**request["requestResource"]),
        subresource=request.get("subResource", ""),
        namespace=namespace,
        name=request.get("name", ""),
        user_info=UserInfo(
            user.get("username", ""),
            user.get("uid", ""),
            tuple(user.get("groups") or ()),
            {key: tuple(values) for key, values in (user.get("extra") or {}).items()},
        ),
        dry_run=bool(request.get("dryRun")),
        options=request.get("options"),
        object=request.get("object"),
        old_object=request.get("oldObject"),
        namespace_object=found[0] if found else None,
    )


def cases() -> list[dict[str, Any]]:
    lines = Path(__file__).with_name("data").joinpath("validating.jsonl").read_text("utf-8").rstrip("\n").split("\n")
    defaults = json.loads(lines[0])["defaults"]
    constraints = defaults.pop("matchConstraints")
    rows = [{**defaults, **json.loads(line)} for line in lines[1:]]
    for row in rows:
        for policy in row["policies"]:
            policy["spec"].setdefault("matchConstraints", constraints)
    return rows


def decide(case: Mapping[str, Any]) -> Decision:
    manifests = manifest_set_from_objects([], [*case["policies"], *case["bindings"]])
    admission = ValidatingAdmission([manifests], NEWEST, builtin_discovery(), lambda _lister: DenyAll())
    attributes = attributes_from_admission_request(case["request"], case["namespaces"])
    return admission.decide(attributes, ObjectTracker([*case["namespaces"], *case["params"]]))[0]


def client_message(denial: Denial, request: Mapping[str, Any]) -> str:
    """A denial as the server wraps it."""
    by = f"ValidatingAdmissionPolicy '{denial.policy}'" + (
        f" with binding '{denial.binding}'" if denial.binding else ""
    )
    metadata = (request["object"] or {}).get("metadata", {})
    name = request.get("name") or metadata.get("name") or metadata.get("generateName")
    return f'{request["resource"]["resource"]} "{name}" is forbidden: {by} denied request: {denial.message}'


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in cases()])
def test_as_the_dispatcher(case: dict[str, Any]) -> None:
    decision = decide(case)
    assert not decision.undetermined
    found: dict[str, Any] = {"warnings": list(decision.warnings), "auditAnnotations": dict(decision.audit_annotations)}
    if decision.denials:
        first = decision.denials[0]
        found |= {"message": client_message(first, case["request"]), "reason": first.reason, "code": first.code}
    assert {key: value for key, value in found.items() if value} == case["expected"]
