"""Rules of the API server that tell one world from another, each by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from replay.admission.decision import Decision, Denial, Undetermined, Verdict
from replay.admission.inputs import changed_places
from replay.audit.event import RequestRecord
from replay.audit.place import LogPosition
from replay.kube.attributes import Basis, Missing, PartialObject, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupResource, GroupVersionKind
from replay.kube.lister import ObjectKey, ObjectTracker
from replay.kube.rbac import ROLE, ROLE_BINDING
from replay.kube.rbac_authorizer import RBACAuthorizers
from replay.kube.schema import Schemas
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import GONE, Hole, Known
from replay.world.collection import Collection, CollectionCursor, Collections
from replay.world.controller import attempts, is_controller, retry_of
from replay.world.lookup import DifferingLookups, LookupsInTime, WorldLister
from replay.world.patching import after_patch_of
from replay.world.request_adapter import _written_back
from replay.world.result import ABSENT, CausingRequest, RequestEnd, answered, merged_end
from replay.world.server.answer import denied
from replay.world.state import (
    LABELS,
    MOST_BRANCHES,
    Branch,
    DeferredObject,
    content,
    known_or_missing,
    merged_branches,
    same_object,
)
from replay.world.step import WorldStep
from replay.world.timeline import OwnerChange, Presence, WorldChange, branches_at, presence_at
from replay.world.validation import (
    PatchRules,
    breaks_rules,
    breaks_schema,
    changes_immutable,
    lacks_fields,
    touches_immutable,
    touches_metadata,
)

DENIAL = "x is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"


def record(**fields: Any) -> RequestRecord:
    empty = dict.fromkeys(RequestRecord._fields, "")
    numbers = dict.fromkeys(("seq", "code", "received", "stage_time", "line"), 0)
    texts = {"annotations": None, "request_object": None, "response_object": None, "user": UserInfo()}
    return RequestRecord(**{**empty, **numbers, **texts, **fields})


@pytest.mark.parametrize(
    ("code", "message", "reason", "cause"),
    [
        (201, "", "", "succeeds"),
        (101, "", "", "succeeds"),
        (422, DENIAL, "Invalid", "denied"),
        (403, 'admission webhook "w" denied the request: no', "", "denied"),
        (422, 'Pod "x" is invalid', "Invalid", "invalid"),
        (403, "x is forbidden: User cannot", "Forbidden", "forbidden"),
        (404, "not found", "NotFound", "absent"),
        (409, "already exists", "AlreadyExists", "exists"),
        (409, "the object has been modified", "Conflict", "conflict"),
        (400, "bad", "BadRequest", "error 400"),
        (0, "", "", "unknown"),
    ],
)
def test_answers(code: int, message: str, reason: str, cause: str) -> None:
    told = answered(record(code=code, status_message=message, status_reason=reason))
    assert told == RequestEnd(cause, code, certain=cause != "unknown")


@pytest.mark.parametrize(
    ("undetermined", "expected"),
    [((), RequestEnd("denied", 422)), ((Undetermined("PodSecurity", "", "x"),), RequestEnd("denied", certain=False))],
    ids=["the first denial gives the code", "another may come first"],
)
def test_the_answer_of_a_denial(undetermined: tuple[Undetermined, ...], expected: RequestEnd) -> None:
    denial = Denial("p", "b", 0, "no", reason="Invalid", code=422)
    made = Decision(Verdict.DENIED, denials=(denial,), undetermined=undetermined)
    assert denied(made) == expected


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([RequestEnd("succeeds", 200), RequestEnd("succeeds", 200)], RequestEnd("succeeds", 200)),
        ([RequestEnd("succeeds", 200), RequestEnd("succeeds", 201)], RequestEnd("succeeds", certain=False)),
        (
            [RequestEnd("succeeds", 200), RequestEnd("succeeds", 200, certain=False)],
            RequestEnd("succeeds", 200, certain=False),
        ),
        ([RequestEnd("succeeds", 200), RequestEnd("absent", 404)], RequestEnd("unknown", certain=False)),
    ],
    ids=["the same", "other codes", "one is not certain", "other causes"],
)
def test_what_possible_ends_have_in_common(ends: list[RequestEnd], expected: RequestEnd) -> None:
    assert merged_end(ends) == expected


def known(value: Any, *holes: tuple[str | int, ...]) -> Known:
    return Known(value, Basis.RECORDED, tuple(Hole(path, "") for path in holes))


CLAIM = {"spec": {"resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Pending"}}
POD_SPEC = {"spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.mark.parametrize(
    ("resource", "old", "new", "expected"),
    [
        ("deployments.apps", {"spec": {"selector": 1}}, {"spec": {"selector": 2}}, True),
        ("deployments.apps", {"spec": {"selector": 1, "replicas": 1}}, {"spec": {"selector": 1}}, False),
        ("rolebindings.rbac.authorization.k8s.io", {"roleRef": 1}, {"roleRef": 2}, True),
        ("configmaps.", {"immutable": True, "data": {"a": "1"}}, {"immutable": True, "data": {}}, True),
        ("configmaps.", {"data": {"a": "1"}}, {"data": {}}, False),
        ("widgets.example.com", {"spec": 1}, {"spec": 2}, False),
        ("pods.", POD_SPEC, {"spec": {"containers": [{"name": "c", "image": "j"}], "tolerations": [1]}}, False),
        ("pods.", POD_SPEC, {"spec": {"containers": [{"name": "c", "image": "i", "ports": [1]}]}}, True),
        ("pods.", POD_SPEC, {"spec": {"containers": POD_SPEC["spec"]["containers"] * 2}}, True),
        ("persistentvolumeclaims.", CLAIM, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}, True),
        ("persistentvolumeclaims.", CLAIM, CLAIM, False),
        (
            "persistentvolumeclaims.",
            {**CLAIM, "status": {"phase": "Bound"}},
            {"spec": {"resources": {"requests": {"storage": "2Gi"}}}},
            False,
        ),
        ("jobs.batch", {"spec": {"template": 1}}, {"spec": {"template": 2}}, True),
        ("jobs.batch", {"spec": {"template": 1, "suspend": True}}, {"spec": {"template": 2, "suspend": True}}, False),
    ],
)
def test_what_may_not_change(resource: str, old: Any, new: Any, expected: bool) -> None:
    name, _, group = resource.partition(".")
    assert changes_immutable(GroupResource(group, name), known(old), known(new)) is expected
    assert not changes_immutable(GroupResource(group, name), known(old, ("spec",), ("roleRef",), ("data",)), known(new))


def test_what_is_not_known_below_what_may_not_change() -> None:
    jobs, hole = GroupResource("batch", "jobs"), ("spec", "template", "labels")
    old = known({"spec": {"template": {"spec": 1}}}, hole)
    assert not changes_immutable(jobs, old, known({"spec": {"template": {"spec": 1, "labels": {"a": "b"}}}}))
    assert changes_immutable(jobs, old, known({"spec": {"template": {"spec": 2}}}))


SELECTING = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": POD_SPEC["spec"]}}}


@pytest.mark.parametrize(
    ("resource", "value", "creates", "expected"),
    [
        ("deployments.apps", {"metadata": {}}, True, True),
        ("deployments.apps", SELECTING, True, True),
        ("deployments.apps", {"spec": {**SELECTING["spec"], "selector": {"matchLabels": {}}}}, True, False),
        ("jobs.batch", {"spec": {"template": POD_SPEC}}, True, False),
        ("jobs.batch", {"spec": {"template": POD_SPEC}}, False, True),
        ("pods.", {"spec": {}}, True, True),
        ("configmaps.", {}, True, False),
    ],
)
def test_what_no_object_may_be_without(resource: str, value: Any, creates: bool, expected: bool) -> None:
    name, _, group = resource.partition(".")
    assert lacks_fields(GroupResource(group, name), known(value), creates=creates) is expected


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "x"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "spec": {
        "group": "example.com",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1, "maximum": 9},
                                    "mode": {"type": "string", "enum": ["a", "b"], "maxLength": 1},
                                    "code": {"type": "string", "pattern": "^[0-9]+$"},
                                    "parts": {"type": "array", "maxItems": 1, "items": {"type": "string"}},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}


@pytest.mark.parametrize(
    ("kind", "changed", "expected"),
    [
        ("v1 Pod", {"metadata": {"name": "x", "labels": {"a": "b"}}}, False),
        ("v1 Pod", {"metadata": {"name": "x", "labels": {"a~b": "c"}}}, True),
        ("v1 Pod", {"metadata": {"name": "x", "labels": {"a": "b c"}}}, True),
        ("v1 Pod", {"metadata": {"name": "x", "annotations": {"a b": ""}}}, True),
        ("v1 Pod", {"spec": {"containers": [{"name": "c"}]}}, True),
        ("v1 Pod", {"spec": {"containers": [{"image": "i"}]}}, True),
        ("v1 Pod", {"spec": {"containers": POD["spec"]["containers"], "hostNetwork": "yes"}}, True),  # type: ignore[index]
        ("example.com/v1 Widget", {"spec": {"size": 9}}, False),
        ("example.com/v1 Widget", {"spec": {"size": 10}}, True),
        ("example.com/v1 Widget", {"spec": {"mode": "c"}}, True),
        ("example.com/v1 Widget", {"spec": {"code": "x"}}, True),
        ("example.com/v1 Widget", {"spec": {"parts": ["a", "b"]}}, True),
        ("example.com/v1 Widget", {"spec": None}, False),
    ],
)
def test_what_a_mutation_may_leave(kind: str, changed: dict[str, Any], expected: bool) -> None:
    version, _, name = kind.partition(" ")
    group, _, version = version.rpartition("/")
    schema = Schemas([CRD]).for_kind(GroupVersionKind(group, version, name))
    before = POD if name == "Pod" else {"metadata": {"name": "x"}, "spec": {}}
    patch = [{"op": "replace", "path": f"/{field}/x", "value": None} for field in changed]
    after = known({**before, **changed})
    assert breaks_rules(schema, after, known(before), patch) is expected
    assert not breaks_rules(schema, after, after, patch)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("a=1", True),
        ("a==1,b", True),
        ("a!=1", False),
        ("a%20in%20(1,2)", True),
        ("a%20notin%20(1,2)", False),
        ("c%20notin%20(1)", True),
        ("c", False),
        ("!c", True),
        ("a%20in%20(3),b", False),
    ],
)
def test_what_a_collection_selects(selector: str, expected: bool) -> None:
    asked = record(request_uri=f"/api/v1/pods?labelSelector={selector}")
    exchange = Exchange(asked, builtin_discovery())
    found = {"metadata": {"name": "x", "labels": {"a": "1", "b": ""}}}
    assert Collection(asked, {}).selects(exchange, known(found)) is expected


@pytest.mark.parametrize(
    ("query", "holes", "expected"),
    [
        ("fieldSelector=metadata.name%3Dx", [], True),
        ("fieldSelector=metadata.name%3Dy", [], False),
        ("fieldSelector=status.phase%3DSucceeded", [], True),
        ("fieldSelector=status.phase!%3DSucceeded", [], False),
        ("fieldSelector=spec.hostNetwork%3Dtrue", [], True),
        ("fieldSelector=spec.restartPolicy%3DAlways", [], True),
        ("fieldSelector=spec.containers%3Dx", [], False),
        ("fieldSelector=status.phase%3DSucceeded", [("status",)], None),
        ("fieldSelector=status.phase%3DSucceeded&labelSelector=a", [("status",)], False),
        ("labelSelector=a", [("metadata", "labels")], None),
    ],
)
def test_fields_that_a_collection_selects(query: str, holes: list[tuple[str, ...]], expected: bool | None) -> None:
    asked = record(request_uri=f"/api/v1/pods?{query}", resource="pods")
    found = {"metadata": {"name": "x"}, "spec": {"hostNetwork": True}, "status": {"phase": "Succeeded"}}
    exchange = Exchange(asked, builtin_discovery())
    assert Collection(asked, {}).selects(exchange, known(found, *holes)) is expected


def test_what_is_not_known_of_an_object_becomes_a_hole() -> None:
    leaf = Missing("object.a", "why")
    value = {"a": leaf, "b": [{"c": leaf, "d": 1}], "e": 2}
    assert known_or_missing(PartialObject(value, (leaf, leaf))) == Known(
        {"b": [{"d": 1}], "e": 2}, Basis.RECONSTRUCTED, (Hole(("a",), "why"), Hole(("b", 0, "c"), "why"))
    )
    assert known_or_missing(leaf) is leaf


def test_worlds_meet_where_contents_are_the_same() -> None:
    one = {"metadata": {"uid": "1", "resourceVersion": "5", "labels": {"a": "b"}}, "status": {"x": 1}, "data": {}}
    other = {"metadata": {"uid": "2", "labels": {"a": "b"}}, "data": {}}
    assert same_object(known(one), known(other))
    assert not same_object(known(one), known({**other, "data": {"k": "v"}}))
    assert same_object(known(one, ("data",)), known({**other, "data": {"k": "v"}}))
    assert not same_object(known(one), GONE)


def test_branches_are_few() -> None:
    states = [known({"data": {"k": str(number)}}) for number in range(MOST_BRANCHES + 1)]
    assert len(merged_branches([Branch(state) for state in (*states[:2], *states[:2])])) == 2
    (unknown,) = merged_branches([Branch(state) for state in states])
    assert isinstance(unknown.state, Missing)
    assert [branch.is_absent for branch in merged_branches([Branch(s) for s in (*states, GONE)])] == [True, False]


def test_what_a_request_finds_is_what_was_before_it() -> None:
    absent, causing_request = (Branch(GONE),), CausingRequest("id", "x")
    changes = [WorldChange(LogPosition(5, 0), absent), WorldChange(LogPosition(9, 0), (Branch(),))]
    assert [branches_at(changes, LogPosition(at, 0)) == absent for at in (4, 5, 6, 9, 10)] == [
        False,
        False,
        True,
        True,
        False,
    ]
    gone, back = (
        OwnerChange(LogPosition(5, 0), Presence.ABSENT, causing_request),
        OwnerChange(LogPosition(9, 0), Presence.SAME, None),
    )
    found = [presence_at({"u": [gone, back]}, "u", LogPosition(at, 0)) for at in (5, 6, 10)]
    assert found == [None, gone, None]


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("system:serviceaccount:kube-system:job-controller", True),
        ("system:kube-scheduler", True),
        ("system:node:n1", True),
        ("system:serviceaccount:ci:deployer", False),
        ("jane", False),
    ],
)
def test_controllers(user: str, expected: bool) -> None:
    assert is_controller(user) is expected


def test_pauses_double() -> None:
    sets = retry_of("system:serviceaccount:kube-system:replicaset-controller", "u")
    jobs = retry_of("system:serviceaccount:kube-system:job-controller", "u")
    assert [attempts(sets, seconds) for seconds in (0, 0.005, 0.015, 2.6, 100)] == [1, 2, 3, 10, 15]
    assert [attempts(jobs, seconds) for seconds in (0, 0.9, 1, 3, 31)] == [1, 1, 2, 3, 6]


CONTAINER = {"name": "a", "image": "i"}
OVERCOMMITTED = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/spec/containers/0/imagePullPolicy", "value": "Always"}, True),
        ({"op": "add", "path": "/spec/containers/1", "value": CONTAINER}, True),
        ({"op": "add", "path": "/spec/containers/1", "value": {"name": "a"}}, False),
        ({"op": "add", "path": "/spec/containers/1", "value": {"image": "i"}}, False),
        ({"op": "add", "path": "/spec/containers/1", "value": {**CONTAINER, "resources": {}}}, True),
        ({"op": "add", "path": "/spec/containers/1", "value": {**CONTAINER, "resources": OVERCOMMITTED}}, False),
        ({"op": "add", "path": "/spec/initContainers/0", "value": {**CONTAINER, "resources": {}}}, True),
        ({"op": "add", "path": "/spec/initContainers/0", "value": {**CONTAINER, "resources": OVERCOMMITTED}}, False),
        ({"op": "add", "path": "/spec/initContainers", "value": [{**CONTAINER, "resources": OVERCOMMITTED}]}, False),
        ({"op": "add", "path": "/spec/initContainers", "value": [{**CONTAINER, "resources": "small"}]}, False),
        ({"op": "add", "path": "/spec/containers/0/resources", "value": {}}, False),
        ({"op": "replace", "path": "/spec/containers", "value": [CONTAINER]}, True),
        ({"op": "remove", "path": "/spec/containers"}, False),
        ({"op": "remove", "path": "/spec/containers/0/image"}, False),
        ({"op": "remove", "path": "/spec/nodeName"}, True),
        ({"op": "replace", "path": "/spec/hostNetwork", "value": "yes"}, False),
        ({"op": "add", "path": "/metadata/labels/a~1b", "value": "c"}, True),
        ({"op": "add", "path": "/metadata/labels/a~0b", "value": "c"}, False),
        ({"op": "add", "path": "/metadata", "value": {"annotations": {"a b": "c"}}}, False),
        ({"op": "add", "path": "", "value": {}}, False),
        ({"op": "copy", "path": "/spec/a", "from": "/spec/b"}, False),
    ],
)
def test_patches_that_leave_every_object_valid(operation: dict[str, Any], expected: bool) -> None:
    rules = PatchRules(Schemas([]))
    kind = GroupVersionKind("", "v1", "Pod")
    assert rules.leaves_valid(kind, [operation]) is expected
    assert rules.leaves_valid(kind, [operation, operation]) is expected


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["/metadata/labels/a"], False),
        (["/spec/template/spec/containers/0/image"], False),
        (["/spec/selector/matchLabels/a"], True),
        (["/spec"], True),
    ],
)
def test_places_that_may_not_change(paths: list[str], expected: bool) -> None:
    places = changed_places("object", ({"path": path} for path in paths))
    assert touches_immutable(GroupResource("apps", "deployments"), "update", "", places) is expected
    assert touches_metadata([{"path": path} for path in paths]) is False


@pytest.mark.parametrize(
    ("path", "expected"), [("/metadata/finalizers", True), ("/metadata", True), ("", True), ("/spec", False)]
)
def test_patches_of_metadata(path: str, expected: bool) -> None:
    assert touches_metadata([{"path": path}]) is expected


def test_what_nobody_asks_for_is_not_worked_out() -> None:
    asked: list[int] = []

    def made() -> Known:
        asked.append(1)
        return known({"metadata": {"labels": {"a": "b"}}})

    later = DeferredObject(made, changed_places("object", [{"path": "/spec/replicas"}]))
    assert merged_branches([Branch(later)]) == (Branch(later),)
    assert later.differs_at(("object", "spec", "replicas"))
    assert later.differs_at(("object", "spec"))
    assert not later.differs_at(LABELS)
    assert DeferredObject(made).differs_at(LABELS)
    assert not asked
    assert content(later) == content(later) == made()
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("spec", "holes", "expected"),
    [
        ({"size": 3}, (), False),
        ({"size": "big"}, (), True),
        ({"size": 99}, (), True),
        ({"size": "big"}, (("spec", "size"),), False),
    ],
)
def test_what_no_server_has_validated_is_held_against_its_schema(spec: Any, holes: Any, expected: bool) -> None:
    schema = Schemas([CRD]).for_kind(GroupVersionKind("example.com", "v1", "Widget"))
    assert breaks_schema(schema, known({"spec": spec}, *holes), GONE) is expected
    assert not breaks_schema(None, known({"spec": spec}), GONE)


BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "b", "namespace": "n"},
    "roleRef": {"kind": "Role", "name": "r"},
    "subjects": [{"kind": "User", "name": "jane"}],
}
RULES = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "r", "namespace": "n"},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}],
}
RBAC = "rbac.authorization.k8s.io"
NAMED = (RBAC, "RoleBinding", "n", "b")
PARAMETER = ("", "ConfigMap", "n", "limits")
BY_BINDING = 'RBAC: allowed by RoleBinding "b/n" of Role "r" to User "jane"'
GRANT = r"""{"authorization.k8s.io/reason": "RBAC: allowed by RoleBinding \"%s/n\" of Role \"r\" to User \"jane\""}"""
BY_OTHER = 'RBAC: allowed by ClusterRoleBinding "c" of ClusterRole "edit" to Group "g"'


@pytest.mark.parametrize(
    ("objects", "state", "decision", "reason", "expected"),
    [
        ([RULES, BINDING], GONE, "allow", BY_BINDING, "forbidden"),
        ([RULES, BINDING], GONE, "allow", BY_OTHER, None),
        ([RULES], Known(BINDING, Basis.RECORDED), "forbid", "", "unknown"),
        ([RULES], GONE, "forbid", "", None),
        ([RULES, BINDING], Missing("", "open"), "allow", BY_BINDING, "unknown"),
    ],
)
def test_who_is_let_in_where_a_binding_is_another(
    objects: Any, state: Any, decision: str, reason: str, expected: str | None
) -> None:
    told = {"authorization.k8s.io/decision": decision, "authorization.k8s.io/reason": reason}
    asked = record(
        verb="create",
        request_uri="/api/v1/namespaces/n/pods",
        user=UserInfo("jane"),
        annotations=orjson.dumps(told).decode(),
    )
    found = DifferingLookups({NAMED: state}).end_before_admission(asked, ObjectTracker(objects), RBACAuthorizers())
    assert (found.cause if found is not None else None) == expected


@pytest.mark.parametrize(
    ("name", "annotations", "expected"),
    [
        pytest.param("b", GRANT % "b", True, id="by a binding that differs"),
        pytest.param("b", GRANT % "other", False, id="by another one"),
        pytest.param("b", GRANT % r"\u0062", True, id="its name is written with an escape"),
        pytest.param("b&c", GRANT % "b&c", True, id="a name that may be written in several ways"),
        pytest.param("b&c", GRANT % r"b\u0026c", True, id="it is, as Go does"),
        pytest.param("b", '{"authorization.k8s.io/decision": "forbid"}', True, id="by nobody"),
        pytest.param("b", "b", False, id="no JSON"),
        pytest.param("b", None, False, id="not recorded"),
    ],
)
def test_whose_requests_may_end_otherwise_where_a_binding_differs(
    name: str, annotations: str | None, expected: bool
) -> None:
    key = (*NAMED[:3], name)
    assert DifferingLookups({key: GONE}).may_end_differently(record(verb="create", annotations=annotations)) is expected


def test_what_a_lister_of_the_other_world_shows() -> None:
    lister = WorldLister(ObjectTracker([RULES, BINDING]), {NAMED: GONE})
    assert lister.get(ROLE_BINDING, "n", "b") is None
    assert lister.get(ROLE, "n", "r") == RULES
    assert (lister.list(ROLE_BINDING, "n"), lister.list(ROLE, "n")) == ([], [RULES])
    there = WorldLister(ObjectTracker([RULES]), {NAMED: Known(BINDING, Basis.RECORDED)})
    assert (there.list(ROLE_BINDING, "n"), there.list(ROLE_BINDING, "m")) == ([BINDING], [])


def test_a_resource_is_served_while_its_definition_is_there() -> None:
    asked = record(api_group="example.com", resource="widgets")
    key = ("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.com")
    lister = ObjectTracker([])
    assert DifferingLookups({key: GONE}).end_before_admission(asked, lister, RBACAuthorizers()) == ABSENT
    assert DifferingLookups({key: Missing("", "open")}).end_before_admission(asked, lister, RBACAuthorizers()) is None
    assert DifferingLookups({}).end_before_admission(asked, lister, RBACAuthorizers()) is None


def test_what_is_looked_up_at_a_time() -> None:
    changes = {NAMED: [WorldChange(LogPosition(5, 0), (Branch(GONE, CausingRequest("id", "x")),))]}
    assert LookupsInTime(changes).at(5, "n") == DifferingLookups({})
    assert LookupsInTime(changes).at(6, "n") == DifferingLookups({NAMED: GONE}, CausingRequest("id", "x"))
    open_ones = {NAMED: [WorldChange(LogPosition(5, 0), (Branch(GONE), Branch()))]}
    assert isinstance(LookupsInTime(open_ones).at(6, "n").states[NAMED], Missing)


@pytest.mark.parametrize(
    ("key", "namespaces", "is_found"),
    [
        pytest.param(PARAMETER, frozenset(), False, id="a parameter of another namespace"),
        pytest.param(PARAMETER, frozenset({"n"}), True, id="a parameter of a namespace that a binding names"),
        pytest.param(PARAMETER, None, True, id="an object that an engine may look up"),
        pytest.param(("", "ConfigMap", "m", "limits"), frozenset(), True, id="a parameter of the request's namespace"),
        pytest.param(NAMED, frozenset(), True, id="a role binding, about which an expression may ask"),
        pytest.param(("", "Namespace", "", "n"), frozenset(), True, id="an object without a namespace"),
    ],
)
def test_what_is_looked_up_from_a_namespace(
    key: ObjectKey, namespaces: frozenset[str] | None, *, is_found: bool
) -> None:
    changes = {key: [WorldChange(LogPosition(5, 0), (Branch(GONE),))]}
    assert LookupsInTime(changes, namespaces).at(6, "m") == DifferingLookups({key: GONE} if is_found else {})


def test_what_a_controller_writes_back_leaves_the_rest_unknown() -> None:
    logged = Known({"spec": {"replicas": 1}, "status": {}}, Basis.RECORDED)
    body = Known({"spec": {"replicas": 1}, "status": {"replicas": 1}}, Basis.RECORDED)
    hole = Hole(("spec",), "a patch without a body")
    step = cast("WorldStep", SimpleNamespace(old=logged))
    assert _written_back(step, body, logged.with_holes([hole])) == Known(body.value, Basis.RECONSTRUCTED, (hole,))


RANDOM = Hole(("spec", "containers", 0, "volumeMounts", 0, "name"), "random")


@pytest.mark.parametrize(
    ("patch", "containers", "holes"),
    [
        (
            {"spec": {"containers": [{"name": "a", "image": "j"}]}},
            ["j"],
            [("spec", "containers", 0, "volumeMounts", 0, "name")],
        ),
        (
            [{"op": "add", "path": "/spec/containers/0", "value": {"name": "z", "image": "k"}}],
            ["k", "i"],
            [("spec", "containers", 1, "volumeMounts", 0, "name")],
        ),
        ([{"op": "remove", "path": "/spec/containers/0/volumeMounts"}], ["i"], []),
    ],
)
def test_a_patch_of_an_object_parts_of_which_are_not_known(patch: Any, containers: Any, holes: Any) -> None:
    mounted = {"name": "a", "image": "i", "volumeMounts": [{"mountPath": "/x"}]}
    value = {**POD, "spec": {"containers": [mounted]}}
    asked = record(
        verb="patch", api_version="v1", resource="pods", name="x", request_object=orjson.dumps(patch).decode()
    )
    after = after_patch_of(Exchange(asked, builtin_discovery()), known(value, RANDOM.path), Schemas(), strategic=True)
    assert isinstance(after, Known)
    assert [each["image"] for each in after.value["spec"]["containers"]] == containers
    assert [hole.path for hole in after.holes] == holes


def _collection(seq: int, *uids: str, namespace: str = "n", denied: bool = False) -> Collection:
    fields = {"code": 422, "status_message": "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"}
    deletion = record(
        verb="deletecollection", resource="pods", namespace=namespace, seq=seq, **(fields if denied else {})
    )
    return Collection(deletion, {uid: number for number, uid in enumerate(uids)})


MEETINGS = [
    ("nothing of its own: those that list it or were refused", "a", {}, [(2, [2]), (4, [3]), (9, [6])]),
    ("an object of the other world meets all", "a", {0, 2, 4, 9}, [(2, [1, 2]), (4, [3]), (9, [5, 6])]),
    ("it is there from one request on", "a", {4, 9}, [(2, [2]), (4, [3]), (9, [5, 6])]),
    ("an object of which no uid is known", "", {}, [(2, []), (4, [3]), (9, [])]),
    ("those of one time come before the request", "c", {9}, [(0, []), (5, [3, 5]), (5, []), (9, [6])]),
]


@pytest.mark.parametrize(
    ("uid", "meeting", "requests"), [row[1:] for row in MEETINGS], ids=[row[0] for row in MEETINGS]
)
def test_which_collections_an_object_meets(uid: str, meeting: set[int], requests: list[tuple[int, list[int]]]) -> None:
    own = (
        _collection(6, "a"),
        _collection(1),
        _collection(2, "b", "a"),
        _collection(3, denied=True),
        _collection(5, "c"),
    )
    other = (_collection(4, "a", namespace="other"),)
    collections = Collections({("", "pods", "n", ""): own, ("", "pods", "other", ""): other})
    meetings = CollectionCursor(collections.requests_about(record(resource="pods", namespace="n")))
    shown = [
        (seq, [each.record.seq for each in meetings.until(seq, uid, lambda seq=seq: seq in meeting)])  # type: ignore[misc]
        for seq, _ in requests
    ]
    assert shown == requests
