"""Rules against requests: what `webhook/predicates/rules` answers."""

from __future__ import annotations

import pytest

from replay.kube.admissionregistration import Rule
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupVersionResource
from replay.matching.rules import NAMESPACES, RuleKey, matches_resource, matches_rule

PODS = GroupVersionResource("", "v1", "pods")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
NODES = GroupVersionResource("", "v1", "nodes")


def rule(operations: str = "*", groups: str = "*", versions: str = "*", resources: str = "*", scope: str = "*") -> Rule:
    return Rule(
        tuple(operations.split(",")),
        tuple(groups.split(",")),
        tuple(versions.split(",")),
        tuple(resources.split(",")),
        scope,
    )


def key(
    resource: GroupVersionResource, subresource: str = "", operation: str = "CREATE", *, namespaced: bool = True
) -> RuleKey:
    return RuleKey(resource, subresource, Operation(operation), namespaced)


@pytest.mark.parametrize(
    ("pattern", "resource", "subresource", "matches"),
    [
        ("pods", "pods", "", True),
        ("pods", "pods", "status", False),
        ("pods/*", "pods", "status", True),
        ("pods/*", "pods", "", True),
        ("*", "pods", "", True),
        ("*", "pods", "status", False),
        ("*/*", "pods", "status", True),
        ("*/*", "pods", "", True),
        ("*/scale", "deployments", "scale", True),
        ("*/scale", "deployments", "status", False),
        ("pods/exec", "services", "exec", False),
        ("pods/", "pods", "", True),
        ("pods/proxy/x", "pods", "proxy/x", True),
    ],
)
def test_resource_patterns(pattern: str, resource: str, subresource: str, *, matches: bool) -> None:
    assert matches_resource(pattern, resource, subresource) is matches


@pytest.mark.parametrize(
    ("name", "of", "request_key", "matches"),
    [
        ("everything", rule(), key(PODS), True),
        ("operation", rule("UPDATE,DELETE"), key(PODS, operation="DELETE"), True),
        ("other operation", rule("UPDATE"), key(PODS), False),
        ("group", rule(groups="apps"), key(DEPLOYMENTS), True),
        ("core group is the empty string", rule(groups="", resources="pods"), key(PODS), True),
        ("other group", rule(groups="extensions"), key(DEPLOYMENTS), False),
        ("other version", rule(versions="v1beta1"), key(DEPLOYMENTS), False),
        ("namespaced scope", rule(scope="Namespaced"), key(PODS), True),
        ("namespaced scope, cluster-scoped request", rule(scope="Namespaced"), key(NODES, namespaced=False), False),
        ("namespaced scope, Namespace object", rule(scope="Namespaced"), key(NAMESPACES), False),
        ("cluster scope, Namespace object", rule(scope="Cluster"), key(NAMESPACES), True),
        ("cluster scope, cluster-scoped request", rule(scope="Cluster"), key(NODES, namespaced=False), True),
        ("cluster scope, namespaced request", rule(scope="Cluster"), key(PODS), False),
        ("no such scope", rule(scope="Galaxy"), key(PODS), False),
    ],
)
def test_rules(name: str, of: Rule, request_key: RuleKey, *, matches: bool) -> None:
    assert matches_rule(of, request_key) is matches, name
