"""A case as a test of Kyverno's command line: the policy, the resource, the user and the namespace."""

from __future__ import annotations

from replay.case.difference import plain
from replay.case.exported import Exported, UnrepresentableError, user_json
from replay.case.write.alone import alone
from replay.case.write.kyverno_policy import deciding_policies, kyverno_policy_files
from replay.case.write.own import yaml_text
from replay.json import JSON
from replay.kube.attributes import Attributes, Operation
from replay.kube.json_patch import apply

_API_VERSION = "cli.kyverno.io/v1alpha1"


def kyverno_files(exported: Exported) -> dict[str, str]:
    """Return the files by name. Raises UnrepresentableError for what such a test cannot represent."""
    if deciding_policies(exported):
        return kyverno_policy_files(exported)
    policy = alone(exported)
    attributes = exported.original if policy.mutates else exported.validated
    if attributes.operation is not Operation.CREATE or attributes.subresource:
        raise UnrepresentableError("a test of kyverno creates a resource, and does nothing else")
    if exported.answers:
        raise UnrepresentableError("a test of kyverno has no authorizer")
    resource = plain(attributes.object)
    name = (resource.get("metadata") or {}).get("name")
    if not name:
        raise UnrepresentableError("a test of kyverno names its resource, and the name was to be generated")
    result: dict[str, JSON] = {
        f"is{policy.policy['kind']}": True,
        "kind": attributes.kind.kind,
        "policy": policy.name,
        "resources": [name],
        "result": "pass" if policy.mutates else "fail",
    }
    policies = [policy.policy, *([policy.binding] if policy.binding is not None else [])]
    files = {
        "policy.yaml": "---\n".join(map(yaml_text, policies)),
        "resource.yaml": yaml_text(resource),
        "userinfo.yaml": yaml_text(_kind("UserInfo", "user", userInfo=user_json(attributes.user_info))),
    }
    test: dict[str, JSON] = {"policies": ["policy.yaml"], "resources": ["resource.yaml"], "userinfo": "userinfo.yaml"}
    if policy.mutates:
        result["patchedResources"] = "patched-resource.yaml"
        files["patched-resource.yaml"] = yaml_text(apply(resource, list(exported.decision.patch)))
    if attributes.namespace:
        test["variables"] = "values.yaml"
        files["values.yaml"] = yaml_text(_kind("Values", "values", namespaceSelector=[_namespace(attributes)]))
    if exported.objects:
        test["paramResources"] = ["params.yaml"]
        files["params.yaml"] = "---\n".join(map(yaml_text, exported.objects))
    files["kyverno-test.yaml"] = yaml_text(_kind("Test", "case", **test, results=[result]))
    return files


def _kind(kind: str, name: str, **fields: JSON) -> JSON:
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": {"name": name}, **fields}


def _namespace(attributes: Attributes) -> JSON:
    namespace = plain(attributes.namespace_object)
    metadata = (namespace.get("metadata") or {}) if isinstance(namespace, dict) else {}
    return {"name": attributes.namespace, "labels": metadata.get("labels") or {}}
