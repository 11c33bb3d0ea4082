"""`replay mutations`: each kind of actor on hand-made events, and the recording, in which no change may stay unexplained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.compare.attribution import Actor, Attributions
from replay.pipeline.forensic.mutations import mutations
from replay.pipeline.options import Options
from replay.pipeline.scenario import Scenario

SAMPLE = Path(__file__).parents[3] / "sample_audit" / "shop"
SHARED = Path(__file__).parents[3].parent / "shared" / "recordings" / "shop"
ADD = {"op": "add", "path": "/data/b", "value": "2"}
POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: team.static.k8s.io}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"team": "a"}}}'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: team.static.k8s.io}
spec: {policyName: team.static.k8s.io}
"""


def config_map(**metadata: Any) -> dict[str, Any]:
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "settings", "namespace": "default", **metadata},
        "data": {"a": "1"},
    }


def event(verb: str, sent: Any, stored: Any, *, at: int = 0, **changes: Any) -> dict[str, Any]:
    content = {} if verb != "patch" else {"requestURI": "/api/v1/namespaces/default/configmaps/settings"}
    system = {"uid": "u", "resourceVersion": str(7 + at), "creationTimestamp": "2026-11-21T03:00:00Z"}
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"id-{at}",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/default/configmaps",
        "verb": verb,
        "user": {"username": "jane"},
        "objectRef": {"resource": "configmaps", "namespace": "default", "name": "settings", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 201 if verb == "create" else 200},
        "requestObject": sent,
        "responseObject": {**stored, "metadata": {**stored["metadata"], **system}},
        "requestReceivedTimestamp": f"2026-11-21T03:00:0{at}.000000Z",
        "stageTimestamp": f"2026-11-21T03:00:0{at}.100000Z",
        **content,
        **changes,
    }


def told(patch: list[Any] | None) -> dict[str, str]:
    """The annotations of a webhook that changed the object."""
    names = {"configuration": "c", "webhook": "hook.example.com"}
    at = "webhook.admission.k8s.io/round_0_index_0"
    found = {f"mutation.{at}": orjson.dumps({**names, "mutated": True}).decode()}
    if patch is not None:
        found[f"patch.{at}"] = orjson.dumps({**names, "patch": patch, "patchType": "JSONPatch"}).decode()
    return found


def found_in(directory: Path, *events: dict[str, Any], current: bool = False) -> Attributions:
    log = directory / "audit.jsonl"
    log.write_bytes(b"\n".join(map(orjson.dumps, events)))
    manifests = None
    if current:
        manifests = directory / "current"
        (manifests / "map").mkdir(parents=True)
        (manifests / "map" / "team.yaml").write_text(POLICY)
    source = Scenario((str(log),), current=manifests)
    return mutations(source, Options(workers=1), lambda _what, _done, _total: None).attributions


def changes(found: Attributions) -> dict[tuple[Actor, str], tuple[str, ...]]:
    """The shapes by actor, the server's own left out."""
    return {(key.actor, key.name): key.shape for key in found.groups if key.actor is not Actor.SERVER}


STORED = {**config_map(), "data": {"a": "1", "b": "2"}}
LABELLED = config_map(labels={"team": "a"})


def test_nothing_but_system_fields(tmp_path: Path) -> None:
    found = found_in(tmp_path, event("create", config_map(), config_map()))
    assert (found.compared, found.changed, changes(found)) == (1, 0, {})


def test_webhook_by_its_annotation(tmp_path: Path) -> None:
    found = found_in(tmp_path, event("create", config_map(), STORED, annotations=told([ADD])))
    assert changes(found) == {(Actor.WEBHOOK, "hook.example.com"): ("add /data/b",)}


def test_webhook_without_its_patch(tmp_path: Path) -> None:
    found = found_in(tmp_path, event("create", config_map(), STORED, annotations=told(None)))
    reason = "hook.example.com changed the object, and the log does not have the patch"
    assert changes(found) == {(Actor.UNKNOWN, reason): ("add /data/b",)}


def test_policy_by_replay(tmp_path: Path) -> None:
    found = found_in(tmp_path, event("create", config_map(), LABELLED), current=True)
    assert changes(found) == {(Actor.POLICY, "team.static.k8s.io"): ("add /metadata/labels/team",)}
    assert found.unseen == {}


def test_policy_whose_change_is_not_there(tmp_path: Path) -> None:
    found = found_in(tmp_path, event("create", config_map(), config_map()), current=True)
    assert (changes(found), dict(found.unseen)) == ({}, {"team.static.k8s.io": 1})


def test_nobody_that_is_known(tmp_path: Path) -> None:
    found = found_in(tmp_path, event("create", config_map(), LABELLED))
    reason = "neither a webhook annotation nor a policy of the baseline explains the change"
    assert changes(found) == {(Actor.UNKNOWN, reason): ("add /metadata/labels/team",)}


def test_all_three_in_one_request(tmp_path: Path) -> None:
    stored = {**LABELLED, "data": {"a": "1", "b": "2", "c": "3"}}
    found = found_in(tmp_path, event("create", config_map(), stored, annotations=told([ADD])), current=True)
    assert {actor: shape for (actor, _), shape in changes(found).items()} == {
        Actor.WEBHOOK: ("add /data/b",),
        Actor.POLICY: ("add /metadata/labels/team",),
        Actor.UNKNOWN: ("add /data/c",),
    }


def test_patch_is_compared_with_what_it_makes(tmp_path: Path) -> None:
    """The client's own change is no mutation; a label on top of it is."""
    after = {**LABELLED, "data": {"a": "9"}}
    merge = event("patch", {"data": {"a": "9"}}, after, at=1)
    found = found_in(tmp_path, event("create", config_map(), config_map()), merge)
    assert (found.compared, list(changes(found).values())) == (2, [("add /metadata/labels/team",)])


def test_what_is_not_recorded_is_counted(tmp_path: Path) -> None:
    thin = event("create", None, config_map(), level="Metadata")
    found = found_in(tmp_path, {key: value for key, value in thin.items() if not key.endswith("Object")})
    assert (found.compared, dict(found.not_compared)) == (0, {"audit level Metadata does not record bodies": 1})


def test_secrets_are_hidden(tmp_path: Path) -> None:
    secret = {**config_map(), "kind": "Secret"}
    reference = {"resource": "secrets", "namespace": "default", "name": "settings", "apiVersion": "v1"}
    stored = {**secret, "data": {"a": "1", "b": "aGlkZGVu"}}
    log = event("create", secret, stored, objectRef=reference, annotations=told([{**ADD, "value": "aGlkZGVu"}]))
    (tmp_path / "audit.jsonl").write_bytes(orjson.dumps(log))
    for output in ([], ["--full"], ["--json"]):
        shown = CliRunner().invoke(app, ["mutations", str(tmp_path / "audit.jsonl"), *output, "--workers", "1"])
        assert shown.exit_code == 0
        assert "/data/b" in shown.output
        assert "aGlkZGVu" not in shown.output


@pytest.mark.slow
@pytest.mark.parametrize(
    "recording", [SAMPLE, pytest.param(SHARED, marks=[pytest.mark.shared])], ids=["sample", "shared"]
)
def test_no_change_of_the_recording_is_unexplained(recording: Path) -> None:
    """Its webhooks change nothing and its current set has no mutating policy: built-in plugins and the server are left."""
    if not recording.is_dir():
        pytest.skip("the full recording is not beside the checkout")
    source = Scenario((str(recording),)).resolved()
    found = mutations(source, Options(workers=1), lambda _what, _done, _total: None).attributions
    assert {key.actor for key in found.groups} == {Actor.SERVER, Actor.PLUGIN}
    assert found.compared > 20 * found.not_compared.total()
