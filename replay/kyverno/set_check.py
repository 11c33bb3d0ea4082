"""`replay check` for Kyverno's objects: refusals and warnings of the API server and of Kyverno's policy webhook."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from replay.go.time import GoTime
from replay.kyverno.cel.webhook import CELPolicies
from replay.kyverno.policy_schema import is_known_kind, schema_refusal, without_nulls
from replay.kyverno.rules.image import ImageDefaults
from replay.kyverno.rules.jmespath.library import kyverno_library
from replay.kyverno.rules.policy_check import deprecation, policy_refusal, policy_warnings
from replay.manifests.check import CheckedSet
from replay.manifests.engine_object import EngineDocument
from replay.manifests.finding import SERVER, Finding, Severity
from replay.manifests.lint.catalogue import KYVERNO_DEPRECATED
from replay.manifests.read.node import position_of

_FIELD = re.compile(r"spec(?:\.\w+|\[\d+\])+")


def with_kyverno(checked: CheckedSet, silenced: Iterable[str] = ()) -> CheckedSet:
    """Return a checked set with the findings about its Kyverno objects."""
    documents = [each for each in checked.engine if is_known_kind(each.value)]
    return checked.with_findings((finding for document in documents for finding in _findings(document)), silenced)


def _findings(document: EngineDocument) -> Iterator[Finding]:
    value = without_nulls(document.value)
    refusal = schema_refusal(value)
    if refusal is not None:
        yield _finding(document, Severity.ERROR, SERVER, refusal)
        return
    if value.get("kind") in ("ClusterPolicy", "Policy") and str(value["apiVersion"]).startswith("kyverno.io/"):
        refusal = policy_refusal(value, kyverno_library(lambda: GoTime(0), ImageDefaults()))
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
