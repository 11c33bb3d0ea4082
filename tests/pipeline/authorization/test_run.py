from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from replay.cellib.version import NEWEST
from replay.compare.authorization import AlikeRequests, AuthorizationOutcome
from replay.compare.result import RunResult
from replay.errors import ReplayError
from replay.kube.lister import ObjectLister
from replay.kube.rbac_authorizer import RoleResolver
from replay.pipeline.authorization.permission import AuthorizationQuestion, least_privilege, look_up_authorization
from replay.pipeline.authorization.replay import AuthorizedRequest, read_questions
from replay.pipeline.forensic.explain import explain
from replay.pipeline.log import opened
from replay.pipeline.options import Options
from replay.pipeline.output import exit_code
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.pipeline.verify import verify
from replay.reconstruct.snapshot import numbered_lines
from replay.report.explain_report import explain_json
from replay.report.run.authorization import authorization_json

SAMPLE = Path(__file__).parents[3] / "sample_audit" / "authorization"
WEBHOOKS = tuple(f"{name}.example.com={SAMPLE / 'sars.jsonl.zst'}" for name in ("guard", "tier", "fallback"))


def silent(stage: str, done: int, of: int) -> None:
    """Show nothing."""


def scenario(candidate: Path = SAMPLE / "candidate", **rest: Any) -> Scenario:
    log = (str(SAMPLE / "audit.jsonl.zst"),)
    known = {"current": SAMPLE / "current", "cluster": SAMPLE / "cluster.jsonl.zst", **rest}
    return Scenario(log, candidate=candidate, version=NEWEST, **known)


def expected() -> dict[str, Any]:
    rows = (orjson.loads(line) for _, line in numbered_lines(SAMPLE / "expected.jsonl.zst"))
    return {row["auditID"]: row for row in rows}


def replayed(tmp_path: Path, asked: Scenario) -> tuple[RunResult, dict[str, Any]]:
    outcomes = tmp_path / "outcomes.jsonl"
    result = run(asked, Options(outcomes=outcomes, webhooks=WEBHOOKS, workers=1), silent)
    rows = [orjson.loads(line) for line in outcomes.read_bytes().splitlines()]
    assert len({row["auditID"] for row in rows}) == len(rows)
    return result, {row["auditID"]: row for row in rows}


def test_a_run_has_a_line_for_every_request_as_the_server_decides_it(tmp_path: Path) -> None:
    result, lines = replayed(tmp_path, scenario())
    wanted = expected()
    assert lines.keys() == wanted.keys()
    for audit_id, line in lines.items():
        told, row = line["authorization"], wanted[audit_id]
        if row["reachedAuthorization"]:
            assert told == {"current": row["current"], "candidate": row["candidate"]}
        else:
            assert told == {"notReachedBecause": row["notReachedBecause"]}
    summary = result.authorization
    assert summary is not None
    reached = sum(row["reachedAuthorization"] for row in wanted.values())
    assert (summary.observed, summary.reproduced, summary.differs) == (reached, reached, 0)
    assert exit_code(result) == 1
    told = authorization_json(summary)
    assert sum(each["requests"] for each in told["decisions"]) == reached
    unchanged = summary.outcomes[AuthorizationOutcome.UNCHANGED]
    assert sum(each["requests"] for each in told["changes"]) == reached - unchanged


def test_rbac_alone_changes_what_it_names_and_leaves_the_chain(tmp_path: Path) -> None:
    result, lines = replayed(tmp_path, scenario(SAMPLE / "developers-read-only"))
    changed = {
        audit_id: line
        for audit_id, line in lines.items()
        if "current" in line["authorization"]
        and line["authorization"]["current"]["decision"] != line["authorization"]["candidate"]["decision"]
    }
    assert changed
    assert {line["authorization"]["current"]["decision"] for line in changed.values()} == {"allow"}
    assert {step["name"] for step in next(iter(changed.values()))["authorization"]["candidate"]["trace"]} >= {
        "guard.example.com",
        "rbac",
    }
    newly_forbidden = [each for each in changed.values() if each["authorization"]["candidate"]["decision"] != "unknown"]
    writes = [each for each in newly_forbidden if "operation" in each]
    assert all(each["candidate"]["verdict"] == "not_reached" for each in writes)
    assert result.authorization is not None
    assert result.authorization.writes_newly_refused == len(writes)


def test_the_same_set_twice_has_no_differences(tmp_path: Path) -> None:
    result, lines = replayed(tmp_path, scenario(SAMPLE / "current"))
    assert result.authorization is not None
    assert set(result.authorization.outcomes) == {AuthorizationOutcome.UNCHANGED}
    assert exit_code(result) == 0
    assert all(
        each["authorization"]["current"] == each["authorization"]["candidate"]
        for each in lines.values()
        if "current" in each["authorization"]
    )


def test_a_thinned_log_has_no_wrong_decision(tmp_path: Path) -> None:
    lines = [line for _, line in numbered_lines(SAMPLE / "audit.jsonl.zst")]
    log = tmp_path / "thinned.jsonl"
    log.write_bytes(b"\n".join(reversed(lines[::3])))
    outcomes, wanted = tmp_path / "outcomes.jsonl", expected()
    asked = Scenario(
        (str(log),), current=SAMPLE / "current", candidate=SAMPLE / "candidate", cluster=SAMPLE / "cluster.jsonl.zst"
    )
    run(asked, Options(outcomes=outcomes, webhooks=WEBHOOKS, workers=1), silent)
    for line in outcomes.read_bytes().splitlines():
        told = orjson.loads(line)
        if "current" in told["authorization"]:
            assert told["authorization"]["candidate"] == wanted[told["auditID"]]["candidate"]


def test_verify_holds_the_log_against_the_current_chain() -> None:
    asked = scenario(candidate=SAMPLE / "current")
    result = verify(asked, Options(webhooks=WEBHOOKS, workers=1), silent)
    assert result.authorization is not None
    assert result.authorization.differs == 0
    other = verify(scenario(current=SAMPLE / "candidate"), Options(webhooks=WEBHOOKS, workers=1), silent)
    assert other.authorization is not None
    assert other.authorization.differs > 0
    assert other.authorization.disagreements


@pytest.mark.parametrize("outcome", ["called", "skipped", "matchConditionError"])
def test_explain_shows_the_trace(outcome: str) -> None:
    rows = (row for row in expected().values() if row["reachedAuthorization"])
    row = next(row for row in rows if outcome in {step["outcome"] for step in row["current"]["trace"]})
    found = explain(scenario(), row["auditID"], silent, options=Options(webhooks=WEBHOOKS))
    assert explain_json(found)["authorization"] == {"current": row["current"], "candidate": row["candidate"]}


def found(**wanted: str) -> list[AlikeRequests]:
    question, options = AuthorizationQuestion(**wanted), Options(webhooks=WEBHOOKS)
    return list(look_up_authorization(scenario(), question, options, silent).requests)


def test_lookup_finds_by_decision_reason_binding_and_authorizer() -> None:
    assert {each.decision for each in found(decision="error")} == {"error"}
    assert {each.reason.split('"')[1] for each in found(binding="dev*")} <= {
        "dev",
        "developers/dev-1",
        "developers/team-a",
    }
    assert {each.reason for each in found(reason="node: *", user="system:node:*")} != set()
    assert {each.authorizer for each in found(authorizer="guard.*")} == {"guard.example.com"}


def test_lookup_of_an_authorizer_needs_a_set_that_names_it() -> None:
    asked = Scenario((str(SAMPLE / "audit.jsonl.zst"),))
    with pytest.raises(ReplayError, match="the log does not name the authorizer"):
        look_up_authorization(asked, AuthorizationQuestion(authorizer="rbac"), Options(), silent)


def test_a_role_for_what_a_user_did_allows_it_all() -> None:
    with opened(scenario(), silent) as store:
        objects = list(yaml.safe_load_all(least_privilege(store, "ci-deployer")))
        asked = {number: each for number, each in read_questions(store).items() if each.user.username == "ci-deployer"}
        rows = map(AuthorizedRequest._make, store.query("authorization_requests", within=True).iter_rows())
        allowed = {row.question for row in rows if row.decision == "allow" and row.question in asked}
    resolver = RoleResolver(ObjectLister(objects))
    assert allowed
    assert all(resolver.decide(asked[number]).allowing for number in allowed)
    with opened(scenario(), silent) as store, pytest.raises(ReplayError, match="no request of `nobody`"):
        least_privilege(store, "nobody")
