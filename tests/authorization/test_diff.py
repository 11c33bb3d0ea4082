from __future__ import annotations

from replay.authorization.chain import DEFAULT_CONFIGURATION
from replay.authorization.configuration import read_configuration
from replay.authorization.diff import diff_authorization
from replay.authorization.manifest import NOTHING, AuthorizationManifests
from replay.json import JSON
from replay.manifests.object_diff import FieldDiff, ObjectDiff, Verb

WEBHOOK = (
    '{"type":"Webhook","name":"w","webhook":{"timeout":"3s","subjectAccessReviewVersion":"v1","failurePolicy":"%s",'
    '"matchConditionSubjectAccessReviewVersion":"v1","connectionInfo":{"type":"KubeConfigFile","kubeConfigFile":"/k"},'
    '"matchConditions":[{"expression":"%s"}]}}'
)


def chain(*authorizers: str) -> AuthorizationManifests:
    head = '{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthorizationConfiguration","authorizers":['
    return AuthorizationManifests("x", read_configuration(f"{head}{','.join(authorizers)}]}}".encode()))


def rbac(*objects: JSON) -> AuthorizationManifests:
    return AuthorizationManifests("x", rbac=objects)


def role(*verbs: str) -> JSON:
    rules = [{"verbs": list(verbs), "apiGroups": ["", "apps"], "resources": ["pods"]}]
    return {"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}


def test_a_chain() -> None:
    node = '{"type":"Node","name":"node"}'
    before, after = chain(WEBHOOK % ("Deny", "true"), node), chain(node, WEBHOOK % ("NoOpinion", "1 == 1"))
    order = FieldDiff("authorizers", Verb.CHANGED, "w → node", "node → w")
    fields = (
        FieldDiff("failurePolicy", Verb.WIDENED, "Deny", "NoOpinion"),
        FieldDiff("matchConditions", Verb.REMOVED, "true"),
        FieldDiff("matchConditions", Verb.ADDED, "", "1 == 1"),
    )
    assert diff_authorization(before, after, DEFAULT_CONFIGURATION) == [
        ObjectDiff("AuthorizationConfiguration", "order", Verb.CHANGED, (order,)),
        ObjectDiff("Authorizer", "w", Verb.CHANGED, fields),
    ]


def test_what_a_role_gives() -> None:
    added = FieldDiff("rules", Verb.WIDENED, new="list pods\nlist pods.apps")
    assert diff_authorization(rbac(role("get")), rbac(role("list", "get")), DEFAULT_CONFIGURATION) == [
        ObjectDiff("ClusterRole", "r", Verb.WIDENED, (added,))
    ]


def test_sets_that_say_nothing_or_the_same() -> None:
    assert diff_authorization(NOTHING, NOTHING, DEFAULT_CONFIGURATION) == []
    assert diff_authorization(rbac(role("get")), rbac(role("get")), DEFAULT_CONFIGURATION) == []
    assert diff_authorization(rbac(role("get")), NOTHING, DEFAULT_CONFIGURATION) == []
    assert diff_authorization(rbac(role("get")), rbac(), DEFAULT_CONFIGURATION) == [
        ObjectDiff("ClusterRole", "r", Verb.REMOVED)
    ]
