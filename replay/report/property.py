"""Proved properties of a set, as text, JSON and findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from replay.json import JSON
from replay.manifests.finding import Finding, Severity

if TYPE_CHECKING:
    from replay.prove.properties import Property


def property_lines(property_: Property) -> Iterator[str]:
    """A property, and the request that shows it."""
    yield f"{property_.policy}: {_severity(property_)}: {property_.text} [{property_.name}]"
    if property_.name == "errors":
        from replay.report.proof import witness_yaml  # noqa: PLC0415 - most who check a set prove nothing

        witness = property_.proof.witnesses[0]
        yield from (f"    {line}" for line in witness_yaml(witness, property_.policy).splitlines())


def property_json(property_: Property) -> dict[str, JSON]:
    """Plain JSON with the claim from which it follows."""
    from replay.report.proof import proof_json  # noqa: PLC0415 - as above

    return {
        "policy": property_.policy,
        "name": property_.name,
        "severity": _severity(property_),
        "text": property_.text,
        "proof": proof_json(property_.proof, property_.policy),
    }


def property_findings(proved: Iterable[Property], path: str) -> Iterator[Finding]:
    """Yield the properties that need attention, as findings about the set's path."""
    for property_ in proved:
        if property_.is_warning:
            yield Finding(Severity.WARNING, property_.name, f"{property_.policy}: {property_.text}", path)


def _severity(property_: Property) -> str:
    return "warning" if property_.is_warning else "info"
