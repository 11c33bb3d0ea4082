"""Past decisions of policies, webhooks and authorizers, as a document and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from replay.compare.authorization import AlikeRequests, AuthorizationLookup
from replay.json import JSON
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
    few,
    inert,
    log_name,
    moment,
    number,
    plural,
    span,
)
from replay.report.render.terminal import NARROW, STATIC_SUFFIX, cut, first_screen, part_of

_NEWEST = 3
"""Number of decisions on the first screen."""
OBSERVED, REPLAYED = "observed", "replayed"


class PastDecision(Struct, frozen=True):
    """One action of a policy or webhook on a request.

    `at` is in microseconds since the epoch. `basis` is `observed` if the log has the action, and `replayed` if only a
    replay of the set in force shows it. `workload` owns the object. For webhooks, `binding` is the configuration.
    `workspace` and `policy_workspace` are kcp paths of the request and of the policy, and empty elsewhere. `source`
    names the field or annotation.
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
    workload: str = ""
    basis: str = OBSERVED
    workspace: str = ""
    policy_workspace: str = ""

    @property
    def label(self) -> str:
        """The policy or webhook, with its kcp workspace. A built-in plugin has none."""
        is_placed = self.policy_workspace and self.plugin in ("policy", "webhook")
        return f"{self.policy_workspace}/{self.policy}" if is_placed else self.policy

    @property
    def object(self) -> str:
        """Name of the object as `namespace/name`, as far as known."""
        return f"{self.namespace}/{self.object_name}" if self.namespace else self.object_name


class Lookup(Struct, frozen=True):
    """The answer to one question. `notes` say what the log cannot show. `period` is that of the log or of the question."""

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
        """Number of requests with an observed action."""
        return len({each.audit_id for each in self.observed})


def lookup_document(lookup: Lookup, zone: tzinfo = UTC, rows: int = 20) -> Document:
    """Return the document. It lists at most `rows` single decisions, which are the last ones."""
    first, last = lookup.period
    question = (
        ", ".join(f"{name} {value}" for name, value in lookup.question.items()) or "all actions except annotations"
    )
    sections = [
        _policies_section(lookup, zone),
        _workloads_section(lookup.observed, zone, rows),
        _times_section(lookup, zone, rows),
        *([_section_by("workspace", lookup.observed)] if any(each.workspace for each in lookup.observed) else []),
        _section_by("user", lookup.observed),
        _section_by("namespace", lookup.observed),
    ]
    listed = Section("decisions", "Decisions", "Decisions that the log records, newest first.")
    sections.append(_listed(listed, lookup.observed, zone, rows))
    if lookup.replayed:
        lead = "These decisions come from a replay of the baseline. The log does not record them."
        hidden = Section("replayed", "Decisions from the replay", lead, tone=Tone.WARN)
        sections.append(_listed(hidden, lookup.replayed, zone, rows))
    return Document(
        "What did admission do?",
        f"{log_name(lookup.log)} · {moment(first, zone)}, {span(last - first)}",
        _verdict(lookup, inert(question)),
        Tone.PLAIN,
        tuple(_facts(lookup, zone)),
        tuple(section for section in sections if section.blocks),
    )


def lookup_screen(lookup: Lookup, zone: tzinfo = UTC) -> Document:
    """Return the first screen of the answer."""
    steps = [("replay lookup … --full", "every table")]
    if lookup.observed:
        newest = max(lookup.observed, key=lambda each: each.seq)
        steps.append((f"replay explain {inert(newest.audit_id)} …", "why the newest decision"))
    rows = {"policies-table": 12, "workloads-table": 6}
    return first_screen(lookup_document(lookup, zone), rows, steps, _newest(lookup, zone))


def _newest(lookup: Lookup, zone: tzinfo) -> Section | None:
    """Return the newest decisions, two lines each, or the replayed ones if the log records none."""
    decisions = lookup.observed or lookup.replayed
    newest = sorted(decisions, key=lambda each: -each.seq)[:_NEWEST]
    text = "\n".join(line for each in newest for line in _narrow_lines(each, zone))
    title = f"Newest decisions{part_of(len(newest), len(decisions))}"
    return Section("newest", title, "", (Listing("", text),)) if newest else None


def _verdict(lookup: Lookup, question: str) -> str:
    if not lookup.observed:
        return f"The log records no such decision ({question})."
    decisions, requests = len(lookup.observed), lookup.requests
    return f"{plural(decisions, 'decision')} on {plural(requests, 'request')} ({question})."


def _facts(lookup: Lookup, zone: tzinfo) -> Iterable[Fact]:
    by_action = Counter(each.action for each in {(d.audit_id, d.action): d for d in lookup.observed}.values())
    shown = ", ".join(f"{action} {number(count)}" for action, count in sorted(by_action.items()))
    yield Fact("Requests", number(lookup.requests), shown)
    if lookup.observed:
        last = max(each.at for each in lookup.observed)
        yield Fact("Last seen", moment(last, zone), ongoing_status(lookup.observed, lookup.period[1]).text)
    if lookup.denied_with_failures:
        text = "denied requests also have audited failures; --action deny lists them"
        yield Fact("Not counted", number(lookup.denied_with_failures), text)
    if lookup.replayed or lookup.undetermined:
        unsure = (
            f"{plural(lookup.undetermined, 'request is', 'requests are')} undetermined" if lookup.undetermined else ""
        )
        yield Fact("Replayed", number(len(lookup.replayed)), unsure, Tone.WARN if lookup.replayed else Tone.PLAIN)
    for note in lookup.notes:
        yield Fact("Note", note, tone=Tone.WARN)


class OngoingStatus(NamedTuple):
    """Text about whether decisions still happen at the end of a period. `goes_on` is None if there is only one."""

    is_ongoing: bool | None
    text: str


def ongoing_status(decisions: Sequence[PastDecision], end: int) -> OngoingStatus:
    """Return whether the decisions still happen at `end` (microseconds).

    They do if the time since the last one is not longer than the longest earlier pause.
    """
    times = sorted({each.at for each in decisions})
    quiet = max(end - times[-1], 0)
    if len(times) == 1:
        return OngoingStatus(None, f"once, {span(quiet)} before the end of the log")
    longest = max(later - earlier for earlier, later in pairwise(times))
    if quiet <= longest:
        return OngoingStatus(
            True, f"still happens: last {span(quiet)} before the end of the log, longest pause {span(longest)}"
        )
    return OngoingStatus(
        False, f"no longer happens: none in the last {span(quiet)}, longest pause before that {span(longest)}"
    )


_ONGOING_MARGIN = {True: "yes", False: "no", None: "once"}


def _narrow_lines(each: PastDecision, zone: tzinfo) -> Iterable[str]:
    """Yield two lines that fit the first screen. The second one is cut, but never the auditID."""
    yield f"{moment(each.at, zone)}  {each.action}  {inert(each.audit_id)}"
    done = f"{each.verb} {each.resource} {each.object}".rstrip("/ ") + (f" ({each.workload})" if each.workload else "")
    place = f" in {each.workspace}" if each.workspace else ""
    yield cut(f"    {each.label.replace(STATIC_SUFFIX, '…')}: {done}{place} by {each.username}", NARROW - 2)


def _policies_section(lookup: Lookup, zone: tzinfo) -> Section:
    groups: dict[tuple[str, str, str], list[PastDecision]] = {}
    for each in (*lookup.observed, *lookup.replayed):
        groups.setdefault((each.label, each.action, each.basis), []).append(each)
    order = sorted(groups.items(), key=lambda item: (-len({d.audit_id for d in item[1]}), item[0]))
    columns = (
        Column("policy or webhook", Align.CODE),
        Column("action"),
        Column("requests", Align.NUMBER),
        Column("users", Align.NUMBER),
        Column("objects", Align.NUMBER, optional=True),
        Column("first", Align.SHORT, optional=True),
        Column("last", Align.SHORT),
        Column("ongoing", Align.SHORT),
        Column("basis", optional=True),
    )
    rows = tuple(
        (
            inert(policy),
            action,
            number(len({each.audit_id for each in decisions})),
            number(len({each.username for each in decisions})),
            number(len({(each.resource, each.object if each.object_name else each.audit_id) for each in decisions})),
            moment(min(each.at for each in decisions), zone),
            moment(max(each.at for each in decisions), zone),
            _ONGOING_MARGIN[ongoing_status(decisions, lookup.period[1]).is_ongoing],
            basis,
        )
        for (policy, action, basis), decisions in order
    )
    return _section("policies", "By policy", columns, rows)


def _workloads_section(decisions: Sequence[PastDecision], zone: tzinfo, limit: int) -> Section:
    """Return the section with requests by the responsible workload and by action."""
    groups: dict[tuple[str, str, str], list[PastDecision]] = {}
    for each in decisions:
        groups.setdefault((each.namespace, each.workload, each.action), []).append(each)
    order = sorted(groups.items(), key=lambda item: (-_requests(item[1]), item[0]))
    columns = (
        Column("workload", Align.CODE),
        Column("action"),
        Column("requests", Align.NUMBER),
        Column("policies", Align.CODE, optional=True),
        Column("users", Align.CODE, optional=True),
        Column("last", Align.SHORT, optional=True),
    )
    rows = tuple(
        (
            inert(" ".join(filter(None, (namespace, workload)))),
            action,
            number(_requests(of_group)),
            inert(", ".join(sorted({each.label for each in of_group}))),
            few(sorted({each.username for each in of_group})),
            moment(max(each.at for each in of_group), zone),
        )
        for (namespace, workload, action), of_group in order[:limit]
    )
    return _section("workloads", "By workload", columns, rows, len(order))


def _requests(decisions: Iterable[PastDecision]) -> int:
    return len({each.audit_id for each in decisions})


_HOUR = 3600 * MICROSECONDS
_BY_MINUTE, _BY_HOUR = 3 * _HOUR, 96 * _HOUR
"""Lengths of periods up to which requests are counted by the minute, and by the hour."""


def _times_section(lookup: Lookup, zone: tzinfo, limit: int) -> Section:
    """Return the section with requests by time, the latest first.

    They are by hour, by minute in a short log, and by day in a long one.
    """
    length = lookup.period[1] - lookup.period[0]
    noun = "minute" if length <= _BY_MINUTE else "hour" if length <= _BY_HOUR else "day"
    groups: dict[datetime, list[PastDecision]] = {}
    for each in lookup.observed:
        at = datetime.fromtimestamp(each.at // MICROSECONDS, tz=zone)
        start = at.replace(second=0, minute=at.minute if noun == "minute" else 0, hour=0 if noun == "day" else at.hour)
        groups.setdefault(start, []).append(each)
    columns = (
        Column(noun, Align.SHORT),
        Column("requests", Align.NUMBER),
        Column("policies", Align.NUMBER),
        Column("workloads", Align.NUMBER),
        Column("users", Align.NUMBER),
    )
    rows = tuple(
        (
            f"{start:%Y-%m-%d}" if noun == "day" else f"{start:%Y-%m-%d %H:%M} {start.tzname()}",
            number(_requests(groups[start])),
            number(len({each.label for each in groups[start]})),
            number(len({(each.namespace, each.workload) for each in groups[start]})),
            number(len({each.username for each in groups[start]})),
        )
        for start in sorted(groups, reverse=True)[:limit]
    )
    return _section("times", f"By {noun}", columns, rows, len(groups))


def _section_by(noun: str, decisions: Sequence[PastDecision]) -> Section:
    """Return the section with requests by user, namespace or workspace, and by action."""
    groups: dict[tuple[str, str], set[str]] = {}
    policies: dict[tuple[str, str], set[str]] = {}
    for each in decisions:
        named = {"user": each.username, "workspace": each.workspace}.get(noun, each.namespace or "(cluster)")
        key = (named, each.action)
        groups.setdefault(key, set()).add(each.audit_id)
        policies.setdefault(key, set()).add(each.label)
    order = sorted(groups, key=lambda key: (-len(groups[key]), key))
    columns = (Column(noun), Column("action"), Column("requests", Align.NUMBER), Column("policies", Align.NUMBER))
    rows = tuple((inert(k[0]), k[1], number(len(groups[k])), number(len(policies[k]))) for k in order)
    return _section(f"{noun}s", f"By {noun}", columns, rows)


def _listed(section: Section, decisions: Sequence[PastDecision], zone: tzinfo, limit: int) -> Section:
    newest = sorted(decisions, key=lambda each: -each.seq)[:limit]
    text = "\n".join(line for each in newest for line in _lines(each, zone))
    more = (
        f"{plural(len(decisions) - len(newest), 'more', 'more')}: use --limit" if len(decisions) > len(newest) else ""
    )
    return replace(section, blocks=(Listing(more, text),)) if decisions else section


def _lines(each: PastDecision, zone: tzinfo) -> Iterable[str]:
    """Yield two lines of a decision: first time, action, policy and request, then user, object and reason.

    The auditID is whole, because people copy it.
    """
    yield f"{moment(each.at, zone)}  {each.action}  {inert(each.label)}  {inert(each.audit_id)}"
    about = f"{each.username} {each.verb} {each.resource} {each.object}".rstrip("/ ")
    about += f" ({each.workload})" if each.workload else ""
    about += f" in {each.workspace}" if each.workspace else ""
    yield inert(f"    {about}: {each.message}" if each.message else f"    {about}")
    if each.patch:
        yield inert(f"    {json.dumps(each.patch, ensure_ascii=False)}")


def _section(
    id_: str,
    title: str,
    columns: tuple[Column, ...],
    rows: tuple[tuple[str, ...], ...],
    total: int = 0,
) -> Section:
    blocks = (Table(f"{id_}-table", "", columns, rows, total),) if rows else ()
    return Section(id_, title, "", blocks)


def lookup_json(lookup: Lookup, zone: tzinfo = UTC) -> dict[str, Any]:
    """Return the answer as plain values."""
    first, last = (_time(at, zone) for at in lookup.period)
    return {
        "log": lookup.log,
        "question": dict(lookup.question),
        "period": {"first": first, "last": last},
        "requests": lookup.requests,
        "deniedRequestsWithAuditedFailures": lookup.denied_with_failures,
        "undetermined": lookup.undetermined,
        "stillHappens": ongoing_status(lookup.observed, lookup.period[1]).is_ongoing if lookup.observed else False,
        "notes": list(lookup.notes),
        "decisions": [_decision(each, zone) for each in lookup.observed],
        "replayed": [_decision(each, zone) for each in lookup.replayed],
    }


def _time(at: int, zone: tzinfo) -> str:
    seconds, part = divmod(at, MICROSECONDS)
    return datetime.fromtimestamp(seconds, tz=zone).replace(microsecond=part).isoformat()


def _decision(each: PastDecision, zone: tzinfo) -> dict[str, Any]:
    return {
        "time": _time(each.at, zone),
        "auditID": each.audit_id,
        **({"workspace": each.workspace, "policyWorkspace": each.policy_workspace or None} if each.workspace else {}),
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
        "workload": each.workload,
        "code": each.code,
        "place": each.place,
    }


def authorization_lookup_document(lookup: AuthorizationLookup, rows: int) -> Document:
    """Return the document of the authorizers' decisions, with the most frequent kinds of requests first."""
    columns = (
        Column("decision"),
        Column("user", Align.CODE),
        Column("request", Align.CODE),
        Column("namespace", Align.CODE, optional=True),
        Column("by", Align.CODE, optional=True),
        Column("reason"),
        Column("requests", Align.NUMBER),
        Column("first audit id", Align.ID, optional=True),
    )
    ordered = _ordered(lookup)
    shown = tuple(
        (
            each.decision,
            inert(each.user),
            inert(f"{each.verb} {each.resource}"),
            inert(each.namespace),
            inert(each.authorizer),
            inert(each.reason.replace("\n", "; ")),
            number(count),
            inert(lookup.first[each]),
        )
        for each, count in ordered[:rows]
    )
    table = Table("authorized", "", columns, shown, len(ordered))
    verdict = f"{plural(lookup.requests.total(), 'request')} of {plural(len({each.user for each in lookup.requests}), 'user')}."
    sections = (Section("authorized", "Requests", "", (table,)),) if ordered else ()
    return Document("What did the authorizers decide?", inert(lookup.log), verdict, Tone.PLAIN, (), sections)


def authorization_lookup_json(lookup: AuthorizationLookup) -> JSON:
    """Return every kind of requests as JSON."""
    return [
        {**each._asdict(), "requests": count, "firstAuditID": lookup.first[each]} for each, count in _ordered(lookup)
    ]


def _ordered(lookup: AuthorizationLookup) -> list[tuple[AlikeRequests, int]]:
    return sorted(lookup.requests.items(), key=lambda item: (-item[1], item[0]))
