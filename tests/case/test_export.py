"""Requests of the sample log as cases: each form holds the decision, or says why it cannot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.case.exported import UnrepresentableError
from replay.case.result import Status
from replay.cli.app import app
from replay.compare.outcome import OutcomeKind, outcome_kind
from replay.pipeline.cases import CaseOptions, run_tests
from replay.pipeline.export import Exporter, title, written
from replay.pipeline.forensic.past import Chosen, decided, past_job, past_requests
from replay.pipeline.log import opened
from replay.pipeline.manifests import manifests_of
from replay.pipeline.project.format import CaseForm
from replay.pipeline.scenario import Scenario
from replay.reconstruct.request import ReplayRequest

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
CANDIDATE = SAMPLE / "candidate"
EVERY = 41
"""One in so many findings is written in every form."""
FILES = {CaseForm.CASE: "{}.yaml", CaseForm.REVIEW: "{}.json"}


@pytest.fixture(scope="module")
def findings() -> Iterator[tuple[Exporter, list[ReplayRequest]]]:
    scenario = Scenario((str(SAMPLE),)).resolved()
    with opened(scenario, lambda *_: None) as store:
        job = past_job(store, manifests_of(scenario))
        found = [
            request
            for request in past_requests(store, job, Chosen("verb not in ('get', 'list', 'watch')"), is_full=True)
            if outcome_kind(*decided(job, request)) is not OutcomeKind.UNCHANGED
        ]
        yield Exporter(job, 1, (CANDIDATE,)), found[::EVERY]


def write(directory: Path, name: str, text: str) -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.mark.slow
def test_what_is_written_is_decided_as_it_was(findings: tuple[Exporter, list[ReplayRequest]], tmp_path: Path) -> None:
    exporter, requests = findings
    held: Counter[CaseForm] = Counter()
    cases = 0
    for number, request in enumerate(requests):
        try:
            exported, case = exporter.exported(request, title(request))
        except UnrepresentableError:  # what is hidden of a Secret matters
            assert request.attributes.resource.resource == "secrets"
            continue
        cases += 1
        for form in (CaseForm.CASE, CaseForm.REVIEW, CaseForm.KAT, CaseForm.KYVERNO):
            try:
                files = written(exported, case, form, tmp_path / form.value)
            except UnrepresentableError:
                continue
            held[form] += 1
            for name, text in files.items():
                write(tmp_path / form.value, FILES.get(form, f"{{}}/{name}").format(number), text)
    assert held[CaseForm.CASE] == cases
    assert all(held.values())
    report = run_tests(CaseOptions(paths=(tmp_path,), policies=(CANDIDATE,)))
    assert [result for result in report.results if result.status is not Status.PASSED] == []
    assert len(report.results) == held.total()


def test_the_smallest_case_is_smaller_and_decided_alike(findings: tuple[Exporter, list[ReplayRequest]]) -> None:
    exporter, requests = findings
    for request in requests[::4]:
        _, whole = exporter.exported(request, "whole")
        _, smallest = exporter.exported(request, "whole", minimise=True)
        assert len(str(smallest)) < len(str(whole))
        assert smallest["expect"] == whole["expect"]


def lines(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["export", *arguments, str(SAMPLE)])
    return result.exit_code, result.output if result.exception is None else str(result.exception)


@pytest.mark.slow
def test_on_the_command_line(findings: tuple[Exporter, list[ReplayRequest]], tmp_path: Path) -> None:
    _, requests = findings
    denied = next(each for each in requests if each.record.verb == "create" and not each.record.subresource)
    audit_id = denied.record.audit_id
    out = tmp_path / "a" / "case.yaml"
    assert lines(audit_id, "--minimise", "--out", str(out)) == (0, "")
    assert CliRunner().invoke(app, ["test", str(out)]).exit_code == 0
    code, command = lines(audit_id, "--form", "kubectl")
    assert code == 0
    assert command.startswith("kubectl create --")
    assert "--dry-run=server --as=" in command
    assert "--form kat makes several files" in lines(audit_id, "--form", "kat")[1]
    assert "a server would not take" in lines(audit_id, "--form", "kubectl", "--minimise")[1]
    assert "the log has no request with the auditID `x`" in lines("x")[1]
