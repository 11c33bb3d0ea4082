"""Documents of case files: YAML or JSON with the line and column of every field, read like manifests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from msgspec import Struct

from replay.case.case import CaseError
from replay.errors import SnapshotError
from replay.json import JSON, with_doubles
from replay.manifests.go_type.decode import plain
from replay.manifests.read.documents import Unreadable, read_file, split_documents
from replay.manifests.read.node import Node, Position, position_of
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml
from replay.reconstruct.snapshot import read_snapshot

_DOCUMENTS = (".yaml", ".yml", ".json")


class CaseDocument(Struct, frozen=True):
    """One document: its JSON, and the position of each field."""

    path: Path
    value: JSON
    node: Node

    def position(self, field_path: str = "") -> Position:
        """Return the position of a field such as `cases[0].expect.verdict`."""
        return position_of(self.node, field_path) if field_path else self.node.position

    def error(self, field_path: str, message: str) -> CaseError:
        """Return an error at a field."""
        position = self.position(field_path)
        return CaseError(message, path=str(self.path), line=position.line, column=position.column)


def read_documents(path: Path) -> Iterator[CaseDocument]:
    """Yield the documents of a file that are not empty. Raises CaseError for a file that is neither YAML nor JSON."""
    try:
        content = read_file(path)
    except Unreadable as error:
        raise CaseError(error.reason, path=error.path, line=error.line) from error
    yield from documents_of(path, content)


def documents_of(path: Path, content: bytes) -> Iterator[CaseDocument]:
    """Yield the documents in the content of a file that are not empty. Raises CaseError."""
    try:
        documents = list(split_documents(str(path), content))
    except Unreadable as error:
        raise CaseError(error.reason, path=error.path, line=error.line) from error
    for document in documents:
        try:
            node = read_yaml(document.data, document.line).node
        except YAMLSyntaxError as error:
            place = error.position
            raise CaseError(str(error), path=str(path), line=place.line, column=place.column) from error
        value = with_doubles(plain(node))
        if value is not None:
            yield CaseDocument(path, value, node)


def read_objects(path: Path) -> list[JSON]:
    """Return the objects of a file with YAML or JSON documents, or of a snapshot. Lists are split into their items.

    Raises CaseError.
    """
    if path.is_dir() or path.suffix not in _DOCUMENTS:
        try:
            return read_snapshot(path)
        except SnapshotError as error:
            raise CaseError(error.message, path=error.path, line=error.line) from error
    objects: list[JSON] = []
    for document in read_documents(path):
        value = document.value
        is_list = isinstance(value, dict) and value.get("kind") == "List" and isinstance(value.get("items"), list)
        for each in value["items"] if is_list else [value]:
            if not isinstance(each, dict):
                raise document.error("", "is not an object")
            objects.append(each)
    return objects


class Fields(Struct, frozen=True):
    """A mapping of a case file, with typed access to fields."""

    document: CaseDocument
    path: str
    value: dict[str, JSON]

    @classmethod
    def at(cls, document: CaseDocument, path: str, value: JSON, names: Sequence[str]) -> Fields:
        """Return the mapping at a path. Raises CaseError for another value, and for a field that is not in `names`."""
        if not isinstance(value, dict):
            raise document.error(path, f"{path or 'the document'} is not a mapping")
        for name in value:
            if name not in names:
                near = get_close_matches(name, names, n=1)
                hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(names)}"
                raise document.error(cls._join(path, name), f"unknown field `{name}`; {hint}")
        return cls(document, path, value)

    @staticmethod
    def _join(path: str, name: str) -> str:
        return f"{path}.{name}" if path else name

    def where(self, name: str) -> str:
        """Return the path of a field."""
        return self._join(self.path, name)

    def error(self, name: str, message: str) -> CaseError:
        """Return an error at a field."""
        return self.document.error(self.where(name), f"`{name}` {message}")

    def has(self, name: str) -> bool:
        """Return whether the field is present, even if null."""
        return name in self.value

    def get(self, name: str) -> JSON:
        """Return any value, or None if absent."""
        return self.value.get(name)

    def text(self, name: str, default: str = "") -> str:
        """Return a text. Raises CaseError for another value."""
        return str(self._value_of_type(name, str, "a text", default))

    def flag(self, name: str) -> bool:
        """Return a boolean, false if absent. Raises CaseError for another value."""
        return bool(self._value_of_type(name, bool, "true or false", False))

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None if absent. Raises CaseError for another value."""
        return self.text(name) if self.value.get(name) is not None else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts. Raises CaseError for another value."""
        items = self.items(name)
        if not all(isinstance(item, str) for item in items):
            raise self.error(name, "is to be a list of texts")
        return tuple(items)

    def items(self, name: str) -> list[JSON]:
        """Return a list, empty if absent. Raises CaseError for another value."""
        return list(self._value_of_type(name, list, "a list", []))

    def mapping(self, name: str) -> dict[str, JSON]:
        """Return a mapping, empty if absent. Raises CaseError for another value."""
        return dict(self._value_of_type(name, dict, "a mapping", {}))

    def _value_of_type(self, name: str, kind: type, what: str, default: JSON) -> JSON:
        value = self.value.get(name)
        if value is None:
            return default
        if not isinstance(value, kind):
            raise self.error(name, f"is to be {what}")
        return value
