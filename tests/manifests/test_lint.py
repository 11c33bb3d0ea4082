"""Each warning where it is due, and not where it is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from replay.cellib.version import NEWEST, KubernetesVersion
from replay.manifests.check import check_set
from replay.manifests.finding import Severity
from replay.manifests.lint import catalogue
from replay.manifests.plugin import PluginName

GROUP = "admissionregistration.k8s.io/v1"
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}
CUSTOM_CONDITION = [{"name": "c", "expression": "request.userInfo.username != 'system:admin'"}]


def policy(
    *, rule: dict[str, Any] | None = None, bound: bool = True, binding: dict[str, Any] | None = None, **spec: Any
) -> list[Any]:
    """A validating policy that does nothing remarkable, but for what is given, and its binding."""
    made = {
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p.static.k8s.io"},
        "spec": {
            "matchConstraints": {"resourceRules": [{**PODS, **(rule or {})}]},
            "validations": [{"expression": "object.metadata.name != 'x'"}],
            **spec,
        },
    }
    binding_spec = {"policyName": "p.static.k8s.io", "validationActions": ["Deny"], **(binding or {})}
    bindings = {
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b.static.k8s.io"},
        "spec": binding_spec,
    }
    return [made, bindings] if bound else [made]


def validation(expression: str, **more: Any) -> list[dict[str, Any]]:
    return [{"expression": expression, **more}]


def applying(expression: str, rule: dict[str, Any] | None = None) -> list[Any]:
    """A mutating policy with one apply configuration, and its binding."""
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [{**PODS, **(rule or {})}]},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    kind, name = "MutatingAdmissionPolicy", "m.static.k8s.io"
    made = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}
    binding = {**made, "kind": f"{kind}Binding", "metadata": {"name": "n.static.k8s.io"}, "spec": {"policyName": name}}
    return [made, binding]


CAPABILITIES = (
    "Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, "
    "securityContext: Object.spec.containers.securityContext{capabilities: "
    "Object.spec.containers.securityContext.capabilities{drop: ['ALL']}}})}}"
)


def webhook(url: str, **more: Any) -> list[Any]:
    hook = {
        "name": "a.b.c",
        "clientConfig": {"url": url},
        "rules": [PODS],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }
    return [
        {
            "apiVersion": GROUP,
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "w.static.k8s.io"},
            "webhooks": [hook],
        }
    ]


DELETE = {"operations": ["CREATE", "DELETE"]}
LEASES = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
DEPLOYMENTS = {"apiGroups": ["apps"], "resources": ["deployments"]}
ADMISSION = {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"]}
UPDATES = {"operations": ["UPDATE"]}
WIDGETS = {"apiGroups": ["example.com"], "resources": ["widgets"]}
LOOPS = "object.spec.a.all(a, object.spec.b.all(b, object.spec.c.all(c, object.spec.c.all(d, a + b != c + d))))"

CASES: dict[str, tuple[list[Any], list[str]]] = {
    "nothing to say": (policy(), []),
    "an atomic list in an item of a list": (applying(CAPABILITIES), [catalogue.ATOMIC_FIELD]),
    "an atomic list, in any version": (
        applying("Object{spec: Object.spec{tolerations: [Object.spec.tolerations{key: 'a'}]}}", {"apiVersions": ["*"]}),
        [catalogue.ATOMIC_FIELD],
    ),
    "a list of names": (applying("Object{metadata: Object.metadata{finalizers: ['a/b']}}"), []),
    "a map": (applying("Object{metadata: Object.metadata{labels: {'a': 'b'}}}"), []),
    "an atomic struct": (
        applying(
            "Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'a': 'b'}}}}",
            {"apiGroups": ["apps"], "resources": ["deployments"]},
        ),
        [catalogue.ATOMIC_FIELD],
    ),
    "an atomic list that may be left out": (
        applying("Object{spec: Object.spec{?tolerations: optional.none()}}"),
        [],
    ),
    "what is atomic in one of two kinds": (
        applying(
            "Object{spec: Object.spec{selector: Object.spec.selector{}}}",
            {"apiGroups": ["apps", ""], "resources": ["deployments", "persistentvolumes"]},
        ),
        [],
    ),
    "object on DELETE": (policy(rule=DELETE), [catalogue.OBJECT_NULL]),
    "object on DELETE, Ignore": (policy(rule=DELETE, failurePolicy="Ignore"), []),
    "object on DELETE, compared with null": (
        policy(rule=DELETE, validations=validation("object == null || object.metadata.name != 'x'")),
        [],
    ),
    "object on DELETE, operation in a condition": (
        policy(rule=DELETE, matchConditions=[{"name": "c", "expression": "request.operation != 'DELETE'"}]),
        [],
    ),
    "object on DELETE through a variable": (
        policy(
            rule=DELETE,
            variables=[{"name": "name", "expression": "object.metadata.name"}],
            validations=validation("variables.name != 'x'"),
        ),
        [catalogue.OBJECT_NULL],
    ),
    "object on DELETE, decided before": (
        policy(rule=DELETE, validations=validation("request.operation == 'DELETE' || object.metadata.name != 'x'")),
        [],
    ),
    "object on DELETE, never looked at": (
        policy(rule=DELETE, validations=validation("true || object.metadata.name == 'x'")),
        [],
    ),
    "object on DELETE in the message of what is decided before": (
        policy(
            rule=DELETE,
            validations=validation(
                "request.operation == 'DELETE' || object.metadata.name != 'x'",
                messageExpression="'no ' + object.metadata.name",
            ),
        ),
        [],
    ),
    "object on DELETE in a message": (
        policy(
            rule=DELETE, validations=validation("oldObject == null", messageExpression="'no ' + object.metadata.name")
        ),
        [catalogue.MESSAGE_CAN_FAIL],
    ),
    "object on CONNECT is the options": (
        policy(
            rule={"resources": ["pods/exec"], "operations": ["CONNECT"]},
            validations=validation("object.container != 'x'"),
        ),
        [],
    ),
    "subresource without a test": (
        policy(rule={"resources": ["pods", "pods/exec"]}, validations=validation("request.subResource != 'exec'")),
        [catalogue.UNGUARDED_FIELD],
    ),
    "subresource that is always there": (
        policy(rule={"resources": ["pods/exec"]}, validations=validation("request.subResource != 'exec'")),
        [],
    ),
    "subresource with a test": (
        policy(
            rule={"resources": ["pods", "pods/exec"]},
            validations=validation("!has(request.subResource) || request.subResource == 'a'"),
        ),
        [],
    ),
    "subresource with an optional": (policy(validations=validation("request.?subResource.orValue('') == ''")), []),
    "oldObject on DELETE": (policy(rule=DELETE, validations=validation("oldObject.metadata.name != 'x'")), []),
    "namespaceObject in a match condition": (
        policy(matchConditions=[{"name": "c", "expression": "namespaceObject.metadata.name != 'x'"}]),
        [catalogue.NAMESPACE_IN_CONDITION],
    ),
    "namespaceObject in a webhook's match condition": (
        webhook(
            "https://h.example.com/x",
            matchConditions=[{"name": "c", "expression": "has(namespaceObject.metadata.labels)"}],
        ),
        [catalogue.NAMESPACE_IN_CONDITION],
    ),
    "namespaceObject in a validation": (
        policy(validations=validation("namespaceObject.metadata.name != object.metadata.name")),
        [],
    ),
    "labels without a test": (
        policy(validations=validation("object.metadata.labels['a'] == 'b'")),
        [catalogue.UNGUARDED_FIELD],
    ),
    "labels with has()": (
        policy(validations=validation("has(object.metadata.labels) && object.metadata.labels['a'] == 'b'")),
        [],
    ),
    "labels with an optional": (policy(validations=validation("object.metadata.?labels.a.orValue('') == 'b'")), []),
    "optional field of the kind": (
        policy(validations=validation("object.spec.securityContext.runAsNonRoot == true")),
        [catalogue.UNGUARDED_FIELD],
    ),
    "field that is always there": (policy(validations=validation("object.spec.containers.size() < 9")), []),
    "optional field, tested in a condition": (
        policy(
            matchConditions=[{"name": "c", "expression": "has(object.metadata.annotations)"}],
            validations=validation("object.metadata.annotations.size() < 9"),
        ),
        [],
    ),
    "optional field inside all": (
        policy(validations=validation("object.spec.containers.all(each, each.securityContext.privileged != true)")),
        [catalogue.UNGUARDED_FIELD],
    ),
    "optional field inside all, tested": (
        policy(
            validations=validation(
                "object.spec.containers.all(each, !has(each.securityContext) || "
                "!has(each.securityContext.privileged) || !each.securityContext.privileged)"
            )
        ),
        [],
    ),
    "optional field inside all, asked for with in": (
        policy(
            validations=validation(
                "object.spec.containers.all(each, !('workingDir' in each) || each.workingDir.startsWith('/'))"
            )
        ),
        [],
    ),
    "optional field inside exists": (
        policy(validations=validation("!object.spec.containers.exists(each, each.workingDir == '/')")),
        [catalogue.UNGUARDED_FIELD],
    ),
    "optional field inside map": (
        policy(validations=validation("object.spec.containers.map(each, each.workingDir).size() < 9")),
        [catalogue.UNGUARDED_FIELD],
    ),
    "optional field of what filter leaves": (
        policy(
            validations=validation(
                "object.spec.containers.filter(each, each.name != 'a').all(each, each.workingDir != '/')"
            )
        ),
        [catalogue.UNGUARDED_FIELD],
    ),
    "optional field of what filter leaves, tested there": (
        policy(
            validations=validation(
                "object.spec.containers.filter(each, has(each.workingDir)).all(each, each.workingDir != '/')"
            )
        ),
        [],
    ),
    "optional field of two lists": (
        policy(
            validations=validation(
                "(object.spec.containers + object.spec.?initContainers.orValue([])).all(each, each.ports.size() < 9)"
            )
        ),
        [catalogue.UNGUARDED_FIELD],
    ),
    "optional list": (
        policy(validations=validation("object.spec.initContainers.all(each, each.name != 'a')")),
        [catalogue.UNGUARDED_FIELD],
    ),
    "optional field inside a loop inside a loop": (
        policy(
            validations=validation(
                "object.spec.containers.all(each, each.?env.orValue([]).all(entry, entry.value != 'debug'))"
            )
        ),
        [catalogue.UNGUARDED_FIELD],
    ),
    "optional field of an optional": (
        policy(validations=validation("object.spec.containers.all(each, each.?workingDir.orValue('/a') != '/')")),
        [],
    ),
    "optional field through a variable": (
        policy(
            variables=[{"name": "pod", "expression": "object.spec"}],
            validations=validation("variables.pod.nodeName != 'a'"),
        ),
        [catalogue.UNGUARDED_FIELD],
    ),
    "optional field in a variable, twice read": (
        policy(
            variables=[{"name": "node", "expression": "object.spec.nodeName"}],
            validations=[*validation("variables.node != 'a'"), *validation("variables.node != 'b'")],
        ),
        [catalogue.UNGUARDED_FIELD],
    ),
    "optional field in a variable that is read after the test": (
        policy(
            variables=[{"name": "node", "expression": "object.spec.nodeName"}],
            validations=validation("!has(object.spec.nodeName) || variables.node != 'a'"),
        ),
        [],
    ),
    "optional field in a variable that nothing reads": (
        policy(variables=[{"name": "node", "expression": "object.spec.nodeName"}]),
        [],
    ),
    "a test that is a variable": (
        policy(
            variables=[{"name": "placed", "expression": "has(object.spec.nodeName)"}],
            validations=validation("!variables.placed || object.spec.nodeName != 'a'"),
        ),
        [],
    ),
    "a test below what is absent": (
        policy(validations=validation("has(object.spec.affinity.nodeAffinity)")),
        [catalogue.UNGUARDED_FIELD],
    ),
    "optional field below one that is tested": (
        policy(
            validations=validation(
                "!has(object.spec.os) || !has(object.spec.affinity) || object.spec.affinity.nodeAffinity != null"
            )
        ),
        [catalogue.UNGUARDED_FIELD],
    ),
    "optional field that another validation demands": (
        policy(
            validations=[*validation("has(object.spec.nodeName)"), *validation("object.spec.nodeName != 'a'")],
        ),
        [],
    ),
    "optional field in the message of what tests it": (
        policy(
            validations=validation(
                "!has(object.spec.nodeName) || object.spec.nodeName != 'a'",
                messageExpression="'not on ' + object.spec.nodeName",
            )
        ),
        [],
    ),
    "optional field at the root": (
        policy(rule={"resources": ["configmaps"]}, validations=validation("object.data.all(key, key != 'a')")),
        [catalogue.UNGUARDED_FIELD],
    ),
    "field that a type of union has": (
        policy(
            rule={"resources": ["services"]},
            validations=validation("object.spec.type != 'ExternalName' || object.spec.externalName != 'a'"),
        ),
        [],
    ),
    "field that the server's code defaults": (
        policy(rule=DEPLOYMENTS, validations=validation("object.spec.replicas <= 5")),
        [],
    ),
    "field of a template that the server's code defaults": (
        policy(
            rule=DEPLOYMENTS,
            validations=validation("object.spec.template.spec.containers.all(c, c.imagePullPolicy != 'Never')"),
        ),
        [],
    ),
    "field that is defaulted for some values of another": (
        policy(rule=DEPLOYMENTS, validations=validation("object.spec.strategy.rollingUpdate.maxSurge != 0")),
        [catalogue.UNGUARDED_FIELD],
    ),
    "field that validation demands": (
        policy(validations=validation("object.spec.containers.all(c, c.image.contains('@'))")),
        [],
    ),
    "label of a template, that its selector demands": (
        policy(rule=DEPLOYMENTS, validations=validation("object.spec.template.metadata.labels.size() < 9")),
        [],
    ),
    "field that a built-in plugin writes": (
        policy(validations=validation("object.spec.serviceAccountName != 'admin'")),
        [],
    ),
    "labels of a namespace": (
        policy(rule={"resources": ["namespaces"]}, validations=validation("object.metadata.labels.size() < 9")),
        [],
    ),
    "namespace of a kind that has one": (
        policy(validations=validation("object.metadata.namespace != 'a'")),
        [],
    ),
    "namespace of a kind that has none": (
        policy(rule={"resources": ["persistentvolumes"]}, validations=validation("object.metadata.namespace != 'a'")),
        [catalogue.UNGUARDED_FIELD],
    ),
    "types that do not fit": (
        policy(rule=DEPLOYMENTS, validations=validation("object.spec.replicas > '1'")),
        [catalogue.TYPE_CHECKING],
    ),
    "message that can fail": (
        policy(validations=validation("true", messageExpression="'no ' + object.metadata.labels['a']")),
        [catalogue.MESSAGE_CAN_FAIL],
    ),
    "no binding": (policy(bound=False), [catalogue.NO_BINDING]),
    "misspelt resource": (policy(rule={"resources": ["pod"]}), [catalogue.UNKNOWN_RESOURCE]),
    "wrong group": (policy(rule={"resources": ["deployments"]}), [catalogue.UNKNOWN_RESOURCE]),
    "unknown subresource": (policy(rule={"resources": ["pods/state"]}), [catalogue.UNKNOWN_RESOURCE]),
    "custom resource": (policy(rule={"apiGroups": ["example.com"], "resources": ["widgets"]}), []),
    "reviews": (
        policy(rule={"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"]}),
        [catalogue.NEVER_SENT],
    ),
    "condition that is false": (
        policy(matchConditions=[{"name": "c", "expression": "object.x == 1 && false"}]),
        [catalogue.NEVER_TRUE],
    ),
    "condition on another operation": (
        policy(matchConditions=[{"name": "c", "expression": "request.operation == 'DELETE'"}]),
        [catalogue.NEVER_TRUE],
    ),
    "condition on an operation that is none": (
        policy(matchConditions=[{"name": "c", "expression": "request.operation == 'create' && has(object.spec)"}]),
        [catalogue.NEVER_TRUE],
    ),
    "leases without exemption": (policy(rule=LEASES), [catalogue.CONTROL_PLANE_LOCKOUT]),
    "leases, users exempted": (policy(rule=LEASES, matchConditions=CUSTOM_CONDITION), []),
    "leases, only audited": (policy(rule=LEASES, binding={"validationActions": ["Audit"]}), []),
    "leases, some namespaces": (
        policy(rule=LEASES, binding={"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}),
        [],
    ),
    "admission configuration": (policy(rule=ADMISSION), [catalogue.ADMISSION_LOCKOUT]),
    "admission configuration, by user": (policy(rule=ADMISSION, matchConditions=CUSTOM_CONDITION), []),
    "four loops in each other": (
        policy(rule=WIDGETS, failurePolicy="Ignore", validations=validation(LOOPS)),
        [catalogue.COST],
    ),
    "a pattern over all pairs of two usual lists": (
        policy(
            rule=WIDGETS,
            failurePolicy="Ignore",
            validations=validation(
                "object.spec.a.all(a, object.spec.b.all(b, a.matches('^[a-z]+(-[a-z0-9]+)*$') || b.contains(a)))"
            ),
        ),
        [],
    ),
    "a list joined in a message": (
        policy(
            validations=validation(
                "object.spec.containers.all(c, c.image.startsWith('a/'))",
                messageExpression="'wrong: ' + object.spec.containers.map(c, c.image).join(', ')",
            )
        ),
        [],
    ),
    "a loop": (policy(rule=WIDGETS, failurePolicy="Ignore", validations=validation("object.spec.a.all(a, a > 1)")), []),
    "webhook elsewhere": (webhook("https://hooks.example.com/x"), []),
    "webhook on loopback": (webhook("https://127.0.0.1:8443/x"), [catalogue.LOOPBACK_WITHOUT_CA]),
    "webhook on loopback with authority": (
        webhook("https://[::1]:8443/x", clientConfig={"url": "https://[::1]:8443/x", "caBundle": "eA=="}),
        [],
    ),
    "webhook in the cluster": (webhook("https://hook.ops.svc:443/x"), [catalogue.CLUSTER_WEBHOOK]),
    "webhook condition that is false": (
        webhook("https://hooks.example.com", matchConditions=[{"name": "c", "expression": "1 > 2"}]),
        [catalogue.NEVER_TRUE],
    ),
    "a label of the new object protects the old one": (
        policy(
            rule=UPDATES,
            matchConditions=[{"name": "locked", "expression": "'locked' in object.metadata.?labels.orValue({})"}],
            validations=validation("object.spec == oldObject.spec"),
        ),
        [catalogue.REMOVABLE_LABEL],
    ),
    "a label of the new object protects from some users": (
        policy(
            rule=UPDATES,
            validations=validation(
                "!has(object.metadata.labels) || !('locked' in object.metadata.labels) || "
                "request.userInfo.username == 'admin'"
            ),
        ),
        [catalogue.REMOVABLE_LABEL],
    ),
    "an annotation of the new object, through a variable": (
        policy(
            rule=UPDATES,
            variables=[{"name": "locked", "expression": "'locked' in object.metadata.?annotations.orValue({})"}],
            validations=validation("!variables.locked || object.spec.nodeName == oldObject.spec.nodeName"),
        ),
        [catalogue.UNGUARDED_FIELD, catalogue.REMOVABLE_LABEL],
    ),
    "a label of the new object, and of the old one on DELETE alone": (
        policy(
            rule={"operations": ["UPDATE", "DELETE"]},
            variables=[
                {
                    "name": "labels",
                    "expression": "request.operation == 'DELETE' ? oldObject.metadata.?labels.orValue({}) : "
                    "object.metadata.?labels.orValue({})",
                }
            ],
            validations=validation("!('locked' in variables.labels) || request.userInfo.username == 'admin'"),
        ),
        [catalogue.REMOVABLE_LABEL],
    ),
    "a label of the old object": (
        policy(
            rule=UPDATES,
            matchConditions=[{"name": "locked", "expression": "'locked' in oldObject.metadata.?labels.orValue({})"}],
            validations=validation("object.spec == oldObject.spec"),
        ),
        [],
    ),
    "labels that must stay as they are": (
        policy(
            rule=UPDATES,
            validations=validation(
                "object.metadata.?labels.orValue({}) == oldObject.metadata.?labels.orValue({}) || "
                "request.userInfo.username == 'admin'"
            ),
        ),
        [],
    ),
    "a label that asks for something of the new object": (
        policy(
            rule=UPDATES,
            matchConditions=[{"name": "prod", "expression": "'prod' in object.metadata.?labels.orValue({})"}],
            validations=validation("object.spec.containers.size() < 3"),
        ),
        [],
    ),
    "a label that only some may give": (
        policy(
            validations=validation(
                "!('privileged' in object.metadata.?labels.orValue({})) || request.userInfo.username == 'admin'"
            ),
        ),
        [],
    ),
    "a label that every object must have": (
        policy(
            rule=UPDATES,
            validations=validation("'team' in object.metadata.?labels.orValue({}) && request.userInfo.username != 'a'"),
        ),
        [],
    ),
    "conditions that contradict each other": (
        policy(
            matchConditions=[
                {"name": "a", "expression": "request.resource.resource == 'pods' && has(request.name)"},
                {"name": "b", "expression": "request.resource.resource in ['jobs', 'services']"},
            ]
        ),
        [catalogue.NEVER_TOGETHER],
    ),
    "conditions of which one wants what the other excludes": (
        policy(
            matchConditions=[
                {"name": "a", "expression": "!has(object.spec.nodeName)"},
                {"name": "b", "expression": "has(object.spec.nodeName) && object.spec.nodeName != 'a'"},
            ]
        ),
        [catalogue.NEVER_TOGETHER],
    ),
    "conditions that can be true together": (
        policy(
            matchConditions=[
                {"name": "a", "expression": "request.resource.resource == 'pods' || has(request.name)"},
                {"name": "b", "expression": "request.resource.resource == 'jobs'"},
            ]
        ),
        [],
    ),
    "item of a typed list with another kind": (
        [
            {"apiVersion": GROUP, "kind": "ValidatingAdmissionPolicyList", "items": [{**policy()[0], "kind": "Pod"}]},
            policy()[1],
        ],
        [catalogue.IGNORED_KIND],
    ),
}


def warnings(path: Path, objects: list[Any], **options: Any) -> list[str]:
    text = "---\n".join(yaml.safe_dump(obj, sort_keys=False) for obj in objects)
    (path / "a.yaml").write_text(options.pop("comment", "") + text, encoding="utf-8")
    plugin = PluginName.VALIDATING_ADMISSION_POLICY
    if objects[0]["kind"].endswith("WebhookConfiguration"):
        plugin = PluginName.VALIDATING_ADMISSION_WEBHOOK
    if objects[0]["kind"] == "MutatingAdmissionPolicy":
        plugin = PluginName.MUTATING_ADMISSION_POLICY
    checked = check_set(path, NEWEST, plugin=plugin, **options)
    assert checked.is_accepted, checked.error
    assert all(finding.position.line and finding.object for finding in checked.findings)
    return [finding.name for finding in checked.findings if finding.severity is not Severity.INFO]


@pytest.mark.parametrize("name", CASES)
def test_warnings(name: str, tmp_path: Path) -> None:
    objects, names = CASES[name]
    assert warnings(tmp_path, objects) == names


def test_an_api_directory_is_checked_too(tmp_path: Path) -> None:
    """API-based policies never see admission configuration, so they are not warned of it."""
    (tmp_path / "api").mkdir()
    one, binding = policy(rule=ADMISSION, bound=True, matchConditions=[{"name": "c", "expression": "params == null"}])
    one["metadata"]["name"] = binding["spec"]["policyName"] = "p"
    binding["metadata"]["name"] = "b"
    text = "---\n".join(yaml.safe_dump(obj, sort_keys=False) for obj in (one, binding))
    (tmp_path / "api" / "a.yaml").write_text(text, encoding="utf-8")
    refused = check_set(tmp_path, NEWEST)
    assert [finding.field_path for finding in refused.findings] == ["spec.matchConditions[0].expression"]
    assert refused.error is not None
    assert refused.error.startswith('ValidatingAdmissionPolicy.admissionregistration.k8s.io "p" is invalid: spec.match')
    (tmp_path / "api" / "a.yaml").write_text(
        text.replace("params == null", "request.dryRun == false"), encoding="utf-8"
    )
    accepted = check_set(tmp_path, NEWEST)
    assert (accepted.error, accepted.findings) == (None, ())


def test_silenced_by_a_comment_in_the_document(tmp_path: Path) -> None:
    comment = "# replay: silence policy-without-binding, object-null-on-delete\n"
    objects = policy(rule={"operations": ["DELETE"]}, bound=False)
    assert warnings(tmp_path, objects, comment=comment) == []
    assert warnings(tmp_path, objects, comment="# replay: silence other\n") == [
        catalogue.NO_BINDING,
        catalogue.OBJECT_NULL,
    ]


def test_silenced_by_name(tmp_path: Path) -> None:
    assert warnings(tmp_path, policy(bound=False), silenced=["policy-without-binding"]) == []


def api_webhook(**more: Any) -> list[Any]:
    """A webhook behind a Service, as the API has it."""
    service = {"name": "guard", "namespace": "guard", "path": "/validate"}
    (made,) = webhook("", **{"clientConfig": {"service": service}, **more})
    return [{**made, "metadata": {"name": "guard"}}]


def namespaces(*requirements: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": op, "values": values} for key, op, values in requirements]}


NAME = "kubernetes.io/metadata.name"
OWN = [catalogue.OWN_NAMESPACE]
OWN_NAMESPACES: dict[str, tuple[list[Any], list[str]]] = {
    "pods": (api_webhook(), OWN),
    "everything": (api_webhook(rules=[{**PODS, "apiGroups": ["*"], "resources": ["*/*"]}]), OWN),
    "what it needs to be found": (
        api_webhook(rules=[{**PODS, "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"]}]),
        OWN,
    ),
    "updates of pods alone": (api_webhook(rules=[{**PODS, "operations": ["UPDATE"]}]), []),
    "nothing that it needs": (api_webhook(rules=[{**PODS, "resources": ["configmaps"]}]), []),
    "failurePolicy Ignore": (api_webhook(failurePolicy="Ignore"), []),
    "its namespace is left out by name": (
        api_webhook(namespaceSelector=namespaces((NAME, "NotIn", ["guard", "kube-system"]))),
        [],
    ),
    "another namespace is left out": (api_webhook(namespaceSelector=namespaces((NAME, "NotIn", ["a"]))), OWN),
    "namespaces with a label": (api_webhook(namespaceSelector={"matchLabels": {"guarded": "yes"}}), []),
    "objects with a label": (api_webhook(objectSelector={"matchLabels": {"guarded": "yes"}}), []),
    "a condition leaves its namespace out": (
        api_webhook(matchConditions=[{"name": "a", "expression": "request.namespace != 'guard'"}]),
        [],
    ),
    "a condition leaves nodes out": (
        api_webhook(
            matchConditions=[{"name": "a", "expression": "!request.userInfo.username.startsWith('system:node:')"}]
        ),
        OWN,
    ),
    "a condition looks at the object": (
        api_webhook(matchConditions=[{"name": "a", "expression": "has(object.metadata.labels)"}]),
        [],
    ),
    "an address in the cluster": (api_webhook(clientConfig={"url": "https://guard.guard.svc:8443/validate"}), OWN),
    "an address elsewhere": (api_webhook(clientConfig={"url": "https://guard.example.com/validate"}), []),
}


@pytest.mark.parametrize("name", OWN_NAMESPACES)
def test_webhooks_that_block_themselves(name: str, tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    objects, names = OWN_NAMESPACES[name]
    (tmp_path / "api" / "a.yaml").write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    checked = check_set(tmp_path, NEWEST)
    assert checked.is_accepted, checked.error
    lockout = catalogue.CONTROL_PLANE_LOCKOUT
    assert [finding.name for finding in checked.findings if finding.name != lockout] == names


@pytest.mark.parametrize(("minor", "names"), [(36, []), (37, [catalogue.NEVER_SENT])])
def test_webhooks_are_not_asked_about_reviews_since_1_37(minor: int, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    rules = [{**PODS, "apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"]}]
    (tmp_path / "api" / "a.yaml").write_text(yaml.safe_dump_all(api_webhook(rules=rules)), encoding="utf-8")
    assert [finding.name for finding in check_set(tmp_path, KubernetesVersion(1, minor)).findings] == names


@pytest.mark.parametrize(("label", "names"), [("yes", OWN), ("no", [])])
def test_labels_of_a_webhooks_namespace(label: str, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    objects = api_webhook(namespaceSelector={"matchLabels": {"guarded": "yes"}})
    (tmp_path / "api" / "a.yaml").write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    own = {"kind": "Namespace", "metadata": {"name": "guard", "labels": {"guarded": label}}}
    assert [finding.name for finding in check_set(tmp_path, NEWEST, cluster=[own]).findings] == names


def test_what_is_said_of_types(tmp_path: Path) -> None:
    """The words are those of `status.typeChecking.expressionWarnings`; what cannot come true is an information."""
    rules = [{**PODS, **DEPLOYMENTS}, PODS]
    validations = [
        {
            "expression": "object.kind == 'Pod' || object.spec.replicas > '1'",
            "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas",
        },
        {"expression": "object.kind == 'Pod' || object.spec.replicas > 1"},
    ]
    made, binding = policy(validations=validations, matchConstraints={"resourceRules": rules})
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([made, binding]), encoding="utf-8")
    found = check_set(tmp_path, NEWEST, plugin=PluginName.VALIDATING_ADMISSION_POLICY).findings
    told = [(each.severity, each.field_path, each.message) for each in found if each.name == catalogue.TYPE_CHECKING]
    pod, deployment = "/v1, Kind=Pod: ", "apps/v1, Kind=Deployment: "
    first, message, second = (*validations[0].values(), validations[1]["expression"])
    lacks = "undefined field 'replicas'"
    compared, joined = (f"found no matching overload for '{each}' applied to " for each in ("_>_", "_+_"))
    of_first = [pod + pointed(first, 36, lacks), deployment + pointed(first, 46, f"{compared}'(int, string)'")]
    of_message = [pod + pointed(message, 41, lacks), deployment + pointed(message, 28, f"{joined}'(string, int)'")]
    assert told == [
        (Severity.WARNING, "spec.validations[0].expression", "\n\n".join(of_first)),
        (Severity.WARNING, "spec.validations[0].messageExpression", "\n\n".join(of_message)),
        (Severity.INFO, "spec.validations[1].expression", pod + pointed(second, 36, lacks)),
    ]


def pointed(expression: str, column: int, error: str) -> str:
    return f"ERROR: <input>:1:{column}: {error}\n | {expression}\n | {'.' * (column - 1)}^"


NAMESPACE = {"kind": "Namespace", "metadata": {"name": "a", "labels": {"env": "prod"}}}
SELECTORS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "selects one": ({"matchLabels": {"env": "prod"}}, []),
    "selects none": ({"matchLabels": {"env": "test"}}, [catalogue.NO_NAMESPACE]),
    "not in": (
        {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]},
        [catalogue.NO_NAMESPACE],
    ),
    "exists": ({"matchExpressions": [{"key": "env", "operator": "Exists"}]}, []),
}


@pytest.mark.parametrize("name", SELECTORS)
def test_namespaces_of_a_snapshot(name: str, tmp_path: Path) -> None:
    selector, names = SELECTORS[name]
    objects = policy(binding={"matchResources": {"namespaceSelector": selector}})
    assert warnings(tmp_path, objects, cluster=[NAMESPACE]) == names


def test_custom_resources_of_a_snapshot(tmp_path: Path) -> None:
    objects = policy(rule={"apiGroups": ["acme.test"], "resources": ["widgets"]})
    versions = [{"name": "v1", "served": True, "storage": True}]
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.acme.test"},
        "spec": {
            "group": "acme.test",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions,
        },
    }
    assert warnings(tmp_path, objects, cluster=[NAMESPACE, crd]) == []
    assert warnings(tmp_path, objects, cluster=[NAMESPACE]) == [catalogue.UNKNOWN_RESOURCE]


WIDGET_FIELDS: dict[str, tuple[str, list[str]]] = {
    "required": ("object.spec.size > 1", []),
    "with a default": ("object.spec.colour != 'red'", []),
    "optional": ("object.spec.owner != 'nobody'", [catalogue.UNGUARDED_FIELD]),
    "optional in a list": ("object.spec.parts.all(part, part.name != 'a')", [catalogue.UNGUARDED_FIELD]),
}


@pytest.mark.parametrize("name", WIDGET_FIELDS)
def test_fields_of_custom_resources(name: str, tmp_path: Path) -> None:
    expression, names = WIDGET_FIELDS[name]
    text = {"type": "string"}
    fields = {
        "size": {"type": "integer"},
        "colour": {"type": "string", "default": "blue"},
        "owner": text,
        "parts": {"type": "array", "items": {"type": "object", "properties": {"name": text}}},
    }
    spec = {"type": "object", "properties": fields, "required": ["size", "parts"]}
    schema = {"type": "object", "properties": {"spec": spec}, "required": ["spec"]}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.acme.test"},
        "spec": {
            "group": "acme.test",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    objects = policy(rule={"apiGroups": ["acme.test"], "resources": ["widgets"]}, validations=validation(expression))
    assert warnings(tmp_path, objects, cluster=[NAMESPACE, crd]) == names


BROKEN_DEFINITIONS: dict[str, Any] = {
    "no spec": None,
    "a spec that is a text": "x",
    "versions that are a number": {
        "group": "apps",
        "names": {"kind": "Deployment", "plural": "deployments"},
        "versions": 5,
    },
    "a version that is a number": {
        "group": "apps",
        "names": {"kind": "Deployment", "plural": "deployments"},
        "versions": [1],
    },
    "names that are a number": {"group": "apps", "names": 5, "versions": []},
    "a kind that is a list": {"group": "apps", "names": {"kind": [], "plural": "deployments"}, "versions": []},
    **{
        f"a schema with {name}": {
            "group": "apps",
            "names": {"kind": "Deployment", "plural": "deployments"},
            "versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}],
        }
        for name, schema in {
            "a number in its place": 5,
            "fields that are a list": {"type": "object", "properties": []},
            "a field that is a number": {"type": "object", "properties": {"spec": 5}},
            "several schemas of items": {"type": "object", "properties": {"spec": {"type": "array", "items": [{}]}}},
            "two types": {"type": ["object", "string"]},
            "a reference": {"type": "object", "properties": {"spec": {"$ref": "a"}}},
            "required fields that are a number": {"type": "object", "required": 7},
            "values that are a number": {"type": "object", "additionalProperties": 7},
        }.items()
    },
}


@pytest.mark.parametrize("name", BROKEN_DEFINITIONS)
def test_definitions_that_no_server_takes(name: str, tmp_path: Path) -> None:
    """They say nothing of kinds, and nothing breaks."""
    (tmp_path / "vap").mkdir()
    (tmp_path / "objects").mkdir()
    objects = policy(rule=DEPLOYMENTS, validations=validation("object.spec.replicas > '1'"))
    (tmp_path / "vap" / "a.yaml").write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a.b"}}
    definition = {**crd, "spec": BROKEN_DEFINITIONS[name]}
    (tmp_path / "objects" / "a.yaml").write_text(yaml.safe_dump(definition), encoding="utf-8")
    found = check_set(tmp_path, NEWEST, cluster=[NAMESPACE, definition]).findings
    assert [finding.name for finding in found] == [catalogue.TYPE_CHECKING]


def test_configuration_file(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    inline = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyConfiguration",
        "staticManifestsDir": str(tmp_path / "m"),
    }
    plugins = [
        {"name": "ValidatingAdmissionPolicies", "configuration": inline},
        {"name": "ValidatingAdmissionPolicy", "configuration": inline},
        {"name": "ValidatingAdmissionPolicy", "configuration": inline},
    ]
    text = yaml.safe_dump(
        {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
    )
    (tmp_path / "c.yaml").write_text(f"# first\n---\n{text}---\nkind: Other\n")
    found = check_set(tmp_path / "c.yaml", NEWEST).findings
    assert [finding.name for finding in found] == [
        catalogue.UNKNOWN_PLUGIN,
        catalogue.PLUGIN_TWICE,
        catalogue.IGNORED_DOCUMENT,
    ]


def test_the_documentation_has_every_name() -> None:
    page = (Path(__file__).parents[2] / "docs" / "check.md").read_text("utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    assert rows == sorted(catalogue.REASONS)


def test_every_name_has_a_reason() -> None:
    names = {value for key, value in vars(catalogue).items() if key.isupper() and isinstance(value, str)}
    assert names == set(catalogue.REASONS)
