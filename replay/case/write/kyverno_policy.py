"""A decision of Kyverno's own policies as a test of its command line.

The files are the policies, the resource, the user, and the objects that policies read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from replay.case.difference import plain
from replay.case.exported import Exported, UnrepresentableError, user_json
from replay.case.write.own import yaml_text
from replay.json import JSON
from replay.kube.attributes import Attributes, Operation
from replay.kube.engine_policy import policy_name, policy_names
from replay.kube.json_patch import apply
from replay.kube.lister import ObjectLister
from replay.kyverno.cluster import requester_of

_API_VERSION = "cli.kyverno.io/v1alpha1"
_ROLES = frozenset({"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Namespace"})
"""Kinds that a test does not have as objects. It states what follows from them."""


def deciding_policies(exported: Exported) -> dict[str, JSON]:
    """Return the Kyverno policies that deny a request, or else those that change its object, by name."""
    own = {name: each for each in exported.engine_objects if _is_of_kyverno(each) for name in policy_names(each)}
    decision = exported.decision
    names = [each.policy for each in decision.denials if each.of_webhook] or [each.policy for each in decision.mutated]
    return {name: own[name] for name in dict.fromkeys(names) if name in own}


def kyverno_policy_files(exported: Exported) -> dict[str, str]:
    """Return the files by name. Raises UnrepresentableError for what such a test cannot represent."""
    deciding = deciding_policies(exported)
    denies = bool(exported.decision.denials)
    attributes = exported.validated if denies else exported.original
    if attributes.operation is not Operation.CREATE or attributes.subresource:
        raise UnrepresentableError("a test of kyverno creates a resource, and does nothing else")
    resource = plain(attributes.object)
    name = str((resource.get("metadata") or {}).get("name") or "")
    if not name:
        raise UnrepresentableError("a test of kyverno names its resource, and the name was to be generated")
    policies = list({policy_name(each): each for each in deciding.values()}.values())
    if not denies and len(policies) > 1:
        raise UnrepresentableError("several policies change the object, and a test compares it after each one")
    test: dict[str, JSON] = {"policies": ["policy.yaml"], "resources": ["resource.yaml"], "userinfo": "userinfo.yaml"}
    files = {
        "policy.yaml": _documents(map(_as_written, policies)),
        "resource.yaml": yaml_text(resource),
        "userinfo.yaml": yaml_text(_kind("UserInfo", "user", **_user(exported, attributes))),
    }
    if attributes.namespace:
        test["variables"] = "values.yaml"
        files["values.yaml"] = yaml_text(_kind("Values", "values", namespaceSelector=[_namespace(attributes)]))
    exceptions = [each for each in exported.engine_objects if each.get("kind") == "PolicyException"]
    if exceptions:
        test["exceptions"] = ["exceptions.yaml"]
        files["exceptions.yaml"] = _documents(map(_as_written, exceptions))
    read = [each for each in exported.objects if each.get("kind") not in _ROLES]
    if read:
        test["clusterResources"] = ["cluster.yaml"]
        files["cluster.yaml"] = yaml_text(_kind("Context", "cluster", spec={"resources": read}))
    if not denies:
        files["patched-resource.yaml"] = yaml_text(apply(resource, list(exported.decision.patch)))
    results = [_result(each, policy, resource, denies=denies) for each, policy in deciding.items()]
    files["kyverno-test.yaml"] = yaml_text(_kind("Test", "case", **test, results=results))
    return files


def _result(name: str, policy: JSON, resource: JSON, *, denies: bool) -> JSON:
    """Return the expected result of a policy, or of one of its rules."""
    kind, metadata = str(policy["kind"]), policy["metadata"]
    own = f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])
    has_rules = kind in ("ClusterPolicy", "Policy")
    return {
        **({} if has_rules else {f"is{kind.removeprefix('Namespaced')}": True}),
        "policy": own,
        **({"rule": name.rpartition("/")[2]} if has_rules else {}),
        "kind": resource.get("kind"),
        "resources": [resource["metadata"]["name"]],
        **({} if denies else {"patchedResources": "patched-resource.yaml"}),
        "result": "fail" if denies else "pass",
    }


def _user(exported: Exported, attributes: Attributes) -> dict[str, JSON]:
    """Return the user, with the roles that the bindings grant."""
    user = user_json(attributes.user_info)
    request = {"userInfo": user, "namespace": attributes.namespace}
    requester = requester_of(request, ObjectLister(exported.objects))
    roles = {"roles": list(requester.roles), "clusterRoles": list(requester.cluster_roles)}
    return {"userInfo": user, **{key: names for key, names in roles.items() if names}}


def _is_of_kyverno(obj: JSON) -> bool:
    return "kyverno.io/" in str(obj.get("apiVersion"))


def _as_written(obj: JSON) -> JSON:
    """Return an object without the fields that only a stored object has."""
    kept = {key: obj["metadata"][key] for key in ("name", "namespace", "annotations") if obj["metadata"].get(key)}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": kept, "spec": obj.get("spec") or {}}


def _documents(objects: Iterable[JSON]) -> str:
    return "---\n".join(map(yaml_text, objects))


def _kind(kind: str, name: str, **fields: Any) -> JSON:
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": {"name": name}, **fields}


def _namespace(attributes: Attributes) -> JSON:
    namespace = plain(attributes.namespace_object)
    metadata = (namespace.get("metadata") or {}) if isinstance(namespace, dict) else {}
    return {"name": attributes.namespace, "labels": metadata.get("labels") or {}}
