"""`replay check` of Kyverno's objects: what the API server and Kyverno's policy webhook refuse, and what they warn of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from replay.errors import ManifestError
from replay.kyverno.cel.webhook import CELPolicies
from replay.kyverno.policy_schema import is_known_kind, schema_refusal, without_nulls
from replay.kyverno.rules.image import ImageDefaults
from replay.kyverno.rules.jmespath.library import kyverno_library
from replay.kyverno.rules.policy_check import deprecation, policy_refusal, policy_warnings
from replay.manifests.check import CheckedSet
from replay.manifests.engine_object import EngineDocument
from replay.manifests.finding import SERVER, Finding, Severity
from replay.manifests.go_type.decode import plain
from replay.manifests.lint.catalogue import KYVERNO_DEPRECATED
from replay.manifests.read.documents import Unreadable, read_file, split_documents
from replay.manifests.read.node import position_of
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml

_FIELD = re.compile(r"spec(?:\.\w+|\[\d+\])+")
_SUFFIXES = (".yaml", ".yml", ".json")


def kyverno_documents(path: Path) -> tuple[tuple[EngineDocument, ...], bool]:
    """The objects of Kyverno in a file or below a directory, and whether there is nothing else. Raises ManifestError."""
    files = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES) if path.is_dir() else [path]
    found: list[EngineDocument] = []
    is_alone = True
    for file in files:
        try:
            documents = list(split_documents(str(file), read_file(file)))
        except Unreadable as error:
            raise ManifestError(error.reason, path=error.path, line=error.line) from None
        for document in documents:
            if b"kyverno.io/" not in document.data:
                is_alone = is_alone and not document.data.strip()
                continue
            try:
                node = read_yaml(document.data, document.line).node
            except YAMLSyntaxError as error:
                place = error.position
                raise ManifestError(str(error), path=str(file), line=place.line, column=place.column) from None
            value = plain(node)
            if isinstance(value, dict) and is_known_kind(value):
                found.append(EngineDocument(value, str(file), node))
            else:
                is_alone = is_alone and value is None
    return tuple(found), is_alone and bool(found)


def checked_alone(path: Path, documents: Iterable[EngineDocument], silenced: Iterable[str] = ()) -> CheckedSet:
    """What is found in a set of Kyverno's objects alone, which no API server reads at its start."""
    return with_kyverno(CheckedSet(str(path), (), (), 0, None), documents, silenced)


def with_kyverno(checked: CheckedSet, documents: Iterable[EngineDocument], silenced: Iterable[str] = ()) -> CheckedSet:
    """What was checked of a set, with what is wrong with its objects of Kyverno."""
    hidden = frozenset(silenced)
    found = [finding for document in documents for finding in _findings(document)]
    shown = [each for each in found if each.name not in hidden]
    errors = [each.message for each in shown if each.severity is Severity.ERROR]
    return replace(
        checked,
        findings=(*checked.findings, *shown),
        error=checked.error if checked.error is not None or not errors else errors[0],
        silenced=checked.silenced + len(found) - len(shown),
    )


def _findings(document: EngineDocument) -> Iterator[Finding]:
    value = without_nulls(document.value)
    refusal = schema_refusal(value)
    if refusal is not None:
        yield _finding(document, Severity.ERROR, SERVER, refusal)
        return
    if value.get("kind") in ("ClusterPolicy", "Policy") and str(value["apiVersion"]).startswith("kyverno.io/"):
        refusal = policy_refusal(value, kyverno_library(lambda: None, ImageDefaults()))  # type: ignore[arg-type, return-value]
        if refusal is not None:
            yield _finding(document, Severity.ERROR, SERVER, refusal)
        for field, warning in policy_warnings(value):
            yield _finding(document, Severity.WARNING, KYVERNO_DEPRECATED, warning, field)
    elif str(value["apiVersion"]).startswith("kyverno.io/"):
        if text := deprecation(str(value.get("kind"))):
            yield _finding(document, Severity.WARNING, KYVERNO_DEPRECATED, text, "kind")
    else:
        for refused in CELPolicies([value]).refused:
            yield _finding(document, Severity.ERROR, SERVER, refused)


def _finding(document: EngineDocument, severity: Severity, name: str, message: str, field: str = "") -> Finding:
    found = _FIELD.search(message)
    path = field or ("" if found is None else found[0])
    metadata = document.value.get("metadata")
    own = metadata.get("name") if isinstance(metadata, dict) else ""
    return Finding(
        severity,
        name,
        message,
        document.path,
        position_of(document.node, path),
        path,
        f"{document.value.get('kind')}/{own or ''}",
        first=severity is Severity.ERROR,
    )
