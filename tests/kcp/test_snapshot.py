"""`replay snapshot --by-workspace`: a folder for each workspace, read with kubectl."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from replay.errors import SnapshotError
from replay.kcp.shard.folder import load_folders
from replay.kcp.shard.layout import SHARD_VERSION, workspace_folders
from replay.pipeline.snapshot import take_workspace

PATHS = {"kcp.io/path": "root:provider", "kcp.io/cluster": "2p"}
POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "size", "annotations": {"kcp.io/cluster": "2p"}},
    "spec": {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["widgets"]}
            ]
        },
        "validations": [{"expression": "object.spec.size < int(params.data.max)"}],
    },
}
LIMITS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits", "namespace": "default"}}
THERE: dict[str, list[Any]] = {
    "logicalclusters.core.kcp.io": [
        {
            "apiVersion": "core.kcp.io/v1alpha1",
            "kind": "LogicalCluster",
            "metadata": {"name": "cluster", "annotations": PATHS},
        }
    ],
    "validatingadmissionpolicies.admissionregistration.k8s.io": [POLICY],
    "configmaps": [LIMITS],
}


def kubectl(arguments: Sequence[str]) -> bytes:
    return json.dumps({"items": THERE.get(arguments[2], [])}).encode()


def test_a_workspace_goes_to_a_folder_with_its_path(tmp_path: Path) -> None:
    path, count = take_workspace(["kubectl"], tmp_path, kubectl)
    assert (path, count) == ("root:provider", 3)
    assert (workspace_folders(tmp_path) or {}).keys() == {"root:provider"}
    folder = load_folders(tmp_path, SHARD_VERSION)["root:provider"]
    assert [obj["metadata"]["name"] for obj in folder.policies] == ["size"]
    assert folder.cluster == "2p"
    assert LIMITS in folder.others


def test_a_cluster_that_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="is for no workspace of kcp"):
        take_workspace(["kubectl"], tmp_path, lambda _: b'{"items": []}')
    assert list(tmp_path.iterdir()) == []


FOLDERS = [
    ("by workspace", ["root/a.yaml", "root.provider/b.yaml"], {"root", "root:provider"}),
    ("a plain set", ["vap/a.yaml", "vwc/b.yaml"], None),
    ("an api directory", ["api/a.yaml"], None),
    ("files beside folders", ["root/a.yaml", "policy.yaml"], None),
    ("files alone", ["policy.yaml"], None),
    ("nothing", [], None),
]


@pytest.mark.parametrize(("files", "expected"), [row[1:] for row in FOLDERS], ids=[row[0] for row in FOLDERS])
def test_which_directories_are_made_of_workspaces(tmp_path: Path, files: list[str], expected: set[str] | None) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    found = workspace_folders(tmp_path)
    assert (None if found is None else set(found)) == expected
