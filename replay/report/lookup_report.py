"""Past decisions of policies and webhooks, as a document and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from replay.report.render.document import (
    MICROSECONDS,
    Align,
    Column,
    Document,
    Fact,
    Listing,
    Section,
    Table,
    Tone,
    inert,
    log_name,
    moment,
    number,
    plural,
    span,
)

OBSERVED, REPLAYED = "observed", "replayed"


@dataclass(frozen=True, slots=True)
class PastDecision:
    """One thing that a policy or webhook did to a request.

    `at` is in microseconds since the epoch. `basis` is `observed` where the log itself says it, `replayed` where only a
    replay of the set in force does. For webhooks `binding` is the configuration. `source` names the field or annotation.
    """

    at: int
    seq: int
    action: str
    plugin: str
    policy: str
    binding: str
    expression_index: int | None
    message: str
    validation_actions: tuple[str, ...]
    patch: Any
    source: str
    audit_id: str
    verb: str
    username: str
    resource: str
    namespace: str
    object_name: str
    code: int
    is_static: bool
    place: str
    basis: str = OBSERVED

    @property
    def object(self) -> str:
        """`namespace/name`, as far as there is one."""
        return f"{self.namespace}/{self.object_name}" if self.namespace else self.object_name


@dataclass(frozen=True, slots=True)
class Lookup:
    """The answer to one question; `notes` say what the log cannot tell, `period` is that of the log or of the question."""

    log: str
    question: Mapping[str, str]
    period: tuple[int, int]
    observed: tuple[PastDecision, ...]
    replayed: tuple[PastDecision, ...] = ()
    undetermined: int = 0
    denied_with_failures: int = 0
    notes: tuple[str, ...] = ()

    @property
    def requests(self) -> int:
        """How many requests the log itself tells of."""
        return len({each.audit_id for each in self.observed})


def lookup_document(lookup: Lookup, zone: tzinfo = UTC, rows: int = 20) -> Document:
    """The document; at most `rows` single decisions, the last ones, are listed."""
    first, last = lookup.period
    asked = ", ".join(f"{name} {value}" for name, value in lookup.question.items()) or "everything but annotations"
    sections = [_by_policy(lookup, zone), _by("user", lookup.observed), _by("namespace", lookup.observed)]
    listed = Section("decisions", "Decisions", "What the log tells, newest first.")
    sections.append(_listed(listed, lookup.observed, zone, rows))
    if lookup.replayed:
        lead = "Replayed with the given set, not observed: nothing in the log tells of these."
        hidden = Section("replayed", "What the log does not show", lead, tone=Tone.WARN)
        sections.append(_listed(hidden, lookup.replayed, zone, rows))
    return Document(
        "What did admission do?",
        f"{log_name(lookup.log)} · {moment(first, zone)}, {span(last - first)}",
        _verdict(lookup, inert(asked)),
        Tone.PLAIN,
        tuple(_facts(lookup)),
        tuple(section for section in sections if section.blocks),
    )


def _verdict(lookup: Lookup, asked: str) -> str:
    if not lookup.observed:
        return f"The log tells of no such decision ({asked})."
    decisions, requests = len(lookup.observed), lookup.requests
    return f"{plural(decisions, 'decision')} on {plural(requests, 'request')} ({asked})."


def _facts(lookup: Lookup) -> Iterable[Fact]:
    by_action = Counter(each.action for each in {(d.audit_id, d.action): d for d in lookup.observed}.values())
    shown = ", ".join(f"{action} {number(count)}" for action, count in sorted(by_action.items()))
    yield Fact("Requests", number(lookup.requests), shown)
    if lookup.denied_with_failures:
        text = "denied requests name audited failures as well; they are listed under --action deny"
        yield Fact("Not counted", number(lookup.denied_with_failures), text)
    if lookup.replayed or lookup.undetermined:
        unsure = f"{plural(lookup.undetermined, 'request')} cannot be decided again" if lookup.undetermined else ""
        yield Fact("Replayed", number(len(lookup.replayed)), unsure, Tone.WARN if lookup.replayed else Tone.PLAIN)
    for note in lookup.notes:
        yield Fact("Note", note, tone=Tone.WARN)


def _by_policy(lookup: Lookup, zone: tzinfo) -> Section:
    groups: dict[tuple[str, str, str], list[PastDecision]] = {}
    for each in (*lookup.observed, *lookup.replayed):
        groups.setdefault((each.policy, each.action, each.basis), []).append(each)
    order = sorted(groups.items(), key=lambda item: (-len({d.audit_id for d in item[1]}), item[0]))
    columns = (
        Column("policy or webhook", Align.CODE),
        Column("action"),
        Column("requests", Align.NUMBER),
        Column("users", Align.NUMBER),
        Column("objects", Align.NUMBER),
        Column("first", optional=True),
        Column("last", optional=True),
        Column("basis", optional=True),
    )
    rows = tuple(
        (
            inert(policy),
            action,
            number(len({each.audit_id for each in found})),
            number(len({each.username for each in found})),
            number(len({(each.resource, each.object if each.object_name else each.audit_id) for each in found})),
            moment(min(each.at for each in found), zone),
            moment(max(each.at for each in found), zone),
            basis,
        )
        for (policy, action, basis), found in order
    )
    return _section("policies", "By policy", columns, rows)


def _by(noun: str, found: Sequence[PastDecision]) -> Section:
    """Requests by user or namespace and action."""
    groups: dict[tuple[str, str], set[str]] = {}
    policies: dict[tuple[str, str], set[str]] = {}
    for each in found:
        key = ((each.username if noun == "user" else each.namespace or "(cluster)"), each.action)
        groups.setdefault(key, set()).add(each.audit_id)
        policies.setdefault(key, set()).add(each.policy)
    order = sorted(groups, key=lambda key: (-len(groups[key]), key))
    columns = (Column(noun), Column("action"), Column("requests", Align.NUMBER), Column("policies", Align.NUMBER))
    rows = tuple((inert(k[0]), k[1], number(len(groups[k])), number(len(policies[k]))) for k in order)
    return _section(f"{noun}s", f"By {noun}", columns, rows)


def _listed(section: Section, found: Sequence[PastDecision], zone: tzinfo, limit: int) -> Section:
    newest = sorted(found, key=lambda each: -each.seq)[:limit]
    text = "\n".join(line for each in newest for line in _lines(each, zone))
    more = f"{plural(len(found) - len(newest), 'more', 'more')} not listed" if len(found) > len(newest) else ""
    return replace(section, blocks=(Listing(more, text),)) if found else section


def _lines(each: PastDecision, zone: tzinfo) -> Iterable[str]:
    """Two lines: when, what and which; who, on what and why. Whole auditIDs, because people copy them."""
    yield f"{moment(each.at, zone)}  {each.action}  {inert(each.policy)}  {inert(each.audit_id)}"
    about = f"{each.username} {each.verb} {each.resource} {each.object}".rstrip("/ ")
    yield inert(f"    {about}: {each.message}" if each.message else f"    {about}")
    if each.patch:
        yield inert(f"    {json.dumps(each.patch, ensure_ascii=False)}")


def _section(
    id_: str,
    title: str,
    columns: tuple[Column, ...],
    rows: tuple[tuple[str, ...], ...],
) -> Section:
    blocks = (Table(f"{id_}-table", "", columns, rows),) if rows else ()
    return Section(id_, title, "", blocks)


def lookup_json(lookup: Lookup, zone: tzinfo = UTC) -> dict[str, Any]:
    """Everything, as plain values."""
    first, last = (_time(at, zone) for at in lookup.period)
    return {
        "log": lookup.log,
        "question": dict(lookup.question),
        "period": {"first": first, "last": last},
        "requests": lookup.requests,
        "deniedRequestsWithAuditedFailures": lookup.denied_with_failures,
        "undetermined": lookup.undetermined,
        "notes": list(lookup.notes),
        "decisions": [_decision(each, zone) for each in lookup.observed],
        "replayed": [_decision(each, zone) for each in lookup.replayed],
    }


def _time(at: int, zone: tzinfo) -> str:
    whole, part = divmod(at, MICROSECONDS)
    return datetime.fromtimestamp(whole, tz=zone).replace(microsecond=part).isoformat()


def _decision(each: PastDecision, zone: tzinfo) -> dict[str, Any]:
    return {
        "time": _time(each.at, zone),
        "auditID": each.audit_id,
        "action": each.action,
        "basis": each.basis,
        "plugin": each.plugin,
        "policy": each.policy,
        "binding": each.binding,
        "expressionIndex": each.expression_index,
        "validationActions": list(each.validation_actions),
        "message": each.message,
        "patch": each.patch,
        "source": each.source,
        "static": each.is_static,
        "user": each.username,
        "verb": each.verb,
        "resource": each.resource,
        "namespace": each.namespace,
        "name": each.object_name,
        "code": each.code,
        "place": each.place,
    }
