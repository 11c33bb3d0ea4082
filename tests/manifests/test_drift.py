from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from replay.errors import ManifestError
from replay.manifests.drift import drift_lines, hash_lines, hashes_from_metrics, set_hashes
from replay.manifests.plugin import PluginName

VAP = PluginName.VALIDATING_ADMISSION_POLICY
METRIC = "apiserver_manifest_admission_config_controller_last_config_info"


def make(path: Path, **files: str) -> Path:
    for directory, text in files.items():
        (path / directory).mkdir(parents=True)
        (path / directory / "a.yaml").write_text(text)
    return path


def test_hash(tmp_path: Path) -> None:
    path = make(tmp_path / "s", vap="a: 1\n", mwc="")
    digest = sha256(b"a: 1\n" + bytes(1)).hexdigest()
    assert list(hash_lines([set_hashes(path / "vap", VAP)])) == [f"sha256:{digest}"]
    lines = list(hash_lines([set_hashes(path)]))
    assert [line.split(" ")[1] for line in lines] == ["MutatingAdmissionWebhook", "ValidatingAdmissionPolicy"]
    assert lines[0].endswith(" -")


def test_drift_of_directories_and_metrics(tmp_path: Path) -> None:
    one, same, other = (make(tmp_path / name, vap=text) for name, text in (("1", "a"), ("2", "a"), ("3", "b")))
    servers = [set_hashes(path) for path in (one, same)]
    assert list(drift_lines(servers)) == []
    hashes = set_hashes(other).hashes[VAP]
    metrics = tmp_path / "metrics.txt"
    metrics.write_text(f'# HELP x\n{METRIC}{{apiserver_id_hash="sha256:1",hash="{hashes}",plugin="{VAP}"}} 1\n')
    found = list(drift_lines([*servers, hashes_from_metrics(metrics)]))
    assert found == [
        f"{VAP}: {servers[0].hashes[VAP]}: {one}, {same}",
        f"{VAP}: {hashes}: {metrics}",
    ]


def test_unusable_input(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("up 1\n")
    with pytest.raises(ManifestError, match="no metric"):
        hashes_from_metrics(tmp_path / "m")
    with pytest.raises(ManifestError, match="name the plugin"):
        set_hashes(tmp_path)
