"""Search for case files, and recognition of their forms by kind, name or surroundings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from replay.case.case import CaseError, CaseFile
from replay.case.document import read_documents
from replay.case.form.gator import is_gator, read_gator
from replay.case.form.kat import TESTS, is_kat, read_kat
from replay.case.form.kubescape import is_kubescape, read_kubescape
from replay.case.form.kyverno import is_kyverno, read_kyverno
from replay.case.form.own import is_own, read_own
from replay.case.form.review import is_review, read_reviews
from replay.case.policies import PolicyLoader
from replay.errors import UNFORESEEN
from replay.json import JSON
from replay.kube.gvk import split_api_version

_SUFFIXES = (".yaml", ".yml", ".json")
_KINDS = (b"Cases", b"Suite", b"Test", b"AdmissionReview")
"""Texts that occur in every file of a form with a kind. Searching is faster than parsing a whole repository."""


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

SUPPORTED = "kind: Cases of replay, kat, kyverno-test.yaml, gator suites, kubescape's tests.json, AdmissionReviews with a response"
_UNSUPPORTED = {
    ("chainsaw.kyverno.io", "Test"): "chainsaw test",
    ("kuttl.dev", "TestSuite"): "kuttl suite",
    ("kuttl.dev", "TestAssert"): "kuttl test",
}
"""Tests of other tools, by group and kind, that cannot be decided for a set."""
_REGO_TEST = "_test.rego"


def find_cases(
    paths: Iterable[Path], policies: PolicyLoader, policy_paths: tuple[Path, ...] = ()
) -> Iterator[CaseSource]:
    """Yield the case files at and below the paths, sorted.

    `policy_paths` are the policies for cases of our form that name none. Raises CaseError for a path that does not
    exist, and for a named file without cases.
    """
    for path in paths:
        if not path.exists():
            raise CaseError("no such file or directory", path=str(path))
        files = list(_below(path, policies, policy_paths))
        if not files and path.is_file():
            raise CaseError(
                "holds no cases: they are written as `kind: Cases` (docs/cases.md), or as kat, kyverno, gator or kubescape do",
                path=str(path),
            )
        yield from files


def _below(path: Path, policies: PolicyLoader, policy_paths: tuple[Path, ...]) -> Iterator[CaseSource]:
    if path.is_file():
        file = _file(path, policies, policy_paths)
        if file is not None:
            yield file
        return
    directory = path.parent if path.name == TESTS and is_kat(path.parent) else path
    if is_kat(directory):
        yield _read(directory, lambda: read_kat(directory, policies))
        return
    for each in sorted(path.iterdir()):
        if each.name.startswith(".") and each.name not in _HIDDEN:
            continue
        if each.name.endswith(_REGO_TEST):
            yield UnsupportedTests(str(each), "Rego test")
        elif each.is_dir() or each.name.endswith(_SUFFIXES):
            yield from _below(each, policies, policy_paths)


def _file(path: Path, policies: PolicyLoader, policy_paths: tuple[Path, ...]) -> CaseSource | None:
    """Return a file's cases, or None if it has none."""
    if is_kubescape(path):
        return _read(path, lambda: read_kubescape(path, policies))
    data = path.read_bytes()
    if _OWN.search(data):
        return _read(path, lambda: read_own(path, policies, policy_paths))
    if not any(kind in data for kind in _KINDS):
        return None
    try:
        first = next(iter(read_documents(path)), None)
    except CaseError:
        return None
    if first is None:
        return None
    reader = _reader(path, first.value, policies, policy_paths)
    return _unsupported(path, first.value) if reader is None else _read(path, reader)


def _unsupported(path: Path, value: JSON) -> UnsupportedTests | None:
    """Return the unsupported tests of a file with this first document, or None."""
    group = split_api_version(str(value.get("apiVersion")))[0] if isinstance(value, dict) else ""
    kind = _UNSUPPORTED.get((group, str(value.get("kind")))) if group else None
    return None if kind is None else UnsupportedTests(str(path), kind)


def _reader(
    path: Path, value: JSON, policies: PolicyLoader, policy_paths: tuple[Path, ...]
) -> Callable[[], CaseFile] | None:
    """Return the reader of a file with this first document, or None if it has no known form."""
    if is_own(value):
        return lambda: read_own(path, policies, policy_paths)
    if is_review(value):
        return lambda: read_reviews(path, policies, policy_paths)
    if is_kyverno(value):
        return lambda: read_kyverno(path, policies)
    return (lambda: read_gator(path, policies)) if is_gator(value) else None


def _read(path: Path, reader: Callable[[], CaseFile]) -> CaseSource:
    try:
        return reader()
    except CaseError as error:
        return UnreadableCases(str(path), error)
    except UNFORESEEN as error:
        reason = " ".join(f"{type(error).__name__} {error}".split())
        return UnreadableCases(str(path), CaseError(f"has an unexpected form: {reason}", path=str(path)))
