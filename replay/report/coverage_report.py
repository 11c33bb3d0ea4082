"""Report of `replay coverage`: decidable requests, missing data, and the audit policy that records it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from replay.compare.audit_policy import AuditPolicy, AuditRule
from replay.compare.coverage import Coverage, RequestKind
from replay.compare.result import CoverageResult
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
    moment,
    number,
    plural,
    share,
    size,
    span,
)
from replay.report.render.terminal import first_screen

_HEADER = "rules are tried from the top, and the first that matches counts"


def _audit_policy_yaml(policy: AuditPolicy, about: Sequence[str] = ()) -> str:
    """Return the YAML document, with the reason of each rule. `about` are comment lines at its head."""
    lines = [
        *(f"# {line}" for line in (*about, *policy.notes)),
        "apiVersion: audit.k8s.io/v1",
        "kind: Policy",
        f"omitStages: {_flow(policy.omit_stages)}",
        f"rules: # {_HEADER}",
    ]
    for rule in policy.rules:
        lines += _rule(rule)
    return "\n".join(lines) + "\n"


def _rule(rule: AuditRule) -> Iterator[str]:
    if rule.comment:
        yield f"  # {rule.comment}"
    yield f"  - level: {rule.level if rule.level != 'None' else _quoted('None')}"
    if rule.verbs:
        yield f"    verbs: {_flow(rule.verbs)}"
    if rule.non_resource_urls:
        yield f"    nonResourceURLs: {_flow(rule.non_resource_urls)}"
    if rule.resources:
        yield "    resources:"
    for group, names in rule.resources:
        yield f"      - group: {_quoted(group)}"
        if names:
            yield f"        resources: {_flow(names)}"


def _flow(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, values))}]"


def _quoted(text: str) -> str:
    """Return a double-quoted scalar. Those of JSON are also valid in YAML."""
    return json.dumps(text)


ROWS = 12


def coverage_document(result: CoverageResult, *, rows: int = ROWS) -> Document:
    """Return the document, with at most `rows` rows in a table."""
    names = " and ".join(inert(each.name) for each in result.sets) or "any policy"
    decided, total = totals(result.coverage)
    verdict = f"{share(decided, total)} of {plural(total, 'request')} can be determined for {names}."
    return Document(
        title="Coverage of the log",
        subtitle=" · ".join(filter(None, (few(result.log.names), inert(result.focus)))),
        verdict=verdict,
        tone=Tone.GOOD if decided == total else Tone.WARN,
        facts=_facts(result),
        sections=(_missing(result, rows), _kinds(result.coverage, rows), _policy(result)),
    )


def coverage_screen(result: CoverageResult) -> Document:
    """Return the first screen of the report."""
    document = coverage_document(result)
    steps = [
        ("replay coverage … --full", "every table, and the audit policy"),
        ("replay coverage … --policy FILE", "write the audit policy that you need"),
    ]
    return first_screen(document, {"missing": 8, "by-resource": 8}, steps)


def totals(coverage: Coverage) -> tuple[int, int]:
    """Return `(decided, all)` requests that reached validation."""
    decided = coverage.decided.total()
    return decided, decided + coverage.undetermined.total()


def _facts(result: CoverageResult) -> tuple[Fact, ...]:
    log, growth = result.log, result.growth
    decided, total = totals(result.coverage)
    factor = growth.proposed / growth.now if growth.now else 1.0
    return (
        Fact("Log", plural(log.events, "event"), f"{moment(log.first)}, {span(log.last - log.first)}"),
        Fact(
            "Reached admission",
            plural(log.admission, "request"),
            f"{number(result.coverage.not_reached)} failed before validation",
        ),
        Fact("Determined", share(decided, total), f"{number(decided)} of {number(total)}"),
        Fact(
            "Log size",
            f"{size(growth.now)} now, {size(growth.proposed)} with the audit policy",
            f"{factor:.2f} times as much, uncompressed"
            + (f"; {size(growth.guessed)} of it estimated" if growth.guessed else ""),
        ),
    )


def _missing(result: CoverageResult, rows: int) -> Section:
    costs = result.coverage.ordered_costs()
    columns = (
        Column("unknown", Align.CODE),
        Column("reason"),
        Column("verdicts", Align.NUMBER),
        Column("sole", Align.NUMBER),
        Column("most often", optional=True),
    )
    shown = tuple(
        (
            inert(obstacle.path),
            inert(obstacle.reason),
            number(cost.verdicts),
            number(cost.sole),
            inert(cost.where.most_common(1)[0][0]),
        )
        for obstacle, cost in costs[:rows]
    )
    if not costs:
        return Section("missing", "What is missing", "Nothing. Every verdict is determined.", tone=Tone.GOOD)
    lead = "Verdicts: undetermined verdicts that need it. Sole: those that need nothing else."
    return Section("missing", "What is missing", lead, (Table("missing", "", columns, shown, len(costs)),), Tone.WARN)


def _kinds(coverage: Coverage, rows: int) -> Section:
    return Section(
        "kinds",
        "By resource, verb and level",
        "",
        tuple(
            _counts(name, caption, coverage, index, rows)
            for index, (name, caption) in enumerate(
                (("resource", "resource"), ("verb", "verb"), ("level", "audit level"))
            )
        ),
    )


def _counts(name: str, caption: str, coverage: Coverage, index: int, rows: int) -> Table:
    decided, undetermined = grouped(coverage.decided, index), grouped(coverage.undetermined, index)
    labels = sorted({*decided, *undetermined}, key=lambda label: (-undetermined[label], -decided[label], label))
    columns = (
        Column(caption, Align.CODE),
        Column("requests", Align.NUMBER),
        Column("determined", Align.NUMBER),
        Column("undetermined", Align.NUMBER),
    )
    shown = tuple(
        (
            inert(label),
            number(decided[label] + undetermined[label]),
            share(decided[label], decided[label] + undetermined[label]),
            number(undetermined[label]),
        )
        for label in labels[:rows]
    )
    return Table(f"by-{name}", f"By {caption}", columns, shown, len(labels))


def grouped(counts: Counter[RequestKind], index: int) -> Counter[str]:
    """Return the counts by one field of the request kind."""
    counter: Counter[str] = Counter()
    for kind, count in counts.items():
        counter[kind[index]] += count
    return counter


def _policy(result: CoverageResult) -> Section:
    lead = (
        "This audit policy records only what these sets read. For the time before it is in force you need a snapshot "
        "(`replay snapshot`)."
    )
    return Section(
        "policy",
        "Audit policy that records what is missing",
        lead,
        (Listing("for kube-apiserver --audit-policy-file", policy_text(result)),),
    )


def policy_text(result: CoverageResult) -> str:
    """Return the audit policy as YAML, with its purpose at the top."""
    names = ", ".join(inert(each.name) for each in result.sets) or "any policy"
    growth = result.growth
    return _audit_policy_yaml(
        result.policy,
        (
            f"records what these sets read: {names}",
            f"about {size(growth.proposed)} instead of {size(growth.now)} for the log that it was made from",
        ),
    )


def coverage_json(result: CoverageResult) -> dict[str, JSON]:
    """Return the result as one JSON value. Sizes are in bytes."""
    decided, total = totals(result.coverage)
    return {
        "log": {"names": list(result.log.names), "events": result.log.events, "admission": result.log.admission},
        "sets": [each.name for each in result.sets],
        "asked": result.focus,
        "decided": {"requests": decided, "of": total},
        "notReached": result.coverage.not_reached,
        "kinds": list(_kinds_json(result.coverage)),
        "missing": [
            {
                "path": obstacle.path,
                "reason": obstacle.reason,
                "fix": obstacle.fix,
                "verdicts": cost.verdicts,
                "alone": cost.sole,
                "policies": sorted(cost.policies - {""}),
                "where": dict(sorted(cost.where.items(), key=lambda item: (-item[1], item[0]))),
            }
            for obstacle, cost in result.coverage.ordered_costs()
        ],
        "auditPolicy": policy_text(result),
        "size": {"now": result.growth.now, "proposed": result.growth.proposed, "estimated": result.growth.guessed},
    }


def _kinds_json(coverage: Coverage) -> Iterator[JSON]:
    for kind in sorted({*coverage.decided, *coverage.undetermined}):
        yield {
            **kind._asdict(),
            "decided": coverage.decided[kind],
            "undetermined": coverage.undetermined[kind],
        }
