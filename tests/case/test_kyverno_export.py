"""A decision of Kyverno's policies as a test of its command line: what is written, what is decided of it, and what it cannot say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from replay.admission.decision import Decision, Denial, Mutated, Verdict
from replay.case.exported import Exported, UnrepresentableError
from replay.case.form.kyverno import kyverno_files
from replay.json import JSON
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.pipeline.cases import CaseOptions, run_tests

_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"team": "x"}},
    "spec": {"containers": [{"name": "c", "image": "nginx:latest"}]},
}
_NAMESPACE = {"metadata": {"name": "shop", "labels": {"env": "prod"}}}
_PODS: dict[str, Any] = {"any": [{"resources": {"kinds": ["Pod"]}}]}
_IN_PROD = {"any": [{"resources": {"kinds": ["Pod"], "namespaceSelector": {"matchLabels": {"env": "prod"}}}}]}
_BY_ROLE = {"any": [{"resources": {"kinds": ["Pod"]}, "clusterRoles": ["edit"]}]}
_LATEST = {"pattern": {"spec": {"containers": [{"image": "!*:latest"}]}}}


def _policy(match: dict[str, Any], validate: dict[str, Any] | None = None, **rule: Any) -> JSON:
    body = {"validate": {"failureAction": "Enforce", "message": "no", **validate}} if validate is not None else {}
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "p", "uid": "u", "resourceVersion": "7"},
        "spec": {"background": False, "rules": [{"name": "r", "match": match, **body, **rule}]},
        "status": {"ready": True},
    }


_CEL = {
    "apiVersion": "policies.kyverno.io/v1",
    "kind": "ValidatingPolicy",
    "metadata": {"name": "p"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ]
        },
        "validations": [{"expression": "object.spec.containers.all(c, !c.image.endsWith(':latest'))"}],
    },
}
_BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "b"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
    "subjects": [{"kind": "User", "name": "jane"}],
}
_TEAMS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "teams", "namespace": "shop"},
    "data": {"known": "a"},
}
_CONTEXT = [{"name": "teams", "configMap": {"name": "teams", "namespace": "shop"}}]
_KNOWN = {
    "key": "{{ request.object.metadata.labels.team }}",
    "operator": "NotEquals",
    "value": "{{ teams.data.known }}",
}
_LABEL = {"patchStrategicMerge": {"metadata": {"labels": {"owner": "{{ request.object.metadata.name }}"}}}}


def _exported(policy: JSON, *objects: JSON, name: str = "ClusterPolicy/p/r", **fields: Any) -> Exported:
    attributes = Attributes(
        fields.get("operation", Operation.CREATE),
        GroupVersionKind("", "v1", "Pod"),
        GroupVersionResource("", "v1", "pods"),
        "",
        "shop",
        "web",
        UserInfo("jane", groups=("devs",)),
        object=fields.get("pod", _POD),
        namespace_object=_NAMESPACE,
    )
    patch = fields.get("patch", ())
    denial = Denial(name, "validate.kyverno.svc-fail", None, "m", "", 400, of_webhook=True)
    decision = Decision(
        Verdict.ADMITTED if patch else Verdict.DENIED,
        denials=() if patch else (denial,),
        patch=patch,
        mutated=(Mutated(name, "mutate.kyverno.svc-fail", patch),) if patch else (),
    )
    return Exported(
        name="a request",
        original=attributes,
        validated=attributes,
        decision=decision,
        objects=objects,
        engine_objects=(policy,),
    )


_ADDED = ({"op": "add", "path": "/metadata/labels/owner", "value": "web"},)
_FILES = {"kyverno-test.yaml", "policy.yaml", "resource.yaml", "userinfo.yaml", "values.yaml"}
_ROWS: list[tuple[str, Exported, set[str]]] = [
    ("a rule, by the labels of the namespace", _exported(_policy(_IN_PROD, _LATEST)), _FILES),
    ("a rule for a role", _exported(_policy(_BY_ROLE, _LATEST), _BINDING), _FILES),
    (
        "a context",
        _exported(_policy(_PODS, {"deny": {"conditions": {"all": [_KNOWN]}}}, context=_CONTEXT), _TEAMS),
        {*_FILES, "cluster.yaml"},
    ),
    ("a policy of CEL", _exported(_CEL, name="ValidatingPolicy/p"), _FILES),
    (
        "a mutation",
        _exported(_policy(_PODS, mutate=_LABEL), patch=_ADDED),
        {*_FILES, "patched-resource.yaml"},
    ),
]


@pytest.mark.parametrize(("exported", "names"), [row[1:] for row in _ROWS], ids=[row[0] for row in _ROWS])
def test_what_is_written_is_decided_as_it_was(exported: Exported, names: set[str], tmp_path: Path) -> None:
    files = kyverno_files(exported)
    assert set(files) == names
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    report = run_tests(CaseOptions(paths=(tmp_path,)))
    assert [(each.status.value, each.lines) for each in report.results] == [("passed", ())]
    (policy,) = yaml.safe_load_all(files["policy.yaml"])
    assert (policy["metadata"], "status" in policy) == ({"name": "p"}, False)


_NAMELESS = {**_POD, "metadata": {"generateName": "web-", "namespace": "shop"}}
_REFUSED = [
    (
        "an update",
        _exported(_policy(_PODS, _LATEST), operation=Operation.UPDATE),
        "a test of kyverno creates a resource, and does nothing else",
    ),
    (
        "a name to be made",
        _exported(_policy(_PODS, _LATEST), pod=_NAMELESS),
        "a test of kyverno names its resource, and the name was to be generated",
    ),
]


@pytest.mark.parametrize(("exported", "reason"), [row[1:] for row in _REFUSED], ids=[row[0] for row in _REFUSED])
def test_what_it_cannot_say(exported: Exported, reason: str) -> None:
    with pytest.raises(UnrepresentableError, match=reason):
        kyverno_files(exported)
