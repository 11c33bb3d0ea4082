"""Existing objects, as a document and as JSON: whose objects violate a set before its rollout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from replay.compare.scan import Scan, ScannedObject, by_owner
from replay.report.render.document import (
    Align,
    Column,
    Document,
    Fact,
    Section,
    Table,
    Tone,
    inert,
    number,
    plural,
)
from replay.report.render.terminal import first_screen

_ASKED = {
    "update": "at its next update without changes",
    "create": "if it were created again",
    "background": "in Kyverno's background scan",
}
_BACKGROUND = "background"


def _verb_of(scan: Scan) -> str:
    """Return what a set does to objects that violate it. A background scan reports and does not deny."""
    return "reported" if scan.operation == _BACKGROUND else "denied"


def at_rest_section(scan: Scan | None, rows: int) -> Section:
    """Return the section about existing objects: those of a snapshot that the candidate would deny at their next update."""
    if scan is None or not scan.objects:
        return Section("at-rest", "Existing objects", "", ())
    owners = by_owner(scan.breaches)
    unknown = (
        f" {plural(len(scan.undetermined), 'object is', 'objects are')} undetermined." if scan.undetermined else ""
    )
    lead = (
        f"{number(len(scan.breaches))} of {plural(len(scan.objects), 'object')} in {inert(scan.snapshot)} would be denied at the next "
        f"update without changes. They belong to {plural(len(owners), 'workload')}.{unknown}"
    )
    blocks = (*_policies(scan).blocks, *_owners(scan, rows).blocks)
    renamed = tuple(replace(each, id=f"at-rest-{each.id}") for each in blocks if isinstance(each, Table))
    return Section("at-rest", "Existing objects", lead, renamed, Tone.BAD if scan.breaches else Tone.GOOD)


def at_rest_value(scan: Scan) -> dict[str, Any]:
    """Return the existing objects as JSON."""
    return {
        "snapshot": scan.snapshot,
        "objects": len(scan.objects),
        "denied": len(scan.breaches),
        "undetermined": len(scan.undetermined),
        "owners": _owners_json(scan),
    }


def _owners_json(scan: Scan) -> list[dict[str, Any]]:
    return [
        {"namespace": namespace, "owner": owner, "objects": tally.objects, "policies": dict(tally.policies)}
        for (namespace, owner), tally in by_owner(scan.breaches).items()
    ]


def scan_document(scan: Scan, rows: int = 20) -> Document:
    """Return the document. It lists at most `rows` owners and objects."""
    owners = by_owner(scan.breaches)
    workloads = len(owners)
    verdict = f"{number(len(scan.breaches))} of {plural(len(scan.objects), 'object')} would be {_verb_of(scan)}. They belong to {plural(workloads, 'workload')}."
    verdict = verdict if workloads else f"No object would be {_verb_of(scan)}."
    verdict = (
        verdict if scan.objects else "Nothing was checked: the snapshot has no objects, or none in these namespaces."
    )
    sections = (_policies(scan), _owners(scan, rows), _gaps(scan))
    return Document(
        "Existing objects under the candidate",
        f"{inert(scan.snapshot)} · each object {_ASKED[scan.operation]}",
        verdict,
        Tone.BAD if workloads else Tone.GOOD if scan.objects else Tone.WARN,
        tuple(_facts(scan)),
        tuple(section for section in sections if section.blocks),
    )


def scan_screen(scan: Scan) -> Document:
    """Return the first screen of the report."""
    steps = [
        ("replay scan … --full", "every table"),
        ("replay scan … --json", "every object with its denials"),
    ]
    return first_screen(scan_document(scan), {"policies": 8, "owners": 12, "gaps": 4}, steps)


def _facts(scan: Scan) -> Iterable[Fact]:
    shown = sum(each.is_shown for each in scan.objects)
    whom = f"{number(shown)} updated as their last writer in the log, the others as {inert(scan.named_user)}"
    yield Fact(
        "Objects", number(len(scan.objects)), whom if scan.operation != _BACKGROUND else "created without a user"
    )
    newly = sum(not each.current.denials for each in scan.breaches)
    in_force = f"{number(newly)} of these are not {_verb_of(scan)} by the baseline"
    tone = Tone.BAD if scan.breaches else Tone.GOOD
    yield Fact(_verb_of(scan).capitalize(), number(len(scan.breaches)), in_force, tone)
    yield Fact("Mutated", number(len(scan.mutated)))
    unsure = Tone.WARN if scan.undetermined else Tone.PLAIN
    yield Fact("Undetermined", number(len(scan.undetermined)), tone=unsure)
    for reason, count in sorted(scan.skipped.items()):
        yield Fact("Skipped", number(count), inert(reason))
    for hint in scan.hints:
        yield Fact("Note", inert(hint), tone=Tone.WARN)


def _policies(scan: Scan) -> Section:
    objects: Counter[str] = Counter()
    workloads: dict[str, set[tuple[str, str]]] = {}
    messages: dict[str, str] = {}
    for each in scan.breaches:
        for denial in {denial.policy: denial for denial in reversed(each.candidate.denials)}.values():
            objects[denial.policy] += 1
            workloads.setdefault(denial.policy, set()).add(each.workload)
            messages.setdefault(denial.policy, denial.message)
    columns = (
        Column("policy", Align.CODE),
        Column("workloads", Align.NUMBER),
        Column("objects", Align.NUMBER),
        Column("message"),
    )
    rows = tuple(
        (inert(policy), number(len(workloads[policy])), number(count), inert(messages[policy]))
        for policy, count in sorted(objects.items(), key=lambda item: (-item[1], item[0]))
    )
    table = Table("policies", "", columns, rows, len(rows))
    title = "Policies that report objects" if scan.operation == _BACKGROUND else "Policies that deny objects"
    return Section("policies", title, "", (table,) if rows else ())


def _owners(scan: Scan, rows: int) -> Section:
    owners = by_owner(scan.breaches)
    columns = (
        Column("workload", Align.CODE),
        Column("objects", Align.NUMBER),
        Column("policies"),
    )
    owner_rows = tuple(
        (inert(f"{namespace} {owner}".strip()), number(tally.objects), inert(", ".join(sorted(tally.policies))))
        for (namespace, owner), tally in list(owners.items())[:rows]
    )
    table = Table("owners", "", columns, owner_rows, len(owners))
    return Section("owners", "Workloads", "", (table,) if owner_rows else ())


def _gaps(scan: Scan) -> Section:
    counted = Counter(
        (gap.policy, gap.reason) for each in scan.undetermined for gap in set(each.candidate.undetermined)
    )
    columns = (Column("policy", Align.CODE), Column("objects", Align.NUMBER), Column("reason"))
    rows = tuple(
        (inert(policy), number(count), inert(reason))
        for (policy, reason), count in sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    )
    table = Table("gaps", "", columns, rows[:20], len(rows))
    return Section("gaps", "Undetermined", "", (table,) if rows else (), Tone.WARN)


def scan_json(scan: Scan) -> dict[str, Any]:
    """Return the result as JSON. Objects that are simply admitted are left out."""
    return {
        "snapshot": scan.snapshot,
        "as": scan.operation,
        "objects": len(scan.objects),
        "denied": len(scan.breaches),
        "mutated": len(scan.mutated),
        "undetermined": len(scan.undetermined),
        "skipped": dict(scan.skipped),
        "owners": _owners_json(scan),
        "findings": [_object_json(each) for each in scan.objects if _is_reported(each)],
    }


def _is_reported(scanned: ScannedObject) -> bool:
    candidate = scanned.candidate
    return bool(candidate.denials or candidate.undetermined or candidate.patch or candidate.warnings)


def _object_json(scanned: ScannedObject) -> dict[str, Any]:
    candidate = scanned.candidate
    return {
        "group": scanned.group,
        "resource": scanned.resource,
        "kind": scanned.kind,
        "namespace": scanned.namespace,
        "name": scanned.name,
        "owner": scanned.owner,
        "user": scanned.user,
        "verdict": candidate.verdict.value,
        "outcome": scanned.outcome.value,
        "denials": [
            {"policy": denial.policy, "binding": denial.binding, "message": denial.message}
            for denial in candidate.denials
        ],
        "warnings": list(candidate.warnings),
        "patch": list(candidate.patch),
        "undetermined": [{"policy": gap.policy, "reason": gap.reason} for gap in candidate.undetermined],
    }
