"""The rules of kcp, one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.admission.ordered.registry import SHARD_ORDERED_PLUGINS
from replay.audit.store import Store
from replay.kcp.annotation import annotated, shown_to_webhook, workspace_of
from replay.kcp.binding import bound_from, crd_of_schema, is_local, is_system
from replay.kcp.shard.cluster import ShardCluster
from replay.kcp.user import SCOPES, UnknownRolesAuthorizer, scoped_user
from replay.kube.attributes import Attributes, Missing, Operation, UserInfo
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.gvk import GroupResource, GroupVersionKind, GroupVersionResource
from replay.kube.lister import ObjectTracker
from replay.matching.coarse import Predicate
from replay.matching.rules import is_excluded_from_policies
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.reconstructor import Reconstructor

CLUSTER = {"kcp.io/cluster": "2abc", "kcp.io/path": "root:a"}
ALLOWED = {**CLUSTER, "authorization.k8s.io/decision": "allow"}
ON_SHARD = {**ALLOWED, "request.auth.kcp.io/01-requiredgroups-decision": "Allowed"}
MASTERS = {"username": "system:apiserver", "groups": ["system:masters"]}
ALICE = {"username": "alice", "groups": ["dev"]}


def event(**fields: Any) -> dict[str, Any]:
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "id",
        "stage": "ResponseComplete",
        "requestURI": "/apis/example.org/v1/widgets/w",
        "verb": "update",
        "user": ALICE,
        "objectRef": {"resource": "widgets", "apiGroup": "example.org", "apiVersion": "v1", "name": "w"},
        "responseStatus": {"code": 200},
        "stageTimestamp": "2026-01-01T00:00:01.000000Z",
        **fields,
    }


EVENTS: list[tuple[str, dict[str, Any], tuple[str, str, bool] | str]] = [
    ("of Kubernetes", event(), ("", "widgets", False)),
    ("of a user at the shard", event(annotations=ON_SHARD), ("2abc", "widgets", False)),
    ("of a user at a virtual workspace", event(annotations=ALLOWED), "sent on"),
    (
        "refused by a virtual workspace",
        event(annotations={**CLUSTER, "authorization.k8s.io/decision": "forbid"}),
        ("2abc", "widgets", False),
    ),
    ("of kcp itself", event(annotations=ALLOWED, user=MASTERS), ("2abc", "widgets", False)),
    ("a read at a virtual workspace", event(annotations=ALLOWED, verb="get"), ("2abc", "widgets", False)),
    (
        "sent on by a virtual workspace",
        event(
            annotations=ON_SHARD,
            user=MASTERS,
            impersonatedUser=ALICE,
            objectRef={"resource": "widgets:dbf8", "apiGroup": "example.org", "apiVersion": "v1", "name": "w"},
        ),
        ("2abc", "widgets", False),
    ),
    ("of somebody impersonated", event(annotations=ON_SHARD, impersonatedUser=ALICE), ("2abc", "widgets", True)),
    (
        "of a proxy in front of an initializing workspace",
        event(
            annotations=ALLOWED,
            user=MASTERS,
            verb="post",
            objectRef=None,
            requestURI="/clusters/2abc/api/v1/namespaces",
        ),
        "sent on",
    ),
    ("a colon without kcp", event(objectRef={"resource": "a:b", "name": "w"}), ("", "a:b", False)),
]


@pytest.mark.parametrize(("logged", "expected"), [row[1:] for row in EVENTS], ids=[row[0] for row in EVENTS])
def test_what_an_event_is_about(tmp_path: Path, logged: dict[str, Any], expected: object) -> None:
    (tmp_path / "log").write_text("\n".join(json.dumps(each) for each in (logged, event(auditID="other"))))
    with Store.open() as store:
        store.ingest([tmp_path / "log"])
        rows = store.sql("select workspace, resource, scoped from request where audit_id = 'id'").rows()
        rejects = [str(reject.reason) for reject in store.rejects()]
    assert (rows, rejects) == ([], [expected]) if isinstance(expected, str) else ([expected], [])


def binding(source: str, *resources: tuple[str, str]) -> dict[str, Any]:
    bound = [{"group": group, "resource": resource} for group, resource in resources]
    return {"kind": "APIBinding", "status": {"apiExportClusterName": source, "boundResources": bound}}


BOUND = [
    ("bound", binding("2p", ("example.org", "widgets")), "2p"),
    ("another group", binding("2p", ("example.com", "widgets")), ""),
    ("another resource", binding("2p", ("example.org", "gadgets")), ""),
    ("one of several", binding("2p", ("a", "b"), ("example.org", "widgets")), "2p"),
    ("not yet bound", {"kind": "APIBinding", "spec": {}}, ""),
    ("of another form", {"kind": "APIBinding", "status": {"boundResources": "none"}}, ""),
    ("nothing", None, ""),
]


@pytest.mark.parametrize(("obj", "expected"), [row[1:] for row in BOUND], ids=[row[0] for row in BOUND])
def test_where_a_resource_is_bound_from(obj: Any, expected: str) -> None:
    assert bound_from(obj, GroupResource("example.org", "widgets")) == expected


CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.org"},
    "spec": {
        "group": "example.org",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True}],
    },
}


def standing(obj: dict[str, Any], name: str = "w") -> Any:
    """An object as a snapshot of the workspace 2abc holds it."""
    metadata = {"name": name, "creationTimestamp": "2025-01-01T00:00:00Z", **obj.get("metadata", {})}
    return annotated({"apiVersion": "apis.kcp.io/v1alpha2", **obj, "metadata": metadata}, "2abc")


BOUND_ELSEWHERE = standing(binding("2q", ("gadgets.example.org", "gadgets")), "gadgets")
DECIDERS: list[tuple[str, list[Any], str | None]] = [
    ("bound", [standing(binding("2p", ("example.org", "widgets")))], "2p"),
    ("bound by one of several", [BOUND_ELSEWHERE, standing(binding("2p", ("example.org", "widgets")))], "2p"),
    ("its own", [BOUND_ELSEWHERE, standing(CRD, "widgets.example.org")], "2abc"),
    ("neither bound nor its own", [BOUND_ELSEWHERE], None),
    ("its own, and bindings are not known", [standing(CRD, "widgets.example.org")], None),
    ("nothing known", [], None),
]


@pytest.mark.parametrize(("snapshot", "expected"), [row[1:] for row in DECIDERS], ids=[row[0] for row in DECIDERS])
def test_whose_policies_decide(snapshot: list[Any], expected: str | None) -> None:
    found = ShardCluster(snapshot).policy_workspace("2abc", GroupResource("example.org", "widgets"), 10**18, 10**18)
    assert (None if isinstance(found, Missing) else found) == expected


WIDGETS = "widgets.example.org"
UNKNOWN: list[tuple[str, list[Any], str, str]] = [
    (
        "its own, and bindings are not known",
        [standing(CRD, WIDGETS)],
        f"the workspace defines {WIDGETS}, and it is not known whether an APIBinding replaces the definition",
        "add the workspace's APIBindings to the snapshot (`kubectl get apibindings -o yaml`)",
    ),
    (
        "neither bound nor its own",
        [BOUND_ELSEWHERE],
        f"no APIBinding of the workspace binds {WIDGETS}, and its definition is not known",
        "add the APIBindings of that time, or the CustomResourceDefinition, to the snapshot",
    ),
    (
        "nothing known",
        [],
        f"the APIBindings of the workspace are not known, which decide where {WIDGETS} comes from",
        "give a snapshot with the objects of the workspace",
    ),
]


@pytest.mark.parametrize(("snapshot", "reason", "fix"), [row[1:] for row in UNKNOWN], ids=[row[0] for row in UNKNOWN])
def test_what_a_snapshot_lacks_is_told(snapshot: list[Any], reason: str, fix: str) -> None:
    found = ShardCluster(snapshot).policy_workspace("2abc", GroupResource("example.org", "widgets"), 10**18, 10**18)
    assert found == Missing("", reason, fix)


def test_a_kind_that_is_not_known_is_not_told_to_policies(tmp_path: Path) -> None:
    logged = event(verb="delete", responseStatus={"code": 200})
    (tmp_path / "log").write_text(json.dumps(logged))
    with Store.open() as store:
        store.ingest([tmp_path / "log"])
        (records,) = store.whole().objects(Predicate("true", ()))
        found = {
            len(cluster.crds): {
                each.path for request in Reconstructor(cluster).requests(records) for each in request.attributes.missing
            }
            for cluster in (Cluster(), Cluster([CRD]))
        }
    assert found == {0: {"request.kind", "request.requestKind"}, 1: set()}


def test_fields_of_a_kind_are_those_of_the_workspace() -> None:
    def defined(workspace: str, field: str) -> Any:
        properties = {"spec": {"type": "object", "properties": {field: {"type": "string"}}}}
        version = {
            "name": "v1",
            "served": True,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        }
        return annotated({**CRD, "spec": {**CRD["spec"], "versions": [version]}}, workspace)

    cluster = ShardCluster([defined("2abc", "size"), defined("2def", "height")])
    kind = GroupVersionKind("example.org", "v1", "Widget")
    found = {each: cluster.schemas_of(each).for_kind(kind) for each in ("2abc", "2def", "2ghi")}
    names = {each: schema and list(schema.fields["spec"].fields) for each, schema in found.items()}
    assert names == {"2abc": ["size"], "2def": ["height"], "2ghi": None}


def test_what_every_workspace_has_of_its_own() -> None:
    assert is_local(GroupResource("", "configmaps"))
    assert is_local(GroupResource("rbac.authorization.k8s.io", "roles"))
    assert is_local(GroupResource("apis.kcp.io", "apibindings"))
    assert not is_local(GroupResource("", "pods"))
    assert not is_local(GroupResource("tenancy.kcp.io", "workspaces"))
    assert is_system("system:admin")
    assert not is_system("root")


def test_in_which_order_plugins_are_asked() -> None:
    kinds = [type(each).__name__ + getattr(each, "phase", "") for each in SHARD_ORDERED_PLUGINS]
    assert kinds == [
        "WebhookPluginmutating",
        "MutatingAdmissionPolicyPlugin",
        "ValidatingAdmissionPolicyPlugin",
        "WebhookPluginvalidating",
    ]


@pytest.mark.parametrize("resource", ["tokenreviews", "selfsubjectreviews"])
def test_reviews_are_put_to_policies(resource: str) -> None:
    reviews = GroupVersionResource("authentication.k8s.io", "v1", resource)
    assert is_excluded_from_policies(reviews)
    assert not is_excluded_from_policies(reviews, "2abc")


def test_a_user_confined_to_a_workspace() -> None:
    user = UserInfo("carol", extra={SCOPES: ("cluster:1x",)})
    assert scoped_user(user, "2abc").extra == {SCOPES: ("cluster:1x", "cluster:2abc")}
    assert user.extra == {SCOPES: ("cluster:1x",)}


def test_the_blind_authorizer() -> None:
    authorizer = UnknownRolesAuthorizer(ObjectTracker())
    asked = AuthorizationAttributes(UserInfo("bob", groups=("dev",)), "delete", resource="widgets")
    assert authorizer.authorize(asked) == AuthorizationDecision(allowed=False, reason="access denied")
    master = AuthorizationAttributes(UserInfo("x", groups=("system:masters",)), "delete", resource="widgets")
    assert authorizer.authorize(master) == AuthorizationDecision(allowed=True)


def attributes(operation: Operation, workspace: str) -> Attributes:
    return Attributes(
        operation=operation,
        kind=GroupVersionKind("example.org", "v1", "Widget"),
        resource=GroupVersionResource("example.org", "v1", "widgets"),
        subresource="",
        namespace="",
        name="w",
        user_info=UserInfo(),
        object={"metadata": {"name": "w"}},
        workspace=workspace,
    )


def test_a_webhook_is_shown_the_workspace_of_a_new_object() -> None:
    new = shown_to_webhook(attributes(Operation.CREATE, "2abc"))
    assert new == {"metadata": {"name": "w", "annotations": {"kcp.io/cluster": "2abc"}}}
    assert workspace_of(new) == "2abc"
    assert shown_to_webhook(attributes(Operation.UPDATE, "2abc")) == {"metadata": {"name": "w"}}
    assert shown_to_webhook(attributes(Operation.CREATE, "")) == {"metadata": {"name": "w"}}
    assert annotated({"metadata": {"annotations": {"a": "b"}}}, "2abc")["metadata"]["annotations"] == {
        "a": "b",
        "kcp.io/cluster": "2abc",
    }


def test_a_schema_as_the_definition_that_is_made_of_it() -> None:
    names = {"plural": "widgets", "kind": "Widget"}
    schema = {"type": "object"}
    spec = {
        "group": "example.org",
        "names": names,
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "schema": schema}],
    }
    assert crd_of_schema({"kind": "APIResourceSchema", "spec": spec}) == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {**spec, "versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}]},
    }
