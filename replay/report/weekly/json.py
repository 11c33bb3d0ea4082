"""The weekly report as JSON: for programs, and for the comparison in the next weekly report.

`reports/README.md` documents the schema. `kind` and `version` come first, and a reader refuses other versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from replay.audit.period import Period
from replay.compare.result import SetFacts
from replay.compare.weekly import (
    ActionFigures,
    DenialGroup,
    EffectAction,
    EffectSide,
    Figures,
    FigureSource,
    Owner,
    Promotion,
    WeeklyResult,
)
from replay.errors import ReplayError, reason_of
from replay.report.render.document import MICROSECONDS
from replay.report.scan_report import at_rest_value
from replay.report.trust import fidelity_json
from replay.report.weekly.sections import readiness_value, refusals_json

KIND = "replay weekly report"
VERSION = 1
KEPT = "report-"
"""Prefix of the JSON files that stay beside the report, one for each end of a period."""
_MOST_BYTES = 1 << 30


def weekly_json(result: WeeklyResult) -> str:
    """Return the report as one JSON document, with a line end."""
    value = {
        "kind": KIND,
        "version": VERSION,
        "log": result.log,
        **figures_value(result.figures),
        "comparedWith": result.compared_with or None,
        "sets": {
            "current": _set_value(result.current),
            "candidate": _set_value(result.candidate),
        },
        "mutations": _mutations(result),
        "fidelity": fidelity_json(result.fidelity),
        "authorization": refusals_json(result.refusals),
        "inForce": _match_by_file(result),
        "foreignPolicies": dict(sorted(result.foreign.items())),
        "undetermined": [
            {"policy": gap.policy, "path": gap.path, "reason": gap.reason, "fix": gap.fix, "requests": count}
            for gap, count in sorted(result.gaps.items(), key=lambda item: (-item[1], item[0]))
        ],
        "notReached": dict(sorted(result.not_reached.items())),
        "rejects": dict(sorted(result.rejects.items())),
    }
    if result.at_rest is not None:
        value["atRest"] = at_rest_value(result.at_rest)
    if result.readiness:
        value["readiness"] = readiness_value(result.readiness)
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def _mutations(result: WeeklyResult) -> list[dict[str, Any]]:
    """Return the effects of the candidate's mutating policies."""
    return [
        {
            **_named(each.policy),
            "requests": each.requests,
            "workloads": each.workloads,
            "users": each.users,
            "last": rfc3339(each.last),
        }
        for each in result.mutations
    ]


def _match_by_file(result: WeeklyResult) -> list[dict[str, Any]]:
    """Return how well the baseline matches each file of the log."""
    return [
        {
            "file": each.file,
            "first": rfc3339(each.first) if each.first else None,
            "last": rfc3339(each.last) if each.last else None,
            "disagreements": each.fidelity.disagreement_count,
        }
        for each in result.evidence
    ]


def figures_value(figures: Figures) -> dict[str, Any]:
    """Return the part of the document that a later report reads."""
    return {
        "period": {"start": rfc3339(figures.period.start), "end": rfc3339(figures.period.end)},
        "stepSeconds": figures.step // MICROSECONDS,
        "requests": figures.requests,
        "undecided": figures.undecided,
        "steps": _timeline(figures.steps),
        "actions": [
            {
                **_named(each.policy),
                "action": each.action,
                "source": each.source,
                "requests": each.requests,
                "users": each.users,
                "namespaces": each.namespaces,
                "first": rfc3339(each.first),
                "last": rfc3339(each.last),
                "steps": _timeline(each.timeline),
            }
            for each in figures.actions
        ],
        "promotions": [_promotion_value(each) for each in figures.promotions],
        "denials": [each._asdict() for each in sorted(figures.denials)],
        "users": sorted(figures.users),
        "namespaces": sorted(figures.namespaces),
        **_workspaces_value(figures),
    }


def _workspaces_value(figures: Figures) -> dict[str, Any]:
    """Return the effects on each kcp workspace, or {} for other logs."""
    workspaces = [
        {
            "workspace": each.workspace,
            "newlyDenied": each.newly_denied,
            "undecided": each.undecided,
            "actions": {str(action): count for action, count in sorted(each.actions.items())},
        }
        for each in figures.workspaces
    ]
    return {"workspaces": workspaces} if workspaces else {}


def _named(policy: str) -> dict[str, str]:
    """Return a policy and its kcp workspace. The prefix of an engine's policy is a kind with capitals."""
    workspace, slash, _ = policy.partition("/")
    return {"policy": policy, "policyWorkspace": workspace} if slash and workspace.islower() else {"policy": policy}


def _promotion_value(promotion: Promotion) -> dict[str, Any]:
    return {
        **_named(promotion.policy),
        "side": promotion.side,
        "today": promotion.today,
        "readiness": promotion.readiness,
        "asked": promotion.matches,
        "requests": promotion.requests,
        "deniedAnyway": promotion.denied_anyway,
        "follow": promotion.follow,
        "undecided": promotion.undecided,
        "users": promotion.users,
        "namespaces": promotion.namespaces,
        "workloads": promotion.workloads,
        "last": rfc3339(promotion.last) if promotion.last else None,
        "halves": list(promotion.halves),
        "message": promotion.message,
        "auditID": promotion.audit_id,
        "owners": [
            {
                "owner": each.owner,
                "namespace": each.namespace,
                "workload": each.workload,
                "users": list(each.users),
                "requests": each.requests,
                "last": rfc3339(each.last),
            }
            for each in promotion.owners
        ],
    }


def _set_value(facts: SetFacts | None) -> dict[str, Any] | None:
    return None if facts is None else {"name": facts.name, "counts": dict(facts.counts), "hashes": dict(facts.hashes)}


def _timeline(counts: Mapping[int, int]) -> dict[str, int]:
    return {rfc3339(start): count for start, count in sorted(counts.items())}


def rfc3339(microseconds: int) -> str:
    """Return a time with microseconds, in UTC."""
    at = datetime.fromtimestamp(microseconds // MICROSECONDS, tz=UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{microseconds % MICROSECONDS:06d}Z"


def _microseconds(text: str | None) -> int:
    if text is None:
        return 0
    at = datetime.fromisoformat(text)
    return int(at.timestamp()) * MICROSECONDS + at.microsecond


def kept_name(period: Period) -> str:
    """Return the file name under which the JSON of a period stays for later reports."""
    at = datetime.fromtimestamp(period.end // MICROSECONDS, tz=UTC)
    return f"{KEPT}{at:%Y%m%dT%H%M%SZ}.json"


def kept_before(directory: Path, period: Period) -> Path | None:
    """Return the newest report that ends before a tenth of the period has passed, or None."""
    limit = kept_name(Period(0, period.start + period.length // 10))
    names = sorted(path.name for path in directory.glob(f"{KEPT}*Z.json")) if directory.is_dir() else []
    earlier = [name for name in names if name <= limit]
    return directory / earlier[-1] if earlier else None


def read_figures(path: Path) -> Figures:
    """Return the figures of an earlier report. Raises ReplayError for other files."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ReplayError("too large for a report", path=str(path))
        value = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ReplayError(reason_of(error), path=str(path)) from error
    except orjson.JSONDecodeError as error:
        raise ReplayError("no JSON: give the report.json of an earlier `replay report`", path=str(path)) from error
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise ReplayError("no weekly report: give the report.json of an earlier `replay report`", path=str(path))
    if value.get("version") != VERSION:
        raise ReplayError(f"the report has version {value.get('version')}, this replay reads {VERSION}", path=str(path))
    try:
        return _figures_from_value(value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReplayError("a damaged report: give another one", path=str(path)) from error


def _figures_from_value(value: Mapping[str, Any]) -> Figures:
    return Figures(
        period=Period(_microseconds(value["period"]["start"]), _microseconds(value["period"]["end"])),
        step=int(value["stepSeconds"]) * MICROSECONDS,
        steps=_counts(value["steps"]),
        actions=tuple(
            ActionFigures(
                policy=str(each["policy"]),
                action=EffectAction(each["action"]),
                source=FigureSource(each["source"]),
                requests=int(each["requests"]),
                users=int(each["users"]),
                namespaces=int(each["namespaces"]),
                first=_microseconds(each["first"]),
                last=_microseconds(each["last"]),
                timeline=_counts(each["steps"]),
            )
            for each in value["actions"]
        ),
        promotions=tuple(_promotion_from_value(each) for each in value["promotions"]),
        denials=frozenset(DenialGroup(str(d["policy"]), str(d["user"]), str(d["namespace"])) for d in value["denials"]),
        users=frozenset(map(str, value["users"])),
        namespaces=frozenset(map(str, value["namespaces"])),
        undecided=int(value["undecided"]),
    )


def _counts(value: Mapping[str, Any]) -> dict[int, int]:
    return {_microseconds(start): int(count) for start, count in value.items()}


def _promotion_from_value(value: Mapping[str, Any]) -> Promotion:
    first, second = map(int, value["halves"])
    return Promotion(
        policy=str(value["policy"]),
        side=EffectSide(value["side"]),
        today=str(value["today"]),
        matches=int(value["asked"]),
        requests=int(value["requests"]),
        denied_anyway=int(value["deniedAnyway"]),
        undecided=int(value["undecided"]),
        users=int(value["users"]),
        namespaces=int(value["namespaces"]),
        workloads=int(value["workloads"]),
        last=_microseconds(value["last"]),
        halves=(first, second),
        message=str(value["message"]),
        audit_id=str(value["auditID"]),
        owners=tuple(
            Owner(
                str(each["owner"]),
                str(each["namespace"]),
                str(each["workload"]),
                tuple(map(str, each["users"])),
                int(each["requests"]),
                _microseconds(each["last"]),
            )
            for each in value["owners"]
        ),
        follow=int(value.get("follow", 0)),
    )
