"""Webhooks in the report of `replay run`: new calls and their answers.

For an outage: what is refused, what passes unchecked, and whether they can recover.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from replay.compare.effect import CALLED_BY_BOTH, FAILED, NEWLY_CALLED, NO_LONGER_CALLED, NOT_ASKED
from replay.compare.outage import FailedCall, Outage, Return
from replay.compare.result import RunResult
from replay.compare.summary import Summary
from replay.go.time import duration_text
from replay.kube.admissionregistration import FailurePolicy
from replay.report.render.document import Align, Block, Column, Fact, Section, Table, Tone, inert, number, plural

_ORDER = (NEWLY_CALLED, NO_LONGER_CALLED, CALLED_BY_BOTH)
_WOULD_BE_CALLED = "unknown: not called"


def unknown_calls(summary: Summary) -> int:
    """Return the number of new calls to webhooks that were not asked."""
    return sum(n for call, n in summary.webhooks.items() if (call.change, call.answer) == (NEWLY_CALLED, NOT_ASKED))


def failed_calls_fact(summary: Summary) -> Fact | None:
    """Return the number of failed calls, or None if no call failed."""
    failed = sum(count for call, count in summary.webhooks.items() if call.answer == FAILED)
    if not failed:
        return None
    return Fact("Failed calls", number(failed), "webhook calls; failurePolicy decided each", Tone.WARN)


def webhook_section(result: RunResult, rows: int) -> Section | None:
    """Return the calls by webhook, and the webhooks that both sets call in the same way."""
    summary = result.summary
    if not summary.webhooks and not result.shared_webhooks:
        return None
    blocks: list[Block] = []
    if summary.webhooks:
        blocks.append(_call_table(summary, rows))
    if summary.call_failures:
        blocks.append(_failures(summary, rows))
    tone = Tone.WARN if unknown_calls(summary) or summary.call_failures else Tone.PLAIN
    return Section("webhooks", "Webhooks", _lead(result), tuple(blocks), tone, quiet=not blocks)


def _lead(result: RunResult) -> str:
    sentences = []
    if any(call.answer == NOT_ASKED for call in result.summary.webhooks):
        sentences.append("No webhook was called. Name one with --webhook to call it or to use its recorded answers.")
    if result.shared_webhooks:
        count = plural(len(result.shared_webhooks), "webhook")
        names = ", ".join(f"`{inert(name)}`" for name in result.shared_webhooks)
        sentences.append(f"Both sets call {count} in the same way. The recorded answers are used: {names}.")
    return " ".join(sentences)


def _call_table(summary: Summary, rows: int) -> Table:
    calls = sorted(summary.webhooks.items(), key=lambda item: (_ORDER.index(item[0].change), -item[1], item[0]))
    columns = (
        Column("what"),
        Column("webhook", Align.CODE),
        Column("configuration", Align.CODE, optional=True),
        Column("phase"),
        Column("failurePolicy"),
        Column("timeout", Align.NUMBER),
        Column("side effects"),
        Column("answer"),
        Column("requests", Align.NUMBER),
    )
    shown = tuple(
        (
            call.change,
            inert(call.webhook),
            inert(call.configuration),
            call.phase,
            call.failure_policy,
            f"{call.timeout_seconds} s",
            inert(call.side_effects),
            _WOULD_BE_CALLED if call.answer == NOT_ASKED else call.answer,
            number(count),
        )
        for call, count in calls[:rows]
    )
    return Table("webhook-calls", "", columns, shown, len(calls))


def _failures(summary: Summary, rows: int) -> Table:
    failures = sorted(summary.call_failures.items(), key=lambda item: (-item[1], item[0]))
    columns = (Column("webhook", Align.CODE), Column("why the call failed"), Column("requests", Align.NUMBER))
    shown = tuple((inert(webhook), inert(text), number(count)) for (webhook, text), count in failures[:rows])
    return Table("webhook-failures", "Calls that failed", columns, shown, len(failures))


_MEANS = {FailurePolicy.FAIL: "refused", FailurePolicy.IGNORE: "pass unchecked"}
_Group = tuple[str, str, str, str]
"""Webhook, failure policy, operation and resource."""


def outage_verdict(result: RunResult) -> str:
    """Return a sentence about the webhooks that are down, or "" without an outage."""
    if result.outage is None:
        return ""
    names = ", ".join(f"`{inert(name)}`" for name in dict.fromkeys(each.name for each in result.outage.webhooks))
    unchecked = sum(count for call, count in _failed_calls(result).items() if call[1] == FailurePolicy.IGNORE)
    refused = _stuck(result.outage)
    stuck = (
        f" It could not recover by itself: {plural(len(refused), 'recovery step')} would be denied." if refused else ""
    )
    passes = f" {plural(unchecked, 'request')} would pass unchecked." if unchecked else ""
    return f"No endpoint answers for {names}.{passes}{stuck}"


def outage_facts(result: RunResult) -> list[Fact]:
    """Return whether the webhooks can recover."""
    outage = result.outage
    if outage is None:
        return []
    if not outage.steps:
        return [Fact("Recovery", "undetermined", "it depends on nodes and pods, which a kcp shard does not have")]
    refused, unknown = _stuck(outage), [each for each in outage.steps if each.answer is Return.UNKNOWN]
    if refused:
        return [
            Fact("Recovery", "blocked", f"would be denied: {inert(refused[0].what)}{_more(len(refused))}", Tone.BAD)
        ]
    if unknown:
        return [Fact("Recovery", "not certain", f"{inert(unknown[0].what)}{_more(len(unknown))}", Tone.WARN)]
    return [Fact("Recovery", "possible", "no recovery step needs a webhook that is down", Tone.GOOD)]


def outage_section(result: RunResult, rows: int) -> Section | None:
    """Return the section with the failing calls, the recovery steps, and the duration of calls. None without an outage."""
    outage = result.outage
    if outage is None:
        return None
    blocks: list[Block] = [_webhooks(outage, rows)]
    if result.summary.failed_calls:
        blocks.append(_failed(result, rows))
    if outage.steps:
        blocks.append(_steps(outage))
    lead = "These webhooks do not answer in the candidate. Each call ends with the time limit of the webhook."
    return Section("outage", "Outage", lead, tuple(blocks), Tone.BAD if _stuck(outage) else Tone.WARN)


def outage_json(result: RunResult) -> dict[str, Any]:
    """Return the outage as plain JSON."""
    outage = result.outage
    if outage is None:
        return {}
    rates = _rates(result)
    return {
        "webhooks": [each._asdict() for each in outage.webhooks],
        "calls": [
            {
                "webhook": webhook,
                "failurePolicy": policy,
                "operation": operation,
                "resource": resource,
                "calls": count,
                "mostInAMinute": rates[webhook, policy, operation, resource],
            }
            for (webhook, policy, operation, resource), count in _sorted(_failed_calls(result))
        ],
        "return": [{**each._asdict(), "answer": each.answer.value} for each in outage.steps],
        "waits": {phase: each._asdict() for phase, each in outage.waits.items()},
    }


def _more(count: int) -> str:
    return f" and {number(count - 1)} more" if count > 1 else ""


def _stuck(outage: Outage) -> list[Any]:
    return [each for each in outage.steps if each.answer is Return.REFUSED]


def _group(call: FailedCall) -> _Group:
    return call.webhook, call.failure_policy, call.operation, call.resource


def _failed_calls(result: RunResult) -> Counter[_Group]:
    calls: Counter[_Group] = Counter()
    for call, count in result.summary.failed_calls.items():
        calls[_group(call)] += count
    return calls


def _rates(result: RunResult) -> dict[_Group, int]:
    rates: dict[_Group, int] = {}
    for call, count in result.summary.failed_calls.items():
        rates[_group(call)] = max(rates.get(_group(call), 0), count)
    return rates


def _sorted(calls: Counter[_Group]) -> list[tuple[_Group, int]]:
    return sorted(calls.items(), key=lambda item: (-item[1], item[0]))


def _webhooks(outage: Outage, rows: int) -> Table:
    columns = (
        Column("webhook", Align.CODE),
        Column("configuration", Align.CODE, optional=True),
        Column("phase"),
        Column("failurePolicy"),
        Column("time limit", Align.NUMBER),
        Column("longest wait in the log", Align.NUMBER),
        Column("as long as the limit", Align.NUMBER),
        Column("clients that wait less", Align.NUMBER),
    )
    shown = []
    for each in outage.webhooks[:rows]:
        waits = outage.waits.get(each.phase)
        is_told = waits is not None and waits.requests > 0
        shown.append(
            (
                inert(each.name),
                inert(each.configuration),
                each.phase,
                each.failure_policy,
                f"{each.timeout_seconds} s",
                duration_text(waits.longest) if waits is not None and is_told else "none above 0.5 s",
                number(waits.over) if waits is not None and is_told else "0",
                number(each.impatient),
            )
        )
    return Table("down-webhooks", "", columns, tuple(shown), len(outage.webhooks))


def _failed(result: RunResult, rows: int) -> Table:
    calls, rates = _sorted(_failed_calls(result)), _rates(result)
    columns = (
        Column("webhook", Align.CODE),
        Column("operation"),
        Column("resource", Align.CODE),
        Column("then"),
        Column("calls", Align.NUMBER),
        Column("most in a minute", Align.NUMBER),
    )
    shown = tuple(
        (
            inert(group[0]),
            group[2],
            inert(group[3]),
            _MEANS[FailurePolicy(group[1])],
            number(count),
            number(rates[group]),
        )
        for group, count in calls[:rows]
    )
    return Table("failed-calls", "Calls that fail", columns, shown, len(calls))


def _steps(outage: Outage) -> Table:
    columns = (
        Column("step"),
        Column("user", Align.CODE, optional=True),
        Column("request", Align.CODE),
        Column("namespace", Align.CODE, optional=True),
        Column("until the webhook answers"),
    )
    shown = tuple(
        (
            inert(each.what),
            each.user,
            f"{each.operation} {each.resource}",
            inert(each.namespace),
            f"{each.answer} by {', '.join(map(inert, each.webhooks))}"
            if each.answer is Return.REFUSED
            else f"not known: {inert(each.reason)}"
            if each.answer is Return.UNKNOWN
            else "possible",
        )
        for each in outage.steps
    )
    return Table("return", "Can the webhook recover?", columns, shown, len(shown))
