"""What is proved of a set by itself, as text, JSON and findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from replay.json import JSON
from replay.manifests.finding import Finding, Severity

if TYPE_CHECKING:
    from replay.prove.properties import Property


def property_lines(found: Property) -> Iterator[str]:
    """A property, and the request that shows it."""
    yield f"{found.policy}: {_severity(found)}: {found.text} [{found.name}]"
    if found.name == "errors":
        from replay.report.proof import witness_yaml  # noqa: PLC0415 - most who check a set prove nothing

        witness = found.proof.witnesses[0]
        yield from (f"    {line}" for line in witness_yaml(witness, found.policy).splitlines())


def property_json(found: Property) -> dict[str, JSON]:
    """Plain JSON with the claim from which it follows."""
    from replay.report.proof import proof_json  # noqa: PLC0415 - as above

    return {
        "policy": found.policy,
        "name": found.name,
        "severity": _severity(found),
        "text": found.text,
        "proof": proof_json(found.proof, found.policy),
    }


def property_findings(proved: Iterable[Property], path: str) -> Iterator[Finding]:
    """The properties of which somebody should know, as findings about the set at a path."""
    for found in proved:
        if found.is_warning:
            yield Finding(Severity.WARNING, found.name, f"{found.policy}: {found.text}", path)


def _severity(found: Property) -> str:
    return "warning" if found.is_warning else "info"
