"""What pages say of a trial: its verdict in each phase, and tables with more rows than a page shows."""

from __future__ import annotations

import asyncio
import os
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from replay.report.render.document import Tone
from replay.serve import questions
from replay.serve.metrics import metrics
from replay.serve.processes import Intake
from replay.serve.questions import QuestionError, Questions
from replay.serve.settings import ServeSettings
from replay.serve.trials import ResultKey, TrialPhase, TrialState
from replay.serve.view import MOST_ROWS, as_csv, as_markdown
from replay.serve.views import overview, trial_page, trial_verdict, workloads_page
from tests.serve.conftest import LOG, NODE, ROW, state_of, summary

MANY = [{**ROW, "workload": f"Deployment/w-{number}"} for number in range(MOST_ROWS + 7)]


class Verdict(NamedTuple):
    """A trial, what its page says, and how the first page counts it."""

    name: str
    document: dict[str, Any]
    fields: dict[str, Any]
    says: str
    tone: Tone
    counted: str


CHANGED = {"phase": TrialPhase.DECIDING, "sets": "b"}
VERDICTS = [
    Verdict("decided", summary(), {}, "Can be enforced: no request of the log would be denied.", Tone.GOOD, "can be enforced"),
    Verdict("failed after a result", summary(), {"phase": TrialPhase.FAILED, "error": "why"}, "next cannot be decided: why.", Tone.BAD, "cannot be decided"),
    Verdict("failed after denials", summary(ROW), {"phase": TrialPhase.FAILED, "error": "why"}, "next cannot be decided: why.", Tone.BAD, "cannot be decided"),
    Verdict("decided again", summary(), {"phase": TrialPhase.DECIDING, "sets": "a"}, "Can be enforced: no request of the log would be denied.", Tone.GOOD, "can be enforced"),
    Verdict("changed", summary(), CHANGED, "Can be enforced: no request of the log would be denied (the manifests before the change).", Tone.WARN, "with changed manifests"),
    Verdict("changed after denials", summary(ROW), CHANGED, "Would deny 1 workload of 1 team (the manifests before the change).", Tone.WARN, "with changed manifests"),
    Verdict("undetermined", summary(unknown=2), {}, "No denial so far. 2 requests are undetermined.", Tone.WARN, "with undetermined requests"),
]  # fmt: skip


@pytest.mark.parametrize("row", VERDICTS, ids=lambda row: row.name)
def test_a_verdict_is_of_the_manifests_that_are_there(settings: ServeSettings, row: Verdict) -> None:
    state = replace(state_of(settings.trials[0], row.document), key=ResultKey("a"), **row.fields)
    assert trial_verdict(state) == (row.says, row.tone)
    assert trial_page(state, LOG).verdict == row.says
    assert overview([state], {"": LOG}).verdict == f"1 trial: 1 {row.counted}."


@pytest.fixture
def many(settings: ServeSettings) -> TrialState:
    """A trial with more rows than a page shows."""
    return state_of(settings.trials[0], summary(*MANY))


def test_a_page_shows_some_rows_and_counts_all(many: TrialState) -> None:
    view = workloads_page(many, ROW["policy"])
    text, table = as_markdown(view), as_csv(view)
    assert view.verdict == f"{ROW['policy']} would deny {MOST_ROWS + 7} workloads."
    assert text.count("\n| Deployment/w-") == MOST_ROWS
    assert text.endswith("\n\n… and 7 more: see the CSV.\n")
    assert len(table.splitlines()) == 1 + len(MANY)


def test_a_lockout_of_two_policies_is_one_workload(settings: ServeSettings) -> None:
    state = state_of(settings.trials[0], summary(NODE, {**NODE, "policy": "others"}, ROW))
    facts = {item.label: item.value for item in trial_page(state, LOG).facts}
    assert facts["Lockouts"] == "1"
    assert 'replay_trial_lockouts{trial="next"} 1' in metrics([state], {"": LOG}, Intake()).splitlines()


def end(*_arguments: object) -> None:
    """End the process of a question, as a system without memory does."""
    os._exit(1)


def test_a_question_whose_process_was_ended_may_be_asked_again(
    settings: ServeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "_coverage", end)
    asked = Questions(settings)
    with pytest.raises(QuestionError, match="the question was interrupted: ask again") as raised:
        asyncio.run(asked.coverage(settings.trials[0]))
    asked.close()
    assert raised.value.is_busy
