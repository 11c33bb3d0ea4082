"""What a change of RBAC newly grants."""

from __future__ import annotations

import pytest

from replay.authorization.access import AccessChange, NewAccess, RoleRef, Subject, UnknownAccess, new_access
from replay.authorization.manifest import laid_over, read_rbac
from replay.json import JSON
from replay.kube.rbac import Permission, compacted
from replay.kube.rbac_authorizer import rule_allows
from tests.authorization.recording import RECORDING, lines, needs_recording, objects, questions

ANN = {"kind": "User", "name": "ann"}
BOT = {"kind": "ServiceAccount", "namespace": "ci", "name": "bot"}
PODS = Permission("get", "", "pods")


def rule(verbs: str, resources: str, group: str = "", **more: list[str]) -> JSON:
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split(), **more}


def role(name: str, *rules: JSON, labels: JSON = None, selector: JSON = None) -> JSON:
    aggregation = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": selector}]}} if selector else {}
    return {"kind": "ClusterRole", "metadata": {"name": name, "labels": labels}, "rules": list(rules), **aggregation}


def binding(name: str, of: str, *subjects: JSON, namespace: str = "") -> JSON:
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"kind": kind, "metadata": metadata, "roleRef": {"kind": "ClusterRole", "name": of}, "subjects": [*subjects]}


READER, WRITER = role("reader", rule("get", "pods")), role("writer", rule("get create", "pods"))
GROUPS = [{"kind": "Group", "name": name} for name in ("system:authenticated", "system:serviceaccounts:ci")]


def ann(namespace: str, *permissions: Permission, by: str, **more: object) -> NewAccess:
    return NewAccess(Subject("User", "ann"), namespace, permissions, (by,), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("current", "candidate", "new"),
    [
        pytest.param([READER, binding("b", "reader", ANN)], [READER, binding("b", "reader", ANN)], [], id="the same"),
        pytest.param([WRITER, binding("b", "writer", ANN)], [READER, binding("b", "reader", ANN)], [], id="less"),
        pytest.param(
            [READER, binding("b", "reader", ANN)],
            [WRITER, binding("b", "writer", ANN)],
            [ann("", Permission("create", "", "pods"), by="ClusterRoleBinding b of ClusterRole writer")],
            id="a verb",
        ),
        pytest.param(
            [READER, binding("b", "reader", ANN, namespace="a")],
            [READER, binding("b", "reader", ANN)],
            [ann("", PODS, by="ClusterRoleBinding b of ClusterRole reader")],
            id="all namespaces instead of one",
        ),
        pytest.param(
            [READER, binding("b", "reader", ANN)],
            [READER, binding("b", "reader", ANN, namespace="a")],
            [],
            id="one namespace instead of all",
        ),
        pytest.param(
            [READER, binding("b", "reader", *GROUPS)],
            [READER, binding("b", "reader", ANN, BOT)],
            [],
            id="instead of a group that the name tells",
        ),
        pytest.param(
            [READER, binding("b", "reader", ANN)],
            [READER, binding("b", "reader", GROUPS[0])],
            [
                NewAccess(
                    Subject("Group", "system:authenticated"),
                    "",
                    (PODS,),
                    ("ClusterRoleBinding b of ClusterRole reader",),
                )
            ],
            id="a group instead of one of it",
        ),
        pytest.param(
            [READER],
            [READER, binding("b", "reader", {"kind": "Group", "name": "system:masters"})],
            [],
            id="who may do everything already",
        ),
        pytest.param(
            [role("r", rule("get", "pods", resourceNames=["a"])), binding("b", "r", ANN)],
            [role("r", rule("get", "pods", resourceNames=["a", "b"])), binding("b", "r", ANN)],
            [ann("", Permission("get", "", "pods", "b"), by="ClusterRoleBinding b of ClusterRole r")],
            id="another name",
        ),
        pytest.param(
            [role("r", rule("get", "*/log")), binding("b", "r", ANN)],
            [role("r", rule("get", "pods/log pods")), binding("b", "r", ANN)],
            [ann("", PODS, by="ClusterRoleBinding b of ClusterRole r")],
            id="a subresource of all resources",
        ),
        pytest.param(
            [READER],
            [role("r", {"verbs": ["get"], "nonResourceURLs": ["/x"]}), binding("b", "r", ANN, namespace="a")],
            [],
            id="a URL is not of a namespace",
        ),
        pytest.param(
            [role("all", selector={"in": "all"}), binding("b", "all", ANN), READER],
            [
                role("all", selector={"in": "all"}),
                binding("b", "all", ANN),
                {**READER, "metadata": {"name": "reader", "labels": {"in": "all"}}},
            ],
            [ann("", PODS, by="ClusterRoleBinding b of ClusterRole all")],
            id="an aggregated role",
        ),
        pytest.param(
            [READER],
            [role("admin", rule("*", "*", "*")), binding("b", "admin", ANN)],
            [
                ann(
                    "",
                    Permission("*", "*", "*"),
                    by="ClusterRoleBinding b of ClusterRole admin",
                    leads_to=("everything",),
                )
            ],
            id="everything",
        ),
        pytest.param(
            [
                role(
                    "r",
                    rule("bind", "clusterroles", "rbac.authorization.k8s.io"),
                    rule("create", "rolebindings", "rbac.authorization.k8s.io"),
                ),
                binding("b", "r", ANN),
                READER,
            ],
            [READER, binding("b", "reader", ANN)],
            [ann("", PODS, by="ClusterRoleBinding b of ClusterRole reader", reachable=True)],
            id="what it could grant to itself",
        ),
        pytest.param(
            [READER],
            [
                role("r", rule("escalate", "roles", "rbac.authorization.k8s.io"), rule("impersonate", "users")),
                binding("b", "r", ANN),
            ],
            [
                ann(
                    "",
                    Permission("escalate", "rbac.authorization.k8s.io", "roles"),
                    Permission("impersonate", "", "users"),
                    by="ClusterRoleBinding b of ClusterRole r",
                    leads_to=("any permission (escalate)", "what others may do (impersonate)"),
                )
            ],
            id="what leads further",
        ),
    ],
)
def test_new_access(current: list[JSON], candidate: list[JSON], new: list[NewAccess]) -> None:
    change = new_access(laid_over([], current), laid_over([], candidate), is_whole=True)
    assert change == AccessChange(tuple(new), ())


BOUND = UnknownAccess(
    Subject("User", "ann"), "", RoleRef("ClusterRole", "", "view"), "ClusterRoleBinding b of ClusterRole view"
)


@pytest.mark.parametrize(
    ("current", "is_whole", "unknown"),
    [
        pytest.param([], False, (BOUND,), id="newly bound"),
        pytest.param([binding("other", "view", ANN)], False, (), id="bound today"),
        pytest.param([], True, (), id="there is no such role"),
    ],
)
def test_a_role_that_is_not_known(current: list[JSON], is_whole: bool, unknown: tuple[UnknownAccess, ...]) -> None:
    change = new_access(current, [binding("b", "view", ANN)], is_whole=is_whole)
    assert (change.new, change.unknown) == ((), unknown)


NEWLY_ALLOWED = {"grants": 304, "least-privilege-ci": 1}
STATES = sorted(path.name for path in (RECORDING / "rbac").iterdir()) if RECORDING.exists() else []


@pytest.mark.shared
@needs_recording
@pytest.mark.parametrize("state", STATES)
def test_whoever_a_server_newly_allows_something_is_named(state: str) -> None:
    """Each request that the other state's RBAC allows for the first time is covered by what its user is newly granted."""
    own = read_rbac(RECORDING / "rbac" / state / "rbac")
    change = new_access(laid_over(objects_of_rbac(), ()), laid_over((), own), is_whole=True)
    recorded = {each["auditID"]: each["current"] for each in lines("expected.jsonl.zst") if "current" in each}
    newly_allowed = 0
    missed = []
    for each in lines(f"rbac/{state}/expected.jsonl.zst"):
        asked = questions()[each["auditID"]]
        if each["decision"] != "allow" or recorded[each["auditID"]]["decision"] == "allow":
            continue
        newly_allowed += 1
        names = {("User", asked.user.username), *(("Group", group) for group in asked.user.groups)}
        rules = [
            own_rule
            for access in change.new
            if access.subject in names and access.namespace in ("", asked.namespace)
            for own_rule in compacted(access.permissions)
        ]
        if not any(rule_allows(own_rule, asked) for own_rule in rules):
            missed.append(each["auditID"])
    assert (missed, newly_allowed) == ([], NEWLY_ALLOWED.get(state, 0))


def objects_of_rbac() -> list[JSON]:
    return [obj for obj in objects() if obj["apiVersion"].startswith("rbac.")]
