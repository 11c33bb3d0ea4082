"""Webhooks in the report of `replay run`: new calls, and their answers."""

from __future__ import annotations

from replay.compare.result import RunResult
from replay.compare.summary import Summary
from replay.compare.webhook_call import CALLED_BY_BOTH, FAILED, NEWLY_CALLED, NO_LONGER_CALLED, NOT_ASKED
from replay.report.render.document import Align, Block, Column, Fact, Section, Table, Tone, inert, number, plural

_ORDER = (NEWLY_CALLED, NO_LONGER_CALLED, CALLED_BY_BOTH)
_WOULD_BE_CALLED = "unknown: not called"


def unknown_calls(summary: Summary) -> int:
    """Return the number of new calls to webhooks that were not asked."""
    return sum(n for call, n in summary.webhooks.items() if (call.change, call.answer) == (NEWLY_CALLED, NOT_ASKED))


def failed_calls_fact(summary: Summary) -> Fact | None:
    """Return the number of failed calls; None where no call failed."""
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
        blocks.append(_calls(summary, rows))
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


def _calls(summary: Summary, rows: int) -> Table:
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
