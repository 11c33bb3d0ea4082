"""YAML files that are not read as the API server reads them: their values, and one line about what is broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay.errors import ManifestError
from replay.manifests.read.values import yaml_values


@pytest.mark.parametrize(
    ("content", "values"),
    [
        pytest.param(b"", [], id="an empty file"),
        pytest.param(b"---\n---\na: 1\n", [{"a": 1}], id="an empty document"),
        pytest.param(
            b"since: 2026-11-28\n1: x\n", [{"since": "2026-11-28", "1": "x"}], id="a date and a number as a key"
        ),
    ],
)
def test_values(content: bytes, values: Any, tmp_path: Path) -> None:
    path = tmp_path / "flags.yaml"
    path.write_bytes(content)
    assert yaml_values(path) == values


@pytest.mark.parametrize(
    ("content", "line", "text"),
    [
        pytest.param(b"a: [\n", 2, "did not find expected node content", id="a list without end"),
        pytest.param(b"a: 1\n b: 2\n", 2, "mapping values are not allowed in this context", id="indentation"),
        pytest.param(b"a: *b\n", 1, "found undefined alias", id="an alias without its anchor"),
        pytest.param(b"a: \x00\n", 0, "control characters are not allowed", id="a control character"),
    ],
)
def test_a_broken_file(content: bytes, line: int, text: str, tmp_path: Path) -> None:
    path = tmp_path / "flags.yaml"
    path.write_bytes(content)
    with pytest.raises(ManifestError) as caught:
        yaml_values(path)
    place = f"{path}:{line}" if line else str(path)
    assert str(caught.value) == f"{place}: is not valid YAML: {text}"
