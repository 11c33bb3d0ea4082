"""Whether an object is null is known whatever is not known of it: what the API says null of is bound as null."""

from __future__ import annotations

import pytest

from replay.admission.chain import Chain
from replay.admission.decision import Verdict
from replay.cellib.version import NEWEST
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import ObjectTracker
from replay.kube.schema import Schemas
from replay.manifests.manifest_set import manifest_set_from_objects

MANAGED = Missing("object.metadata.managedFields", "not recorded")
IN_PART = PartialObject({"metadata": {"name": "w", "managedFields": MANAGED}}, (MANAGED,))
RULE = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
ROWS = [
    ("an object known in part", "object == null", Verdict.DENIED),
    ("the other way round", "null != object", Verdict.ADMITTED),
    ("an old object without any body", "oldObject == null", Verdict.DENIED),
    ("a namespace, which may not be there", "namespaceObject != null", Verdict.UNDETERMINED),
    ("a variable of it", "variables.known == null", Verdict.DENIED),
    ("what is left of an `or`", "oldObject == null || object.metadata.name == 'w'", Verdict.ADMITTED),
    ("its content is not known", "oldObject == object", Verdict.UNDETERMINED),
    ("its labels are not known", "oldObject != null && has(oldObject.metadata.labels)", Verdict.UNDETERMINED),
]


@pytest.mark.parametrize(("expression", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_whether_an_object_is_null(expression: str, expected: Verdict) -> None:
    spec = {
        "matchConstraints": {"resourceRules": [RULE]},
        "variables": [{"name": "known", "expression": "oldObject"}],
        "validations": [{"expression": expression}],
    }
    policy = {"kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": spec}
    binding = {
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"]},
    }
    asked = Attributes(
        Operation.UPDATE,
        GroupVersionKind("example.org", "v1", "Widget"),
        GroupVersionResource("example.org", "v1", "widgets"),
        "",
        "shop",
        "w",
        UserInfo(),
        object=IN_PART,
        old_object=Missing("oldObject", "not recorded"),
        namespace_object=Missing("namespaceObject", "no snapshot"),
    )
    chain = Chain((manifest_set_from_objects((), [policy, binding]),), NEWEST, builtin_discovery(), Schemas())
    (decision,) = chain.decide(asked, asked, ObjectTracker())
    assert decision.verdict is expected
