"""The documents of a bundle: a file, all manifests below a directory, or standard input.

`kubectl apply -f` reads a file in this way, and `-R` a directory (`k8s.io/cli-runtime/pkg/resource`,
`FileVisitorForSTDIN` and `ExpandPathsToFileVisitors`). Files that must be rendered first are refused, with the command
that renders them. Paths in a file are never followed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from replay.checkout import require_links_inside
from replay.errors import ManifestError
from replay.json import JSON
from replay.manifests.go_type.decode import plain
from replay.manifests.read.documents import (
    MAX_FILE_BYTES,
    ManifestDocument,
    Unreadable,
    is_manifest,
    os_reason,
    read_file,
    split_documents,
)
from replay.manifests.read.node import Node
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml

STDIN = Path("-")
"""Path that stands for standard input."""
_SHOWN_STDIN = "standard input"
_KUSTOMIZATIONS = frozenset({"kustomization.yaml", "kustomization.yml", "Kustomization"})
_CHART = "Chart.yaml"
_PLAIN_FIELDS = frozenset({"apiVersion", "kind", "metadata", "resources"})
"""Fields of a kustomization that only lists files."""
_THEN = "| replay run LOG --apply -"
_GZIP = b"\x1f\x8b"
_TEMPLATE = b"{{"


class BundleDocument(Struct, frozen=True):
    """One document of a bundle: its source, its nodes, and its value."""

    source: ManifestDocument
    node: Node
    value: JSON


class BundleFiles(Struct, frozen=True):
    """All documents of a bundle, and the files of a directory without Kubernetes objects."""

    documents: tuple[BundleDocument, ...]
    other_files: tuple[str, ...] = ()


@cache
def standard_input() -> bytes:
    """Return standard input. It can be read only once, so it is cached."""
    return sys.stdin.buffer.read()


def read_bundle_files(path: Path) -> BundleFiles:
    """Read all documents at a path.

    Raises ManifestError for a file that cannot be read, and for files that must be rendered first.
    """
    if path == STDIN:
        return BundleFiles(tuple(_documents(_SHOWN_STDIN, standard_input())))
    if not path.exists():
        raise ManifestError("no such file or directory", path=str(path))
    if not path.is_dir():
        return BundleFiles(tuple(_documents_of_file(path)))
    documents: list[BundleDocument] = []
    other_files: list[str] = []
    for file in manifest_files(path):
        own = tuple(_documents_of_file(file))
        if own and not any(is_object(item) for each in own for item in items_of(each.value)):
            other_files.append(str(file))
        else:
            documents += own
    return BundleFiles(tuple(documents), tuple(other_files))


def manifest_files(directory: Path) -> Iterator[Path]:
    """Yield the manifests below a directory in path order, except hidden ones.

    Raises ManifestError for a Helm chart, and for a kustomization that does more than list the existing files.
    """
    require_links_inside(directory)
    try:
        # Go sorts names by their bytes.
        names = sorted((entry.name for entry in directory.iterdir()), key=os.fsencode)
    except OSError as error:
        raise ManifestError(f"cannot be read: {os_reason(error)}", path=str(directory)) from error
    if _CHART in names:
        rendering = f"`helm template {directory.name or 'NAME'} {directory} {_THEN}`"
        raise ManifestError(f"this is a chart of Helm: {rendering} renders it", path=str(directory / _CHART))
    for name in names:
        if name in _KUSTOMIZATIONS:
            _require_plain(directory / name)
    for name in names:
        path = directory / name
        if name.startswith(".") or name in _KUSTOMIZATIONS:
            continue
        if path.is_dir() and not path.is_symlink():
            yield from manifest_files(path)
        elif is_manifest(path) and not path.is_dir():
            yield path


def items_of(value: JSON) -> list[JSON]:
    """Return the objects of a document: the items of a list, or the object itself. An empty document has none."""
    if isinstance(value, dict) and str(value.get("kind")).endswith("List"):
        items = value.get("items") or []
        if isinstance(items, list) and (items or value["kind"] == "List"):
            return [item for each in items for item in items_of(each)]
    return [] if value is None else [value]


def is_object(value: JSON) -> bool:
    """Return whether a value has an apiVersion and a kind."""
    return isinstance(value, dict) and all(isinstance(value.get(each), str) for each in ("apiVersion", "kind"))


def is_kustomization(path: Path) -> bool:
    """Return whether a file is a kustomization, by its name."""
    return path.name in _KUSTOMIZATIONS


def is_chart(path: Path) -> bool:
    """Return whether a file marks its directory as a Helm chart, by its name."""
    return path.name == _CHART


def _documents_of_file(path: Path) -> Iterator[BundleDocument]:
    if is_kustomization(path):
        raise _unrendered(path.parent, path, "this is a kustomization")
    try:
        data = read_file(path)
    except Unreadable as error:
        raise ManifestError(error.reason, path=error.path) from error
    yield from _documents(str(path), data)


def _documents(path: str, data: bytes) -> Iterator[BundleDocument]:
    if data.startswith(_GZIP):
        text = f"is compressed: unpack it, or, if it is a chart of Helm, `helm template NAME {path} {_THEN}` renders it"
        raise ManifestError(text, path=path)
    if len(data) > MAX_FILE_BYTES:
        raise ManifestError(f"holds more than {MAX_FILE_BYTES // 2**20} MiB, which is not read", path=path)
    try:
        for document in split_documents(path, data):
            yield _document(document)
    except Unreadable as error:
        raise ManifestError(error.reason, path=error.path, line=error.line) from error


def _document(document: ManifestDocument) -> BundleDocument:
    try:
        node = read_yaml(document.data, document.line).node
    except YAMLSyntaxError as error:
        place = error.position
        text = str(error)
        if _TEMPLATE in document.data:
            text = f"is a template that is not rendered: `helm template NAME {_chart_of(document.path)} {_THEN}` renders a chart of Helm"
        raise ManifestError(text, path=document.path, line=place.line, column=place.column) from None
    return BundleDocument(document, node, plain(node))


def _chart_of(path: str) -> str:
    """Return the directory of the chart to which a template belongs, or `CHART` if it is unknown."""
    return next((str(each) for each in Path(path).parents if (each / _CHART).is_file()), "CHART")


def _require_plain(path: Path) -> None:
    """Raise ManifestError for a kustomization that does more than list the manifests in and below its directory."""
    value: JSON = None
    for document in _plain_documents(path):
        value = document.value
    fields = value if isinstance(value, dict) else {}
    more = sorted(fields.keys() - _PLAIN_FIELDS)
    if more:
        raise _unrendered(path.parent, path, f"this kustomization does more than list its files (`{more[0]}`)")
    directory = path.parent
    resources = fields.get("resources")
    listed = {os.path.normpath(str(each)) for each in resources} if isinstance(resources, list) else set()
    files = [each.relative_to(directory) for each in _manifests_below(directory)]
    held = {str(each) for file in files for each in (file, *file.parents)}
    if strange := next(iter(sorted(listed - held)), None):
        raise _unrendered(
            directory, path, f"this kustomization lists `{strange}`, which is not a manifest or folder below it"
        )
    for file in files:
        if not listed & {str(file), *map(str, file.parents)}:
            raise _unrendered(directory, path, f"this kustomization does not list `{file}`")


def _manifests_below(directory: Path) -> Iterator[Path]:
    """Yield all manifests below a directory, except hidden ones and kustomizations."""
    for path in sorted(directory.iterdir()):
        if path.name.startswith(".") or path.name in _KUSTOMIZATIONS:
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _manifests_below(path)
        elif is_manifest(path):
            yield path


def _plain_documents(path: Path) -> Iterator[BundleDocument]:
    try:
        yield from _documents(str(path), read_file(path))
    except Unreadable as error:
        raise ManifestError(error.reason, path=error.path) from error


def _unrendered(directory: Path, path: Path, why: str) -> ManifestError:
    return ManifestError(f"{why}: `kustomize build {directory} {_THEN}` renders it", path=str(path))
