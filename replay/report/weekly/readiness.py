"""Pod Security readiness of each namespace, blockers of the next level, and sufficient bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from replay.compare.readiness import NamespaceReadiness
from replay.report.render.document import Align, Column, Section, Table, Tone, inert, number

ReadinessByNamespace = Mapping[str, NamespaceReadiness]
_COMPUTE = ("cpu", "memory")


def readiness_sections(readiness: ReadinessByNamespace, rows: int) -> Iterator[Section]:
    """Levels, obstacles, bounds."""
    if not readiness:
        return
    yield _levels(readiness, rows)
    if any(each.obstacles.get(each.next_level) for each in readiness.values()):
        yield _obstacles(readiness, rows)
    yield _bounds(readiness, rows)


def _levels(readiness: ReadinessByNamespace, rows: int) -> Section:
    columns = (
        Column("namespace", Align.CODE),
        Column("strictest safe level", Align.SHORT),
        Column("pods", Align.NUMBER),
        Column("denied by the next level", Align.SHORT),
    )
    shown = []
    for namespace, each in sorted(readiness.items()):
        denied = f"{each.next_level}: {number(each.denied[each.next_level])}" if each.next_level else ""
        denied += f", {number(each.unknown)} undetermined" if each.unknown else ""
        shown.append((inert(namespace), each.level, number(each.pods), denied))
    lead = "For each namespace: the strictest Pod Security level that would have admitted every requested pod."
    table = Table("readiness", "", columns, tuple(shown[:rows]), len(shown))
    return Section("readiness", "Which Pod Security level?", lead, (table,), Tone.PLAIN)


def _obstacles(readiness: ReadinessByNamespace, rows: int) -> Section:
    columns = (
        Column("namespace", Align.CODE),
        Column("level", Align.SHORT),
        Column("owning workload"),
        Column("reason"),
        Column("pods", Align.NUMBER),
    )
    shown = [
        (inert(namespace), each.next_level, inert(owner), inert(f"{reason} ({where})" if where else reason), number(n))
        for namespace, each in sorted(readiness.items())
        for (owner, reason, where), n in each.obstacles.get(each.next_level, {}).items()
    ]
    shown.sort(key=lambda row: (row[0], -int(row[4].replace(",", "")), *row[2:4]))
    lead = "For each workload: why the next stricter level would deny its pods, with the fields."
    return Section(
        "obstacles",
        "Why the next level would deny pods",
        lead,
        (Table("obstacles", "", columns, tuple(shown[:rows]), len(shown)),),
    )


def _bounds(readiness: ReadinessByNamespace, rows: int) -> Section:
    columns = (Column("namespace", Align.CODE), Column("LimitRange, container max"), Column("ResourceQuota, hard"))
    shown = [
        (inert(namespace), inert(_text(limit_range(each))), inert(_text(quota(each))))
        for namespace, each in sorted(readiness.items())
    ]
    lead = (
        "The lowest bounds that would have admitted everything: the largest limit of a container, and the largest sum of requests at one "
        "time, of pods that the log shows being created. Leave room above them."
    )
    table = Table("bounds", "", columns, tuple(shown[:rows]), len(shown))
    return Section("bounds", "LimitRange and ResourceQuota that would have been enough", lead, (table,))


def limit_range(namespace: NamespaceReadiness) -> dict[str, str]:
    """`max` of a LimitRange for containers."""
    return {name: str(value) for name, value in sorted(namespace.most.get("limits", {}).items()) if name in _COMPUTE}


def quota(namespace: NamespaceReadiness) -> dict[str, str]:
    """`hard` of a ResourceQuota."""
    return {name: str(value) for name, value in sorted(namespace.peak().items())}


def _text(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in values.items()) or "no requests or limits"


def readiness_value(readiness: ReadinessByNamespace) -> list[dict[str, Any]]:
    """The same as JSON."""
    return [
        {
            "namespace": namespace,
            "level": each.level,
            "pods": each.pods,
            "notKnown": each.unknown,
            "wouldDeny": dict(each.denied),
            "obstacles": [
                {"level": level, "workload": owner, "reason": reason, "where": where, "pods": n}
                for level, obstacles in sorted(each.obstacles.items())
                for (owner, reason, where), n in sorted(obstacles.items())
            ],
            "limitRangeMax": limit_range(each),
            "quotaHard": quota(each),
        }
        for namespace, each in sorted(readiness.items())
    ]
