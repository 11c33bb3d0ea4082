from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replay.json import JSON
from replay.kube import rbac_authorizer
from replay.kube.attributes import Missing, PartialObject, PossiblyAbsent, UserInfo
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import ObjectLister
from replay.kube.rbac_authorizer import RBACAuthorizer, RBACAuthorizers, RoleResolver

SHOP = Path(__file__).parents[2].parent / "shared" / "recordings" / "shop"


class Objects:
    """A lister over a list of objects."""

    def __init__(self, objects: Sequence[JSON]) -> None:
        self._objects = sorted(objects, key=lambda item: (self._namespace(item), item["metadata"]["name"]))

    @staticmethod
    def _namespace(item: JSON) -> str:
        return str(item["metadata"].get("namespace", ""))

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        found = [item for item in self.list(kind, namespace or None) if item["metadata"]["name"] == name]
        return found[0] if found else None

    def list_all(self) -> Sequence[JSON]:
        return self._objects

    def list(self, kind: GroupVersionKind, namespace: str | None) -> list[JSON]:
        return [
            item
            for item in self._objects
            if item["kind"] == kind.kind and (namespace is None or self._namespace(item) == namespace)
        ]


def role(name: str, *rules: JSON, namespace: str = "") -> JSON:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"kind": "Role" if namespace else "ClusterRole", "metadata": metadata, "rules": list(rules)}


def binding(name: str, ref: tuple[str, str], *subjects: JSON, namespace: str = "") -> JSON:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    return {
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"kind": ref[0], "name": ref[1]},
        "subjects": list(subjects),
    }


USER = {"kind": "User", "name": "ann"}
OBJECTS = [
    role("reader", {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/status"]}),
    role("paths", {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/metrics/*"]}),
    role("named", {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["one"]}, namespace="a"),
    role("empty"),
    binding("reader-bind", ("ClusterRole", "reader"), USER),
    binding("paths-bind", ("ClusterRole", "paths"), {"kind": "Group", "name": "devs"}),
    binding("empty-bind", ("ClusterRole", "empty"), USER),
    binding("named-bind", ("Role", "named"), {"kind": "ServiceAccount", "name": "bot"}, namespace="a"),
    binding("lost-bind", ("ClusterRole", "lost"), {"kind": "User", "name": "eve"}),
    binding("odd-bind", ("Thing", "odd"), {"kind": "User", "name": "eve"}),
]
ANN, DEV, BOT = UserInfo("ann"), UserInfo("dan", "", ("devs",)), UserInfo("system:serviceaccount:a:bot")
READER = 'RBAC: allowed by ClusterRoleBinding "reader-bind" of ClusterRole "reader" to User "ann"'
PATHS = 'RBAC: allowed by ClusterRoleBinding "paths-bind" of ClusterRole "paths" to Group "devs"'
NAMED = 'RBAC: allowed by RoleBinding "named-bind/a" of Role "named" to ServiceAccount "bot/a"'
LOST = 'RBAC: [clusterrole.rbac.authorization.k8s.io "lost" not found, unsupported role reference kind: "Thing"]'


def ask(user: UserInfo, verb: str, resource: str = "", **rest: Any) -> AuthorizationAttributes:
    return AuthorizationAttributes(user, verb, resource=resource, **rest)


@pytest.mark.parametrize(
    ("attributes", "allowed", "reason"),
    [
        pytest.param(ask(ANN, "get", "pods", namespace="x"), True, READER, id="cluster role"),
        pytest.param(ask(ANN, "delete", "pods"), False, "", id="another verb"),
        pytest.param(ask(ANN, "get", "pods", api_group="apps"), False, "", id="another group"),
        pytest.param(ask(ANN, "get", "pods", subresource="log"), False, "", id="a subresource is not the resource"),
        pytest.param(ask(ANN, "get", "nodes", subresource="status"), True, READER, id="any resource's status"),
        pytest.param(ask(DEV, "get", path="/metrics/a"), True, PATHS, id="path with a star"),
        pytest.param(ask(DEV, "get", path="/metrics"), False, "", id="path before the star"),
        pytest.param(ask(DEV, "post", path="/healthz"), False, "", id="path, another verb"),
        pytest.param(ask(BOT, "x", "y", namespace="a", name="one"), True, NAMED, id="service account, by name"),
        pytest.param(ask(BOT, "x", "y", namespace="a", name="two"), False, "", id="another name"),
        pytest.param(ask(BOT, "x", "y", namespace="b", name="one"), False, "", id="another namespace"),
        pytest.param(ask(UserInfo("eve"), "get", "pods"), False, LOST, id="roles that are not there"),
        pytest.param(ask(UserInfo("m", "", ("system:masters",)), "x", "y"), True, "", id="masters"),
    ],
)
def test_decision(attributes: AuthorizationAttributes, allowed: bool, reason: str) -> None:
    assert RBACAuthorizer(Objects(OBJECTS)).authorize(attributes) == AuthorizationDecision(allowed, reason)


def test_a_refused_node_is_undecided() -> None:
    node = UserInfo("system:node:n1", "", ("system:nodes",))
    decision = RBACAuthorizer(Objects(OBJECTS)).authorize(ask(node, "get", "secrets", namespace="a"))
    assert isinstance(decision, Missing)
    assert decision.path == "authorizer"


def test_groups_that_are_not_known_matter_where_nothing_else_allows() -> None:
    authorizer = RBACAuthorizer(Objects(OBJECTS))
    ann = UserInfo("ann", missing=("groups",))
    assert authorizer.authorize(ask(ann, "get", "pods", namespace="x")) == AuthorizationDecision(True, READER)
    decision = authorizer.authorize(ask(ann, "delete", "pods"))
    assert decision == Missing("authorizer", "the log does not have the groups of the user")
    assert authorizer.authorize(ask(ANN, "delete", "pods")) == AuthorizationDecision(False, "")


def test_no_snapshot_is_undecided() -> None:
    missing = Missing("authorizer", "no snapshot of the cluster was given")

    class Nothing:
        def get(self, kind: GroupVersionKind, namespace: str, name: str) -> Missing:
            del kind, namespace, name
            return missing

        def list(self, kind: GroupVersionKind, namespace: str | None) -> Missing:
            del kind, namespace
            return missing

    assert RBACAuthorizer(Nothing()).authorize(ask(ANN, "get", "pods")) is missing


CHANGING = Missing("authorizer", "another request changed the object at the same time")
PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}


def partly(obj: JSON, **parts: JSON) -> PartialObject:
    return PartialObject({**obj, **parts}, (CHANGING,))


def perhaps(obj: JSON) -> PossiblyAbsent:
    return PossiblyAbsent("authorizer", CHANGING.reason, object=obj)


def plain(item: JSON | PartialObject | PossiblyAbsent) -> JSON:
    return item.object if isinstance(item, PossiblyAbsent) else getattr(item, "value", item)


def read_by(*subjects: JSON, name: str = "b") -> JSON:
    return binding(name, ("ClusterRole", "r"), *subjects)


PARTIAL = [
    ("subjects not known", [role("r", PODS), partly(read_by(), subjects=CHANGING)], None),
    ("a subject's name not known", [role("r", PODS), partly(read_by({"kind": "User", "name": CHANGING}))], None),
    ("another subject known", [role("r", PODS), partly(read_by({"kind": "User", "name": CHANGING}, USER))], True),
    ("the role does not help", [role("r"), partly(read_by(), subjects=CHANGING)], False),
    ("role reference not known", [role("r", PODS), partly(read_by(USER), roleRef={"name": CHANGING})], None),
    ("metadata not known", [role("r", PODS), partly(read_by(USER), metadata={"name": "b", "labels": CHANGING})], True),
    ("rules not known", [partly(role("r"), rules=CHANGING), read_by(USER)], None),
    ("a rule not known, another allows", [partly(role("r", {"verbs": CHANGING}, PODS)), read_by(USER)], True),
    ("a rule not known, no other allows", [partly(role("r", {"verbs": CHANGING})), read_by(USER)], None),
    ("a binding that may not be there", [role("r", PODS), perhaps(read_by(USER))], None),
    ("one for somebody else", [role("r", PODS), perhaps(read_by({"kind": "User", "name": "zed"}))], False),
    ("one that does not help", [role("r"), perhaps(read_by(USER))], False),
    ("another binding allows", [partly(read_by(), subjects=CHANGING), role("r", PODS), read_by(USER, name="z")], True),
]


@pytest.mark.parametrize(("objects", "allowed"), [row[1:] for row in PARTIAL], ids=[row[0] for row in PARTIAL])
def test_what_is_not_known_of_rbac_is_an_unknown_answer(
    objects: list[JSON | PartialObject | PossiblyAbsent], allowed: bool | None
) -> None:
    """A binding or role that was being changed is known in parts; what else allows or cannot matter is an answer."""
    known = {id(plain(item)): item for item in objects}

    class Changing(Objects):
        def list(self, kind: GroupVersionKind, namespace: str | None) -> list[JSON]:
            return [known[id(item)] for item in super().list(kind, namespace)]

        def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
            found = super().list(kind, namespace or None)
            return next((known[id(item)] for item in found if item["metadata"]["name"] == name), None)

    decision = RBACAuthorizer(Changing([plain(item) for item in objects])).authorize(ask(ANN, "get", "pods"))
    if isinstance(decision, Missing):
        assert (decision.reason, allowed) == (CHANGING.reason, None)
    else:
        assert decision.allowed is allowed


def lines(name: str) -> list[Any]:
    with pa.input_stream(str(SHOP / name), compression="zstd") as stream:
        return [json.loads(line) for line in stream.read().split(b"\n") if line]


@pytest.mark.shared
@pytest.mark.skipif(not SHOP.exists(), reason="the recording is not beside the checkout")
def test_agrees_with_every_decision_of_a_real_server() -> None:
    objects = [item for item in lines("cluster.jsonl.zst") if "Role" in item["kind"]]
    authorizer, differences, reasons = RBACAuthorizer(Objects(objects)), [], 0
    for event in lines("audit.jsonl.zst"):
        annotations = event["annotations"]
        decision = authorizer.authorize(attributes_of(event))
        assert isinstance(decision, AuthorizationDecision)
        if decision.allowed != (annotations["authorization.k8s.io/decision"] == "allow"):
            differences.append(event["auditID"])
        reasons += decision.reason != annotations["authorization.k8s.io/reason"]
    assert differences == []
    # Where several bindings allow, the server names any of them: two bindings let the scheduler watch volume claims.
    assert reasons <= 2


def attributes_of(event: JSON) -> AuthorizationAttributes:
    """The question that a request put to the authorizers; `create` has no name but for subresources."""
    user = event.get("impersonatedUser") or event["user"]
    info = UserInfo(user.get("username", ""), user.get("uid", ""), tuple(user.get("groups", ())))
    ref = event.get("objectRef") or {}
    if "resource" not in ref:
        return AuthorizationAttributes(info, event["verb"], path=event["requestURI"].partition("?")[0])
    name = ref.get("name", "")
    if event["verb"] == "create" and f"/{name}" not in event["requestURI"]:
        name = ""
    return AuthorizationAttributes(
        info,
        event["verb"],
        api_group=ref.get("apiGroup", ""),
        resource=ref["resource"],
        subresource=ref.get("subresource", ""),
        namespace=ref.get("namespace", ""),
        name=name,
    )


def test_bindings_of_others_do_not_matter() -> None:
    """Ten thousand bindings take as long as a hundred: only those of the user are looked at."""
    others = [binding(f"b{n}", ("ClusterRole", "reader"), {"kind": "User", "name": f"u{n}"}) for n in range(10_000)]
    resolver = RoleResolver(ObjectLister([api(each) for each in (*OBJECTS, *others)]))
    assert [grant.binding[2] for grant in resolver.grants(ANN, "").grants] == ["empty-bind", "reader-bind"]
    assert resolver.decide(ask(ANN, "get", "pods")).reasons == (READER,)


def test_several_bindings_may_give_the_reason_and_those_of_the_cluster_come_first() -> None:
    twice = [
        binding("z", ("ClusterRole", "reader"), USER),
        binding("in-a", ("ClusterRole", "reader"), USER, namespace="a"),
    ]
    resolver = RoleResolver(ObjectLister([api(each) for each in (*OBJECTS, *twice)]))
    reasons = resolver.decide(ask(ANN, "get", "pods", namespace="a")).reasons
    assert reasons == (READER, 'RBAC: allowed by ClusterRoleBinding "z" of ClusterRole "reader" to User "ann"')


def api(obj: JSON) -> JSON:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", **obj}


def test_what_changes_is_laid_over_what_does_not() -> None:
    """A binding of either knows the roles of both; the same bindings and roles are the same grants, in any state."""
    base = RoleResolver(ObjectLister([api(each) for each in OBJECTS]))
    more = api(binding("a-first", ("ClusterRole", "late"), USER))
    late = api(
        {
            "kind": "ClusterRole",
            "metadata": {"name": "late"},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
        }
    )
    without, one, other = (
        RoleResolver(ObjectLister(objects), base) for objects in ([more], [more, late], [more, late])
    )
    assert [grant.binding[2] for grant in one.grants(ANN, "").grants] == ["a-first", "empty-bind", "reader-bind"]
    assert len(one.decide(ask(ANN, "get", "pods")).reasons) == 2
    assert one.grants(ANN, "") is other.grants(ANN, "")
    assert one.grants(ANN, "") is not without.grants(ANN, "")
    assert without.decide(ask(ANN, "get", "pods")).reasons == (READER,)
    assert base.grants(ANN, "").grants == RoleResolver(ObjectLister([]), base).grants(ANN, "").grants


def test_names_that_no_rule_tells_apart_are_decided_once() -> None:
    named = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["web"]}
    objects = [
        api({"kind": "ClusterRole", "metadata": {"name": "named"}, "rules": [named]}),
        api(binding("named", ("ClusterRole", "named"), USER)),
    ]
    resolver = RoleResolver(ObjectLister(objects))
    asked = {name: AuthorizationAttributes(ANN, "get", resource="pods", name=name) for name in ("web", "db", "cache")}
    assert [bool(resolver.decide(each).allowing) for each in asked.values()] == [True, False, False]
    assert resolver.decide(asked["db"]) is resolver.decide(asked["cache"])


class Listings:
    """A lister that lists the same object as long as nothing of a kind is written."""

    def __init__(self, objects: Sequence[JSON]) -> None:
        self.objects = Objects(objects)
        self._listed: dict[object, Any] = {}

    def write(self, objects: Sequence[JSON], *kinds: str) -> None:
        """The objects from now on; those of some kinds are listed anew."""
        self.objects = Objects(objects)
        self._listed = {key: each for key, each in self._listed.items() if not str(key).startswith(kinds)}

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        return self.objects.get(kind, namespace, name)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Any:
        key = f"{kind.kind}/{namespace}"
        if key not in self._listed:
            self._listed[key] = tuple(self.objects.list(kind, namespace))
        return self._listed[key]


def test_one_authorizer_for_all_requests_between_two_changes() -> None:
    """Another one for what is written in the log, for other objects of the other world, and for other namespaces."""
    authorizers, lister, others = RBACAuthorizers(), Listings(OBJECTS), (object(), object())
    allowed = ask(BOT, "get", "pods", namespace="a", name="one")

    def of(other: object = others[0], namespace: str = "a") -> RBACAuthorizer:
        return authorizers.authorizer_for(lister, namespace, other, lambda: Objects(lister.objects.list_all()))

    first = of()
    assert of() is first
    assert of(others[1]) is not first
    assert of(namespace="b") is not first
    assert of(namespace="") is not of(namespace="b")
    without_role = [each for each in OBJECTS if each["metadata"]["name"] != "named"]
    lister.write(without_role, "Role/a")
    second = of()
    assert second is not first
    assert [each.authorize(allowed).allowed for each in (first, second)] == [True, False]  # type: ignore[union-attr]
    lister.write(without_role, "ClusterRoleBinding")
    assert of() is not second


def test_no_authorizer_is_remembered_where_something_is_not_known_or_listed_anew() -> None:
    class Unknown(Objects):
        def list(self, kind: GroupVersionKind, namespace: str | None) -> Any:
            return Missing("Role", "unknown") if (kind.kind, namespace) == ("Role", "a") else ()

    for lister in (Unknown([]), Objects(OBJECTS)):
        authorizers = RBACAuthorizers()
        one, other = (authorizers.authorizer_for(lister, "a", lister, lambda: Objects(OBJECTS)) for _ in range(2))
        assert one is not other


def test_the_oldest_authorizers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rbac_authorizer, "MOST_AUTHORIZERS", 1)
    authorizers, lister = RBACAuthorizers(), Listings(OBJECTS)
    first = authorizers.authorizer_for(lister, "a", OBJECTS, lambda: lister)
    assert authorizers.authorizer_for(lister, "b", OBJECTS, lambda: lister) is authorizers.authorizer_for(
        lister, "b", OBJECTS, lambda: lister
    )
    assert authorizers.authorizer_for(lister, "a", OBJECTS, lambda: lister) is not first
