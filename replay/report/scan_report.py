"""Objects at rest, as a document and as JSON: who is in breach of a set before it is rolled out."""

from __future__ import annotations

import json
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

_ASKED = {"update": "at its next unchanged update", "create": "if it were applied anew"}


def at_rest_section(scan: Scan | None, rows: int) -> Section:
    """The objects of a snapshot beside what a log shows: which of them the candidate would deny at their next update."""
    if scan is None or not scan.objects:
        return Section("at-rest", "At rest", "", ())
    owners = by_owner(scan.breaches)
    unknown = f"; of {number(len(scan.undetermined))} that cannot be told" if scan.undetermined else ""
    lead = (
        f"What the candidate says of the {plural(len(scan.objects), 'object')} of {inert(scan.snapshot)} at their next unchanged "
        f"update: {plural(len(scan.breaches), 'object')} of {plural(len(owners), 'workload')} would be denied{unknown}."
    )
    blocks = (*_policies(scan).blocks, *_owners(scan, rows).blocks)
    renamed = tuple(replace(each, id=f"at-rest-{each.id}") for each in blocks if isinstance(each, Table))
    return Section("at-rest", "At rest", lead, renamed, Tone.BAD if scan.breaches else Tone.GOOD)


def at_rest_value(scan: Scan) -> dict[str, Any]:
    """The same as JSON."""
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
    """The document; at most `rows` owners and objects are listed."""
    owners = by_owner(scan.breaches)
    workloads = len(owners)
    verdict = f"{plural(workloads, 'workload')} with {plural(len(scan.breaches), 'object')} would be denied"
    verdict = f"{verdict} of {plural(len(scan.objects), 'object')}." if workloads else "No object would be denied."
    sections = (_policies(scan), _owners(scan, rows), _gaps(scan))
    return Document(
        "What of what is already there?",
        f"{inert(scan.snapshot)} · each object {_ASKED[scan.operation]}",
        verdict,
        Tone.BAD if workloads else Tone.GOOD,
        tuple(_facts(scan)),
        tuple(section for section in sections if section.blocks),
    )


def _facts(scan: Scan) -> Iterable[Fact]:
    shown = sum(each.is_shown for each in scan.objects)
    whom = f"{number(shown)} as who wrote it last in the log, the others as {inert(scan.named_user)}"
    yield Fact("Objects", number(len(scan.objects)), whom)
    newly = sum(not each.current.denials for each in scan.breaches)
    in_force = f"{number(newly)} of them not by the current set"
    yield Fact("Denied", number(len(scan.breaches)), in_force, Tone.BAD if scan.breaches else Tone.GOOD)
    yield Fact("Mutated", number(len(scan.mutated)))
    unsure = Tone.WARN if scan.undetermined else Tone.PLAIN
    yield Fact("Undetermined", number(len(scan.undetermined)), tone=unsure)
    for reason, count in sorted(scan.skipped.items()):
        yield Fact("Left out", number(count), inert(reason))
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
        Column("a message", optional=True),
    )
    rows = tuple(
        (inert(policy), number(len(workloads[policy])), number(count), inert(messages[policy]))
        for policy, count in sorted(objects.items(), key=lambda item: (-item[1], item[0]))
    )
    table = Table("policies", "By policy", columns, rows, len(rows))
    return Section("policies", "In breach", "", (table,) if rows else ())


def _owners(scan: Scan, rows: int) -> Section:
    owners = by_owner(scan.breaches)
    columns = (
        Column("owner", Align.CODE),
        Column("objects", Align.NUMBER),
        Column("policies"),
    )
    owner_rows = tuple(
        (inert(f"{namespace} {owner}".strip()), number(tally.objects), inert(", ".join(sorted(tally.policies))))
        for (namespace, owner), tally in list(owners.items())[:rows]
    )
    table = Table("owners", "By owner", columns, owner_rows, len(owners))
    return Section("owners", "Who", "", (table,) if owner_rows else ())


def _gaps(scan: Scan) -> Section:
    counted = Counter(
        (gap.policy, gap.reason) for each in scan.undetermined for gap in set(each.candidate.undetermined)
    )
    columns = (Column("policy", Align.CODE), Column("objects", Align.NUMBER), Column("what is not known"))
    rows = tuple(
        (inert(policy), number(count), inert(reason))
        for (policy, reason), count in sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    )
    table = Table("gaps", "", columns, rows[:20], len(rows))
    return Section("gaps", "What cannot be told", "", (table,) if rows else (), Tone.WARN)


def scan_json(scan: Scan) -> str:
    """Everything as one document, with a line for each object that is not simply admitted."""
    document: dict[str, Any] = {
        "snapshot": scan.snapshot,
        "as": scan.operation,
        "objects": len(scan.objects),
        "denied": len(scan.breaches),
        "mutated": len(scan.mutated),
        "undetermined": len(scan.undetermined),
        "skipped": dict(scan.skipped),
        "owners": _owners_json(scan),
        "findings": [_object_json(each) for each in scan.objects if _is_told(each)],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _is_told(scanned: ScannedObject) -> bool:
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
