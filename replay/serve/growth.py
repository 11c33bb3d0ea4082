"""Result of a trial as it grows: the decision over the whole store, and requests decided since.

Each part is a document of `replay run --json`. Their periods do not overlap, so their counts add up. The next decision
over the whole store replaces all parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

DENIED = "newly_denied"
_SHARES = ("denials", "failures", "annotations")
_GAP = ("policy", "path", "reason", "fix")


def denied_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of direct denials: one for each policy and workload."""
    return [row for row in document["rows"] if row["outcome"] == DENIED and row["requests"]]


def row_key(row: Mapping[str, Any]) -> str:
    """Return the identity of a row of direct denials as one text."""
    return "\0".join((row["policy"], row["namespace"], row["workload"]))


def joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that pages read, for two results of successive periods."""
    rows = _rows([*denied_rows(first), *denied_rows(second)])
    document = {
        "decided": _sum(first["decided"], second["decided"]),
        "roots": _sum(first["roots"], second["roots"]),
        "fidelity": {name: _sum(first["fidelity"][name], second["fidelity"][name]) for name in _SHARES},
        "findings": {DENIED: {"policies": _policies(rows, first, second)}},
        "rows": rows,
        "deniedByDay": {
            policy: _sum(first["deniedByDay"].get(policy, {}), second["deniedByDay"].get(policy, {}))
            for policy in sorted({*first["deniedByDay"], *second["deniedByDay"]})
        },
        "undetermined": _gaps([*first["undetermined"], *second["undetermined"]]),
    }
    return {**document, "accepted": first["accepted"]} if "accepted" in first else document


def _rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each policy and workload. Message and example are the first ones."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        key = row_key(row)
        known = found.get(key)
        if known is None:
            found[key] = row
            continue
        found[key] = {
            **known,
            **{name: known[name] + row[name] for name in ("requests", "alone", "follow")},
            **{name: sorted({*known[name], *row[name]}) for name in ("resources", "users")},
            "first": min(known["first"], row["first"]),
            "last": max(known["last"], row["last"]),
        }
    return list(found.values())


def _policies(rows: Iterable[Mapping[str, Any]], *documents: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the policies that deny, most requests first."""
    workloads = Counter(row["policy"] for row in rows)
    found: dict[str, dict[str, Any]] = {}
    for document in documents:
        for policy in document["findings"].get(DENIED, {}).get("policies", ()):
            known = found.get(policy["name"], {**policy, "requests": 0, "follow": 0})
            counts = {name: known[name] + policy[name] for name in ("requests", "follow")}
            found[policy["name"]] = {**known, **counts, "workloads": workloads[policy["name"]]}
    return sorted(found.values(), key=lambda policy: (-policy["requests"], policy["name"]))


def _gaps(gaps: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what the log lacks, most requests first."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for gap in gaps:
        key = tuple(str(gap[name]) for name in _GAP)
        known = found.get(key, {**gap, "requests": 0})
        found[key] = {**known, "requests": known["requests"] + gap["requests"]}
    return sorted(found.values(), key=lambda gap: -gap["requests"])


def _sum(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}
