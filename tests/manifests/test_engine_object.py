"""Objects of policy engines in a set: what is read, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.cellib.version import NEWEST
from replay.errors import ManifestError
from replay.manifests.check import check_set
from replay.manifests.set_loader import load_set

POLICY = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\n"
NO_OBJECT = "an object of Kubernetes needs apiVersion and kind, and its metadata is a mapping"
READ = [
    ("a policy", POLICY, ["p"]),
    ("two documents", f"{POLICY}---\n{POLICY.replace('p}', 'q}')}", ["p", "q"]),
    (
        "a list, as kubectl prints it",
        f"apiVersion: v1\nkind: List\nitems:\n- {POLICY.replace(chr(10), chr(10) + '  ')}",
        ["p"],
    ),
    ("an empty list", "apiVersion: v1\nkind: List\nitems: []\n", []),
    ("another object beside it", f"{POLICY}---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: n}}\n", ["p"]),
    ("a comment alone", "# nothing yet\n", []),
]
REFUSED = [
    ("no YAML", "a: [\n", 2, "yaml: line 1: did not find expected node content"),
    ("no kind", "apiVersion: kyverno.io/v1\n", 1, NO_OBJECT),
    ("no apiVersion", f"{POLICY}---\nkind: ClusterPolicy\n", 5, NO_OBJECT),
    ("a YAML list", "- apiVersion: kyverno.io/v1\n  kind: ClusterPolicy\n", 1, NO_OBJECT),
    ("metadata of another type", "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: 3\n", 1, NO_OBJECT),
    ("an item that is not an object", "apiVersion: v1\nkind: List\nitems: [1]\n", 1, NO_OBJECT),
    ("items of another type", "apiVersion: v1\nkind: List\nitems: {a: b}\n", 1, NO_OBJECT),
]


def written(directory: Path, text: str) -> Path:
    directory.joinpath("kyverno").mkdir()
    directory.joinpath("kyverno", "p.yaml").write_text(text)
    return directory


@pytest.mark.parametrize(("text", "names"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_read(text: str, names: list[str], tmp_path: Path) -> None:
    path = written(tmp_path, text)
    found = load_set(path, NEWEST).engine or ()
    assert [each.value["metadata"]["name"] for each in found] == names
    assert found == check_set(path, NEWEST).engine


@pytest.mark.parametrize(("text", "line", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused(text: str, line: int, message: str, tmp_path: Path) -> None:
    """A document that cannot be an object is never left out without a word."""
    path = written(tmp_path, text)
    with pytest.raises(ManifestError) as error:
        load_set(path, NEWEST)
    assert (error.value.path, error.value.line, error.value.message) == (
        str(path / "kyverno" / "p.yaml"),
        line,
        message,
    )
