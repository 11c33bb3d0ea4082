"""Proofs as text, Markdown and JSON, with requests that show a difference as YAML.

A proof is about a change, or about the properties of one set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from replay.json import JSON
from replay.kube.gvk import GroupVersionKind
from replay.manifests.finding import Finding, Severity
from replay.prove.claim import Proof, Witness
from replay.prove.sets import PolicyProof, SetProof
from replay.prove.witness import PLACE, PLACES, case_of

if TYPE_CHECKING:
    from replay.prove.properties import Property


_MARK = "  # <- matters"


def proofs_json(proofs: Sequence[PolicyProof]) -> list[JSON]:
    """Return plain JSON: `kind`, `name` and `proof` with `result`, `bound`, `witnesses` and `reason`."""
    return [
        {
            "kind": each.kind,
            "name": each.name,
            **({"newName": each.new_name} if each.new_name else {}),
            "proof": _proof_json(each.proof, each.name),
        }
        for each in proofs
    ]


def set_json(proved: SetProof) -> dict[str, JSON]:
    """Return `policies`, and `kinds` with the joint decision of all policies about each kind."""
    kinds = [{**each.kind._asdict(), "proof": _proof_json(each.proof, str(each.kind.kind))} for each in proved.kinds]
    return {"policies": proofs_json(proved.policies), "kinds": kinds}


def _proof_json(proof: Proof, policy: str) -> dict[str, JSON]:
    """Return one claim as JSON. `bound` is null for an unlimited claim."""
    bound = proof.bound
    limits = {
        "items": bound.items,
        "keys": bound.keys,
        "sizes": bound.sizes,
        "withinCostBudgets": bound.within_cost,
        "text": str(bound),
    }
    return {
        "result": proof.result.value,
        "text": proof.text,
        "bound": limits if str(bound) else None,
        "witnesses": [_witness_json(witness, policy) for witness in proof.witnesses],
        "reason": proof.reason,
    }


def _witness_json(witness: Witness, policy: str) -> dict[str, JSON]:
    return {
        "current": witness.current.text,
        "candidate": witness.candidate.text,
        "messages": {"current": list(witness.current_messages), "candidate": list(witness.candidate_messages)},
        **({"patches": dict(witness.patches)} if witness.patches else {}),
        "marked": [_path_text(path) for path in witness.marked],
        "case": case_of(witness, policy),
    }


def _path_text(path: Sequence[str | int]) -> str:
    parts = [str(path[0])]
    for key in path[1:]:
        is_name = isinstance(key, str) and re.fullmatch(r"[A-Za-z_]\w*", key)
        parts.append(f".{key}" if is_name else f"[{key!r}]" if isinstance(key, str) else f"[{key}]")
    return "".join(parts)


NamedProof = tuple[str, str, Proof]
"""Kind of the subject, its name, and the proof."""


def _claims(proved: SetProof) -> Iterator[NamedProof]:
    """Yield the claims to show: changed policies, and their joint claims per kind if there are several."""
    changed = [each for each in proved.policies if each.is_changed]
    yield from ((each.kind, each.name, each.proof) for each in changed)
    if len(changed) > 1:
        yield from (("all policies", kind_name(each.kind), each.proof) for each in proved.kinds)


def kind_name(kind: GroupVersionKind) -> str:
    """Return a kind as in `Deployment.apps` or `Pod`."""
    return f"{kind.kind}.{kind.group}" if kind.group else kind.kind


def proofs_text(proved: SetProof) -> Iterator[str]:
    """Yield terminal lines: the claim about each changed policy, then each request as YAML."""
    for about, name, proof in _claims(proved):
        yield ""
        yield f"= {about}/{name}: {proof.text}"
        for witness in proof.witnesses:
            yield f"    {witness_title(witness)}"
            yield from (f"      {line}" for line in _witness_yaml(witness, name).splitlines())


def proofs_markdown(proved: SetProof) -> Iterator[str]:
    """Yield sections for a pull request."""
    for about, name, proof in _claims(proved):
        yield ""
        yield f"**{about} `{name}`**: {proof.text}"
        for witness in proof.witnesses:
            yield from ("", f"{witness_title(witness).capitalize()}:", "", "```yaml")
            yield from _witness_yaml(witness, name).splitlines()
            yield "```"


def witness_title(witness: Witness) -> str:
    """Return the decisions of the two sides."""
    if witness.patches:
        return f"a request that they change differently, now {witness.current.text}, then {witness.candidate.text}"
    return f"a request that is {witness.current.text} now and {witness.candidate.text} then"


def _witness_yaml(witness: Witness, policy: str) -> str:
    """Return the case as YAML. A comment marks the fields that matter."""
    marked = [(*PLACE, PLACES.get(str(path[0]), path[0]), *path[1:]) for path in witness.marked]
    return _Marker(marked).text(case_of(witness, policy))


def save_cases(proofs: Sequence[PolicyProof], directory: Path) -> None:
    """Write each shown request to a file."""
    directory.mkdir(parents=True, exist_ok=True)
    for each in proofs:
        for index, witness in enumerate(each.proof.witnesses):
            kind = "stricter" if witness.is_stricter else "looser"
            name = re.sub(r"[^A-Za-z0-9.-]", "-", each.name)
            path = directory / f"{name}-{kind}{f'-{index}' if index > 1 else ''}.yaml"
            path.write_text(_witness_yaml(witness, each.name), encoding="utf-8")


class _Marker:
    """Writer of YAML, line by line, with a comment on the lines of some paths."""

    def __init__(self, marked: Sequence[tuple[str | int, ...]]) -> None:
        self._marked = set(marked)
        self._lines: list[str] = []

    def text(self, document: dict[str, JSON]) -> str:
        self._map(document, (), "")
        return "\n".join(self._lines) + "\n"

    def _map(self, value: dict[str, JSON], path: tuple[str | int, ...], indent: str, first: str | None = None) -> None:
        for key, item in value.items():
            lead, first = (first if first is not None else indent), None
            self._entry(f"{lead}{_scalar(key)}:", item, (*path, key), indent)

    def _entry(self, lead: str, item: JSON, path: tuple[str | int, ...], indent: str) -> None:
        mark = _MARK if path in self._marked else ""
        if isinstance(item, dict) and item:
            self._lines.append(lead + mark)
            self._map(item, path, indent + "  ")
        elif isinstance(item, list) and item:
            self._lines.append(lead + mark)
            for index, each in enumerate(item):
                self._item(each, (*path, index), indent)
        else:
            self._lines.append(f"{lead} {_scalar(item)}{mark}")

    def _item(self, each: JSON, path: tuple[str | int, ...], indent: str) -> None:
        if isinstance(each, dict) and each:
            self._map(each, path, indent + "  ", first=f"{indent}- ")
        else:
            self._lines.append(f"{indent}- {_scalar(each)}{_MARK if path in self._marked else ''}")


def _scalar(value: Any) -> str:
    """Return a scalar, or an empty or nested container, on one line."""
    shown = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True)
    return shown.removesuffix("\n").removesuffix("\n...")


def property_lines(property_: Property) -> Iterator[str]:
    """Yield a property, and the request that shows it."""
    yield f"{property_.policy}: {_severity(property_)}: {property_.text} [{property_.name}]"
    if property_.name == "errors":
        witness = property_.proof.witnesses[0]
        yield from (f"    {line}" for line in _witness_yaml(witness, property_.policy).splitlines())


def property_json(property_: Property) -> dict[str, JSON]:
    """Return plain JSON with the proof from which the property follows."""
    return {
        "policy": property_.policy,
        "name": property_.name,
        "severity": _severity(property_),
        "text": property_.text,
        "proof": _proof_json(property_.proof, property_.policy),
    }


def property_findings(proved: Iterable[Property], path: str) -> Iterator[Finding]:
    """Yield the properties that need attention, as findings about the set's path."""
    for property_ in proved:
        if property_.is_warning:
            yield Finding(Severity.WARNING, property_.name, f"{property_.policy}: {property_.text}", path)


def _severity(property_: Property) -> str:
    return "warning" if property_.is_warning else "info"
