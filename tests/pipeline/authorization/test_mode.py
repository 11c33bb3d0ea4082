from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from replay.authorization.start import configuration_of_mode
from replay.errors import ReplayError


def manifest(path: Path, *words: str) -> str:
    container = {"name": "a", "command": ["kube-apiserver", *words]}
    path.write_text(yaml.safe_dump({"kind": "Pod", "spec": {"containers": [container]}}))
    return str(path)


@pytest.mark.parametrize(
    ("words", "chain"),
    [
        pytest.param(["--authorization-mode=Node,RBAC"], ["node", "rbac"], id="one word"),
        pytest.param(["--authorization-mode", "RBAC"], ["rbac"], id="two words"),
        pytest.param(["--authorization-mode=Node", "--authorization-mode=RBAC"], ["node", "rbac"], id="twice"),
        pytest.param(["--secure-port=1"], ["alwaysallow"], id="no flag"),
    ],
)
def test_the_flag_in_a_manifest(tmp_path: Path, words: list[str], chain: list[str]) -> None:
    found = configuration_of_mode(manifest(tmp_path / "m.yaml", *words))
    assert [each.name for each in found.authorizers] == chain


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param("a: [", "no kube-apiserver manifest: ", id="no YAML"),
        pytest.param("spec: {containers: [x]}", "no container calls it", id="no container"),
        pytest.param("[]", "no container calls it", id="no object"),
        pytest.param(
            "spec: {containers: [{command: [kube-apiserver, --authorization-config=/etc/a.yaml]}]}",
            "from --authorization-config=/etc/a.yaml: give that file as authorization.yaml of a set",
            id="a configuration",
        ),
        pytest.param(
            "spec: {containers: [{command: [kube-apiserver, --authorization-mode=Foo]}]}",
            "authorization-mode `Foo` is not a valid mode",
            id="no mode",
        ),
    ],
)
def test_a_manifest_that_says_no_chain(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "m.yaml").write_text(content)
    with pytest.raises(ReplayError, match=reason):
        configuration_of_mode(str(tmp_path / "m.yaml"))


def test_a_manifest_that_is_not_there() -> None:
    with pytest.raises(ReplayError, match="No such file"):
        configuration_of_mode("nowhere/m.yaml")
