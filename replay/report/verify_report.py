"""Report of `replay verify`: how far the log and the set agree, and why they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from replay.compare.fidelity import Agreement
from replay.compare.in_force import EngineAgreement, PolicyHistory, PolicyState, Sign
from replay.compare.result import VerifyResult
from replay.json import JSON
from replay.report.render.document import (
    Align,
    Column,
    Document,
    Fact,
    Section,
    Table,
    Tone,
    few,
    inert,
    moment,
    number,
    plural,
    share,
    span,
)
from replay.report.render.terminal import first_screen
from replay.report.run.authorization import authorization_differences, authorization_fidelity, fidelity_json
from replay.report.trust import agreement_json

ROWS = 15
_QUIET = (PolicyState.IN_FORCE,)
_ASPECTS = (("denials", "denials"), ("failures", "audited failures"), ("annotations", "policy annotations"))


def verify_document(result: VerifyResult, *, rows: int = ROWS) -> Document:
    """Return the document, with at most `rows` rows in a table."""
    verdict, tone = _verdict(result)
    sections = (
        _oddities(result),
        _histories(result, rows),
        _causes(result, rows),
        _contradictions(result, rows),
        _strangers(result, rows),
        *([_opinions(result.opinions, rows)] if result.opinions is not None else []),
        *(authorization_differences(result.authorization, rows) if result.authorization is not None else ()),
    )
    return Document(
        title="Match of the baseline with the log",
        subtitle=f"{inert(result.current.name)} · {few(result.log.names)}",
        verdict=verdict,
        tone=tone,
        facts=_facts(result),
        sections=tuple(section for section in sections if section is not None),
    )


def verify_screen(result: VerifyResult) -> Document:
    """Return the first screen of the report."""
    steps = [("replay verify … --full", "every table")]
    if result.findings.contradictions:
        first = result.findings.contradictions[0]
        steps.append((f"replay explain {inert(first.audit_id)} …", "the first mismatch"))
    document = verify_document(result)
    return first_screen(document, {"policies": 6, "causes": 6, "contradictions": 6, "strangers": 4, "input": 3}, steps)


def agrees(result: VerifyResult) -> bool:
    """Return whether nothing in the log contradicts the set."""
    differs = result.authorization.differs if result.authorization is not None else 0
    return not (
        differs or result.fidelity.disagreement_count or result.findings.contradictions or result.unknown_policies
    )


def _verdict(result: VerifyResult) -> tuple[str, Tone]:
    reproduced, compared = result.fidelity.compared
    authorized = result.authorization
    if authorized is not None:
        reproduced, compared = reproduced + authorized.reproduced, compared + authorized.observed - authorized.undecided
    if not compared:
        return "The log records no decision that this set could have made, and the set makes none.", Tone.WARN
    if agrees(result):
        return f"The set reproduces all {plural(compared, 'decision')} of the log.", Tone.GOOD
    odd = [each for each in result.findings.histories if each.story not in _QUIET]
    about = f": {'; '.join(sorted({_short(each.story, odd) for each in odd}))}" if odd else ""
    return f"The set reproduces {share(reproduced, compared)} of {plural(compared, 'decision')}{about}.", Tone.WARN


def _short(story: PolicyState, histories: Sequence[PolicyHistory]) -> str:
    count = sum(each.story is story for each in histories)
    return f"{plural(count, 'policy', 'policies')} {story.value}"


def _facts(result: VerifyResult) -> tuple[Fact, ...]:
    log, fidelity = result.log, result.fidelity
    agreements = {name: getattr(fidelity, name) for name, _ in _ASPECTS}
    return (
        Fact("Log", plural(log.events, "event"), f"{moment(log.first)}, {span(log.last - log.first)}"),
        Fact(
            "Determined",
            share(result.decided, result.total),
            f"{number(result.decided)} of {plural(result.total, 'request')} that match a policy",
        ),
        *(_agreement(label, agreements[name]) for name, label in _ASPECTS),
        Fact("Warnings", "not recorded", "audit logs do not have them"),
        *(authorization_fidelity(result.authorization) if result.authorization is not None else ()),
    )


def _agreement(label: str, agreement: Agreement) -> Fact:
    notes = [
        f"{number(count)} {text}"
        for count, text in (
            (agreement.differs, "differ"),
            (agreement.extra, "not in the log"),
            (agreement.undetermined, "undetermined"),
        )
        if count
    ]
    tone = Tone.WARN if agreement.differs or agreement.extra else Tone.GOOD
    value = f"{number(agreement.reproduced)} of {number(agreement.observed)}"
    return Fact(label.capitalize(), value, ", ".join(notes), tone)


def _oddities(result: VerifyResult) -> Section | None:
    notes = result.notes
    if not notes:
        return None
    rows = tuple((inert(note),) for note in notes)
    return Section(
        "input", "Notes on the input", "", (Table("input", "", (Column("what"),), rows, len(rows)),), Tone.WARN
    )


def _histories(result: VerifyResult, rows: int) -> Section:
    odd = [each for each in result.findings.histories if each.story not in _QUIET]
    quiet = [each for each in result.findings.histories if each.story in _QUIET]
    lead = f"{plural(len(quiet), 'policy', 'policies')} acted as in the set for the whole log."
    if not odd:
        return Section("policies", "When the policies were in force", lead, tone=Tone.GOOD)
    columns = (
        Column("policy", Align.CODE),
        Column("what the log shows"),
        Column("as in the set", Align.NUMBER),
        Column("silent", Align.NUMBER),
        Column("different", Align.NUMBER),
    )
    shown = tuple(
        (
            inert(each.policy),
            inert(story_text(each)),
            number(each.signs[Sign.SEEN]),
            number(each.signs[Sign.ABSENT]),
            number(each.signs[Sign.OTHER] + each.signs[Sign.SURPLUS]),
        )
        for each in odd[:rows]
    )
    return Section(
        "policies",
        "When the policies were in force",
        lead,
        (Table("policies", "", columns, shown, len(odd)),),
        Tone.WARN,
    )


def story_text(history: PolicyHistory) -> str:
    """Return the story of a policy with its instants."""
    text = history.story.value
    if history.files:
        return f"{text}: those of {few(history.files)}"
    if history.start and history.end and history.story is PolicyState.SERVERS:
        return f"{text}, silent now and then from {moment(history.start)} to {moment(history.end)}"
    if history.start and history.end:
        after, until = moment(history.start), moment(history.end)
        return f"{text} between {after} and {until}" if after != until else f"{text} at {after}"
    if history.end or history.start:
        return f"{text} {'before' if history.end else 'after'} {moment(history.end or history.start)}"
    return text


def causes(result: VerifyResult) -> Counter[tuple[str, str]]:
    """Return the number of contradictions by policy and cause."""
    return Counter((each.policy, each.cause) for each in result.findings.contradictions)


def _causes(result: VerifyResult, rows: int) -> Section | None:
    problems = causes(result)
    if not problems:
        return None
    columns = (Column("policy", Align.CODE), Column("likely cause"), Column("decisions", Align.NUMBER))
    ordered = sorted(problems.items(), key=lambda item: (-item[1], item[0]))
    shown = tuple((inert(policy), inert(cause), number(count)) for (policy, cause), count in ordered[:rows])
    return Section(
        "causes", "Causes of mismatches", "", (Table("causes", "", columns, shown, len(problems)),), Tone.WARN
    )


def _contradictions(result: VerifyResult, rows: int) -> Section | None:
    contradictions = result.findings.contradictions
    if not contradictions:
        return None
    columns = (
        Column("audit id", Align.ID),
        Column("policy", Align.CODE),
        Column("what"),
        Column("log", Align.CODE),
        Column("set", Align.CODE),
        Column("likely cause", optional=True),
    )
    shown = tuple(
        (
            inert(each.audit_id),
            inert(each.policy),
            each.aspect,
            inert(each.observed) or "nothing",
            inert(each.replayed) or "nothing",
            inert(each.cause),
        )
        for each in contradictions[:rows]
    )
    table = Table("contradictions", "", columns, shown, len(contradictions))
    return Section("contradictions", "Mismatches", "In the order of the log.", (table,), quiet=True)


def _strangers(result: VerifyResult, rows: int) -> Section | None:
    if not result.unknown_policies:
        return None
    columns = (
        Column("policy", Align.CODE),
        Column("requests", Align.NUMBER),
        Column("first seen", Align.SHORT),
        Column("last seen", Align.SHORT),
    )
    shown = tuple(
        (inert(policy), number(unknown_policy.requests), moment(unknown_policy.first), moment(unknown_policy.last))
        for policy, unknown_policy in sorted(result.unknown_policies.items())[:rows]
    )
    lead = "The log records their decisions, but the set does not have them."
    table = Table("strangers", "", columns, shown, len(result.unknown_policies))
    return Section("strangers", "Policies of another set", lead, (table,), Tone.WARN)


def _opinions(opinions: EngineAgreement, rows: int) -> Section:
    lines: list[tuple[str, ...]] = [("the same", number(opinions.agreed))]
    lines += [(f"cel-python lacks: {name}", number(count)) for name, count in sorted(opinions.unsupported.items())]
    lines += [(f"cel-python {name}", number(count)) for name, count in sorted(opinions.habits.items())]
    lines.append(("not explained", number(len(opinions.differing))))
    summary = Table("opinions", "", (Column("answer"), Column("evaluations", Align.NUMBER)), tuple(lines), len(lines))
    columns = (Column("policy", Align.CODE), Column("expression", Align.CODE), Column("replay"), Column("cel-python"))
    differing = tuple(
        (inert(each.policy), inert(each.expression), each.ours, each.theirs) for each in opinions.differing[:rows]
    )
    blocks = [summary]
    if differing:
        blocks.append(Table("differing", "Not explained", columns, differing, len(opinions.differing)))
    lead = f"cel-python, an independent engine, repeated {plural(opinions.count, 'evaluation')} of sampled requests."
    return Section("second-opinion", "Second opinion", lead, tuple(blocks), Tone.WARN if differing else Tone.GOOD)


def verify_json(result: VerifyResult) -> dict[str, JSON]:
    """Return the result as one JSON value. Instants are microseconds since the epoch."""
    fidelity = result.fidelity
    value: dict[str, JSON] = {
        "log": {"names": list(result.log.names), "events": result.log.events},
        "current": result.current.name,
        "decided": {"requests": result.decided, "of": result.total},
        "agrees": agrees(result),
        **({"authorization": fidelity_json(result.authorization)} if result.authorization is not None else {}),
        **{name: agreement_json(getattr(fidelity, name)) for name, _ in _ASPECTS},
        "policies": list(_histories_json(result.findings.histories)),
        "contradictions": [
            {
                "auditID": each.audit_id,
                "policy": each.policy,
                "aspect": each.aspect,
                "observed": each.observed,
                "replayed": each.replayed,
                "cause": each.cause,
            }
            for each in result.findings.contradictions
        ],
        "strangers": {
            policy: {"requests": unknown_policy.requests, "first": unknown_policy.first, "last": unknown_policy.last}
            for policy, unknown_policy in sorted(result.unknown_policies.items())
        },
        "notes": list(result.notes),
    }
    if result.opinions is not None:
        value["secondOpinion"] = {
            "agreed": result.opinions.agreed,
            "unsupported": dict(sorted(result.opinions.unsupported.items())),
            "known": dict(sorted(result.opinions.habits.items())),
            "differing": [each._asdict() for each in result.opinions.differing],
        }
    return value


def _histories_json(histories: Sequence[PolicyHistory]) -> Iterator[JSON]:
    for each in histories:
        yield {
            "policy": each.policy,
            "story": each.story.value,
            "signs": {sign.value: each.signs[sign] for sign in Sign},
            "after": each.start or None,
            "before": each.end or None,
            "files": list(each.files),
        }
