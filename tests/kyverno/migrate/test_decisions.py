"""Policies of CEL that are written for rules decide as the rules do, by our own engines of both."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.json import JSON
from replay.kube.admission_request import PhaseRequests
from replay.kube.json_patch import apply
from replay.kyverno.decide import decide
from replay.kyverno.migrate.rule import migration
from replay.kyverno.rules.go_value import as_map

_SHARED = Path(__file__).parents[4] / "shared" / "engines"


def _decided(
    objects: Iterable[JSON], cases: list[PhaseRequests], cluster: list[JSON], folder: Path
) -> list[dict[str, Any]]:
    config = folder / "policy.json"
    config.write_text("\n---\n".join(map(json.dumps, objects)))
    return list(decide(config, iter(cases), cluster))


def _differences(
    policy: dict[str, Any], cases: list[PhaseRequests], cluster: list[JSON], folder: Path
) -> Iterator[tuple[str, str, bool]]:
    """The rules of a policy, the requests that their new policies decide otherwise, and whether the rule denies these."""
    fails = policy["spec"].get("failurePolicy") != "Ignore"
    old = _decided([policy], cases, cluster, folder)
    for migrated in migration([policy]):
        if not migrated.policies:
            continue
        names = {migrated.rule, f"autogen-{migrated.rule}", f"autogen-cronjob-{migrated.rule}"}
        new = _decided(migrated.policies, cases, cluster, folder)
        for one, other in zip(old, new, strict=True):
            if "undetermined" in one:
                continue
            denies = any(
                each["rule"] in names and (each["status"] == "fail" or (each["status"] == "error" and fails))
                for each in one.get("validate", {}).get("results", ())
            )
            answer = other["validateCEL"]
            allowed = answer["allowed"] and answer.get("namespaced", {"allowed": True})["allowed"]
            if denies is allowed:
                yield migrated.rule, one["id"], denies


def _changes(
    policy: dict[str, Any], cases: list[PhaseRequests], cluster: list[JSON], folder: Path
) -> Iterator[tuple[str, str, JSON, JSON]]:
    """The mutating rules of a policy, the requests that their new policies change otherwise, and both objects.

    An object is None if the request is denied.
    """
    for migrated in migration([policy]):
        if not migrated.policies:
            continue
        rules = [each for each in policy["spec"]["rules"] if each["name"] == migrated.rule]
        old = _decided([{**policy, "spec": {**policy["spec"], "rules": rules}}], cases, cluster, folder)
        new = _decided(migrated.policies, cases, cluster, folder)
        for case, one, other in zip(cases, old, new, strict=True):
            assert case.mutating is not None
            objects = [_mutated(case.mutating.get("object"), each) for each in (one["mutate"], other["mutateCEL"])]
            if len({json.dumps(each, sort_keys=True) for each in objects}) > 1:
                yield migrated.rule, case.id, *objects


def _mutated(obj: JSON, answer: dict[str, Any]) -> JSON:
    return apply(obj, answer.get("patch", [])) if answer["allowed"] else None


def _request(operation: str, new: JSON, old: JSON, kind: str = "Pod", **fields: Any) -> dict[str, Any]:
    group, resource = {"Pod": ("", "pods"), "Deployment": ("apps", "deployments"), "CronJob": ("batch", "cronjobs")}[
        kind
    ]
    whole = {"apiVersion": f"{group}/v1".lstrip("/"), "kind": kind}
    request = {
        "uid": "u",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": resource},
        "operation": operation,
        "name": "web",
        "namespace": "shop",
        "userInfo": {"username": "ann", "groups": ["devs"]},
        **fields,
    }
    if new is not None:
        request["object"] = {**whole, **new}
    if old is not None:
        request["oldObject"] = {**whole, **old}
    return request


def _template(kind: str, pod: JSON) -> JSON:
    deployment = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"template": pod}}
    if kind == "Deployment":
        return deployment
    return {**deployment, "spec": {"jobTemplate": {"spec": {"template": pod}}}} if kind == "CronJob" else pod


_CLUSTER: list[JSON] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"env": "prod"}}},
]


def _policy(rule: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    pods = {"any": [{"resources": {"kinds": ["Pod"]}}]}
    whole = {"name": "r", "match": pods, **rule}
    whole["validate"] = {"failureAction": "Enforce", "message": "no", **whole["validate"]}
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "p"},
        "spec": {**spec, "rules": [whole]},
    }


_TEXTS = st.sampled_from(
    ["", "a", "web", "nginx:latest", "nginx:1", "r.io/x:1", "10", "5", "512Mi", "1", "0.5", "true"]
)
_WILDCARDS = st.sampled_from(
    ["*", "?*", "web", "w*", "*:latest", "!*:latest", "a | web", "r.io/* & *:1", "*i*", "n?inx*1"]
)
_RANKED = st.sampled_from([">5", "<=10", "5-10", "5!-10", ">0", "<512Mi", ">=1", "!5", "10", "0", "1 | 10"])
_BOOLEANS = st.booleans()
_NUMBERS = st.sampled_from([0, 1, 5, 10, 8080])
_CONTAINER = st.fixed_dictionaries(
    {"name": _TEXTS},
    optional={
        "image": _TEXTS,
        "securityContext": st.fixed_dictionaries({}, optional={"privileged": _BOOLEANS, "runAsUser": _NUMBERS}),
        "resources": st.fixed_dictionaries(
            {},
            optional={"limits": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "512Mi"]))},
        ),
        "args": st.lists(_TEXTS, max_size=2),
    },
)
_POD = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.just("web"), "namespace": st.just("shop")},
            optional={"labels": st.dictionaries(st.sampled_from(["app", "a.b/c"]), _TEXTS)},
        ),
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(_CONTAINER, max_size=3)},
            optional={
                "initContainers": st.lists(_CONTAINER, max_size=2),
                "hostNetwork": _BOOLEANS,
                "priority": _NUMBERS,
                "restartPolicy": st.sampled_from(["Always", "Never"]),
                "nodeSelector": st.dictionaries(st.sampled_from(["zone"]), _TEXTS),
            },
        ),
    }
)
_ANCHORS = st.sampled_from(["{}", "{}", "{}", "({})", "=({})", "X({})"])
_FLAG = st.one_of(_BOOLEANS, st.sampled_from(["false", "true", "*"]))


def _fields(values: Mapping[str, st.SearchStrategy[Any]], anchors: st.SearchStrategy[str] = _ANCHORS) -> Any:
    """A map of patterns, whose keys may be anchors."""
    pairs = st.lists(
        st.sampled_from(sorted(values)).flatmap(lambda key: st.tuples(anchors, st.just(key), values[key])),
        min_size=1,
        max_size=3,
    )
    return pairs.map(lambda found: {anchor.format(key): value for anchor, key, value in found})


_IN_CONTAINER = _fields(
    {
        "name": _WILDCARDS,
        "image": st.one_of(_WILDCARDS, _RANKED),
        "securityContext": _fields({"privileged": _FLAG, "runAsUser": st.one_of(_RANKED, _NUMBERS)}),
        "resources": _fields({"limits": _fields({"cpu": st.one_of(_RANKED, _WILDCARDS), "memory": _RANKED})}),
        "args": _WILDCARDS,
    }
)
_LISTS = st.lists(_IN_CONTAINER, min_size=1, max_size=1)
_IN_SPEC = _fields(
    {
        "containers": _LISTS,
        "^(containers)": _LISTS,
        "initContainers": _LISTS,
        "hostNetwork": _FLAG,
        "priority": st.one_of(_RANKED, _NUMBERS),
        "restartPolicy": st.one_of(_WILDCARDS, st.none()),
        "nodeSelector": _fields({"zone": st.one_of(_WILDCARDS, _RANKED)}),
    }
)
_LABELS = _fields({"app": st.one_of(_WILDCARDS, _RANKED), "a.b/c": _WILDCARDS})
_PATTERN = _fields({"spec": _IN_SPEC, "metadata": _fields({"labels": _LABELS})}, st.just("{}"))
_KEYS = st.sampled_from(
    [
        "{{ request.object.spec.hostNetwork || `false` }}",
        "{{ request.object.spec.priority || `0` }}",
        "{{ request.object.spec.priority }}",
        "{{ request.object.spec.restartPolicy }}",
        "{{ request.object.spec.restartPolicy || 'Always' }}",
        "{{ request.object.metadata.labels.app || '' }}",
        "{{ request.object.metadata.labels.\"a.b/c\" || 'web' }}",
        "{{ request.object.spec.containers[].image }}",
        "{{ request.operation || 'BACKGROUND' }}",
        "{{ request.userInfo.username }}",
        "{{ request.namespace }}",
    ]
)
_OPERATORS = st.sampled_from(
    ["Equals", "NotEquals", "AnyIn", "AllIn", "AnyNotIn", "AllNotIn", "GreaterThan", "LessThanOrEquals", "In", "NotIn"]
)
_VALUES = st.one_of(
    _NUMBERS,
    _BOOLEANS,
    _TEXTS,
    st.lists(st.one_of(_TEXTS, st.sampled_from(["UPDATE", "n*", "Never"])), min_size=1, max_size=3),
)
_CONDITION = st.fixed_dictionaries({"key": _KEYS, "operator": _OPERATORS, "value": _VALUES})
_CONDITIONS = st.fixed_dictionaries(
    {},
    optional={"any": st.lists(_CONDITION, min_size=1, max_size=2), "all": st.lists(_CONDITION, min_size=1, max_size=2)},
).filter(bool)
_LOOP_LISTS = st.sampled_from(
    [
        "request.object.spec.containers",
        "request.object.spec.initContainers[]",
        "request.object.spec.[initContainers, containers][]",
    ]
)
_ELEMENT_KEYS = st.sampled_from(
    [
        "{{ element.name }}",
        "{{ element.image }}",
        "{{ element.image || '' }}",
        "{{ element.securityContext.privileged || `false` }}",
        "{{ element.securityContext.runAsUser || `0` }}",
        "{{ element.args[] }}",
        "{{ element.args || `[]` }}",
        "{{ request.object.spec.hostNetwork || `false` }}",
    ]
)
_ELEMENT_CONDITION = st.fixed_dictionaries({"key": _ELEMENT_KEYS, "operator": _OPERATORS, "value": _VALUES})
_ELEMENT_CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "any": st.lists(_ELEMENT_CONDITION, min_size=1, max_size=2),
        "all": st.lists(_ELEMENT_CONDITION, min_size=1, max_size=2),
    },
).filter(bool)
_BODY = st.one_of(
    st.fixed_dictionaries({"pattern": _IN_CONTAINER}),
    st.fixed_dictionaries({"anyPattern": st.lists(_IN_CONTAINER, min_size=1, max_size=2)}),
    st.fixed_dictionaries({"deny": st.fixed_dictionaries({"conditions": _ELEMENT_CONDITIONS})}),
)
_LOOP = st.tuples(
    st.fixed_dictionaries({"list": _LOOP_LISTS}, optional={"preconditions": _ELEMENT_CONDITIONS}), _BODY
).map(lambda parts: {**parts[0], **parts[1]})
_FOREACH = st.fixed_dictionaries({"foreach": st.lists(_LOOP, min_size=1, max_size=2)})
_VALIDATION = st.one_of(
    st.fixed_dictionaries({"pattern": _PATTERN}),
    st.fixed_dictionaries({"anyPattern": st.lists(_PATTERN, min_size=1, max_size=2)}),
    st.fixed_dictionaries({"deny": st.fixed_dictionaries({"conditions": _CONDITIONS})}),
    _FOREACH,
)
_FILTER = st.fixed_dictionaries(
    {},
    optional={
        "operations": st.lists(st.sampled_from(["CREATE", "UPDATE", "DELETE"]), min_size=1, max_size=2, unique=True),
        "names": st.lists(st.sampled_from(["web", "w*", "x"]), min_size=1, max_size=1),
        "namespaces": st.lists(st.sampled_from(["shop", "s?op", "dev"]), min_size=1, max_size=2),
        "selector": st.sampled_from(
            [
                {"matchLabels": {"app": "web"}},
                {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web", "a"]}]},
                {"matchExpressions": [{"key": "a.b/c", "operator": "Exists"}]},
            ]
        ),
        "namespaceSelector": st.sampled_from([{"matchLabels": {"env": "prod"}}, {"matchLabels": {"env": "dev"}}]),
    },
)
_SUBJECTS = st.sampled_from(
    [[{"kind": "User", "name": "an*"}], [{"kind": "Group", "name": "devs"}], [{"kind": "User", "name": "b"}]]
)


@st.composite
def _rules(draw: st.DrawFn) -> dict[str, Any]:
    """A policy of one rule: for pods with their controllers, or with filters, in which case it is for pods alone."""
    rule: dict[str, Any] = {"validate": draw(_VALIDATION)}
    rule["match"] = {"any": [{"resources": {"kinds": ["Pod"], **draw(_FILTER)}}]}
    if draw(st.booleans()):
        rule["exclude"] = {"any": [{"resources": {"kinds": ["Pod"], **draw(_FILTER)}}]}
        if draw(st.booleans()):
            rule["exclude"]["any"][0]["subjects"] = draw(_SUBJECTS)
    if draw(st.integers(0, 3)) == 0:
        rule["preconditions"] = draw(_CONDITIONS)
    if draw(st.integers(0, 3)) == 0:
        rule["validate"]["allowExistingViolations"] = False
    return _policy(rule, **({"failurePolicy": "Ignore"} if draw(st.integers(0, 3)) == 0 else {}))


@pytest.mark.slow
@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(_rules(), st.lists(st.tuples(_POD, _POD), min_size=4, max_size=4))
def test_any_rule(policy: dict[str, Any], pods: list[tuple[JSON, JSON]]) -> None:
    kinds = ("Pod", "Deployment", "CronJob", "Pod")
    cases = []
    for number, (kind, both) in enumerate(zip(kinds, pods, strict=True)):
        new, old = (_template(kind, pod) for pod in both)
        cases += [
            PhaseRequests(f"{number} created", None, _request("CREATE", new, None, kind)),
            PhaseRequests(f"{number} updated", None, _request("UPDATE", new, old, kind)),
            PhaseRequests(f"{number} the same", None, _request("UPDATE", new, new, kind)),
            PhaseRequests(f"{number} deleted", None, _request("DELETE", None, old, kind)),
        ]
    assert list(_differences(policy, cases, _CLUSTER, _folder())) == []


def _mutating(resources: JSON, mutation: JSON, **spec: Any) -> dict[str, Any]:
    rule = {"name": "r", "match": {"any": [{"resources": resources}]}, "mutate": mutation}
    policy = _policy({"validate": {}}, **spec)
    return {**policy, "spec": {**policy["spec"], "rules": [rule]}}


def _with_distinct_names(pod: dict[str, Any]) -> JSON:
    """A pod that the API server would take: a strategic merge joins containers of the same name."""
    spec = {
        field: [{**each, "name": f"{field}-{number}"} for number, each in enumerate(value)]
        if field in ("containers", "initContainers")
        else value
        for field, value in pod["spec"].items()
    }
    return {**pod, "spec": spec}


_SET = {
    ("metadata", "labels", "app"): _TEXTS,
    ("metadata", "labels", "a.b/c"): _TEXTS,
    ("metadata", "annotations", "note"): _TEXTS,
    ("spec", "hostNetwork"): _BOOLEANS,
    ("spec", "priority"): _NUMBERS,
    ("spec", "restartPolicy"): _TEXTS,
    ("spec", "nodeSelector", "zone"): _TEXTS,
    ("spec", "securityContext", "seLinuxOptions", "level"): _TEXTS,
    ("spec", "securityContext", "runAsUser"): _NUMBERS,
}


@st.composite
def _mutations(draw: st.DrawFn) -> dict[str, Any]:
    """A strategic merge, or a JSON patch as text."""
    paths = draw(st.lists(st.sampled_from(sorted(_SET)), min_size=1, max_size=4, unique=True))
    if draw(st.booleans()):
        merged: dict[str, Any] = {}
        for path in paths:
            node = merged
            for name in path[:-1]:
                node = node.setdefault(name, {})
            node[draw(st.sampled_from(["{}", "+({})"])).format(path[-1])] = draw(_SET[path])
        return {"patchStrategicMerge": merged}
    operations = []
    for path in paths:
        op = draw(st.sampled_from(["add", "add", "remove", "replace"]))
        pointer = "".join(f"/{name.replace('/', '~1')}" for name in path)
        operations.append({"op": op, "path": pointer, **({} if op == "remove" else {"value": draw(_SET[path])})})
    return {"patchesJson6902": json.dumps(operations)}


@pytest.mark.slow
@pytest.mark.property
@settings(max_examples=100, deadline=None)
@given(_mutations(), _FILTER, st.sampled_from(["Fail", "Ignore"]), st.lists(_POD, min_size=4, max_size=4))
def test_any_mutation(mutation: JSON, filters: dict[str, Any], failure_policy: str, pods: list[dict[str, Any]]) -> None:
    policy = _mutating({"kinds": ["Pod"], **filters}, mutation, failurePolicy=failure_policy)
    cases = []
    for number, (kind, pod) in enumerate(zip(("Pod", "Deployment", "CronJob", "Pod"), pods, strict=True)):
        new = _template(kind, _with_distinct_names(pod))
        cases += [
            PhaseRequests(f"{number} created", _request("CREATE", new, None, kind), None),
            PhaseRequests(f"{number} updated", _request("UPDATE", new, new, kind), None),
        ]
    assert list(_changes(policy, cases, _CLUSTER, _folder())) == []


@cache
def _folder() -> Path:
    import tempfile  # noqa: PLC0415

    return Path(tempfile.mkdtemp())


_RECORDED = [
    "cpol-any-pattern",
    "cpol-deny",
    "cpol-existing-violations",
    "cpol-match-exclude",
    "cpol-pattern",
    "cpol-update",
]


def _rows(name: str) -> list[dict[str, Any]]:
    text = subprocess.run(["zstd", "-qdc", str(_SHARED / name)], capture_output=True, check=True).stdout
    return list(map(json.loads, text.splitlines()))


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not _SHARED.is_dir(), reason="shared/engines is not there")
@pytest.mark.parametrize("name", _RECORDED)
def test_the_rules_of_a_set(name: str, tmp_path: Path) -> None:
    """Over recorded and made-up requests; a server does not send a DELETE without the object that is deleted."""
    cases = [
        PhaseRequests(row["id"], None, row["validating"])
        for row in _rows("requests/recorded.jsonl.zst")
        if row.get("validating")
    ]
    cases += [
        PhaseRequests(row["id"], None, row["request"])
        for row in _rows("requests/synthetic.jsonl.zst")
        if row["id"] != "syn-042"
    ]
    cluster = _rows("requests/cluster.jsonl.zst")
    text = (_SHARED / "kyverno" / "policies" / name / "policy.yaml").read_text("utf-8")
    for policy in yaml.safe_load_all(text):
        if policy["kind"] == "ClusterPolicy":
            assert list(_differences(policy, cases, cluster, tmp_path)) == []


def test_a_merge_joins_items_of_the_same_name(tmp_path: Path) -> None:
    """The known difference: Kyverno's merge walks all lists of the object, the new policy adds the label alone."""
    policy = _mutating({"kinds": ["Pod"]}, {"patchStrategicMerge": {"metadata": {"labels": {"a": "b"}}}})
    first, second = {"name": "A", "value": "1"}, {"name": "A", "value": "2"}
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "env": [first, second]}]}}
    cases = [PhaseRequests("twice", _request("CREATE", pod, None), None)]
    ((_, _, old, new),) = _changes(policy, cases, _CLUSTER, tmp_path)
    assert [each["spec"]["containers"][0]["env"] for each in (old, new)] == [[second], [first, second]]


# Resources of a rule, and what it changes.
_MUTATING: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("a label", {"kinds": ["Pod", "Secret"]}, {"patchStrategicMerge": {"metadata": {"labels": {"x.io/app": "web"}}}}),
    (
        "fields that are there or not",
        {"kinds": ["Pod"]},
        {
            "patchStrategicMerge": {
                "spec": {"+(dnsPolicy)": "None", "securityContext": {"+(runAsUser)": 5, "fsGroup": 7}}
            }
        },
    ),
    (
        "annotations of namespaces by label",
        {"kinds": ["Namespace"], "selector": {"matchExpressions": [{"key": "no", "operator": "DoesNotExist"}]}},
        {"patchStrategicMerge": {"metadata": {"annotations": {"+(one)": "1", "two": "2"}}}},
    ),
    (
        "an atomic map, by the labels of the namespace",
        {"kinds": ["Pod"], "namespaceSelector": {"matchExpressions": [{"key": "no", "operator": "DoesNotExist"}]}},
        {"patchStrategicMerge": {"spec": {"nodeSelector": {"disk": "ssd"}}}},
    ),
    (
        "a JSON patch",
        {"kinds": ["Deployment", "StatefulSet"], "operations": ["CREATE", "UPDATE"]},
        {
            "patchesJson6902": (
                "- {op: remove, path: /spec/template/spec/priority}\n"
                "- {op: add, path: /spec/template/metadata/annotations/x.io~1a, value: b}\n"
                "- {op: replace, path: /spec/replicas, value: 3}"
            )
        },
    ),
    (
        "a JSON patch that fails where a field is absent",
        {"kinds": ["Pod", "Service"], "operations": ["UPDATE", "DELETE"]},
        {"patchesJson6902": "- {op: replace, path: /metadata/labels/app, value: b}"},
    ),
]


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not _SHARED.is_dir(), reason="shared/engines is not there")
@pytest.mark.parametrize(("resources", "mutation"), [row[1:] for row in _MUTATING], ids=[row[0] for row in _MUTATING])
def test_a_mutation_of_recorded_requests(resources: JSON, mutation: JSON, tmp_path: Path) -> None:
    policy = _mutating(resources, mutation)
    assert [each.reason for each in migration([policy])] == [""]
    assert list(_changes(policy, _mutating_cases(), _rows("requests/cluster.jsonl.zst"), tmp_path)) == []


def _mutating_cases() -> list[PhaseRequests]:
    """Recorded and made-up requests. A server refuses one for a namespace that does not exist before it asks anybody."""
    cases = [
        PhaseRequests(row["id"], row["mutating"], None)
        for row in _rows("requests/recorded.jsonl.zst")
        if row.get("mutating")
    ]
    return cases + [
        PhaseRequests(row["id"], row["request"], None)
        for row in _rows("requests/synthetic.jsonl.zst")
        if row["id"] != "syn-027"
    ]


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not _SHARED.is_dir(), reason="shared/engines is not there")
def test_a_mutation_that_kyverno_made(tmp_path: Path) -> None:
    """The only rule of these sets that needs no variables is about Deployments. The answers are those of Kyverno."""
    name = "cpol-mutate-json6902"
    (policy,) = yaml.safe_load_all((_SHARED / "kyverno" / "policies" / name / "policy.yaml").read_text("utf-8"))
    added, replaced = migration([policy])
    assert (added.reason, replaced.reason) == ("the patch has variables", "")
    answers = {row["id"]: row["mutate"] for row in _rows(f"kyverno/expected/{name}.jsonl.zst") if "mutate" in row}
    cases = [
        each
        for each in _mutating_cases()
        if each.mutating is not None and each.mutating["kind"]["kind"] == "Deployment"
    ]
    new = _decided(replaced.policies, cases, _rows("requests/cluster.jsonl.zst"), tmp_path)
    objects = [(as_map(case.mutating).get("object"), case.id) for case in cases]
    made = [_mutated(obj, line["mutateCEL"]) for (obj, _), line in zip(objects, new, strict=True)]
    assert made == [_mutated(obj, answers.get(id_, {"allowed": True})) for obj, id_ in objects]
    assert sum(obj != changed for (obj, _), changed in zip(objects, made, strict=True)) > 10
