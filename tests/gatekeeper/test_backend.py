"""Gatekeeper behind its webhooks: loaded from a set, asked by the chain, with what is known of a request."""

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
from replay.kube.admissionregistration import ManifestSet, MutatingWebhookConfiguration
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.kube.discovery import builtin_discovery
from replay.kube.engine_policy import engine_policies
from replay.kube.lister import ObjectLister
from replay.kube.schema import Schemas
from replay.manifests.set_loader import load_manifest_set
from replay.pipeline.replay.distinct_set import only_named, without_shared_webhooks
from tests.support.creation import creation_of_config_map

TEMPLATE = """\
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: needs}
spec:
  crd:
    spec:
      names: {kind: Needs}
      validation:
        openAPIV3Schema: {type: object, properties: {label: {type: string}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package needs
      violation[{"msg": msg}] {
        not input.review.object.metadata.labels[input.parameters.label]
        msg := sprintf("label %v is missing", [input.parameters.label])
      }
      violation[{"msg": "the host is taken"}] {
        data.inventory.namespace[_]["v1"].ConfigMap[_].data.host == input.review.object.data.host
      }
---
"""
CONSTRAINT = """\
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Needs
metadata: {name: team}
spec:
  match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}], namespaces: ['team-*']}
  parameters: {label: LABEL, unheard: of}
"""
MUTATOR = """\
apiVersion: mutations.gatekeeper.sh/v1
kind: AssignMetadata
metadata: {name: owner}
spec:
  match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}]}
  location: metadata.labels.owner
  parameters: {assign: {value: nobody}}
"""
SYNC = """\
apiVersion: syncset.gatekeeper.sh/v1alpha1
kind: SyncSet
metadata: {name: s}
spec: {gvks: [{group: '', version: v1, kind: ConfigMap}]}
"""
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
TAKEN = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "x", "namespace": "team-b"},
    "data": {"host": "h"},
}


def _load(directory: Path, *documents: str) -> ManifestSet:
    (directory / "gatekeeper").mkdir(parents=True)
    (directory / "gatekeeper" / "all.yaml").write_text("---\n".join(documents), "utf-8")
    return load_manifest_set(directory, version=NEWEST)


def _attributes(value: Any) -> Attributes:
    return creation_of_config_map(value, namespace="team-a", name="c", namespace_object=NAMESPACE)


def _config_map(labels: JSON, data: JSON = None) -> JSON:
    metadata = {"name": "c", "namespace": "team-a", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **({"data": data} if data else {})}


def _decide(manifests: ManifestSet, value: Any, *objects: JSON) -> Decision:
    chain = Chain([ManifestSet(), manifests], NEWEST, builtin_discovery(), Schemas([]))
    attributes = _attributes(value)
    return chain.decide(attributes, attributes, ObjectLister([NAMESPACE, *objects]))[1]


@pytest.mark.parametrize(
    ("labels", "data", "messages"),
    [
        ({"team": "a"}, None, []),
        ({"app": "a"}, None, ["label team is missing"]),
        ({"team": "a"}, {"host": "h"}, ["the host is taken"]),
        ({}, {"host": "h"}, ["label team is missing", "the host is taken"]),
    ],
)
def test_a_constraint(tmp_path: Path, labels: JSON, data: JSON, messages: list[str]) -> None:
    manifests = _load(tmp_path, TEMPLATE, CONSTRAINT.replace("LABEL", "team"), SYNC)
    decision = _decide(manifests, _config_map(labels, data), TAKEN)
    assert decision.verdict is (Verdict.DENIED if messages else Verdict.ADMITTED)
    text = "\n".join(f"[team] {message}" for message in messages)
    denied_by = 'admission webhook "validation.gatekeeper.sh" denied the request: '
    assert [denial.message for denial in decision.denials] == ([denied_by + text] if messages else [])


def test_a_mutator_runs_where_the_mutating_webhook_stands(tmp_path: Path) -> None:
    manifests = _load(tmp_path, TEMPLATE, CONSTRAINT.replace("LABEL", "owner"), MUTATOR)
    decision = _decide(manifests, _config_map({"a": "b"}))
    assert decision.verdict is Verdict.ADMITTED
    assert list(decision.patch) == [{"op": "add", "path": "/metadata/labels/owner", "value": "nobody"}]


def test_decisions_name_the_policy(tmp_path: Path) -> None:
    """A denial, a change and a gap are those of a constraint or a mutator, not of the webhook configuration."""
    second = CONSTRAINT.replace("name: team", "name: app").replace("LABEL", "app")
    manifests = _load(tmp_path, TEMPLATE, CONSTRAINT.replace("LABEL", "team"), second, MUTATOR)
    decision = _decide(manifests, _config_map({}))
    assert [(each.policy, each.binding) for each in decision.denials] == [
        ("Needs/app", "validation.gatekeeper.sh"),
        ("Needs/team", "validation.gatekeeper.sh"),
    ]
    results = 'admission webhook "validation.gatekeeper.sh" denied the request: [app] label app is missing\n[team] label team is missing'
    assert {each.message for each in decision.denials} == {results}
    code = 'violation[{"msg": msg}] {'
    assert {each.places for each in decision.denials} == {(f"line 2 of the Rego of ConstraintTemplate/needs: {code}",)}
    assert [(each.policy, each.patch) for each in decision.mutated] == [
        ("AssignMetadata/owner", ({"op": "add", "path": "/metadata/labels/owner", "value": "nobody"},))
    ]
    value = _config_map({})
    value["metadata"]["labels"] = UNKNOWN
    open_one = _decide(without_mutators(manifests), PartialObject(value, (UNKNOWN,)))
    assert [each.policy for each in open_one.undetermined] == ["Needs/team", "Needs/app"]


def without_mutators(manifests: ManifestSet) -> ManifestSet:
    return manifests.filtered(lambda each: not isinstance(each, MutatingWebhookConfiguration))


NAMED = [
    ("one constraint", {"Needs/team"}, ["Needs/team"]),
    ("the webhook", {"validation.gatekeeper.sh"}, ["Needs/team", "Needs/app"]),
    ("something else", {"p"}, []),
]


@pytest.mark.parametrize(("names", "left"), [row[1:] for row in NAMED], ids=[row[0] for row in NAMED])
def test_what_is_left_of_a_set_where_policies_are_named(tmp_path: Path, names: set[str], left: list[str]) -> None:
    second = CONSTRAINT.replace("name: team", "name: app")
    found = only_named(_load(tmp_path, TEMPLATE, CONSTRAINT, second, MUTATOR), frozenset(names))
    assert list(engine_policies(found.engine_objects)) == [*left, "AssignMetadata/owner"]
    assert [bool(each.webhooks) for each in found.configurations("validating")] == [bool(left)]


UNKNOWN = Missing("object.metadata.labels", "the log does not hold it")
PARTS = [
    ("what is read is not known", {"labels": UNKNOWN}, Verdict.UNDETERMINED),
    ("what is not read is not known", {"labels": {"team": "a"}, "annotations": UNKNOWN}, Verdict.ADMITTED),
    ("what is known is enough to refuse", {"labels": {"app": UNKNOWN}}, Verdict.DENIED),
]


@pytest.mark.parametrize(("metadata", "verdict"), [row[1:] for row in PARTS], ids=[row[0] for row in PARTS])
def test_an_object_that_is_known_in_part(tmp_path: Path, metadata: JSON, verdict: Verdict) -> None:
    manifests = _load(tmp_path, TEMPLATE, CONSTRAINT.replace("LABEL", "team"))
    value = _config_map({})
    value["metadata"] |= metadata
    assert _decide(manifests, PartialObject(value, (UNKNOWN,))).verdict is verdict


SETS = """
containers[c] { c := input.review.object.data.list[_] }
containers[c] { c := input.review.object.data.more[_] }
"""
MOUNT = Missing("object.data.list[0].mounts", "the name is random")
A, B = {"image": "a", "mounts": MOUNT}, {"image": "b", "mounts": MOUNT}
MEMBERS = [
    ("a known field of each decides", 'c := containers[_]; c.image == "b"', [A, B], Verdict.DENIED),
    ("no known field of any violates", 'c := containers[_]; c.image == "x"', [A, B], Verdict.ADMITTED),
    ("the unknown field decides", 'c := containers[_]; c.mounts == "x"', [A, B], Verdict.UNDETERMINED),
    ("members that differ are counted", "count(containers) == 2", [A, B], Verdict.DENIED),
    ("two members may be one", "count(containers) == 2", [A, dict(A)], Verdict.UNDETERMINED),
    ("a field that may be absent", "count(containers) == 2", [A, {"image": "a"}], Verdict.UNDETERMINED),
    ("a union", 'c := (containers | {{"image": "c"}})[_]; c.image == "c"', [A], Verdict.DENIED),
    ("an intersection", "count(containers & {1}) == 0", [A], Verdict.UNDETERMINED),
    ("a member by its value", '{"image": "c"} == containers[{"image": "c"}]', [A], Verdict.ADMITTED),
    ("a member that may be this one", 'containers[{"image": "a"}]', [A], Verdict.UNDETERMINED),
]


@pytest.mark.parametrize(("body", "members", "verdict"), [row[1:] for row in MEMBERS], ids=[row[0] for row in MEMBERS])
def test_a_set_whose_members_are_known_in_part(
    tmp_path: Path, body: str, members: list[JSON], verdict: Verdict
) -> None:
    rego = f'package needs\n{SETS}\nviolation[{{"msg": "no"}}] {{ {body} }}\n'
    template = yaml.safe_load(TEMPLATE.removesuffix("---\n"))
    template["spec"]["targets"][0]["rego"] = rego
    manifests = _load(tmp_path, yaml.safe_dump(template) + "---\n", CONSTRAINT.replace("LABEL", "team"))
    value = _config_map({}) | {"data": {"list": members}}
    assert _decide(manifests, PartialObject(value, (MOUNT,))).verdict is verdict


def test_webhooks_of_both_sets_are_asked_where_constraints_differ(tmp_path: Path) -> None:
    one = _load(tmp_path / "one", TEMPLATE, CONSTRAINT.replace("LABEL", "team"), MUTATOR)
    same = _load(tmp_path / "same", TEMPLATE, CONSTRAINT.replace("LABEL", "team"), MUTATOR)
    other = _load(tmp_path / "other", TEMPLATE, CONSTRAINT.replace("LABEL", "owner"), MUTATOR)
    asked = [
        [webhook.name for webhook in each.webhooks]
        for pair in ((one, same), (one, other))
        for each in without_shared_webhooks(pair)
    ]
    assert asked == [[], [], ["validation.gatekeeper.sh"], ["validation.gatekeeper.sh"]]


def test_objects_may_stand_among_other_manifests(tmp_path: Path) -> None:
    policy = (
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\n"
        "spec: {matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], "
        "resources: [configmaps]}]}, validations: [{expression: 'true'}]}\n"
    )
    for path in (tmp_path / "mixed.yaml", tmp_path / "directory" / "api" / "mixed.yaml", tmp_path / "alone" / "g.yaml"):
        path.parent.mkdir(parents=True, exist_ok=True)
        documents = [TEMPLATE.removesuffix("---\n"), CONSTRAINT, *([policy] if path.name == "mixed.yaml" else [])]
        path.write_text("---\n".join(documents), "utf-8")
    for where in (tmp_path / "mixed.yaml", tmp_path / "directory", tmp_path / "alone", tmp_path / "alone" / "g.yaml"):
        manifests = load_manifest_set(where, version=NEWEST)
        assert [value["kind"] for value in manifests.engine_objects] == ["ConstraintTemplate", "Needs"], where
        assert len(manifests.policies) == ("alone" not in str(where)), where


BROKEN = [
    (
        "Rego that does not compile",
        (TEMPLATE.replace("sprintf(", "http.send("), CONSTRAINT),
        r"all\.yaml:1: ConstraintTemplate/needs: unable to compile modules: .*undefined function http\.send",
    ),
    ("a constraint without its template", (CONSTRAINT,), r"all\.yaml:1: Needs/team: missing ConstraintTemplate"),
    ("a bad location", (MUTATOR.replace("metadata.labels.owner", "spec..x"),), r"all\.yaml:1: AssignMetadata/owner: "),
]


@pytest.mark.parametrize(("documents", "message"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_set_with_what_gatekeeper_refuses_is_refused(
    tmp_path: Path, documents: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ManifestError, match=message):
        check_engines(_load(tmp_path, *documents))


def test_what_a_cluster_holds_and_gatekeeper_refuses_is_named() -> None:
    value = yaml.safe_load(CONSTRAINT)
    assert check_engines(ManifestSet(engine_objects=(value,))) == (
        'Needs/team of the snapshot decides nothing: missing ConstraintTemplate: template "needs" not found',
    )
