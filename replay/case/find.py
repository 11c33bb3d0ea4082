"""Search for case files, and recognition of their forms by kind, name or surroundings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from replay.case.case import CaseError, CaseFile
from replay.case.document import read_documents
from replay.case.form.table import BY_NAME, FORMS, Form
from replay.case.policies import PolicyLoader
from replay.errors import UNFORESEEN
from replay.json import JSON
from replay.kube.gvk import split_api_version

_SUFFIXES = (".yaml", ".yml", ".json")
_KINDS = tuple(form.kind for form in FORMS if form.kind)

_HIDDEN = (".kyverno-test", ".chainsaw-test")
"""Folders that contain tests by the convention of a tool."""

_OWN = re.compile(rb"\A(?:#[^\n]*\n|---\n|apiVersion: *replay/[^\n]*\n)*kind: *Cases *$", re.MULTILINE)
"""Beginning of nearly every file of our own form. Such a file is read only once."""


class UnreadableCases(Struct, frozen=True):
    """A file or directory with cases that cannot be read as a whole."""

    path: str
    error: CaseError


class UnsupportedTests(Struct, frozen=True):
    """A file with tests of an unsupported kind. `kind` is the name of one such test."""

    path: str
    kind: str


CaseSource = CaseFile | UnreadableCases | UnsupportedTests

_UNSUPPORTED = {
    ("chainsaw.kyverno.io", "Test"): "chainsaw test",
    ("kuttl.dev", "TestSuite"): "kuttl suite",
    ("kuttl.dev", "TestAssert"): "kuttl test",
}
"""Tests of other tools, by group and kind, that cannot be decided for a set."""
_REGO_TEST = "_test.rego"


def find_cases(paths: Iterable[Path], policies: PolicyLoader) -> Iterator[CaseSource]:
    """Yield the case files at and below the paths, sorted.

    Raises CaseError for a path that does not exist, and for a named file without cases.
    """
    for path in paths:
        if not path.exists():
            raise CaseError("no such file or directory", path=str(path))
        files = list(_below(path, policies))
        if not files and path.is_file():
            raise CaseError(
                "holds no cases: they are written as `kind: Cases` (docs/cases.md), or as kat, kyverno, gator or kubescape do",
                path=str(path),
            )
        yield from files


def _below(path: Path, policies: PolicyLoader) -> Iterator[CaseSource]:
    if path.is_file():
        file = _file(path, policies)
        if file is not None:
            yield file
        return
    for form in FORMS:
        if form.directory is not None and (directory := form.directory(path)) is not None:
            yield _read(directory, form, policies)
            return
    for each in sorted(path.iterdir()):
        if each.name.startswith(".") and each.name not in _HIDDEN:
            continue
        if each.name.endswith(_REGO_TEST):
            yield UnsupportedTests(str(each), "Rego test")
        elif each.is_dir() or each.name.endswith(_SUFFIXES):
            yield from _below(each, policies)


def _file(path: Path, policies: PolicyLoader) -> CaseSource | None:
    """Return a file's cases, or None if it has none."""
    form = next((form for form in FORMS if form.is_file is not None and form.is_file(path)), None)
    if form is not None:
        return _read(path, form, policies)
    data = path.read_bytes()
    if _OWN.search(data):
        return _read(path, BY_NAME["replay"], policies)
    if not any(kind in data for kind in _KINDS):
        return None
    try:
        first = next(iter(read_documents(path)), None)
    except CaseError:
        return None
    if first is None:
        return None
    form = next((form for form in FORMS if form.is_document is not None and form.is_document(first.value)), None)
    return _unsupported(path, first.value) if form is None else _read(path, form, policies)


def _unsupported(path: Path, value: JSON) -> UnsupportedTests | None:
    """Return the unsupported tests of a file with this first document, or None."""
    group = split_api_version(str(value.get("apiVersion")))[0] if isinstance(value, dict) else ""
    kind = _UNSUPPORTED.get((group, str(value.get("kind")))) if group else None
    return None if kind is None else UnsupportedTests(str(path), kind)


def _read(path: Path, form: Form, policies: PolicyLoader) -> CaseSource:
    assert form.read is not None
    try:
        return form.read(path, policies)
    except CaseError as error:
        return UnreadableCases(str(path), error)
    except UNFORESEEN as error:
        reason = " ".join(f"{type(error).__name__} {error}".split())
        return UnreadableCases(str(path), CaseError(f"has an unexpected form: {reason}", path=str(path)))
