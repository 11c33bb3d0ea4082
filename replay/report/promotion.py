"""Report of `replay promote`, from audit to Deny: the answer about one policy, its first screen and JSON."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, tzinfo

from replay.compare.outcome import OutcomeKind
from replay.compare.readiness import Confidence, Doubt, confidence
from replay.compare.result import PromotedBinding, PromotedPolicy
from replay.compare.summary import Gap
from replay.go.time import timestamp
from replay.json import JSON
from replay.report.render.document import (
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
    minute,
    moment,
    number,
    plural,
    span,
    without_empty,
    zone_name,
)
from replay.report.render.terminal import first_screen
from replay.report.run.summary import lockout_fact
from replay.report.run.views import CellItems, Group, by_workload, cells_with, counted, direct, grouped, lockout
from replay.report.trust import CONFIDENCE_TONES, fidelity_fact, gaps_section, mismatch

PAGE_ROWS = 200
MOST_PATCHES = 3


def promotion_document(promoted: PromotedPolicy, zone: tzinfo = UTC, rows: int = PAGE_ROWS) -> Document:
    """Return the document: the answer, who would be denied, what is unknown, and the change of the bindings."""
    denied = _denied(promoted)
    verdict, tone = _verdict(promoted)
    sections = (
        _workloads(promoted, denied, zone, rows),
        _messages(promoted, rows),
        gaps_section(_gaps(promoted), rows),
    )
    return Document(
        "From audit to deny",
        f"{inert(promoted.name)} · {few(promoted.run.log.names)}",
        verdict,
        tone,
        tuple(_facts(promoted, denied, zone)),
        (*(each for each in sections if each is not None), _patches(promoted, len(promoted.bindings))),
    )


def promotion_screen(promoted: PromotedPolicy, zone: tzinfo = UTC) -> Document:
    """Return the first screen, which has at most 40 lines."""
    document = promotion_document(promoted, zone)
    name = shlex.quote(inert(promoted.name))
    steps = [(f"replay promote {name} … --full", "every workload and message")]
    examples = [cell.examples[0] for _, cell in direct(_denied(promoted))]
    if examples:
        steps.append((f"replay explain {inert(examples[0].audit_id)} …", "why the first of them would be denied"))
    rows = {"workloads": 8, "messages": 4, "gaps": 3}
    return first_screen(document, rows, steps, _patches(promoted, MOST_PATCHES))


def is_ready(promoted: PromotedPolicy) -> bool:
    """Return whether no request that the baseline admits would certainly or possibly be denied."""
    return not _denied(promoted) and not _undetermined(promoted)


def _denied(promoted: PromotedPolicy) -> CellItems:
    return cells_with(promoted.run.summary, OutcomeKind.NEWLY_DENIED)


def _undetermined(promoted: PromotedPolicy) -> int:
    """Return the number of requests for which it is unknown whether the policy denies them."""
    cells = cells_with(promoted.run.summary, OutcomeKind.UNDETERMINED)
    return sum(cell.count for key, cell in cells if promoted.rules.intersection(key.policies))


def _gaps(promoted: PromotedPolicy) -> Counter[Gap]:
    gaps = promoted.run.summary.gaps
    return Counter({gap: n for (side, gap), n in gaps.items() if side == "candidate" and gap.policy in promoted.rules})


def _newest(denied: CellItems) -> int:
    """Return the time at which a user and workload were first affected, for the newest such pair, or 0."""
    return max((cell.first for _, cell in direct(denied)), default=0)


def _confidence(promoted: PromotedPolicy) -> Doubt:
    """Return the confidence that nothing else would be denied."""
    unknown = _undetermined(promoted)
    doubts = (
        Doubt(bool(mismatch(promoted.run)), Confidence.LOW, "the baseline does not match the log"),
        Doubt(not promoted.selected, Confidence.LOW, "its rules select no request"),
        Doubt(unknown > 0, Confidence.MEDIUM, f"{plural(unknown, 'request is', 'requests are')} undetermined"),
    )
    return confidence(promoted.period, _newest(_denied(promoted)), "a workload was hit for the first time", doubts)


def _verdict(promoted: PromotedPolicy) -> tuple[str, Tone]:
    own, following = counted(_denied(promoted))
    unknown = _undetermined(promoted)
    if own or following:
        text, tone = f"{number(own)} of the requests that are admitted today would be denied directly.", Tone.BAD
    elif not promoted.selected:
        text, tone = "The log says nothing about it: its rules select no request.", Tone.WARN
    else:
        text, tone = "Nothing that is admitted today would be denied.", Tone.WARN if unknown else Tone.GOOD
    if failing := promoted.run.world.failing:
        text += f" Another {number(failing)} would fail as a consequence."
    if unknown:
        text += f" {plural(unknown, 'request is', 'requests are')} undetermined."
    if warning := mismatch(promoted.run):
        return f"{warning} {text}", Tone.BAD
    return text, tone


def _facts(promoted: PromotedPolicy, denied: CellItems, zone: tzinfo) -> Iterator[Fact]:
    today = sorted({action for each in promoted.bindings for action in each.actions})
    bindings = f"by {plural(len(promoted.bindings), 'binding')}; " if promoted.is_native else ""
    yield Fact("Today", ", ".join(today) or "nothing", f"{bindings}{_place(promoted)}")
    yield _recorded(promoted, zone)
    log = promoted.run.log
    yield Fact(
        "Selected",
        plural(promoted.selected, "request"),
        f"by its rules, of {number(log.requests)} in {span(promoted.period.length)}",
    )
    yield lockout_fact(denied)
    if owners := _owners(denied):
        yield Fact(
            "Owners", number(len(owners)), few([f"{name or '(no label)'} ({number(n)})" for name, n in owners], 4)
        )
    yield _since(promoted, denied, zone)
    yield fidelity_fact(promoted.run.fidelity)
    doubt = _confidence(promoted)
    yield Fact("Confidence", doubt.most.value, doubt.reason, CONFIDENCE_TONES[doubt.most])
    for note in promoted.run.notes:
        yield Fact("Note", inert(note))


def _place(promoted: PromotedPolicy) -> str:
    origin = promoted.run.origin(promoted.name) if promoted.is_native else promoted.bindings[0].origin
    return f"{inert(origin.file)}:{origin.line}" if origin is not None else "an object of the API"


def _recorded(promoted: PromotedPolicy, zone: tzinfo) -> Fact:
    """Return the fact about the policy's audited failures in the log."""
    recorded = promoted.recorded
    if not recorded.requests:
        return Fact("In the log", "nothing", promoted.unlogged_reason or "no failure of it is recorded")
    failed = f"; {number(recorded.failed)} of them failed anyway" if recorded.failed else ""
    whose = f"{plural(recorded.users, 'user')}, {plural(recorded.namespaces, 'namespace')}"
    when = f"{minute(recorded.first, zone)} to {minute(recorded.last, zone)}"
    return Fact("In the log", plural(recorded.requests, "audited failure"), f"{whose}, {when}{failed}")


def _since(promoted: PromotedPolicy, denied: CellItems, zone: tzinfo) -> Fact:
    newest = _newest(denied)
    if not newest:
        return Fact("Nothing new since", "the log begins", f"{moment(promoted.period.start, zone)}", Tone.GOOD)
    last = max(cell.last for _, cell in direct(denied))
    before = f"{span(promoted.period.end - newest)} before the log ends; the last denial is of {moment(last, zone)}"
    return Fact("Nothing new since", moment(newest, zone), before)


def _owners(denied: CellItems) -> list[tuple[str, int]]:
    """Return the owner labels of namespaces, with the number of requests that would be denied directly."""
    owners: Counter[str] = Counter()
    for key, cell in direct(denied):
        owners[key.owner] += cell.count
    return sorted(owners.items(), key=lambda item: (-item[1], item[0]))


def _workloads(promoted: PromotedPolicy, denied: CellItems, zone: tzinfo, rows: int) -> Section | None:
    groups = [group for group in grouped(denied, by_workload) if group.requests]
    if not groups:
        return None
    zone_text = zone_name(promoted.period.end, zone)
    columns = (
        Column("workload", Align.CODE),
        Column("owner"),
        Column("users", Align.CODE),
        Column("direct", Align.NUMBER),
        Column("consequences", Align.NUMBER),
        Column("locks out", optional=True),
        Column(f"first, {zone_text}", Align.SHORT, optional=True),
        Column(f"last, {zone_text}", Align.SHORT),
    )
    shown = tuple(_workload(group, zone) for group in groups[:rows])
    table = without_empty(Table("workloads", "", columns, shown, len(groups)))
    return Section("workloads", "Who would be denied", "", (table,), Tone.BAD)


def _workload(group: Group, zone: tzinfo) -> tuple[str, ...]:
    return (
        inert(group.label),
        inert(", ".join(sorted(filter(None, group.owners)))),
        inert(few(sorted(group.users), 1)),
        number(group.requests),
        number(group.consequences) if group.consequences else "",
        ", ".join(sorted({text for key, _ in group.cells if (text := lockout(key))})),
        minute(group.first, zone),
        minute(group.last, zone),
    )


def _texts(promoted: PromotedPolicy) -> Counter[str]:
    """Return the messages of its denials, with the number of requests for each."""
    texts = Counter[str]()
    for rule in promoted.rules:
        texts.update(promoted.run.summary.messages.get((OutcomeKind.NEWLY_DENIED, rule), {}))
    return texts


def _messages(promoted: PromotedPolicy, rows: int) -> Section | None:
    messages = _texts(promoted)
    if not messages:
        return None
    ordered = sorted(messages.items(), key=lambda item: (-item[1], item[0]))
    shown = tuple((inert(message), number(count)) for message, count in ordered[:rows])
    columns = (Column("message"), Column("requests", Align.NUMBER))
    return Section("messages", "Messages", "", (Table("messages", "", columns, shown, len(ordered)),))


def _patches(promoted: PromotedPolicy, most: int) -> Section:
    lines = [line for each in promoted.bindings[:most] for line in _patch(each)]
    rest = len(promoted.bindings) - most
    if rest > 0:
        lines.append(f"… and {plural(rest, 'other binding')} (--full)")
    return Section("patch", "The change", "", (Listing("", "\n".join(lines)),))


def _patch(binding: PromotedBinding) -> list[str]:
    """Return the command that changes a binding, or the lines to write if it is in a static manifest."""
    if binding.static:
        place = f"{binding.origin.file}:{binding.origin.line}" if binding.origin is not None else binding.name
        return [f"# {inert(place)}", "spec: {validationActions: [Deny]}"]
    name = shlex.quote(inert(binding.name))
    where = f" -n {shlex.quote(inert(binding.namespace))}" if binding.namespace else ""
    kind = "json" if isinstance(binding.patch, list) else "merge"
    patch = inert(json.dumps(binding.patch, separators=(",", ":")))
    return [f"kubectl patch {inert(binding.resource)} {name}{where} --type={kind} \\", f"  -p {shlex.quote(patch)}"]


def promotion_json(promoted: PromotedPolicy) -> JSON:
    """Return the answer as JSON, with every workload."""
    denied = _denied(promoted)
    own, following = counted(denied)
    doubt, newest = _confidence(promoted), _newest(denied)
    locked = Counter[str]()
    for key, cell in denied:
        if lockout(key):
            locked[key.user] += cell.count
    return {
        "policy": promoted.name,
        "log": list(promoted.run.log.names),
        "from": timestamp(promoted.period.start),
        "to": timestamp(promoted.period.end - 1),
        "ready": is_ready(promoted),
        "recorded": {
            **promoted.recorded._asdict(),
            "first": _time(promoted.recorded.first),
            "last": _time(promoted.recorded.last),
        },
        "selected": promoted.selected,
        "direct": own,
        "consequences": following,
        "undetermined": _undetermined(promoted),
        "lockouts": dict(locked.most_common()),
        "newest": _time(newest),
        "confidence": doubt.most.value,
        "because": doubt.reason,
        "workloads": [_workload_json(group) for group in grouped(denied, by_workload)],
        "messages": dict(_texts(promoted)),
        "gaps": [{**gap._asdict(), "requests": count} for gap, count in _gaps(promoted).most_common()],
        "bindings": [
            {
                "name": each.name,
                "static": each.static,
                "validationActions": list(each.actions),
                "file": each.origin.file if each.origin is not None else None,
                "line": each.origin.line if each.origin is not None else None,
                "patch": each.patch,
            }
            for each in promoted.bindings
        ],
        "notes": list(promoted.run.notes),
    }


def _time(microseconds: int) -> str | None:
    return timestamp(microseconds) if microseconds else None


def _workload_json(group: Group) -> JSON:
    return {
        "workload": group.label,
        "owners": sorted(group.owners),
        "users": sorted(group.users),
        "direct": group.requests,
        "consequences": group.consequences,
        "first": _time(group.first),
        "last": _time(group.last),
    }
