"""What the loaders answer, against answers of a real API server (1.37)."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from replay.cellib.version import NEWEST
from replay.manifests.check import check_set
from replay.manifests.plugin import PluginName
from replay.report.findings import checked_json

CASES: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "cases.json").read_text("utf-8"))
CORPUS = Path(__file__).parents[2].parent / "shared" / "manifests" / "cases.tar.zst"

UNEQUAL_TEXTS: dict[str, str] = {}
"""Cases of the corpus whose text is another one than the server's, each with the reason; all others are equal."""


def answer(path: Path, case: dict[str, Any]) -> dict[str, Any]:
    """What we say of a case, with the keys of the corpus."""
    plugin = None if "file" in case else PluginName(case["plugin"])
    answered = checked_json(check_set(path / case.get("file", ""), NEWEST, plugin=plugin))
    return {
        key: value
        for key, value in answered.items()
        if key in ("ok", "error", "hash", "objects", "stage", "plugin", "plugins")
    }


def expected(case: dict[str, Any], answered: dict[str, Any]) -> dict[str, Any]:
    """The corpus leaves out what is null; a single directory has no stage."""
    wanted = {key: case["expected"].get(key) for key in answered if key != "plugin" or "file" in case}
    if "file" not in case:
        wanted |= {"objects": case["expected"].get("objects", []), "plugin": case["plugin"]}
    return wanted


@pytest.mark.parametrize("name", CASES)
def test_server_answer(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    for file, text in case["files"].items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.replace("__DIR__", str(tmp_path)).encode() if "file" in case else text.encode())
    answered = answer(tmp_path, case)
    assert answered == expected(case, answered)


@pytest.mark.shared
@pytest.mark.skipif(not CORPUS.exists(), reason="the full corpus is not here")
def test_corpus(tmp_path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415

    with (
        pa.input_stream(str(CORPUS), compression="zstd") as stream,
        tarfile.open(fileobj=io.BytesIO(stream.read())) as tar,
    ):
        tar.extractall(tmp_path, filter="fully_trusted")
    different: dict[str, str] = {}
    for directory in sorted(path.parent for path in tmp_path.rglob("case.json")):
        case = {**json.loads((directory / "case.json").read_text("utf-8"))}
        case["expected"] = json.loads((directory / "expected.json").read_text("utf-8"))
        path = directory / ("config" if "file" in case else "manifests")
        if "file" in case:
            place_directory(path)
        answered = answer(path, case)
        wanted = expected(case, answered)
        if answered != wanted:
            differing = [key for key in wanted if answered[key] != wanted[key]]
            different[case["id"]] = ", ".join(differing)
    assert different == dict.fromkeys(UNEQUAL_TEXTS, "error")


def place_directory(path: Path) -> None:
    """Put the absolute path where the files of a configuration case name it."""
    for file in path.rglob("*"):
        if file.is_file() and not file.is_symlink():
            file.write_bytes(file.read_bytes().replace(b"__DIR__", str(path).encode()))


TWO_FAULTS = """apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: a
spec:
  matchConstraints:
    resourceRules:
    - apiGroups: ['']
      apiVersions: [v1]
      operations: [create]
      resources: [pods]
  validations:
  - expression: '1'
---
  x: [
"""
WRONG_TYPES = """kind: ValidatingAdmissionPolicyBinding
apiVersion: admissionregistration.k8s.io/v1
extra: 1
metadata: {name: 7, labels: {a: {}}}
spec: {}
"""
FILES = {
    "two faults in one policy, and a broken second document": (
        TWO_FAULTS,
        [
            (10, 20, 'spec.matchConstraints.resourceRules[0].operations[0]: Unsupported value: "create"', True),
            (13, 17, 'spec.validations[0].expression: Invalid value: "1": must evaluate to bool but got int', True),
            (4, 9, '"a" in file "DIR/a.yaml" must have a name ending with ".static.k8s.io"', False),
            (16, 1, "yaml: line 1: did not find expected node content", False),
        ],
    ),
    "unknown fields and a wrong type": (
        WRONG_TYPES,
        [
            (
                4,
                33,
                "json: cannot unmarshal object into Go struct field ObjectMeta.metadata.labels of type string",
                True,
            ),
            (
                4,
                18,
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
                False,
            ),
            (3, 1, 'unknown field "extra"', False),
        ],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_every_finding_has_its_place(name: str, tmp_path: Path) -> None:
    text, wanted = FILES[name]
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    checked = check_set(tmp_path, NEWEST, plugin=PluginName.VALIDATING_ADMISSION_POLICY)
    found = [
        (
            *finding.position,
            finding.message.replace(str(tmp_path), "DIR").partition(": supported values")[0],
            finding.first,
        )
        for finding in checked.findings
    ]
    assert found == wanted
