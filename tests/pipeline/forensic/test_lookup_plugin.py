"""What lookup replays of built-in plugins: the warnings of PodSecurity, of which the log tells nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replay.pipeline.forensic.lookup import LookupFilter, look_up
from replay.pipeline.scenario import Scenario
from tests.pipeline.forensic.test_lookup import silent
from tests.pipeline.test_plugin import event, pod

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "uid": "1", "labels": {"team": "x"}}}
LABELS = {"pod-security.kubernetes.io/warn": "baseline", "pod-security.kubernetes.io/warn-version": "v1.37"}
WARNING = 'would violate PodSecurity "baseline:v1.37": privileged (container "c" must not set securityContext.privileged=true)'


@pytest.fixture
def source(tmp_path: Path) -> Scenario:
    """A log of two pods of which one is privileged, and a set that labels their namespace."""
    privileged = pod("b")
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    events = [event(1, "create", pod("a")), event(2, "create", privileged)]
    (tmp_path / "audit.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    (tmp_path / "cluster.jsonl").write_text(json.dumps(NAMESPACE))
    current = tmp_path / "current"
    (current / "objects").mkdir(parents=True)
    (current / "kube-apiserver.flags").write_text("--profiling=false")
    labelled = {**NAMESPACE, "metadata": {"name": "n", "labels": LABELS}}
    (current / "objects" / "namespace.yaml").write_text(json.dumps(labelled))
    return Scenario((str(tmp_path / "audit.jsonl"),), current=current, cluster=tmp_path / "cluster.jsonl").resolved()


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, [("builtin", "PodSecurity", "", "b", WARNING)]),
        ("PodSecurity", [("builtin", "PodSecurity", "", "b", WARNING)]),
        ("Priority", []),
    ],
)
def test_warnings_of_pod_security_are_replayed(
    source: Scenario, policy: str | None, expected: list[tuple[str, ...]]
) -> None:
    found = look_up(source, LookupFilter(action="warn", policy=policy), silent)
    told = [(each.plugin, each.policy, each.binding, each.object_name, each.message) for each in found.replayed]
    assert (told, found.undetermined) == (expected, 0)
