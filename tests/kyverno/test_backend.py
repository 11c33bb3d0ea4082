"""Kyverno behind its webhooks: loaded from a set, asked by the chain, with what is known of a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from replay.admission.chain import Chain
from replay.admission.decision import Decision, Verdict
from replay.admission.webhook.answer import check_engines
from replay.cellib.version import NEWEST
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Missing, PartialObject, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.engine_policy import engine_policies
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import ObjectLister
from replay.kube.schema import Schemas
from replay.kyverno.looked_up import RuleText
from replay.manifests.set_loader import load_manifest_set
from replay.pipeline.replay.distinct_set import only_named, without_shared_webhooks
from tests.support.creation import creation_of_config_map

TEAM = """\
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: labels}
spec:
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate:
      failureAction: Enforce
      message: the label `team` is missing
      pattern: {metadata: {labels: {team: '?*'}}}
"""
OWNER = """\
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: defaults}
spec:
  rules:
  - name: owner
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {+(team): nobody}}}}
"""
CEL = """\
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: labels}
spec:
  validationActions: [Deny]
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]}
  validations: [{expression: "has(object.metadata.labels) && 'team' in object.metadata.labels", message: the label `team` is missing}]
"""
MUTATING_CEL = """\
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: defaults}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: Object.metadata.labels{team: "nobody"}}}'}
"""
NATIVE = CEL.replace("validationActions", "autogen: {validatingAdmissionPolicy: {enabled: true}}\n  validationActions")
EXCEPTION = """\
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {name: e, namespace: kyverno}
spec:
  exceptions: [{policyName: labels, ruleNames: [team]}]
  match: {any: [{resources: {kinds: [ConfigMap], names: [c]}}]}
"""
CONFIGURATION = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: kyverno, namespace: kyverno}
data: DATA
"""
NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team-a", "labels": {"kubernetes.io/metadata.name": "team-a"}},
}
SAYS = "\n\nresource ConfigMap/team-a/c was blocked due to the following policies \n\nlabels:\n  team: 'validation error: the label `team` is missing. rule team failed at path /metadata/labels/team/'\n"
DENIED = f'admission webhook "validate.kyverno.svc-fail" denied the request: {SAYS}'


def _load(directory: Path, *documents: str) -> ManifestSet:
    (directory / "kyverno").mkdir(parents=True)
    (directory / "kyverno" / "all.yaml").write_text("---\n".join(documents), "utf-8")
    return load_manifest_set(directory, version=NEWEST)


def _config_map(labels: JSON) -> JSON:
    metadata = {"name": "c", "namespace": "team-a", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def _decide(
    manifests: ManifestSet,
    value: Any,
    user: str = "jane",
    groups: tuple[str, ...] = (),
    lister: ObjectLister | None = None,
) -> Decision:
    chain = Chain([ManifestSet(), manifests], NEWEST, builtin_discovery(), Schemas([]))
    attributes = creation_of_config_map(
        value, namespace="team-a", name="c", user_info=UserInfo(user, groups=groups), namespace_object=NAMESPACE
    )
    return chain.decide(attributes, attributes, lister or ObjectLister([NAMESPACE]))[1]


def _configured(data: str) -> str:
    return CONFIGURATION.replace("DATA", data)


CEL_DENIED = 'admission webhook "vpol.validate.kyverno.svc-fail" denied the request: Policy labels failed: the label `team` is missing'
NATIVE_DENIED = "the label `team` is missing"
ADDED = [{"op": "add", "path": "/metadata/labels/team", "value": "nobody"}]
DECISIONS: list[tuple[str, tuple[str, ...], list[tuple[str, str]], list[tuple[str, JSON]]]] = [
    ("a rule", (TEAM,), [("ClusterPolicy/labels/team", DENIED)], []),
    ("all mutating rules run first", (TEAM, OWNER), [], [("ClusterPolicy/defaults/owner", ADDED)]),
    ("a policy of CEL", (CEL,), [("ValidatingPolicy/labels", CEL_DENIED)], []),
    ("a mutating policy of CEL", (TEAM, MUTATING_CEL), [], [("MutatingPolicy/defaults", ADDED)]),
    ("a native policy that is generated", (NATIVE,), [("vpol-labels", NATIVE_DENIED)], []),
    ("an exception", (TEAM, EXCEPTION), [], []),
    ("a policy that audits", (TEAM.replace("Enforce", "Audit"),), [], []),
    (
        "a policy whose errors are ignored",
        (TEAM.replace("spec:\n", "spec:\n  failurePolicy: Ignore\n", 1),),
        [("ClusterPolicy/labels/team", DENIED.replace("svc-fail", "svc-ignore"))],
        [],
    ),
    (
        "conditions of the webhook hold",
        (TEAM.replace("spec:\n", "spec:\n  webhookConfiguration: {matchConditions: [{name: x, expression: 'true'}]}\n", 1),),
        [("ClusterPolicy/labels/team", DENIED.replace("svc-fail", "svc-fail-finegrained-labels"))],
        [],
    ),
    (
        "conditions of the webhook do not hold",
        (TEAM.replace("spec:\n", "spec:\n  webhookConfiguration: {matchConditions: [{name: x, expression: 'false'}]}\n", 1),),
        [],
        [],
    ),
    ("a policy out of admission", (TEAM.replace("spec:\n", "spec:\n  admission: false\n", 1),), [], []),
    ("a filter of objects", (TEAM, _configured("{resourceFilters: '[ConfigMap,team-*,*]'}")), [], []),
    ("a filter of other objects", (TEAM, _configured("{resourceFilters: '[ConfigMap,prod-*,*]'}")), [("ClusterPolicy/labels/team", DENIED)], []),
    ("a user that is left out", (TEAM, _configured("{excludeUsernames: 'ja*'}")), [], []),
    ("a user that is taken in again", (TEAM, _configured("{excludeUsernames: 'ja*,!jane'}")), [("ClusterPolicy/labels/team", DENIED)], []),
    ("the webhook's selector of namespaces", (TEAM, _configured("""{webhooks: '{"namespaceSelector": {"matchLabels": {"a": "b"}}}'}""")), [], []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("documents", "denials", "mutations"), [row[1:] for row in DECISIONS], ids=[row[0] for row in DECISIONS]
)
def test_decisions(
    tmp_path: Path, documents: tuple[str, ...], denials: list[tuple[str, str]], mutations: list[tuple[str, JSON]]
) -> None:
    decision = _decide(_load(tmp_path, *documents), _config_map({"app": "a"}))
    assert [(each.policy, each.message) for each in decision.denials] == denials
    assert [(each.policy, list(each.patch)) for each in decision.mutated] == mutations
    assert decision.verdict is (Verdict.DENIED if denials else Verdict.ADMITTED)


def test_nodes_are_left_out_without_a_configuration(tmp_path: Path) -> None:
    decision = _decide(_load(tmp_path, TEAM), _config_map({}), "system:node:a", ("system:nodes",))
    assert decision.verdict is Verdict.ADMITTED


def _gap(name: str) -> Missing:
    return Missing(f"object.metadata.{name}", "the log does not hold it")


PARTS = [
    (
        "a field of the server that no rule reads",
        TEAM,
        {"resourceVersion": _gap("resourceVersion")},
        Verdict.DENIED,
        [],
    ),
    (
        "labels that are not known",
        TEAM,
        {"labels": _gap("labels")},
        Verdict.UNDETERMINED,
        ["ClusterPolicy/labels/team"],
    ),
    (
        "a field of the server that a rule reads",
        TEAM.replace("labels: {team: '?*'}", "uid: '?*'"),
        {"uid": _gap("uid")},
        Verdict.UNDETERMINED,
        ["ClusterPolicy/labels/team"],
    ),
    ("another kind", TEAM.replace("[ConfigMap]", "[Secret]"), {"labels": _gap("labels")}, Verdict.ADMITTED, []),
]


@pytest.mark.parametrize(
    ("document", "metadata", "verdict", "policies"), [row[1:] for row in PARTS], ids=[row[0] for row in PARTS]
)
def test_an_object_that_is_known_in_part(
    tmp_path: Path, document: str, metadata: JSON, verdict: Verdict, policies: list[str]
) -> None:
    value = _config_map({})
    value["metadata"] |= metadata
    decision = _decide(_load(tmp_path, document), PartialObject(value, tuple(metadata.values())))
    assert (decision.verdict, [each.policy for each in decision.undetermined]) == (verdict, policies)


REGISTERED = [
    ("ClusterPolicy", (TEAM,), [("validate.kyverno.svc-fail", ["CREATE", "UPDATE", "DELETE", "CONNECT"], ["configmaps"])]),
    ("operations", (TEAM.replace("[ConfigMap]", "[ConfigMap], operations: [CREATE]"),), [("validate.kyverno.svc-fail", ["CREATE"], ["configmaps"])]),
    ("pods and their controllers are of one policy", (TEAM.replace("[ConfigMap]", "[Deployment]"),), [("validate.kyverno.svc-fail", ["CREATE", "UPDATE", "DELETE", "CONNECT"], ["deployments"])]),
    ("a mutating rule", (OWNER,), [("mutate.kyverno.svc-fail", ["CREATE", "UPDATE"], ["configmaps"])]),
    ("policies of CEL", (CEL, MUTATING_CEL), [("vpol.validate.kyverno.svc-fail", ["CREATE", "UPDATE"], ["configmaps"]), ("mpol.validate.kyverno.svc-fail", ["CREATE", "UPDATE"], ["configmaps"])]),
    ("nothing for a native policy", (NATIVE,), []),
]  # fmt: skip


@pytest.mark.parametrize(("documents", "expected"), [row[1:] for row in REGISTERED], ids=[row[0] for row in REGISTERED])
def test_what_kyverno_registers(tmp_path: Path, documents: tuple[str, ...], expected: list[Any]) -> None:
    manifests = _load(tmp_path, *documents)
    configurations = manifests.configurations()
    assert [
        (webhook.name, list(rule.operations), list(rule.resources))
        for configuration in configurations
        for webhook in configuration.webhooks
        for rule in webhook.rules
    ] == expected


def test_own_webhooks_stay(tmp_path: Path) -> None:
    own = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "kyverno-resource-validating-webhook-cfg"},
        "webhooks": [
            {
                "name": "validate.kyverno.svc-fail",
                "clientConfig": {"service": {"namespace": "k", "name": "s", "path": "/validate/fail"}},
                "rules": [{"operations": ["UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "webhooks.yaml").write_text(yaml.safe_dump(own), "utf-8")
    manifests = _load(tmp_path, TEAM)
    assert [each.rules[0].operations for each in manifests.webhooks] == [("UPDATE",)]
    assert _decide(manifests, _config_map({})).verdict is Verdict.ADMITTED


def test_webhooks_of_both_sets_are_asked_where_policies_differ(tmp_path: Path) -> None:
    one = _load(tmp_path / "one", TEAM, OWNER)
    same = _load(tmp_path / "same", TEAM, OWNER)
    other = _load(tmp_path / "other", TEAM.replace("?*", "a*"), OWNER)
    asked = [
        [webhook.name for webhook in each.webhooks]
        for pair in ((one, same), (one, other))
        for each in without_shared_webhooks(pair)
    ]
    assert asked == [[], [], ["validate.kyverno.svc-fail"], ["validate.kyverno.svc-fail"]]


def test_what_is_left_of_a_set_where_a_rule_is_named(tmp_path: Path) -> None:
    second = TEAM.replace("name: labels", "name: others")
    manifests = _load(tmp_path, TEAM, second, OWNER)
    found = only_named(manifests, frozenset({"ClusterPolicy/labels/team"}))
    assert engine_policies(found.engine_objects) == ("ClusterPolicy/labels/team", "ClusterPolicy/defaults/owner")


def test_objects_may_stand_among_other_manifests(tmp_path: Path) -> None:
    policy = (
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\n"
        "spec: {matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], "
        "resources: [configmaps]}]}, validations: [{expression: 'true'}]}\n"
    )
    (tmp_path / "mixed.yaml").write_text("---\n".join([TEAM, _configured("{}"), policy]), "utf-8")
    manifests = load_manifest_set(tmp_path / "mixed.yaml", version=NEWEST)
    assert [value["kind"] for value in manifests.engine_objects] == ["ClusterPolicy", "ConfigMap"]
    assert len(manifests.policies) == 1


def test_a_set_with_what_kyverno_refuses_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"all\.yaml:1: ClusterPolicy/labels: "):
        check_engines(_load(tmp_path, TEAM.replace("failureAction", "failureActions")))


def test_a_policy_that_kyverno_refuses_when_it_is_written(tmp_path: Path) -> None:
    by_user = TEAM.replace("[ConfigMap]}}", "[ConfigMap]}, subjects: [{kind: User, name: a}]}")
    with pytest.raises(ManifestError, match=r"all\.yaml:1: ClusterPolicy/labels: only select variables are allowed in"):
        check_engines(_load(tmp_path / "new", by_user))
    exported = by_user.replace("{name: labels}", "{name: labels, uid: x}")
    assert check_engines(_load(tmp_path / "exported", exported)) == ()


TEAMS = """\
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: teams}
spec:
  rules:
  - name: known
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    context: [{name: teams, configMap: {name: teams, namespace: kyverno}}]
    validate:
      failureAction: Enforce
      message: unknown team
      deny: {conditions: {all: [{key: "{{ request.object.metadata.labels.team || '' }}", operator: AnyNotIn, value: "{{ teams.data.names }}"}]}}
"""
NAMES = '{apiVersion: v1, kind: ConfigMap, metadata: {name: teams, namespace: kyverno}, data: {names: \'["a", "b"]\'}}'


@pytest.mark.parametrize(("team", "verdict"), [("a", Verdict.ADMITTED), ("c", Verdict.DENIED)])
def test_a_context_reads_a_config_map_of_the_set(team: str, verdict: Verdict, tmp_path: Path) -> None:
    manifests = _load(tmp_path, TEAMS, NAMES)
    assert [each["metadata"]["name"] for each in manifests.objects] == ["teams"]
    assert _decide(manifests, _config_map({"team": team})).verdict is verdict


_MOUNT = Missing("object.spec.containers[0].volumeMounts[0].name", "it is random")
_POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"image": "a", "volumeMounts": [{"name": _MOUNT}]}]}}
READ = [
    ("other fields", {"pattern": {"spec": {"containers": [{"image": "a"}]}}}, False),
    ("the field", {"pattern": {"spec": {"containers": [{"volumeMounts": [{"name": "a"}]}]}}}, True),
    ("any key", {"pattern": {"spec": {"containers": [{"volume*": [{"name": "a"}]}]}}}, True),
    ("an expression of other fields", {"deny": "{{ request.object.spec.containers[].image }}"}, False),
    ("a list as a whole", {"deny": "{{ request.object.spec.containers[] | to_string(@) }}"}, True),
    (
        "other fields of elements",
        {"foreach": [{"list": "request.object.spec.containers", "pattern": {"image": "a"}}]},
        False,
    ),
    (
        "the field of elements",
        {"foreach": [{"list": "request.object.spec.[containers][]", "pattern": {"volumeMounts": []}}]},
        True,
    ),
    ("elements as a whole", {"foreach": [{"list": "request.object.spec.containers", "deny": "{{ element0 }}"}]}, True),
    ("a list that is calculated", {"foreach": [{"list": "items(request.object.spec.containers)", "deny": "a"}]}, True),
    (
        "a list with a condition",
        {"foreach": [{"list": "request.object.spec.containers[?volumeMounts == x]", "deny": "a"}]},
        True,
    ),
    ("the request as a whole", {"deny": "{{ to_string(request) }}"}, True),
    ("CEL", {"cel": {"expressions": []}}, True),
    ("a message", {"message": "{{ request.object }}", "pattern": {"spec": {"hostPID": False}}}, False),
]


@pytest.mark.parametrize(("validation", "is_read"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_fields_that_no_rule_reads(validation: JSON, is_read: bool) -> None:
    text = RuleText([{"spec": {"rules": [{"name": "r", "validate": validation}]}}])
    found = text.known(PartialObject(_POD, (_MOUNT,)))
    without = {"metadata": {"name": "p"}, "spec": {"containers": [{"image": "a", "volumeMounts": [{}]}]}}
    assert found == (_MOUNT if is_read else without)


_STATUS = Missing("status", "it is not recorded")
_OF_METADATA = {
    field: Missing(f"metadata.{field}", "it was being changed")
    for field in ("annotations", "finalizers", "labels", "ownerReferences")
}
UNKNOWN_PARTS = [
    ("annotations of which no rule speaks", _OF_METADATA["annotations"], {"pattern": {"spec": {}}}, False),
    ("annotations in a pattern", _OF_METADATA["annotations"], {"pattern": {"metadata": {"annotations": {}}}}, True),
    (
        "annotations, which Pod Security reads",
        _OF_METADATA["annotations"],
        {"podSecurity": {"level": "baseline"}},
        True,
    ),
    (
        "annotations in all of the metadata",
        _OF_METADATA["annotations"],
        {"deny": "{{ request.object.metadata }}"},
        True,
    ),
    ("finalizers", _OF_METADATA["finalizers"], {"pattern": {"spec": {}}}, False),
    (
        "finalizers in a condition",
        _OF_METADATA["finalizers"],
        {"deny": "{{ request.object.metadata.finalizers }}"},
        True,
    ),
    ("owners", _OF_METADATA["ownerReferences"], {"pattern": {"spec": {}}}, False),
    ("labels, which `match` reads", _OF_METADATA["labels"], {"pattern": {"spec": {}}}, True),
    ("the status", _STATUS, {"pattern": {"spec": {}}}, False),
    ("the status in a pattern", _STATUS, {"pattern": {"status": {"phase": "Running"}}}, True),
]


@pytest.mark.parametrize(
    ("unknown", "validation", "is_read"), [row[1:] for row in UNKNOWN_PARTS], ids=[row[0] for row in UNKNOWN_PARTS]
)
def test_parts_of_an_object_that_no_rule_reads(unknown: Missing, validation: JSON, is_read: bool) -> None:
    text = RuleText([{"spec": {"rules": [{"name": "r", "validate": validation}]}}])
    *way, field = unknown.path.split(".")
    value: JSON = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}
    (value["metadata"] if way else value)[field] = unknown
    known = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}
    assert text.known(PartialObject(value, (unknown,))) == (unknown if is_read else known)


class _ChangingNamespaces(ObjectLister):
    """A cluster whose namespaces are known in part."""

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> Any:
        if kind.kind != "Namespace":
            return super().get(kind, namespace, name)
        annotations = Missing("metadata.annotations", "it was changing")
        metadata: dict[str, Any] = {"name": "team-a", "annotations": annotations}
        return PartialObject({**NAMESPACE, "metadata": metadata}, (annotations,))


OVERRIDDEN = TEAM.replace("message:", "failureActionOverrides: [{action: Audit, namespaces: [other]}]\n      message:")


@pytest.mark.parametrize(
    ("document", "verdict"),
    [(TEAM, Verdict.DENIED), (OVERRIDDEN, Verdict.UNDETERMINED)],
    ids=["no rule asks for it", "an override asks for it"],
)
def test_a_namespace_that_is_known_in_part(document: str, verdict: Verdict, tmp_path: Path) -> None:
    manifests = _load(tmp_path / "candidate", document)
    assert _decide(manifests, _config_map({}), lister=_ChangingNamespaces(())).verdict is verdict


REGISTRY = (
    TEAM.replace("{name: labels}", "{name: images}")
    .replace("    validate:", "    context: [{name: data, imageRegistry: {reference: 'a/b'}}]\n    validate:")
    .replace(
        "message: the label `team` is missing\n      pattern: {metadata: {labels: {team: '?*'}}}",
        "deny: {conditions: {any: [{key: '{{ data.registry }}', operator: Equals, value: a}]}}",
    )
)
UID = TEAM.replace("{name: labels}", "{name: uids}").replace("labels: {team: '?*'}", "uid: '?*'")
HTTP = CEL.replace("{name: labels}", "{name: calls}").replace(
    "has(object.metadata.labels) && 'team' in object.metadata.labels", "http.Get('https://a').ok == true"
)
BESIDE = [
    ("a registry", (TEAM, REGISTRY), {}, ["ClusterPolicy/labels/team"], ["ClusterPolicy/images/team"]),
    ("an unknown part", (TEAM, UID), {"uid": _gap("uid")}, ["ClusterPolicy/labels/team"], ["ClusterPolicy/uids/team"]),
    ("a call in CEL", (CEL, HTTP), {}, ["ValidatingPolicy/labels"], ["ValidatingPolicy/calls"]),
]


@pytest.mark.parametrize(
    ("documents", "metadata", "denying", "unknown"), [row[1:] for row in BESIDE], ids=[row[0] for row in BESIDE]
)
def test_a_policy_denies_whatever_an_undetermined_one_says(
    tmp_path: Path, documents: tuple[str, ...], metadata: JSON, denying: list[str], unknown: list[str]
) -> None:
    """Only the message is not known: it names all policies that deny."""
    value = _config_map({})
    value["metadata"] |= metadata
    obj = PartialObject(value, tuple(metadata.values())) if metadata else value
    decision = _decide(_load(tmp_path, *documents), obj)
    assert decision.verdict is Verdict.UNDETERMINED
    assert [each.policy for each in decision.denials] == denying
    assert [each.policy for each in decision.undetermined] == unknown
