"""Why a policy does not match, in words."""

from __future__ import annotations

from typing import Any

import pytest

from replay.kube.admissionregistration import LabelSelector, LabelSelectorRequirement, MatchResources, Rule
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import ObjectTracker
from replay.matching.matcher import Matcher
from replay.matching.reason import mismatch_reason
from replay.matching.rules import EquivalentResourceMapper


def rule(**changes: Any) -> Rule:
    fields: dict[str, Any] = {
        "operations": ("CREATE",),
        "api_groups": ("apps",),
        "api_versions": ("v1",),
        "resources": ("deployments",),
    }
    return Rule(**(fields | changes))


def attributes(operation: Operation = Operation.CREATE) -> Attributes:
    return Attributes(
        operation,
        GroupVersionKind("apps", "v1", "Deployment"),
        GroupVersionResource("apps", "v1", "deployments"),
        "",
        "prod",
        "web",
        UserInfo("alice"),
        object={"metadata": {"labels": {"app": "web"}}},
        namespace_object={"metadata": {"labels": {"env": "prod"}}},
    )


NOT_PROD = LabelSelector(match_expressions=(LabelSelectorRequirement("env", "NotIn", ("prod",)),))
CASES = [
    (
        "namespaceSelector",
        MatchResources(namespace_selector=NOT_PROD, resource_rules=(rule(),)),
        "namespaceSelector: wants env notin (prod); the namespace has env=prod",
    ),
    (
        "objectSelector",
        MatchResources(object_selector=LabelSelector(match_labels={"team": "a"}), resource_rules=(rule(),)),
        "objectSelector: wants team=a; object has none of these labels",
    ),
    (
        "excluded",
        MatchResources(resource_rules=(rule(),), exclude_resource_rules=(rule(resource_names=("web",)),)),
        "excludeResourceRules: CREATE deployments in apps/v1 named web",
    ),
    (
        "operation",
        MatchResources(resource_rules=(rule(operations=("UPDATE",)),)),
        "resourceRules: the operation is CREATE, the rule for deployments.apps has UPDATE",
    ),
    (
        "version",
        MatchResources(resource_rules=(rule(api_versions=("v2",)),)),
        "resourceRules: the request uses version v1 of deployments.apps, the rule has v2",
    ),
    (
        "name",
        MatchResources(resource_rules=(rule(resource_names=("db",)),)),
        "resourceRules: the name is `web`, the rule has db",
    ),
    (
        "scope",
        MatchResources(resource_rules=(rule(scope="Cluster"),)),
        "resourceRules: deployments.apps is not of scope Cluster",
    ),
    (
        "another resource",
        MatchResources(resource_rules=(rule(resources=("pods",), api_groups=("",)),)),
        "resourceRules: no rule for deployments.apps; they are for CREATE pods in core/v1",
    ),
    (
        "the rule that comes furthest tells",
        MatchResources(resource_rules=(rule(resources=("pods",)), rule(operations=("DELETE",)))),
        "resourceRules: the operation is CREATE, the rule for deployments.apps has DELETE",
    ),
]


@pytest.mark.parametrize(("resources", "reason"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_reasons(resources: MatchResources, reason: str) -> None:
    matcher = Matcher(EquivalentResourceMapper(builtin_discovery()))
    asked, lister = attributes(), ObjectTracker()
    assert matcher.request(asked, lister).match(matcher.criteria(resources)) is None
    assert mismatch_reason(resources, matcher, asked, lister) == reason
