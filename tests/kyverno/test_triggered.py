"""What Kyverno does after requests and at times: it is listed, and decides nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from replay.admission.chain import Chain
from replay.admission.decision import Triggered, Verdict
from replay.admission.webhook.answer import check_engines
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Missing, PartialObject, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectLister
from replay.kube.schema import Schemas
from replay.manifests.set_loader import load_manifest_set
from tests.kyverno.test_backend import TEAM
from tests.support.creation import creation_of_config_map

LATER = """\
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: network}
spec:
  rules:
  - name: deny
    match: {any: [{resources: {kinds: [Namespace]}}]}
    generate: {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, name: deny, namespace: a, data: {spec: {}}}
  - name: label
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    mutate:
      targets: [{apiVersion: v1, kind: Secret, name: a, namespace: a}]
      patchStrategicMerge: {metadata: {labels: {a: b}}}
"""
DELETING = """\
apiVersion: kyverno.io/v2
kind: ClusterCleanupPolicy
metadata: {name: pods}
spec: {schedule: "*/5 * * * *", match: {any: [{resources: {kinds: [Pod]}}]}}
"""
NAMESPACE: JSON = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}


def _load(directory: Path, *documents: str) -> ManifestSet:
    (directory / "kyverno").mkdir(parents=True)
    (directory / "kyverno" / "all.yaml").write_text("---\n".join(documents), "utf-8")
    return load_manifest_set(directory, version=NEWEST)


ACTS_LATER = [
    ("a rule that denies", (TEAM,), ()),
    (
        "rules that are triggered",
        (TEAM, LATER),
        (
            (
                "ClusterPolicy/network/deny, ClusterPolicy/network/label: other objects are made or changed after a request; "
                "`--full` counts the requests and lists the objects"
            ),
        ),
    ),
    (
        "a policy that is triggered by time",
        (TEAM, DELETING),
        ("ClusterCleanupPolicy/pods: objects are deleted at times, whatever is requested",),
    ),
]


@pytest.mark.parametrize(("documents", "texts"), [row[1:] for row in ACTS_LATER], ids=[row[0] for row in ACTS_LATER])
def test_what_policies_do_without_a_decision(
    documents: tuple[str, ...], texts: tuple[str, ...], tmp_path: Path
) -> None:
    assert check_engines(_load(tmp_path / "candidate", *documents)) == texts


GENERATING = """\
apiVersion: policies.kyverno.io/v1
kind: GeneratingPolicy
metadata: {name: copies}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  variables:
  - {name: made, expression: "[{'kind': dyn('Secret'), 'apiVersion': dyn('v1'), 'metadata': dyn({'name': object.metadata.name, 'namespace': 'b'})}]"}
  generate: [{expression: "generator.Apply('b', variables.made)"}]
"""
EXISTING = """\
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: existing}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  targetMatchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]}
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}]
"""


CONFIG_MAP: JSON = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team-a"}}
REQUEST = creation_of_config_map(CONFIG_MAP, namespace="team-a", name="c", namespace_object=NAMESPACE)


def _in_part(name: str) -> PartialObject:
    missing = Missing(f"object.metadata.{name}", "the log does not hold it")
    return PartialObject({**CONFIG_MAP, "metadata": {**CONFIG_MAP["metadata"], name: missing}}, (missing,))


LABELLING = "ClusterPolicy/network/label"
CHANGES = Triggered(LABELLING, "changes existing Secret a/a afterwards")
BY_ANNOTATION = LATER.replace(
    "name: a, namespace: a", "name: '{{ request.object.metadata.annotations.a }}', namespace: a"
)
AFTERWARDS = [
    ("a rule that changes others", (LATER,), {}, (CHANGES,)),
    (
        "a policy that makes others",
        (GENERATING,),
        {},
        (Triggered("GeneratingPolicy/copies", "makes Secret b/c afterwards"),),
    ),
    (
        "a policy that changes others",
        (EXISTING,),
        {},
        (Triggered("MutatingPolicy/existing", "changes existing secrets afterwards"),),
    ),
    ("a dry run", (LATER, GENERATING, EXISTING), {"dry_run": True, "options": {"dryRun": ["All"]}}, ()),
    ("a request that another rule denies", (TEAM, LATER), {}, ()),
    ("an excluded user", (LATER,), {"user_info": UserInfo("system:node:n", groups=("system:nodes",))}, ()),
    (
        "an unknown part that the rule reads",
        (BY_ANNOTATION,),
        {"object": _in_part("annotations")},
        (Triggered("ClusterPolicy/network", unknown="object.metadata.annotations: the log does not hold it"),),
    ),
    (
        "an unknown part that no rule reads",
        (LATER,),
        {"object": _in_part("uid")},
        (CHANGES,),
    ),
]


@pytest.mark.parametrize(
    ("documents", "fields", "expected"), [row[1:] for row in AFTERWARDS], ids=[row[0] for row in AFTERWARDS]
)
def test_what_a_request_triggers(
    tmp_path: Path, documents: tuple[str, ...], fields: dict[str, Any], expected: tuple[Triggered, ...]
) -> None:
    """Work after a request is listed, and decides nothing."""
    chain = Chain([ManifestSet(), _load(tmp_path / "candidate", *documents)], NEWEST, builtin_discovery(), Schemas([]))
    request = replace(REQUEST, **fields)
    _, decision = chain.decide(request, request, ObjectLister([NAMESPACE]))
    assert decision.triggered == expected
    assert (decision.verdict is Verdict.DENIED) is (TEAM in documents)
