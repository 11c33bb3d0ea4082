"""What policy engines do after requests, in the report of `replay run`: a count and a list, without a verdict."""

from __future__ import annotations

from collections import Counter
from typing import Any

from replay.compare.result import RunResult
from replay.compare.summary import Summary
from replay.report.render.document import Align, Column, Section, Table, inert, number


def triggered_section(result: RunResult, rows: int) -> Section | None:
    """Return how many requests trigger each policy in each set, and what the policies make or change then."""
    works = _works(result.summary)
    if not works:
        return None
    by_policy: dict[str, Counter[str]] = {}
    for (policy, _), counts in works:
        by_policy.setdefault(policy, Counter()).update(counts)
    policies = sorted(by_policy.items(), key=lambda item: (-item[1]["candidate"], -item[1]["current"], item[0]))
    requests = (Column("baseline", Align.NUMBER), Column("candidate", Align.NUMBER))
    policy_column = Column("policy", Align.CODE)
    counted = tuple((inert(policy), *_numbers(counts)) for policy, counts in policies[:rows])
    listed = tuple((inert(policy), inert(text), *_numbers(counts)) for (policy, text), counts in works[:rows])
    lead = "These policies decide nothing. They make or change other objects after admitted requests."
    return Section(
        "triggered",
        "After the requests",
        lead,
        (
            Table("triggered", "Requests that trigger them", (policy_column, *requests), counted, len(policies)),
            Table("triggered-work", "", (policy_column, Column("what it does"), *requests), listed, len(works)),
        ),
        quiet=True,
    )


def _numbers(counts: Counter[str]) -> tuple[str, str]:
    return number(counts["current"]), number(counts["candidate"])


def triggered_json(summary: Summary) -> list[dict[str, Any]]:
    """Return the same as JSON, the most frequent first."""
    return [
        {"policy": policy, "work": text, "current": counts["current"], "candidate": counts["candidate"]}
        for (policy, text), counts in _works(summary)
    ]


def _works(summary: Summary) -> list[tuple[tuple[str, str], Counter[str]]]:
    works: dict[tuple[str, str], Counter[str]] = {}
    for work, count in summary.triggered.items():
        text = f"undetermined: {work.unknown}" if work.unknown else work.work
        works.setdefault((work.policy, text), Counter())[work.side] += count
    return sorted(works.items(), key=lambda item: (-item[1]["candidate"], -item[1]["current"], item[0]))
