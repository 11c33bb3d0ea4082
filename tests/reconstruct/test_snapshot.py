from __future__ import annotations

import gzip
import subprocess
from pathlib import Path
from typing import Any

import pytest

from replay.errors import SnapshotError
from replay.reconstruct.record.body import revision
from replay.reconstruct.snapshot import read_snapshot, revisions_of

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
ONE = '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}'
YAML = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"


@pytest.mark.parametrize(
    ("name", "text", "objects"),
    [
        ("lines.jsonl", f"{ONE}\n\n{ONE}\n", [NAMESPACE, NAMESPACE]),
        ("list.json", f'{{"kind":"List","apiVersion":"v1","items":[{ONE}]}}', [NAMESPACE]),
        (
            "typed.json",
            '{"kind":"NamespaceList","apiVersion":"v1","items":[{"metadata":{"name":"shop"}}]}',
            [NAMESPACE],
        ),
        ("one.yaml", f"---\n{YAML}---\n# nothing\n", [NAMESPACE]),
        (
            "time.yaml",
            "kind: X\napiVersion: v1\nat: 2026-01-01T00:00:00Z\n",
            [{"kind": "X", "apiVersion": "v1", "at": "2026-01-01T00:00:00Z"}],
        ),
        ("empty.json", "", []),
    ],
)
def test_forms(name: str, text: str, objects: list[Any], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert read_snapshot(path) == objects


def test_compressed_files_and_directories(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(ONE.encode()))
    (tmp_path / "b.yaml").write_text(YAML)
    (tmp_path / "notes.txt").write_text("not read")
    (tmp_path / "c.jsonl").write_text(ONE)
    subprocess.run(["zstd", "-q", "--rm", str(tmp_path / "c.jsonl")], check=True)
    assert read_snapshot(tmp_path) == [NAMESPACE] * 3


ZSTD: dict[str, tuple[bytes, list[Any] | str]] = {
    "an empty file": (b"", []),
    "a line without an end": (ONE.encode(), [NAMESPACE]),
    "lines that end as on Windows": (f"{ONE}\r\n{ONE}\r\n".encode(), [NAMESPACE] * 2),
    "bytes that are no UTF-8": (ONE.encode() + b"\n\xff\n", ":2: not a JSON object"),
}


@pytest.mark.parametrize(("content", "expected"), ZSTD.values(), ids=ZSTD)
def test_zstd(content: bytes, expected: list[Any] | str, tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    frame = subprocess.run(["zstd", "-q", "-c"], input=content, check=True, capture_output=True).stdout
    path.write_bytes(frame)
    try:
        objects: list[Any] | str = read_snapshot(path)
    except SnapshotError as error:
        objects = str(error)
    assert objects == expected if isinstance(expected, list) else expected in str(objects)


def test_a_zstd_file_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.zst"
    frame = subprocess.run(["zstd", "-q", "-c"], input=ONE.encode(), check=True, capture_output=True).stdout
    path.write_bytes(frame[:-2])
    with pytest.raises(SnapshotError, match="cannot be read: truncated compressed stream"):
        read_snapshot(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("bad.jsonl", f"{ONE}\n{{", "bad.jsonl:2: not a JSON object"),
        ("bad.yaml", "a: [", "bad.yaml:2: neither JSON nor YAML"),
        ("kindless.json", '{"a":1}', "kindless.json:1: not an API object: it has no `kind`"),
    ],
)
def test_refusals_name_file_and_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SnapshotError) as refused:
        read_snapshot(path)
    assert str(refused.value).startswith(f"{tmp_path}/{message}")


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"none\.json: cannot be read: no such file or directory$"):
        read_snapshot(tmp_path / "none.json")


REVISIONS: list[tuple[Any, int | None]] = [
    ("5", 5),
    ("9223372036854775807", 2**63 - 1),
    ("9223372036854775808", None),
    ("0", None),
    ("", None),
    ("-5", None),
    ("9" * 9000, None),
    (5, None),
    (None, None),
]


@pytest.mark.parametrize(("text", "expected"), REVISIONS, ids=[repr(case[0])[:24] for case in REVISIONS])
def test_revision(text: Any, expected: int | None) -> None:
    assert revision({"resourceVersion": text}) == expected
    assert revisions_of([{"metadata": {"resourceVersion": text}}]) == ([] if expected is None else [expected])
