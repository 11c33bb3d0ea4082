"""The coarse predicate in DuckDB: it keeps too much, never too little."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from replay.admission.ordered.registry import criteria_of
from replay.json import JSON
from replay.kube.admissionregistration import (
    VIRTUAL_RESOURCES,
    ManifestSet,
    MatchPolicy,
    MatchResources,
    Rule,
    ValidatingAdmissionPolicy,
    ValidatingWebhookConfiguration,
    Webhook,
    WebhookClientConfig,
)
from replay.kube.attributes import Attributes, Missing, Operation, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.matching.coarse import CoarseClass, Predicate, both, coarse_predicate, may_select, of_classes
from replay.matching.matcher import Matcher
from replay.matching.rules import EquivalentResourceMapper, is_excluded_from_policies

MAPPER = EquivalentResourceMapper(builtin_discovery())

# (verb, group, version, resource, subresource, namespace, name) as the log has it
Row = tuple[str, str, str, str, str, str, str]


def kept(sets: Sequence[ManifestSet], rows: Sequence[Row]) -> list[bool]:
    """Which rows the predicate of some sets keeps."""
    return selected(coarse_predicate(criteria_of(sets), MAPPER, excluded=VIRTUAL_RESOURCES), rows)


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """An empty DuckDB for all questions: a start takes longer than a question."""
    return duckdb.connect()


def selected(predicate: Predicate, rows: Sequence[Row]) -> list[bool]:
    """Which rows a predicate keeps, as DuckDB evaluates it."""
    columns = "i, verb, api_group, api_version, resource, subresource, namespace, name"
    values = ", ".join("(?, ?, ?, ?, ?, ?, ?, ?)" for _ in rows)
    numbered = [value for index, row in enumerate(rows) for value in (index, *row)]
    query = f"with request({columns}) as (values {values}) select i from request where {predicate.sql}"
    with _database().cursor() as connection:
        found = connection.execute(query, [*numbered, *predicate.parameters]).fetchall()
    return [index in {row[0] for row in found} for index in range(len(rows))]


def policies(*criteria: MatchResources) -> ManifestSet:
    return ManifestSet(
        tuple(
            ValidatingAdmissionPolicy(f"p{index}", static=True, match_constraints=each)
            for index, each in enumerate(criteria)
        )
    )


def rule(operations: str, group: str, resource: str, names: tuple[str, ...] = ()) -> Rule:
    return Rule(tuple(operations.split(",")), (group,), ("v1",), (resource,), resource_names=names)


@pytest.mark.parametrize(
    ("name", "of", "row", "expected"),
    [
        ("create", rule("CREATE", "", "pods"), ("create", "", "v1", "pods", "", "shop", "web"), True),
        ("reads are never kept", rule("*", "*", "*"), ("get", "", "v1", "pods", "", "shop", "web"), False),
        ("an apply may create", rule("CREATE", "", "pods"), ("patch", "", "v1", "pods", "", "shop", "web"), True),
        (
            "deletecollection",
            rule("DELETE", "", "pods", ("a",)),
            ("deletecollection", "", "v1", "pods", "", "s", ""),
            True,
        ),
        ("delete", rule("CREATE", "", "pods"), ("delete", "", "v1", "pods", "", "shop", "web"), False),
        (
            "exec over a websocket",
            rule("CONNECT", "", "pods/exec"),
            ("get", "", "v1", "pods", "exec", "shop", "web"),
            True,
        ),
        ("status", rule("UPDATE", "", "pods"), ("update", "", "v1", "pods", "status", "shop", "web"), False),
        (
            "scale of anything",
            rule("UPDATE", "*", "*/scale"),
            ("patch", "apps", "v1", "deployments", "scale", "s", "w"),
            True,
        ),
        ("another name", rule("UPDATE", "", "pods", ("db",)), ("update", "", "v1", "pods", "", "shop", "web"), False),
        ("another group", rule("CREATE", "apps", "pods"), ("create", "", "v1", "pods", "", "shop", "web"), False),
        (
            "equivalent group",
            rule("CREATE", "", "events"),
            ("create", "events.k8s.io", "v1", "events", "", "s", "e"),
            True,
        ),
        (
            "equivalent group of *",
            rule("CREATE", "", "*"),
            ("create", "events.k8s.io", "v1", "events", "", "s", "e"),
            True,
        ),
        (
            "excluded from all",
            rule("*", "*", "*"),
            ("create", "authentication.k8s.io", "v1", "tokenreviews", "", "", ""),
            False,
        ),
    ],
)
def test_rows(name: str, of: Rule, row: Row, *, expected: bool) -> None:
    assert kept([policies(MatchResources(resource_rules=(of,)))], [row]) == [expected], name


def test_exact_rules_do_not_match_equivalent_groups() -> None:
    criteria = MatchResources(resource_rules=(rule("CREATE", "", "events"),), match_policy=MatchPolicy.EXACT)
    row = ("create", "events.k8s.io", "v1", "events", "", "shop", "e")
    assert kept([policies(criteria)], [row]) == [False]


def test_no_policy_keeps_nothing() -> None:
    assert kept([ManifestSet()], [("create", "", "v1", "pods", "", "shop", "web")]) == [False]


def test_webhooks_count_if_wanted() -> None:
    webhook = Webhook("w", WebhookClientConfig(), rules=(rule("CREATE", "", "pods"),))
    manifests = ManifestSet((ValidatingWebhookConfiguration("c", static=True, webhooks=(webhook,)),))
    row = ("create", "", "v1", "pods", "", "shop", "web")
    assert kept([manifests], [row]) == [True]


class NoLister:
    """No criteria of these tests look anything up."""

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        raise NotImplementedError(kind, namespace, name)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        raise NotImplementedError(kind, namespace)


VERBS = {
    Operation.CREATE: ("create", "patch", "update"),
    Operation.UPDATE: ("update", "patch"),
    Operation.DELETE: ("delete", "deletecollection"),
    Operation.CONNECT: ("create", "get", "delete"),
}
RESOURCES = [
    ("", "v1", "pods", "Pod", ("", "status", "eviction")),
    ("", "v1", "events", "Event", ("",)),
    ("events.k8s.io", "v1", "events", "Event", ("",)),
    ("apps", "v1", "deployments", "Deployment", ("", "scale", "status")),
    ("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", ("",)),
    ("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", ("",)),
    ("", "v1", "namespaces", "Namespace", ("", "finalize")),
]


@st.composite
def requests(draw: st.DrawFn) -> tuple[Attributes, Row]:
    """A request, and its row in the log."""
    group, version, resource, kind, subresources = draw(st.sampled_from(RESOURCES))
    operation = draw(st.sampled_from(Operation))
    subresource = draw(st.sampled_from(subresources))
    if operation is Operation.CONNECT:
        group, version, resource, kind, subresource = "", "v1", "pods", "PodExecOptions", "exec"
    verb = draw(st.sampled_from(VERBS[operation]))
    namespace, name = draw(st.sampled_from(["", "shop"])), draw(st.sampled_from(["", "web"]))
    logged_name = "" if verb == "deletecollection" else name
    attributes = Attributes(
        operation,
        GroupVersionKind(group, version, kind),
        GroupVersionResource(group, version, resource),
        subresource,
        namespace,
        name,
        UserInfo(),
    )
    return attributes, (verb, group, version, resource, subresource, namespace, logged_name)


def some(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2).map(tuple)


RULES = st.builds(
    Rule,
    operations=some("*", "CREATE", "UPDATE", "DELETE", "CONNECT"),
    api_groups=some("*", "", "apps", "events.k8s.io", "autoscaling"),
    api_versions=some("*", "v1", "v2"),
    resources=some(
        "*", "*/*", "pods", "pods/*", "pods/exec", "*/scale", "events", "horizontalpodautoscalers", "*/status"
    ),
    scope=st.sampled_from(["*", "Namespaced", "Cluster"]),
    resource_names=st.sampled_from([(), (), ("web",), ("db", "")]),
)
CRITERIA = st.builds(
    MatchResources,
    resource_rules=st.lists(RULES, max_size=2).map(tuple),
    exclude_resource_rules=st.lists(RULES, max_size=1).map(tuple),
    match_policy=st.sampled_from(MatchPolicy),
)


@pytest.mark.slow
@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(st.lists(CRITERIA, min_size=1, max_size=2), st.lists(requests(), min_size=8, max_size=8))
def test_coarse_contains_exact(criteria: list[MatchResources], pairs: list[tuple[Attributes, Row]]) -> None:
    matcher = Matcher(MAPPER)
    rows = [row for _, row in pairs]
    found = kept([policies(*criteria)], rows)
    for (attributes, row), is_kept in zip(pairs, found, strict=True):
        request = matcher.request(attributes, NoLister())
        matches = [request.match(matcher.criteria(each)) for each in criteria]
        if any(match is not None for match in matches) and not is_excluded_from_policies(attributes.resource):
            assert is_kept, row


def class_of(row: Row) -> CoarseClass:
    verb, group, _, resource, subresource, _, _ = row
    return CoarseClass(verb, group, resource, subresource)


@pytest.mark.slow
@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(CRITERIA, st.lists(requests(), min_size=8, max_size=8))
def test_a_class_is_selected_for_some_name(criteria: MatchResources, pairs: list[tuple[Attributes, Row]]) -> None:
    rows = [(*row[:6], name) for _, row in pairs for name in ("", "web", "db")]
    found = kept([policies(criteria)], rows)
    of_class: dict[CoarseClass, bool] = {}
    for row, is_kept in zip(rows, found, strict=True):
        of_class[class_of(row)] = of_class.get(class_of(row), False) or is_kept
    selects = may_select(criteria, MAPPER, VIRTUAL_RESOURCES)
    assert {requests: selects(requests) for requests in of_class} == of_class


def test_requests_of_classes() -> None:
    rows: list[Row] = [
        ("create", "", "v1", name, sub, "shop", "web") for name in ("pods", "services") for sub in ("", "status")
    ]
    predicate = of_classes([class_of(rows[0]), class_of(rows[3])])
    assert selected(predicate, rows) == [True, False, False, True]
    assert selected(both(predicate, Predicate("resource = ?", ("pods",))), rows) == [True, False, False, False]
    assert selected(of_classes([]), rows) == [False] * 4


def test_criteria_of_several_sets_are_joined() -> None:
    pods = policies(MatchResources(resource_rules=(rule("CREATE", "", "pods"),)))
    services = policies(MatchResources(resource_rules=(rule("CREATE", "", "services"),)))
    rows = [("create", "", "v1", name, "", "shop", "web") for name in ("pods", "services", "secrets")]
    assert kept([pods, services], rows) == [True, True, False]
    assert kept([replace(pods, registrations=())], rows) == [False, False, False]
