"""The whole of matching: the answer, the matched resource and kind, errors, and what an unknown answer depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from replay.json import JSON
from replay.kube.admissionregistration import LabelSelector, LabelSelectorRequirement, MatchPolicy, MatchResources, Rule
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.matching.matcher import Match, Matcher, MatchError, MatchResult
from replay.matching.rules import EquivalentResourceMapper

POD = GroupVersionKind("", "v1", "Pod")
PODS = GroupVersionResource("", "v1", "pods")
NAMESPACES = GroupVersionResource("", "v1", "namespaces")
WIDGET = GroupVersionKind("example.com", "v1", "Widget")
WIDGETS = GroupVersionResource("example.com", "v1", "widgets")
CRD = {
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {"name": "v1", "served": True, "subresources": {"scale": {}}},
            {"name": "v1beta1", "served": True},
        ],
    }
}
MISSING = Missing("object", "the log has no body")
PROD = LabelSelector({"env": "prod"})


@dataclass
class Namespaces:
    """A lister that knows namespaces alone."""

    labels: dict[str, dict[str, str]] = field(default_factory=dict)

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        assert (kind.kind, namespace) == ("Namespace", "")
        return {"metadata": {"name": name, "labels": self.labels[name]}} if name in self.labels else None

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        raise NotImplementedError(kind, namespace)


def attributes(**changes: Any) -> Attributes:
    pod = Attributes(Operation.CREATE, POD, PODS, "", "shop", "web", UserInfo("alice"))
    pod.object = {"metadata": {"name": "web", "labels": {"app": "web"}}}
    pod.namespace_object = {"metadata": {"name": "shop", "labels": {"env": "prod"}}}
    return replace(pod, **changes)


def rule(groups: str = "*", versions: str = "*", resources: str = "*", names: tuple[str, ...] = ()) -> Rule:
    return Rule(("*",), (groups,), (versions,), (resources,), resource_names=names)


def namespace_request(operation: str, *, subresource: str = "", **sides: Any) -> Attributes:
    kind = GroupVersionKind("", "v1", "Namespace")
    request = Attributes(Operation(operation), kind, NAMESPACES, subresource, "shop", "shop", UserInfo())
    return replace(request, **sides)


def labelled(**labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "shop", "labels": labels}}


MAPPER = EquivalentResourceMapper(builtin_discovery().with_crds([CRD]))


def match(
    criteria: MatchResources, request: Attributes, lister: Namespaces | None = None, **options: bool
) -> MatchResult:
    matcher = Matcher(MAPPER)
    return matcher.request(request, lister or Namespaces()).match(matcher.criteria(criteria, **options))


ALL = MatchResources(resource_rules=(rule(),))
MATCHED = Match(PODS, POD)


@pytest.mark.parametrize(
    ("name", "criteria", "request_", "expected"),
    [
        ("everything", ALL, attributes(), MATCHED),
        ("no rules match everything", MatchResources(), attributes(), MATCHED),
        ("no rule matches", MatchResources(resource_rules=(rule("apps"),)), attributes(), None),
        ("namespace", replace(ALL, namespace_selector=PROD), attributes(), MATCHED),
        ("other namespace", replace(ALL, namespace_selector=LabelSelector({"env": "dev"})), attributes(), None),
        ("cluster scope", replace(ALL, namespace_selector=PROD), attributes(namespace=""), MATCHED),
        (
            "namespace does not exist",
            replace(ALL, namespace_selector=PROD),
            attributes(namespace_object=None),
            MatchError('namespaces "shop" not found', is_not_found=True),
        ),
        (
            "namespace does not exist, no rule matches",
            MatchResources(resource_rules=(rule("apps"),), namespace_selector=PROD),
            attributes(namespace_object=None),
            None,
        ),
        (
            "namespace does not exist, other object",
            replace(ALL, namespace_selector=PROD, object_selector=LabelSelector({"app": "db"})),
            attributes(namespace_object=None),
            None,
        ),
        ("object", replace(ALL, object_selector=LabelSelector({"app": "web"})), attributes(), MATCHED),
        ("other object", replace(ALL, object_selector=LabelSelector({"app": "db"})), attributes(), None),
        (
            "old object",
            replace(ALL, object_selector=LabelSelector({"app": "db"})),
            attributes(old_object=labelled(app="db")),
            MATCHED,
        ),
        (
            "options of a CONNECT have no labels",
            replace(
                ALL, object_selector=LabelSelector(match_expressions=(LabelSelectorRequirement("x", "DoesNotExist"),))
            ),
            attributes(operation=Operation.CONNECT, object={"kind": "PodExecOptions"}),
            None,
        ),
        (
            "no labels at all",
            replace(
                ALL, object_selector=LabelSelector(match_expressions=(LabelSelectorRequirement("x", "DoesNotExist"),))
            ),
            attributes(object={"metadata": {"labels": None}}),
            MATCHED,
        ),
        (
            "a selector that is wrong",
            replace(ALL, object_selector=LabelSelector(match_expressions=(LabelSelectorRequirement("x", "Gt"),))),
            attributes(),
            MatchError('Internal error occurred: "Gt" is not a valid label selector operator'),
        ),
        ("excluded", replace(ALL, exclude_resource_rules=(rule("", "v1", "pods"),)), attributes(), None),
        ("name", MatchResources(resource_rules=(rule(names=("web", "db")),)), attributes(), MATCHED),
        ("other name", MatchResources(resource_rules=(rule(names=("db",)),)), attributes(), None),
        ("generated name", MatchResources(resource_rules=(rule(names=("web",)),)), attributes(name=""), None),
        (
            "excluded name",
            replace(ALL, exclude_resource_rules=(rule(names=("web",)),)),
            attributes(),
            None,
        ),
        (
            "unknown object",
            replace(ALL, object_selector=LabelSelector({"app": "web"})),
            attributes(object=MISSING),
            Match(PODS, POD, MISSING),
        ),
        (
            "unknown object, but the old one matches",
            replace(ALL, object_selector=LabelSelector({"app": "web"})),
            attributes(object=MISSING, old_object=labelled(app="web")),
            MATCHED,
        ),
        (
            "unknown object, no rule matches",
            MatchResources(resource_rules=(rule("apps"),), object_selector=LabelSelector({"app": "web"})),
            attributes(object=MISSING),
            None,
        ),
        (
            "unknown object, other namespace",
            replace(
                ALL, namespace_selector=LabelSelector({"env": "dev"}), object_selector=LabelSelector({"app": "web"})
            ),
            attributes(object=MISSING),
            None,
        ),
        ("unknown object without a selector", ALL, attributes(object=MISSING), MATCHED),
        (
            "partly known object",
            replace(ALL, object_selector=LabelSelector({"app": "web"})),
            attributes(object=PartialObject({"metadata": {"labels": {"app": "web"}, "uid": MISSING}}, (MISSING,))),
            MATCHED,
        ),
        (
            "partly known object without labels",
            replace(ALL, object_selector=LabelSelector({"app": "web"})),
            attributes(object=PartialObject({"metadata": MISSING}, (MISSING,))),
            Match(PODS, POD, MISSING),
        ),
        (
            "partly known object with a label unknown",
            replace(ALL, object_selector=LabelSelector({"app": "web"})),
            attributes(object=PartialObject({"metadata": {"labels": {"app": MISSING}}}, (MISSING,))),
            Match(PODS, POD, MISSING),
        ),
    ],
)
def test_matching(name: str, criteria: MatchResources, request_: Attributes, expected: MatchResult) -> None:
    assert match(criteria, request_) == expected, name


@pytest.mark.parametrize(
    ("name", "request_", "matches"),
    [
        ("created: its own labels", namespace_request("CREATE", object=labelled(env="prod")), True),
        (
            "updated: its own new labels",
            namespace_request("UPDATE", object=labelled(env="dev"), old_object=labelled(env="prod")),
            False,
        ),
        ("deleted: its labels before", namespace_request("DELETE", old_object=labelled(env="prod")), True),
        (
            "subresource: its labels before",
            namespace_request("UPDATE", subresource="finalize", object=labelled(), old_object=labelled(env="prod")),
            True,
        ),
        ("deleted, the object unknown: the lister", namespace_request("DELETE", old_object=MISSING), True),
    ],
)
def test_namespaces_match_by_their_own_labels(name: str, request_: Attributes, *, matches: bool) -> None:
    criteria = MatchResources(resource_rules=(rule(resources="*/*"),), namespace_selector=PROD)
    found = match(criteria, request_, Namespaces({"shop": {"env": "prod"}}))
    assert (found == Match(NAMESPACES, request_.kind)) is matches, name


WIDGET_REQUEST = attributes(kind=WIDGET, resource=WIDGETS)
EVENTS = GroupVersionResource("events.k8s.io", "v1", "events")
EVENT_REQUEST = attributes(kind=GroupVersionKind("events.k8s.io", "v1", "Event"), resource=EVENTS)


@pytest.mark.parametrize(
    ("name", "criteria", "request_", "expected"),
    [
        (
            "another version",
            MatchResources(resource_rules=(rule("example.com", "v1beta1"),)),
            WIDGET_REQUEST,
            Match(WIDGETS._replace(version="v1beta1"), WIDGET._replace(version="v1beta1")),
        ),
        (
            "another version, Exact",
            MatchResources(resource_rules=(rule("example.com", "v1beta1"),), match_policy=MatchPolicy.EXACT),
            WIDGET_REQUEST,
            None,
        ),
        (
            "as sent before an earlier rule's equivalent",
            MatchResources(resource_rules=(rule("example.com", "v1beta1"), rule("example.com", "v1"))),
            WIDGET_REQUEST,
            Match(WIDGETS, WIDGET),
        ),
        (
            "another group",
            MatchResources(resource_rules=(rule("", "v1", "events"),)),
            EVENT_REQUEST,
            Match(GroupVersionResource("", "v1", "events"), GroupVersionKind("", "v1", "Event")),
        ),
        (
            "another name in the rule",
            MatchResources(resource_rules=(rule("", "v1", "events", ("other",)),)),
            EVENT_REQUEST,
            None,
        ),
        (
            "a subresource that the equivalent does not have",
            MatchResources(resource_rules=(rule("example.com", "v1beta1", "widgets/scale"),)),
            replace(WIDGET_REQUEST, subresource="scale"),
            None,
        ),
        (
            "excluded by an equivalent",
            replace(ALL, exclude_resource_rules=(rule("", "v1", "events"),)),
            EVENT_REQUEST,
            None,
        ),
    ],
)
def test_equivalent_resources(name: str, criteria: MatchResources, request_: Attributes, expected: MatchResult) -> None:
    assert match(criteria, request_) == expected, name


def test_a_webhook_without_rules_matches_nothing() -> None:
    assert match(MatchResources(), attributes(), match_all=False) is None


def test_equal_criteria_are_compiled_once() -> None:
    matcher = Matcher(MAPPER)
    first = MatchResources(resource_rules=(rule(),), namespace_selector=LabelSelector({"a": "b", "c": "d"}))
    second = MatchResources(resource_rules=(rule(),), namespace_selector=LabelSelector({"c": "d", "a": "b"}))
    assert matcher.criteria(first) is matcher.criteria(second)
