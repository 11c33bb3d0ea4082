"""Cases of one policy with its parameters, as the API server's own plugin code decides them: run by the chain here."""

from __future__ import annotations

from typing import Any

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.admission.validating.plugin import ValidatingAdmission
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.json_patch import apply
from replay.kube.lister import ObjectTracker
from replay.kube.schema import Schemas
from replay.manifests.manifest_set import manifest_set_from_objects
from tests.support.chain_sets import NobodyMay

CRD: JSON = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "katparams.kat.test"},
    "spec": {
        "group": "kat.test",
        "names": {"plural": "katparams", "kind": "KatParam"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True}],
    },
}


def decide(case: dict[str, Any]) -> dict[str, Any]:
    """What the chain makes of a case, in the form of its `expected`."""
    decision = _decision(case)
    assert not decision.undetermined
    if case["policy"]["kind"] == "MutatingAdmissionPolicy":
        if decision.denials:
            return {"error": decision.denials[0].message}
        return {"object": apply(case["object"], decision.patch)}
    denials = [{"message": each.message, "reason": each.reason} for each in decision.denials]
    annotations = {key.partition("/")[2]: value for key, value in decision.audit_annotations.items()}
    return {"denials": denials, "annotations": annotations}


def _decision(case: dict[str, Any]) -> Decision:
    discovery = builtin_discovery().with_crds([CRD])
    manifests = manifest_set_from_objects([], [_defaulted(case["policy"]), _binding(case)])
    attributes = _attributes(case)
    objects = ObjectTracker([CRD, *([case["params"]] if case["params"] else [])])
    if case["policy"]["kind"] == "ValidatingAdmissionPolicy":
        admission = ValidatingAdmission([manifests], NEWEST, discovery, lambda _lister: NobodyMay())
        return admission.decide(attributes, objects)[0]
    chain = Chain([manifests], NEWEST, discovery, Schemas([CRD]), authorizer=lambda _lister: NobodyMay())
    return chain.decide(attributes, attributes, objects)[0]


def _defaulted(policy: JSON) -> JSON:
    spec = {"failurePolicy": "Fail", **policy["spec"]}
    spec["matchConstraints"] = {"matchPolicy": "Equivalent", **spec["matchConstraints"]}
    return {**policy, "spec": spec}


def _binding(case: dict[str, Any]) -> JSON:
    spec: dict[str, Any] = {"policyName": case["policy"]["metadata"]["name"]}
    if case["policy"]["kind"] == "ValidatingAdmissionPolicy":
        spec["validationActions"] = ["Deny"]
    if case["params"]:
        metadata = case["params"]["metadata"]
        spec["paramRef"] = {"name": metadata["name"], "namespace": metadata.get("namespace", "")}
        spec["paramRef"]["parameterNotFoundAction"] = "Deny"
    kind = f"{case['policy']['kind']}Binding"
    return {"apiVersion": case["policy"]["apiVersion"], "kind": kind, "metadata": {"name": "b"}, "spec": spec}


def _attributes(case: dict[str, Any]) -> Attributes:
    user = case["user"]
    operation = Operation(case["op"])
    return Attributes(
        operation=operation,
        kind=GroupVersionKind(*case["kind"]),
        resource=GroupVersionResource(*case["resource"]),
        subresource=case.get("subresource", ""),
        namespace=case["namespace"],
        name=case["name"],
        user_info=UserInfo(
            user["Username"],
            user.get("UID", ""),
            tuple(user.get("Groups") or ()),
            {key: tuple(values) for key, values in (user.get("Extra") or {}).items()},
        ),
        dry_run=case["dryRun"],
        options={"kind": f"{operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"},
        object=case["object"],
        old_object=case["oldObject"],
        namespace_object=case["namespaceObj"],
    )
