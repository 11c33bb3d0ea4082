"""Edits of many kinds, with what each of them does; the rows that need longer than all others together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from replay.kube.admissionregistration import (
    LabelSelector,
    LabelSelectorRequirement,
    MatchResources,
    Rule,
    ValidatingAdmissionPolicyBinding,
)
from replay.prove.claim import Comparison
from replay.prove.prover import Prover, Settings
from replay.prove.symbolic.solver import is_available
from replay.prove.unit import BoundPolicy, Pair
from tests.prove.policies import CONFIG_MAPS, DEPLOYMENTS, PODS, WIDGETS, labelled, unit

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not is_available(), reason="z3 is not installed")]

CONTAINERS = "object.spec.containers"
ANY = Rule(("CREATE", "UPDATE"), ("*",), ("*",), ("*",))
NS = Rule(("CREATE", "UPDATE", "DELETE"), ("",), ("v1",), ("namespaces",))
EXEC = Rule(("CONNECT",), ("",), ("v1",), ("pods/exec",))
SCALE = Rule(("UPDATE",), ("apps",), ("v1",), ("deployments/scale",))
B = unit("true").bindings[0]


def _pods(*validations: str, **options: Any) -> BoundPolicy:
    return unit(*validations, **{"rules": [PODS], **options})


def _bound(original: BoundPolicy, *bindings: ValidatingAdmissionPolicyBinding) -> BoundPolicy:
    return replace(original, bindings=bindings)


ROWS: list[tuple[str, BoundPolicy, BoundPolicy, str]] = [
    (
        "a dropped guard",
        _pods(
            "!has(object.spec.securityContext) || !has(object.spec.securityContext.runAsNonRoot) || object.spec.securityContext.runAsNonRoot"
        ),
        _pods("!has(object.spec.securityContext) || object.spec.securityContext.runAsNonRoot"),
        "stricter",
    ),
    (
        "optional default",
        _pods("object.spec.?hostNetwork.orValue(false) == false"),
        _pods("object.spec.?hostNetwork.orValue(true) == false"),
        "stricter",
    ),
    (
        "quantity lt text",
        _pods(
            CONTAINERS
            + ".all(c, has(c.resources) && has(c.resources.limits) && 'cpu' in c.resources.limits && quantity(c.resources.limits['cpu']).isLessThan(quantity('2')))"
        ),
        _pods(
            CONTAINERS
            + ".all(c, has(c.resources) && has(c.resources.limits) && 'cpu' in c.resources.limits && c.resources.limits['cpu'] < '2')"
        ),
        "both",
    ),
    (
        "quantity unit",
        _pods(CONTAINERS + ".all(c, quantity(c.resources.limits['memory']).compareTo(quantity('2Gi')) <= 0)"),
        _pods(CONTAINERS + ".all(c, quantity(c.resources.limits['memory']).compareTo(quantity('2048Mi')) <= 0)"),
        "same",
    ),
    (
        "quantity G",
        _pods(CONTAINERS + ".all(c, quantity(c.resources.limits['memory']).compareTo(quantity('2Gi')) <= 0)"),
        _pods(CONTAINERS + ".all(c, quantity(c.resources.limits['memory']).compareTo(quantity('2G')) <= 0)"),
        "stricter",
    ),
    (
        "exists for all",
        _pods(CONTAINERS + ".all(c, c.image.startsWith('a/'))"),
        _pods(CONTAINERS + ".exists(c, c.image.startsWith('a/'))"),
        "looser",
    ),
    (
        "exists_one",
        _pods(CONTAINERS + ".exists(c, c.name == 'main')"),
        _pods(CONTAINERS + ".exists_one(c, c.name == 'main')"),
        "same",
    ),
    (
        "size filter",
        _pods(CONTAINERS + ".filter(c, c.image.contains('evil')).size() == 0"),
        _pods("!" + CONTAINERS + ".exists(c, c.image.contains('evil'))"),
        "same",
    ),
    (
        "filter map",
        _pods(CONTAINERS + ".map(c, c.image).filter(i, i.contains('evil')).size() == 0"),
        _pods(CONTAINERS + ".all(c, !c.image.contains('evil'))"),
        "same",
    ),
    (
        "init too",
        _pods(CONTAINERS + ".all(c, c.image.startsWith('a/'))"),
        _pods(
            "("
            + CONTAINERS
            + " + (has(object.spec.initContainers) ? object.spec.initContainers : [])).all(c, c.image.startsWith('a/'))"
        ),
        "stricter",
    ),
    (
        "init too eq",
        _pods(
            CONTAINERS + ".all(c, c.image.startsWith('a/'))",
            "!has(object.spec.initContainers) || object.spec.initContainers.all(c, c.image.startsWith('a/'))",
        ),
        _pods("(" + CONTAINERS + " + object.spec.?initContainers.orValue([])).all(c, c.image.startsWith('a/'))"),
        "same",
    ),
    ("off by one", _pods("size(" + CONTAINERS + ") <= 5"), _pods("size(" + CONTAINERS + ") < 5"), "stricter"),
    ("off by one eq", _pods("size(" + CONTAINERS + ") <= 5"), _pods("size(" + CONTAINERS + ") < 6"), "same"),
    (
        "ns selector",
        _pods("false", namespace_selector=labelled("env", "prod")),
        _pods("false", namespace_selector=labelled("env", "staging")),
        "both",
    ),
    (
        "ns selector expr",
        _pods("false", namespace_selector=labelled("env", "prod")),
        _pods(
            "false",
            namespace_selector=LabelSelector(match_expressions=(LabelSelectorRequirement("env", "In", ("prod",)),)),
        ),
        "same",
    ),
    (
        "ns selector notin",
        _pods(
            "false",
            namespace_selector=LabelSelector(match_expressions=(LabelSelectorRequirement("env", "NotIn", ("prod",)),)),
        ),
        _pods(
            "false",
            namespace_selector=LabelSelector(match_expressions=(LabelSelectorRequirement("env", "DoesNotExist", ()),)),
        ),
        "looser",
    ),
    (
        "ns name selector",
        _pods(
            "false",
            namespace_selector=LabelSelector(
                match_expressions=(LabelSelectorRequirement("kubernetes.io/metadata.name", "NotIn", ("kube-system",)),)
            ),
        ),
        _pods("false", conditions=["request.namespace != 'kube-system'"]),
        "same",
    ),
    (
        "cond order",
        _pods(
            "object.metadata.name != 'x'",
            conditions=["request.userInfo.username != 'a'", "!('g' in request.userInfo.groups)"],
        ),
        _pods(
            "object.metadata.name != 'x'",
            conditions=["!('g' in request.userInfo.groups)", "request.userInfo.username != 'a'"],
        ),
        "same",
    ),
    (
        "cond as validation",
        _pods("object.metadata.name != 'x'", conditions=["request.userInfo.username != 'a'"]),
        _pods("request.userInfo.username == 'a' || object.metadata.name != 'x'"),
        "same",
    ),
    (
        "cond starts",
        _pods("false", conditions=["!request.userInfo.username.startsWith('system:')"]),
        _pods("false", conditions=["!request.userInfo.username.startsWith('system:serviceaccount:')"]),
        "stricter",
    ),
    (
        "failpolicy",
        _pods("object.metadata.labels['a'] == 'b'"),
        _pods("object.metadata.labels['a'] == 'b'", failure_policy="Ignore"),
        "looser",
    ),
    (
        "failpolicy cond",
        _pods("false", conditions=["object.metadata.labels['a'] == 'b'"]),
        _pods("false", conditions=["object.metadata.labels['a'] == 'b'"], failure_policy="Ignore"),
        "looser",
    ),
    (
        "create only",
        _pods("object.metadata.name != 'x'"),
        _pods("request.operation == 'UPDATE' || object.metadata.name != 'x'"),
        "looser",
    ),
    (
        "rules create",
        _pods("object.metadata.name != 'x'"),
        _pods("object.metadata.name != 'x'", rules=[replace(PODS, operations=("CREATE",))]),
        "looser",
    ),
    (
        "oldObject",
        _pods(
            "object.metadata.labels == oldObject.metadata.labels", rules=[replace(CONFIG_MAPS, operations=("UPDATE",))]
        ),
        _pods(
            "!has(object.metadata.labels) || object.metadata.labels == oldObject.metadata.labels",
            rules=[replace(CONFIG_MAPS, operations=("UPDATE",))],
        ),
        "looser",
    ),
    (
        "oldObject null",
        _pods("oldObject == null || object.spec.replicas >= oldObject.spec.replicas", rules=[DEPLOYMENTS]),
        _pods("request.operation == 'CREATE' || object.spec.replicas >= oldObject.spec.replicas", rules=[DEPLOYMENTS]),
        "same",
    ),
    (
        "oldObject off",
        _pods("oldObject == null || object.spec.replicas >= oldObject.spec.replicas", rules=[DEPLOYMENTS]),
        _pods("oldObject == null || object.spec.replicas > oldObject.spec.replicas", rules=[DEPLOYMENTS]),
        "stricter",
    ),
    (
        "labels all",
        _pods("object.metadata.labels.all(k, k.startsWith('a'))"),
        _pods("object.metadata.labels.all(k, k.startsWith('a') && object.metadata.labels[k] != '')"),
        "stricter",
    ),
    (
        "regex anch",
        _pods("object.metadata.name.matches('^[a-z]+-[0-9]+$')"),
        _pods("object.metadata.name.matches('[a-z]+-[0-9]+')"),
        "looser",
    ),
    (
        "regex eq",
        _pods("object.metadata.name.matches('^(a|b|c)-.*$')"),
        _pods("object.metadata.name.matches('^[abc]-')"),
        "same",
    ),
    (
        "regex ci",
        _pods("object.metadata.name.matches('(?i)^a')"),
        _pods("object.metadata.name.matches('^[aA]')"),
        "same",
    ),
    (
        "regex dot",
        _pods(CONTAINERS + ".all(c, c.image.matches('^registry\\\\.example\\\\.com/'))"),
        _pods(CONTAINERS + ".all(c, c.image.matches('^registry.example.com/'))"),
        "looser",
    ),
    (
        "in list",
        _pods("object.metadata.namespace in ['a','b']"),
        _pods("object.metadata.namespace == 'a' || object.metadata.namespace == 'b'"),
        "same",
    ),
    (
        "in list more",
        _pods("object.metadata.namespace in ['a','b']"),
        _pods("object.metadata.namespace in ['a','b','c']"),
        "looser",
    ),
    (
        "ns obj",
        _pods("namespaceObject.metadata.labels['env'] == 'prod'"),
        _pods("namespaceObject.metadata.?labels.?env.orValue('') == 'prod'"),
        "same",
    ),
    (
        "ns obj ig",
        _pods("namespaceObject.metadata.labels['env'] != 'prod'"),
        _pods("namespaceObject.metadata.?labels.?env.orValue('') != 'prod'"),
        "looser",
    ),
    (
        "ternary",
        _pods("has(object.spec.nodeName) ? object.spec.nodeName == 'a' : true"),
        _pods("!has(object.spec.nodeName) || object.spec.nodeName == 'a'"),
        "same",
    ),
    (
        "int math",
        _pods("object.spec.replicas * 2 <= 10", rules=[DEPLOYMENTS]),
        _pods("object.spec.replicas <= 5", rules=[DEPLOYMENTS]),
        "same",
    ),
    (
        "int div",
        _pods("object.spec.replicas / 2 <= 5", rules=[DEPLOYMENTS]),
        _pods("object.spec.replicas <= 11", rules=[DEPLOYMENTS]),
        "same",
    ),
    (
        "int mod",
        _pods("object.spec.replicas % 2 == 1", rules=[DEPLOYMENTS]),
        _pods("object.spec.replicas % 2 != 0", rules=[DEPLOYMENTS]),
        "same",
    ),
    (
        "string conv",
        _pods("string(object.spec.replicas) == '5'", rules=[DEPLOYMENTS]),
        _pods("object.spec.replicas == 5", rules=[DEPLOYMENTS]),
        "same",
    ),
    (
        "int conv",
        _pods("int(object.data['n']) < 5", rules=[replace(CONFIG_MAPS, operations=("CREATE",))]),
        _pods("int(object.data['n']) <= 4", rules=[replace(CONFIG_MAPS, operations=("CREATE",))]),
        "same",
    ),
    (
        "dry run",
        _pods("request.dryRun || object.metadata.name != 'x'"),
        _pods("object.metadata.name != 'x'"),
        "stricter",
    ),
    (
        "extra",
        _pods("!('k' in request.userInfo.extra) || request.userInfo.extra['k'].exists(v, v == 'a')"),
        _pods("!('k' in request.userInfo.extra) || 'a' in request.userInfo.extra['k']"),
        "same",
    ),
    (
        "extra2",
        _pods("!has(request.userInfo.extra)"),
        _pods("!has(request.userInfo.extra) || request.userInfo.extra.size() < 2"),
        "looser",
    ),
    (
        "ns resource",
        _pods("object.metadata.name != 'x'", rules=[NS]),
        _pods("request.operation == 'DELETE' || object.metadata.name != 'x'", rules=[NS]),
        "looser",
    ),
    (
        "exec opts",
        _pods("object.container == 'a'", rules=[EXEC]),
        _pods("has(object.container) && object.container == 'a'", rules=[EXEC]),
        "same",
    ),
    (
        "scale",
        _pods("object.spec.replicas < 5", rules=[SCALE]),
        _pods("object.spec.replicas <= 5", rules=[SCALE]),
        "looser",
    ),
    (
        "more res",
        _pods("object.metadata.name != 'x'", rules=[DEPLOYMENTS]),
        _pods("object.metadata.name != 'x'", rules=[replace(DEPLOYMENTS, resources=("deployments", "statefulsets"))]),
        "stricter",
    ),
    (
        "res star",
        _pods("object.metadata.name != 'x'", rules=[ANY]),
        _pods("object.metadata.name != 'x'", rules=[replace(ANY, api_groups=("apps",))]),
        "looser",
    ),
    (
        "version star",
        _pods("object.metadata.name != 'x'", rules=[DEPLOYMENTS]),
        _pods("object.metadata.name != 'x'", rules=[replace(DEPLOYMENTS, api_versions=("*",))]),
        "same",
    ),
    (
        "version v1beta1",
        _pods("object.metadata.name != 'x'", rules=[DEPLOYMENTS]),
        _pods("object.metadata.name != 'x'", rules=[replace(DEPLOYMENTS, api_versions=("v1beta1",))]),
        "looser",
    ),
    (
        "matchPolicy",
        _pods("object.metadata.name != 'x'", rules=[DEPLOYMENTS]),
        _pods("object.metadata.name != 'x'", rules=[DEPLOYMENTS], match_policy="Exact"),
        "same",
    ),
    (
        "scope",
        _pods("object.metadata.name != 'x'", rules=[ANY]),
        _pods("object.metadata.name != 'x'", rules=[replace(ANY, scope="Namespaced")]),
        "looser",
    ),
    (
        "resnames",
        _pods("false", rules=[CONFIG_MAPS]),
        _pods("false", rules=[replace(CONFIG_MAPS, resource_names=("a", "b"))]),
        "looser",
    ),
    (
        "exclude",
        _pods("false", rules=[PODS]),
        _pods("false", rules=[PODS], exclude_resource_rules=(replace(PODS, operations=("UPDATE",)),)),
        "looser",
    ),
    (
        "bind warn",
        _bound(_pods("object.metadata.name != 'x'"), B),
        _bound(_pods("object.metadata.name != 'x'"), replace(B, validation_actions=("Warn",))),
        "looser",
    ),
    (
        "bind ns",
        _bound(_pods("object.metadata.name != 'x'"), B),
        _bound(
            _pods("object.metadata.name != 'x'"),
            replace(B, match_resources=MatchResources(namespace_selector=labelled("a", "b"))),
        ),
        "looser",
    ),
    (
        "bind two",
        _bound(_pods("object.metadata.name != 'x'"), B),
        _bound(
            _pods("object.metadata.name != 'x'"),
            replace(B, match_resources=MatchResources(namespace_selector=labelled("a", "b"))),
            replace(
                B,
                name="b2",
                match_resources=MatchResources(
                    namespace_selector=LabelSelector(
                        match_expressions=(LabelSelectorRequirement("a", "NotIn", ("b",)),)
                    )
                ),
            ),
        ),
        "same",
    ),
    (
        "bind none",
        _bound(_pods("object.metadata.name != 'x'"), B),
        _bound(_pods("object.metadata.name != 'x'")),
        "looser",
    ),
    (
        "crd has",
        _pods("!has(object.spec.size) || object.spec.size <= 5", rules=[WIDGETS]),
        _pods("object.spec.?size.orValue(0) <= 5", rules=[WIDGETS]),
        "same",
    ),
    (
        "substring",
        _pods("object.metadata.name.substring(0, 3) == 'abc'"),
        _pods("object.metadata.name.startsWith('abc')"),
        "same",
    ),
    ("indexOf", _pods("object.metadata.name.indexOf('a') == -1"), _pods("!object.metadata.name.contains('a')"), "same"),
    (
        "lastIndexOf",
        _pods("object.metadata.name.lastIndexOf('a') >= 0"),
        _pods("object.metadata.name.contains('a')"),
        "same",
    ),
    ("size name", _pods("object.metadata.name.size() <= 63"), _pods("size(object.metadata.name) < 64"), "same"),
    (
        "size regex",
        _pods("object.metadata.name.size() <= 3"),
        _pods("object.metadata.name.matches('^.{0,3}$')"),
        "same",
    ),
    (
        "join",
        _pods(CONTAINERS + ".map(c, c.name).join(',') != 'a'"),
        _pods(CONTAINERS + ".map(c, c.name).join(',') != 'b'"),
        "both",
    ),
    (
        "has and in",
        _pods("has(object.metadata.labels) && has(object.metadata.labels.team)"),
        _pods("has(object.metadata.labels) && 'team' in object.metadata.labels"),
        "same",
    ),
    (
        "label optional",
        _pods("object.metadata.?labels[?'team'].hasValue()"),
        _pods("has(object.metadata.labels) && 'team' in object.metadata.labels"),
        "same",
    ),
    (
        "label opt2",
        _pods("object.metadata.?labels['team'].orValue('x') == 'x'"),
        _pods("object.metadata.?labels[?'team'].orValue('x') == 'x'"),
        "same",
    ),
    (
        "map key with",
        _pods("'a' in object.metadata.annotations && object.metadata.annotations['a'] == 'b'"),
        _pods("object.metadata.annotations['a'] == 'b'"),
        "same",
    ),
    (
        "sets",
        _pods("sets.contains(['a','b'], " + CONTAINERS + ".map(c, c.name))"),
        _pods(CONTAINERS + ".all(c, c.name in ['a','b'])"),
        "same",
    ),
    (
        "sets int",
        _pods("sets.intersects(['a','b'], " + CONTAINERS + ".map(c, c.name))"),
        _pods(CONTAINERS + ".exists(c, c.name in ['a','b'])"),
        "same",
    ),
    (
        "two var",
        _pods("object.metadata.labels.all(k, v, v != '')"),
        _pods("object.metadata.labels.all(k, object.metadata.labels[k] != '')"),
        "same",
    ),
    (
        "caps",
        _pods(
            CONTAINERS
            + ".all(c, !has(c.securityContext) || !has(c.securityContext.capabilities) || !has(c.securityContext.capabilities.add) || c.securityContext.capabilities.add.all(x, x in ['NET_BIND_SERVICE']))"
        ),
        _pods(
            CONTAINERS + ".all(c, c.?securityContext.?capabilities.?add.orValue([]).all(x, x == 'NET_BIND_SERVICE'))"
        ),
        "same",
    ),
    (
        "privileged",
        _pods(
            CONTAINERS
            + ".all(c, !has(c.securityContext) || !has(c.securityContext.privileged) || c.securityContext.privileged == false)"
        ),
        _pods(CONTAINERS + ".all(c, c.?securityContext.?privileged.orValue(false) != true)"),
        "same",
    ),
    (
        "privileged bug",
        _pods(
            CONTAINERS
            + ".all(c, !has(c.securityContext) || !has(c.securityContext.privileged) || c.securityContext.privileged == false)"
        ),
        _pods(
            CONTAINERS
            + ".all(c, has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged == false)"
        ),
        "stricter",
    ),
    (
        "dup vars",
        _pods("variables.cs.all(c, c.image != '')", variables={"cs": CONTAINERS}),
        _pods(CONTAINERS + ".all(c, c.image != '')"),
        "same",
    ),
    (
        "nested all",
        _pods("object.spec.?volumes.orValue([]).all(v, !has(v.hostPath))"),
        _pods("!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))"),
        "same",
    ),
    (
        "subresource",
        _pods("request.subResource == 'scale'", rules=[SCALE]),
        _pods("request.requestSubResource == 'scale'", rules=[SCALE]),
        "same",
    ),
    ("kind", _pods("object.kind == 'Pod'"), _pods("true"), "same"),
    ("apiversion", _pods("object.apiVersion == 'v1' || object.metadata.name != 'x'"), _pods("true"), "same"),
    ("gvk", _pods("request.resource.resource == 'pods'"), _pods("true"), "same"),
]


@pytest.fixture(scope="module")
def prover() -> Iterator[Prover]:
    made = Prover(Settings())
    yield made
    made.close()


@pytest.mark.parametrize(("current", "candidate", "result"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_edit(prover: Prover, current: BoundPolicy, candidate: BoundPolicy, result: str) -> None:
    assert prover.prove(Pair("policy", current, candidate)).result is Comparison(result)
