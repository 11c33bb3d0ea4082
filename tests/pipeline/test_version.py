from __future__ import annotations

from pathlib import Path

import pytest

from replay.authorization.check import check_whole_set
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.errors import ReplayError
from replay.kcp.shard.layout import SHARD_VERSION
from replay.pipeline.manifests import manifests_of
from replay.pipeline.scenario import Scenario
from replay.pipeline.version import version_of, versions_of_sides

SAMPLES = Path(__file__).parents[2] / "sample_audit"
KCP = SAMPLES / "kcp" / "current"
CASES = {
    "nothing is said": (None, (), NEWEST),
    "a set of a cluster": (None, (SAMPLES / "shop" / "current", None), NEWEST),
    "a set by workspace": (None, (None, KCP), SHARD_VERSION),
    "a set by workspace, and a version": ("1.35", (KCP,), KubernetesVersion(1, 35)),
}


@pytest.mark.parametrize("name", CASES)
def test_version(name: str) -> None:
    text, paths, expected = CASES[name]
    assert version_of(text, paths) == expected


POD = """\
apiVersion: v1
kind: Pod
spec:
  containers:
  - {name: side, image: "side:v1.9.0", command: [x]}
  - {image: IMAGE, command: [kube-apiserver, --authorization-mode=Node]}
"""
KUBEADM = "{apiVersion: kubeadm.k8s.io/v1beta4, kind: ClusterConfiguration, kubernetesVersion: v1.35.2}\n"
OF_SERVERS: list[tuple[str, dict[str, str], tuple[str | None, str | None, str | None], str]] = [
    (
        "the tag of the image",
        {"current": POD.replace("IMAGE", "registry.k8s.io/kube-apiserver:v1.36.0")},
        (None,) * 3,
        "1.36",
    ),
    (
        "a tag with a digest",
        {"current": POD.replace("IMAGE", "r:5000/kube-apiserver:v1.36.1@sha256:aa")},
        (None,) * 3,
        "1.36",
    ),
    ("no tag", {"current": POD.replace("IMAGE", "r:5000/kube-apiserver")}, (None,) * 3, "1.37"),
    ("kubeadm", {"current": KUBEADM}, (None,) * 3, "1.35"),
    ("a version that is not known", {"current": POD.replace("IMAGE", "kube-apiserver:v1.20.0")}, (None,) * 3, "1.37"),
    (
        "an upgrade",
        {"current": KUBEADM, "candidate": POD.replace("IMAGE", "kube-apiserver:v1.36.0")},
        (None,) * 3,
        "1.35 → 1.36",
    ),
    ("of the candidate alone", {"candidate": KUBEADM}, (None,) * 3, "1.35"),
    ("a version that was asked for", {"current": KUBEADM}, (None, None, "1.37"), "1.37"),
    ("an upgrade that was asked for", {"current": KUBEADM}, (None, "1.37", None), "1.35 → 1.37"),
]


@pytest.mark.parametrize(
    ("files", "asked", "versions"), [row[1:] for row in OF_SERVERS], ids=[row[0] for row in OF_SERVERS]
)
def test_versions_of_the_servers_of_sets(
    files: dict[str, str], asked: tuple[str | None, str | None, str | None], versions: str, tmp_path: Path
) -> None:
    for name in ("current", "candidate"):
        (tmp_path / name).mkdir()
    for name, text in files.items():
        (tmp_path / name / "server.yaml").write_text(text)
    assert str(versions_of_sides(*asked, (tmp_path / "current", tmp_path / "candidate"))) == versions


def test_a_version_against_the_image_is_told(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text(KUBEADM)
    text = "the set is of a kube-apiserver v1.35.2, and Kubernetes 1.37 decides: "
    text += "mend one of them, unless you rehearse an upgrade"
    assert manifests_of(Scenario((), current=tmp_path, candidate=tmp_path)).hints == (f"{tmp_path}: {text}",)
    assert [each.message for each in check_whole_set(tmp_path, NEWEST).findings] == [text]
    assert check_whole_set(tmp_path, KubernetesVersion(1, 35)).findings == ()


def test_a_version_that_there_is_not() -> None:
    with pytest.raises(ReplayError, match=r"1\.30 to 1\.37"):
        version_of("1.12")
