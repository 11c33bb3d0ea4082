"""The native policies that Gatekeeper generates of CEL templates: which there are, and what they decide."""

from __future__ import annotations

from typing import Any

import pytest

from replay.admission.chain import Chain
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet, ValidatingAdmissionPolicyBinding
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import ObjectLister
from replay.kube.schema import Schemas
from replay.manifests.api_object import defaulted_api_objects
from replay.manifests.engine_object import with_engines
from replay.manifests.manifest_set import manifest_set_from_objects

VAP = {"name": "vap.k8s.io"}
WEBHOOK = {"name": "validation.gatekeeper.sh"}


def template(**source: Any) -> JSON:
    validation = {"expression": "variables.anyObject.metadata.name != variables.params.name", "message": "a bad name"}
    code = {"engine": "K8sNativeValidation", "source": {"validations": [validation], **source}}
    return {
        "apiVersion": "templates.gatekeeper.sh/v1",
        "kind": "ConstraintTemplate",
        "metadata": {"name": "bad"},
        "spec": {
            "crd": {"spec": {"names": {"kind": "Bad"}}},
            "targets": [{"target": "admission.k8s.gatekeeper.sh", "code": [code]}],
        },
    }


def constraint(name: str = "c", match: JSON = None, **spec: Any) -> JSON:
    given = {"parameters": {"name": "a"}, **({"match": match} if match else {}), **spec}
    return {"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "Bad", "metadata": {"name": name}, "spec": given}


def scoped(*actions: tuple[str, JSON]) -> dict[str, Any]:
    listed = [{"action": action, "enforcementPoints": [point]} for action, point in actions]
    return {"enforcementAction": "scoped", "scopedEnforcementActions": listed}


EARLIER = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "gatekeeper-old"},
    "spec": {
        "paramKind": {"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "Old"},
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
        "validations": [{"expression": "true"}],
    },
}  # fmt: skip


def made(*objects: JSON, cluster: tuple[JSON, ...] = ()) -> ManifestSet:
    manifests = manifest_set_from_objects((), list(defaulted_api_objects(cluster, NEWEST)))
    return with_engines(manifests, objects, NEWEST)


DENY, AUDIT = ("gatekeeper-bad-c", ("Deny",)), ("gatekeeper-bad-c", ("Audit",))
ROWS: list[tuple[str, JSON, JSON, tuple[JSON, ...], list[Any]]] = [
    ("nothing asks for it", template(), constraint(), (), []),
    ("the template asks for it", template(generateVAP=True), constraint(), (), [DENY]),
    ("the cluster has generated ones", template(), constraint(enforcementAction="dryrun"), (EARLIER,), [AUDIT]),
    ("the template refuses it", template(generateVAP=False), constraint(**scoped(("deny", VAP))), (EARLIER,), []),
    ("scoped to native policies", template(), constraint(**scoped(("deny", VAP), ("warn", WEBHOOK))), (), [DENY]),
    ("scoped to everything", template(), constraint(**scoped(("deny", {"name": "*"}))), (), [DENY]),
    ("scoped to the webhook", template(generateVAP=True), constraint(**scoped(("deny", WEBHOOK))), (), []),
    ("deny and warn, which no server takes", template(), constraint(**scoped(("deny", VAP), ("warn", VAP))), (), []),
    ("an unknown action", template(generateVAP=True), constraint(enforcementAction="shout"), (), []),
    ("CEL that does not compile", template(generateVAP=True, variables=[{"name": "x", "expression": "("}]), constraint(), (), []),
]  # fmt: skip


@pytest.mark.parametrize(("of", "by", "cluster", "bindings"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_is_generated(of: JSON, by: JSON, cluster: tuple[JSON, ...], bindings: list[Any]) -> None:
    found = made(of, by, cluster=cluster)
    assert [(each.name, each.validation_actions) for each in found.of(ValidatingAdmissionPolicyBinding)] == bindings
    assert [each.name for each in found.policies] == (["gatekeeper-bad"] if bindings else [])


MATCHES = [
    ("no match", None, "team-a", True),
    ("another name", None, "team-a", False),
    ("a namespace", {"namespaces": ["team-*"]}, "team-a", True),
    ("another namespace", {"namespaces": ["prod-*"]}, "team-a", False),
    ("an excluded namespace", {"excludedNamespaces": ["*-a"]}, "team-a", False),
    ("the kind", {"kinds": [{"apiGroups": [""], "kinds": ["ConfigMap"]}]}, "team-a", True),
    ("another kind", {"kinds": [{"apiGroups": ["apps"], "kinds": ["ConfigMap"]}]}, "team-a", False),
    ("its name", {"name": "a*"}, "team-a", True),
    ("another glob", {"name": "b*"}, "team-a", False),
    ("labels", {"labelSelector": {"matchLabels": {"x": "y"}}}, "team-a", False),
    ("a namespace that the configuration leaves out", None, "kube-public", False),
]
CONFIG = {
    "apiVersion": "config.gatekeeper.sh/v1alpha1",
    "kind": "Config",
    "metadata": {"name": "config"},
    "spec": {"match": [{"excludedNamespaces": ["kube-*"], "processes": ["webhook"]}]},
}


@pytest.mark.parametrize("row", MATCHES, ids=[row[0] for row in MATCHES])
def test_what_it_decides(row: tuple[str, JSON, str, bool]) -> None:
    title, match, namespace, is_denied = row
    name = "b" if title == "another name" else "a"
    manifests = made(template(), constraint(match=match, **scoped(("deny", VAP))), CONFIG)
    value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}
    holder = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {}}}
    attributes = Attributes(
        operation=Operation.CREATE,
        kind=GroupVersionKind("", "v1", "ConfigMap"),
        resource=GroupVersionResource("", "v1", "configmaps"),
        subresource="",
        namespace=namespace,
        name=name,
        user_info=UserInfo("jane"),
        object=value,
        namespace_object=holder,
    )
    chain = Chain([ManifestSet(), manifests], NEWEST, builtin_discovery(), Schemas([]))
    decision = chain.decide(attributes, attributes, ObjectLister([holder]))[1]
    found = [(each.policy, each.binding, each.message) for each in decision.denials]
    assert found == ([("gatekeeper-bad", "gatekeeper-bad-c", "a bad name")] if is_denied else [])
    assert decision.undetermined == ()
