"""The files of a manifest directory, their documents and their hash (`k8s.io/apiserver/pkg/admission/plugin/manifest`).

Only direct children with `.yaml`, `.yml` or `.json` (in any case) are read, sorted by name. Empty files are skipped and
not hashed. All files are read and split before any document is decoded. So an unreadable last file is reported before
an invalid first one.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replay.go.format import quote
from replay.manifests.read.json_reader import text_from_bytes

MAX_FILE_BYTES = 32 * 1024 * 1024
"""Maximum size of a file. The server has no limit."""

_EXTENSIONS = (".yaml", ".yml", ".json")
# unicode.IsSpace, as UTF-8 bytes
_SPACES = rb"(?:[\t\n\v\f\r ]|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80)"
_LEADING_SPACE = re.compile(_SPACES + rb"*")
_ENDS_WITH_SPACE = re.compile(_SPACES + rb"\Z")
_SEPARATOR = b"---"


class ManifestDocument(Struct, frozen=True):
    """One document of a file, with its `number` from 1. `line` is the line on which `data` begins, from 1."""

    path: str
    line: int
    data: bytes
    number: int = 1


class Unreadable(Exception):  # noqa: N818 - a state of a file, reported as a finding
    """A directory or file that cannot be read or split. `reason` is the server's text."""

    def __init__(self, path: str, reason: str, line: int = 0) -> None:
        """`line` is the line of a bad separator, or 0 for the file as a whole."""
        super().__init__(reason)
        self.path = path
        self.reason = reason
        self.line = line


class DirectoryDocuments(Struct, frozen=True):
    """Content of a directory: documents in file order, the hash, and unreadable files."""

    documents: tuple[ManifestDocument, ...]
    hash: str
    unreadable: tuple[Unreadable, ...] = ()


def read_directory(path: Path, ignored: frozenset[str] = frozenset()) -> DirectoryDocuments:
    """Return a directory's documents without `ignored` files. Problems are returned in the server's order."""
    try:
        names = sorted((entry.name for entry in path.iterdir()), key=os.fsencode)
    except OSError as error:
        reason = f"failed to read manifest directory {quote(str(path))}: open {path}: {os_reason(error)}"
        return DirectoryDocuments((), "", (Unreadable(str(path), reason),))
    digest, has_data = hashlib.sha256(), False
    documents: list[ManifestDocument] = []
    unreadable: list[Unreadable] = []
    # The server joins directory and name, which takes `..` and double slashes out of the path.
    path = Path(os.path.normpath(path))
    for name in names:
        if name in ignored or not is_manifest(path / name):
            continue
        try:
            data = read_file(path / name)
            if data:
                digest.update(data + b"\0")
                has_data = True
            documents.extend(split_documents(str(path / name), data))
        except Unreadable as error:
            unreadable.append(error)
    hash_ = f"sha256:{digest.hexdigest()}" if has_data and not unreadable else ""
    return DirectoryDocuments(tuple(documents), hash_, tuple(unreadable))


def is_manifest(path: Path) -> bool:
    """Return whether the loader reads this entry: by extension, and if it is not a directory.

    It tries to read a link to a directory.
    """
    extension = os.path.splitext(path.name)[1]  # noqa: PTH122 - `.yaml` alone has an extension for Go
    if path.name.startswith(".") and path.name.count(".") == 1:
        extension = path.name
    return extension.lower() in _EXTENSIONS and (path.is_symlink() or not path.is_dir())


def read_file(path: Path) -> bytes:
    """Return the bytes of one manifest file.

    Raises Unreadable, with the server's text if the server could not read it either.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            size, limit = path.stat().st_size / 2**20, MAX_FILE_BYTES // 2**20
            reason = f"file {quote(str(path))} has {size:.0f} MiB; manifests over {limit} MiB are not read"
            raise Unreadable(str(path), reason)
        if not path.is_dir() and not path.is_file():
            raise Unreadable(str(path), f"failed to read file {quote(str(path))}: not a regular file")
        return path.read_bytes()
    except OSError as error:
        verb = "read" if isinstance(error, IsADirectoryError) else "open"
        reason = f"failed to read file {quote(str(path))}: {verb} {path}: {os_reason(error)}"
        raise Unreadable(str(path), reason) from error


def os_reason(error: OSError) -> str:
    """Return an operating system error in Go's wording, which is lower case."""
    return (error.strerror or str(error)).lower()


def split_documents(path: str, data: bytes) -> Iterator[ManifestDocument]:
    """Return the documents of a file, split at lines that begin with `---`.

    See `k8s.io/apimachinery/pkg/util/yaml.YAMLReader`. White space around a document is cut, and empty documents are
    skipped. Raises Unreadable if anything except a comment follows a separator.
    """
    return (replace(document, number=number) for number, document in enumerate(_split(path, data), 1))


def _split(path: str, data: bytes) -> Iterator[ManifestDocument]:
    lines: list[bytes] = []
    first = 1
    for number, line in enumerate(_lines(data), 1):
        if line.startswith(_SEPARATOR):
            behind = trim(line[len(_SEPARATOR) :])[0]
            if behind and not behind.startswith(b"#"):
                problem = f"invalid Yaml document separator: {text_from_bytes(behind)}"
                raise Unreadable(path, f"failed to split YAML documents in file {quote(path)}: {problem}", number)
            if lines:
                yield from _document(path, first, lines)
                lines = []
                continue
        if not lines:
            first = number
        lines.append(line)
    yield from _document(path, first, lines)


def _lines(data: bytes) -> list[bytes]:
    """Return the lines without their ends. A carriage return before the line feed belongs to the end."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


def _document(path: str, first: int, lines: list[bytes]) -> Iterator[ManifestDocument]:
    data, skipped = trim(b"\n".join(lines))
    if data:
        yield ManifestDocument(path, first + skipped, data)


def trim(data: bytes) -> tuple[bytes, int]:
    """Return `data` without surrounding white space, and the number of lines cut at its start."""
    leading = _LEADING_SPACE.match(data)
    assert leading is not None
    end = len(data)
    while end > leading.end() and (match := _ENDS_WITH_SPACE.search(data, max(leading.end(), end - 3), end)):
        end = match.start()
    return data[leading.end() : end], leading[0].count(b"\n")
