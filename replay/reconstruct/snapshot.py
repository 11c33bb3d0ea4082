"""Reads a cluster snapshot.

Formats: one API object per line, lists of `kubectl get -A -o json`, YAML documents; compressed or not; a file or a
directory.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import yaml

from replay.errors import SnapshotError, reason_of
from replay.json import JSON, decode_json, with_doubles
from replay.manifests.read.values import TextLoader
from replay.on_demand import pl
from replay.reconstruct.record.body import fault_of, revision

_COMPRESSED = (".gz", ".zst")
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".yaml", ".yml")
_LISTS = frozenset({"List", "Table"})


def decompressed(raw: bytes) -> bytes:
    """Return the content of a zstd file with line feeds as line ends. Raise OSError."""
    with suppress(OSError, pl.exceptions.ComputeError):
        return "\n".join([*pl.read_lines(BytesIO(raw))["line"], ""]).encode()
    import pyarrow as pa  # noqa: PLC0415 - a quarter of a second, for what is damaged or no UTF-8

    with pa.CompressedInputStream(pa.BufferReader(raw), "zstd") as stream:
        return bytes(stream.read())


def read_snapshot(path: Path, decompress: Callable[[bytes], bytes] = decompressed) -> list[JSON]:
    """Return the API objects of a file or directory, including those in lists.

    `decompress` returns the content of a zstd file. Raise SnapshotError with file and line.
    """
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and _is_snapshot(file))
        if not files:
            raise SnapshotError(f"no {', '.join(_SUFFIXES)} file in the directory", path=str(path))
        return [obj for file in files for obj in read_snapshot(file, decompress)]
    try:
        content = _content(path, decompress)
    except (OSError, EOFError) as error:
        raise SnapshotError(f"cannot be read: {reason_of(error)}", path=str(path)) from error
    return [obj for line, document in _documents(path, content) for obj in _objects(path, line, document)]


def revisions_of(snapshot: Iterable[JSON]) -> list[int]:
    """Return the sorted revisions of a snapshot's objects. The log tells their times."""
    revisions = (revision(obj.get("metadata")) for obj in snapshot)
    return sorted({each for each in revisions if each is not None})


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the non-blank lines of a decompressed file with their numbers. Raise SnapshotError if it cannot be read."""
    try:
        content = _content(path)
    except (OSError, EOFError) as error:
        raise SnapshotError(f"cannot be read: {reason_of(error)}", path=str(path)) from error
    yield from ((number, line) for number, line in enumerate(content.splitlines(), 1) if line.strip())


def _is_snapshot(file: Path) -> bool:
    """Return whether a file of a directory belongs to the snapshot, by its name without a compression suffix."""
    name = file.stem if file.suffix in _COMPRESSED else file.name
    return name.endswith(_SUFFIXES)


def _content(path: Path, decompress: Callable[[bytes], bytes] = decompressed) -> bytes:
    """Return the decompressed bytes of a file. Its magic number decides, not its name."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        return gzip.decompress(raw)
    if raw[:4] == b"\x28\xb5\x2f\xfd":
        return decompress(raw)
    return raw


def _documents(path: Path, content: bytes) -> Iterator[tuple[int, JSON]]:
    """Yield the documents of a file with the line on which each begins: one JSON document, JSON lines, or YAML."""
    stripped = content.lstrip()
    if stripped[:1] in (b"{", b"["):
        try:
            yield 1, decode_json(stripped)
        # JSON lines begin like one document, too.
        except orjson.JSONDecodeError:
            yield from _json_lines(path, content)
        return
    try:
        for document in yaml.load_all(content, TextLoader):
            yield 1, with_doubles(document)
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 0
        problem = getattr(error, "problem", None) or "not YAML"
        raise SnapshotError(f"neither JSON nor YAML: {problem}", path=str(path), line=line) from error


def _json_lines(path: Path, content: bytes) -> Iterator[tuple[int, JSON]]:
    """Yield one JSON document per line."""
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                yield number, decode_json(line)
            except orjson.JSONDecodeError as error:
                raise SnapshotError(f"not a JSON object: {error}", path=str(path), line=number) from error


def _objects(path: Path, line: int, document: JSON) -> Iterator[JSON]:
    """Yield the objects of a document: itself or those of a list. Items of a typed list take their kind from it."""
    if document is None:
        return
    if isinstance(document, list):
        for item in document:
            yield from _objects(path, line, item)
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise SnapshotError("not an API object: it has no `kind`", path=str(path), line=line)
    if wrong := fault_of(document):
        raise SnapshotError(f"not an API object: {wrong}", path=str(path), line=line)
    items, kind = document.get("items"), document["kind"]
    if not (isinstance(items, list) and (kind in _LISTS or kind.endswith("List"))):
        yield document
        return
    type_meta = {} if kind in _LISTS else {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
    for item in items:
        yield from _objects(path, line, {**type_meta, **item} if isinstance(item, dict) else item)
