"""`replay check` for Gatekeeper's objects: refusals, and objects that Gatekeeper accepts but cannot use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from replay.gatekeeper.policy_set import GatekeeperPolicies
from replay.gatekeeper.template import ConstraintTemplate
from replay.manifests.check import CheckedSet
from replay.manifests.engine_object import EngineDocument
from replay.manifests.finding import SERVER, Finding, Severity
from replay.manifests.read.node import Node, Position, position_of

_BROKEN, _UNSUPPORTED = "cel-does-not-compile", "rego-not-supported"
_REGO_LINE = re.compile(r"\btemplate:(\d+): ")
_FIELD = re.compile(r"(?:\[\]\.)?(spec(?:\.[\w-]+|\[\d+\])+)")
_SOURCES = ("spec.targets[0].rego", *(f"spec.targets[0].code[{number}].source.rego" for number in range(4)))


def with_gatekeeper(checked: CheckedSet, silenced: Iterable[str] = ()) -> CheckedSet:
    """Return a checked set with the findings about its Gatekeeper objects."""
    return checked.with_findings(_findings(checked.engine), silenced) if checked.engine else checked


def _findings(documents: Iterable[EngineDocument]) -> Iterator[Finding]:
    named = {_name(each): each for each in documents}
    policies = GatekeeperPolicies([each.value for each in named.values()], prune=True)
    for refusal in policies.refused:
        document = named[f"{refusal.kind}/{refusal.name}"]
        yield _finding(document, Severity.ERROR, SERVER, refusal.message)
    for template in policies.templates.values():
        document = named[f"ConstraintTemplate/{template.name}"]
        yield from _warnings(document, template)


def _warnings(document: EngineDocument, template: ConstraintTemplate) -> Iterator[Finding]:
    if template.unsupported:
        yield _finding(
            document, Severity.WARNING, _UNSUPPORTED, f"its requests are undetermined: {template.unsupported}"
        )
    for expression, error in template.cel.broken if template.cel is not None else ():
        yield _finding(document, Severity.WARNING, _BROKEN, f"expression {expression!r}: {error}")


def _finding(document: EngineDocument, severity: Severity, name: str, message: str) -> Finding:
    field = _FIELD.search(message)
    path = "spec.location" if "invalid location" in message else "" if field is None else field[1]
    position = _rego_position(document, message) or position_of(document.node, path)
    return Finding(
        severity, name, message, document.path, position, path, _name(document), first=severity is Severity.ERROR
    )


def _rego_position(document: EngineDocument, message: str) -> Position | None:
    """Return the position of the Rego line that a message names, or None.

    The line is exact if the Rego is a literal block of its file.
    """
    line = _REGO_LINE.search(message)
    if line is None:
        return None
    starts = [position_of(document.node, path) for path in _SOURCES if _holds(document.node, path)]
    if not starts:
        return None
    text = Path(document.path).read_text("utf-8", errors="replace").splitlines()
    is_block = text[starts[0].line - 1][starts[0].column - 1 :].startswith("|")
    return Position(starts[0].line + int(line[1]), 1) if is_block else starts[0]


def _holds(node: Node, path: str) -> bool:
    """Return whether a field exists. If it does not, its position is that of its parent."""
    return position_of(node, path) != position_of(node, path.rpartition(".")[0])


def _name(document: EngineDocument) -> str:
    metadata = document.value.get("metadata") or {}
    return f"{document.value.get('kind') or ''}/{metadata.get('name') or ''}"
