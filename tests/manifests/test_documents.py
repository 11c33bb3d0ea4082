from __future__ import annotations

import os
import time
from hashlib import sha256
from pathlib import Path

import pytest

from replay.cellib.version import NEWEST
from replay.manifests.loader import load_directory
from replay.manifests.plugin import PluginName
from replay.manifests.read.documents import Unreadable, read_directory, split_documents

SPLITS = {
    "two documents": ("a\n---\nb\n", [(1, "a"), (3, "b")]),
    "a leading separator belongs to the document": ("---\na\n", [(1, "---\na")]),
    "two separators in a row": ("a\n---\n---\nb\n", [(1, "a"), (3, "---\nb")]),
    "three in a row are a document of their own": ("a\n---\n---\n---\nb", [(1, "a"), (3, "---"), (5, "b")]),
    "a comment behind the separator": ("a\n--- # x\nb", [(1, "a"), (3, "b")]),
    "white space is cut, lines are counted": ("\n\n a\n\n", [(3, "a")]),
    "carriage returns": ("a\r\n---\r\nb\r\n", [(1, "a"), (3, "b")]),
    "an indented separator is none": ("a\n ---\n", [(1, "a\n ---")]),
    "no-break space is white space": ("\u00a0a\u3000", [(1, "a")]),
    "nothing": ("", []),
}


@pytest.mark.parametrize("name", SPLITS)
def test_split(name: str) -> None:
    text, documents = SPLITS[name]
    assert [(each.line, each.data.decode()) for each in split_documents("f", text.encode())] == documents


def test_text_behind_a_separator() -> None:
    with pytest.raises(Unreadable) as caught:
        list(split_documents("f.yaml", b"a\n---x\n"))
    reason = 'failed to split YAML documents in file "f.yaml": invalid Yaml document separator: x'
    assert (caught.value.reason, caught.value.line) == (reason, 2)


def test_hash_is_over_files_with_data_by_name(tmp_path: Path) -> None:
    for name, text in {"b.YML": "b: 1\n", "a.json": "{}", "c.yaml": "", "d.txt": "x", ".yaml": "h: 1"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "e.yaml").mkdir()
    directory = read_directory(tmp_path)
    assert (
        directory.hash
        == f"sha256:{sha256(b'h: 1' + bytes(1) + b'{}' + bytes(1) + b'b: 1' + bytes([10, 0])).hexdigest()}"
    )
    assert [Path(document.path).name for document in directory.documents] == [".yaml", "a.json", "b.YML"]


def refusal(path: Path) -> str:
    started = time.process_time()
    error = load_directory(path, PluginName.VALIDATING_ADMISSION_POLICY, NEWEST).error
    assert time.process_time() - started < 5
    return (error or "").replace(str(path), "DIR")


def test_bad_input_is_refused_with_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(bytes(range(256)) * 100)
    assert refusal(tmp_path) == "error loading DIR/a.yaml: yaml: control characters are not allowed"
    file.write_bytes(b"a: \xff\n")
    assert refusal(tmp_path) == "error loading DIR/a.yaml: yaml: invalid leading UTF-8 octet"
    file.write_bytes(b"a: " + b"[" * 5000 + b"]" * 5000)
    assert (
        refusal(tmp_path) == "error loading DIR/a.yaml: nested 5001 levels deep; over 300 levels a document is not read"
    )
    with file.open("wb") as large:
        large.truncate(100 * 2**20)
    assert refusal(tmp_path) == 'file "DIR/a.yaml" has 100 MiB; manifests over 32 MiB are not read'
    file.unlink()
    file.symlink_to("a.yaml")
    assert refusal(tmp_path) == 'failed to read file "DIR/a.yaml": open DIR/a.yaml: too many levels of symbolic links'
    file.unlink()
    os.mkfifo(file)
    assert refusal(tmp_path) == 'failed to read file "DIR/a.yaml": not a regular file'
    assert refusal(tmp_path / "none").startswith('failed to read manifest directory "DIR": open DIR')
