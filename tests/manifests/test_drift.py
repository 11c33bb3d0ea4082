from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from replay.errors import ManifestError
from replay.manifests.drift import AUTHORIZATION, ServerHashes, drift_lines, hash_lines, hashes_from_metrics, set_hashes
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


CONTROLLER = "apiserver_manifest_admission_config_controller"
LOADED = f'{CONTROLLER}_last_config_info{{apiserver_id_hash="b",hash="sha256:1",plugin="{VAP}"}} 1\n'


def reloads(status: str, count: int, last: str = "", *, plugin: str = VAP) -> str:
    """The metrics of some reloads."""
    controller, labels = CONTROLLER, f'apiserver_id_hash="b",plugin="{plugin}",status="{status}"'
    if not plugin:
        controller, labels = "apiserver_authorization_config_controller", f'apiserver_id_hash="b",status="{status}"'
    text = f"{controller}_automatic_reloads_total{{{labels}}} {count}\n"
    return text + (f"{controller}_automatic_reload_last_timestamp_seconds{{{labels}}} {last}\n" if last else "")


FAILED: list[tuple[str, str, dict[str, int]]] = [
    ("the last one failed", reloads("success", 3, "1.7e9") + reloads("failure", 2, "1.8e9"), {VAP: 2}),
    ("none ever succeeded", reloads("failure", 1, "1.8e9"), {VAP: 1}),
    ("one succeeded since", reloads("success", 3, "1.9e9") + reloads("failure", 2, "1.8e9"), {}),
    ("none failed", reloads("success", 3, "1.9e9") + reloads("failure", 0), {}),
    ("of authorization", reloads("failure", 4, "1.8e9", plugin=""), {AUTHORIZATION: 4}),
]


@pytest.mark.parametrize(("text", "failed"), [row[1:] for row in FAILED], ids=[row[0] for row in FAILED])
def test_a_server_that_could_not_reload_runs_an_older_set(text: str, failed: dict[str, int], tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.txt"
    metrics.write_text(LOADED + text)
    server = hashes_from_metrics(metrics)
    assert (server.hashes, server.failed) == ({VAP: "sha256:1"}, failed)
    lines = list(drift_lines([ServerHashes("set", {VAP: "sha256:1"}), server]))
    counted = {plugin: "1 reload has" if count == 1 else f"{count} reloads have" for plugin, count in failed.items()}
    assert [line.partition(" failed")[0] for line in lines] == [
        f"{plugin}: {metrics}: {text}" for plugin, text in counted.items()
    ]


def test_drift_of_authorization(tmp_path: Path) -> None:
    text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"
    for name, content in (("one", text), ("same", text), ("other", f"{text}# more\n")):
        make(tmp_path / name, vap="a")
        (tmp_path / name / "authorization.yaml").write_text(content)
    digest = f"sha256:{sha256(text.encode()).hexdigest()}"
    metrics = tmp_path / "metrics.txt"
    name = "apiserver_authorization_config_controller_last_config_info"
    metrics.write_text(f'{name}{{apiserver_id_hash="b",hash="{digest}"}} 1\n')
    file = set_hashes(tmp_path / "one" / "authorization.yaml")
    assert file.hashes == {AUTHORIZATION: digest}
    assert list(drift_lines([file, hashes_from_metrics(metrics)])) == []
    one, same, other = (set_hashes(tmp_path / each) for each in ("one", "same", "other"))
    assert list(drift_lines([one, same])) == []
    assert list(drift_lines([one, same, other])) == [
        f"{AUTHORIZATION}: {digest}: {one.name}, {same.name}",
        f"{AUTHORIZATION}: {other.hashes[AUTHORIZATION]}: {other.name}",
    ]


def test_unusable_input(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("up 1\n")
    with pytest.raises(ManifestError, match="no metric"):
        hashes_from_metrics(tmp_path / "m")
    with pytest.raises(ManifestError, match="name the plugin"):
        set_hashes(tmp_path)
