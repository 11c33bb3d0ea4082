"""Parts of reports, each made of values alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import cast

import pytest
from msgspec import Struct

from replay.compare.authorization import AuthorizationCell, AuthorizationOutcome, AuthorizationSummary
from replay.compare.fidelity import Disagreement
from replay.compare.result import RunResult
from replay.compare.summary import Summary, TriggeredWork
from replay.manifests.engine_object import Migrated
from replay.report.diff_report import migration_summary
from replay.report.lookup_report import PastDecision, ongoing_status
from replay.report.render.document import MICROSECONDS, Table
from replay.report.run.authorization import authorization_json, authorization_sections
from replay.report.run.mutations import object_diff
from replay.report.run.triggered import triggered_json, triggered_section
from replay.report.trust import differing

POD = {
    "kind": "Pod",
    "metadata": {"labels": {"app": "web"}, "name": "web"},
    "spec": {"containers": [{"image": "a", "name": "one"}, {"image": "b", "name": "two", "x": "\x1b[31m"}]},
}


def test_what_differs_with_the_fields_around_it() -> None:
    after = {
        **POD,
        "metadata": {"labels": {"app": "web", "team": "b"}, "name": "web"},
        "spec": {"containers": [{"image": "a", "name": "one"}, {"image": "c", "name": "two", "x": "\x1b[31m"}]},
    }
    assert object_diff(POD, after).split("\n") == [
        "@@ metadata > labels @@",
        "    labels:",
        "      app: web",
        "+     team: b",
        "    name: web",
        "  spec:",
        "@@ spec > containers @@",
        "    - image: a",
        "      name: one",
        "-   - image: b",
        "+   - image: c",
        "      name: two",
        '      x: "\\e[31m"',
    ]


def test_equal_objects_have_no_diff() -> None:
    assert object_diff(POD, POD) == ""


_OUT = Path("cel.yaml")
_WRITTEN = Migrated("ClusterPolicy/a", "written", ({}, {}, {}))


def _left(number: int, reason: str) -> Migrated:
    return Migrated("ClusterPolicy/b", f"rule-{number}", reason=reason)


def test_all_rules_of_a_migration_are_written() -> None:
    assert list(migration_summary([_WRITTEN], _OUT)) == ["cel.yaml: 3 policies of CEL for 1 of 1 rule"]


def test_the_most_frequent_reason_of_a_migration_comes_first() -> None:
    rules = [_WRITTEN, _left(0, "it mutates"), _left(1, "it has a context"), _left(2, "it has a context\x1b[31m")]
    rules.append(_left(3, "it has a context"))
    assert list(migration_summary(rules, _OUT)) == [
        "cel.yaml: 3 policies of CEL for 1 of 5 rules",
        "4 rules not written, because:",
        "    2  it has a context: ClusterPolicy/b, rule rule-1",
        "    1  it mutates: ClusterPolicy/b, rule rule-0",
        "    1  it has a context\\u{1b}[31m: ClusterPolicy/b, rule rule-2",
    ]


def test_a_migration_fits_on_one_screen() -> None:
    lines = list(migration_summary([_left(number, f"reason {number}") for number in range(40)], _OUT))
    assert len(lines) == 15
    assert lines[-1] == "   28  have 28 other reasons: see the comments in cel.yaml"


ACCOUNT = "system:serviceaccount:shop:web"


@pytest.mark.parametrize(
    ("user", "outcome", "was_allowed", "lockout"),
    [
        pytest.param(
            "system:kube-scheduler", AuthorizationOutcome.NEWLY_FORBIDDEN, True, "control plane", id="scheduler"
        ),
        pytest.param("system:node:n1", AuthorizationOutcome.NEWLY_FAILING, True, "node", id="a node that gets 500"),
        pytest.param(ACCOUNT, AuthorizationOutcome.NEWLY_FORBIDDEN, True, "service account", id="service account"),
        pytest.param(ACCOUNT, AuthorizationOutcome.NEWLY_FAILING, False, "", id="500 instead of 403"),
        pytest.param(ACCOUNT, AuthorizationOutcome.NEWLY_ALLOWED, False, "", id="newly allowed"),
        pytest.param("system:anonymous", AuthorizationOutcome.NEWLY_FORBIDDEN, True, "", id="nobody's component"),
        pytest.param("ann", AuthorizationOutcome.NEWLY_FORBIDDEN, True, "", id="a person"),
    ],
)
def test_who_is_locked_out(user: str, outcome: AuthorizationOutcome, *, was_allowed: bool, lockout: str) -> None:
    cell = AuthorizationCell(outcome, user, "get", "pods", "a", "rbac", "nobody", was_allowed)
    summary = AuthorizationSummary(requests=1)
    summary.cells[cell] += 1
    summary.outcomes[outcome] += 1
    summary.examples[cell] = "id"
    (change,) = authorization_json(summary)["changes"]
    assert (change["lockout"], change["wasAllowed"]) == (lockout, was_allowed)
    first = authorization_sections(summary, 5)[0]
    assert (first.id == "authorization-lockouts") is bool(lockout)


DENIAL = '["team.example","all.example","team label is required"]'
FAILURE = '{"binding":"b","expressionIndex":1,"message":"no","policy":"p","validationActions":["Audit","Warn"]}'


@pytest.mark.parametrize(
    ("aspect", "observed", "replayed", "expected"),
    [
        pytest.param(
            "denial",
            DENIAL,
            "nothing",
            ("team.example (all.example): team label is required", "nothing"),
            id="denied in the log alone",
        ),
        pytest.param(
            "failure",
            f"[{FAILURE}]",
            f'[{FAILURE},{{"policy":"q","message":"never"}}]',
            ("nothing", "q: never"),
            id="what both say is left out",
        ),
        pytest.param(
            "failure",
            f"[{FAILURE}]",
            "nothing",
            ("p (b, validation 1): no [Audit, Warn]", "nothing"),
            id="an audited failure",
        ),
        pytest.param(
            "annotation", '{"p/a":"1","p/b":"2"}', '{"p/a":"1","p/b":"3"}', ("p/b = 2", "p/b = 3"), id="a value"
        ),
        pytest.param("failure", f"[{FAILURE},{FAILURE}]", f"[{FAILURE}]", None, id="as often"),
        pytest.param("denial", "no JSON", '["a"]', ("no JSON", "a"), id="no JSON"),
        pytest.param("denial", "", "7", ("nothing", "7"), id="another kind of value"),
    ],
)
def test_differences_are_told_in_words(
    aspect: str, observed: str, replayed: str, expected: tuple[str, str] | None
) -> None:
    told = differing(Disagreement(1, "id", aspect, observed, replayed))
    once = "p (b, validation 1): no [Audit, Warn]"
    assert told == (expected or (f"{once}; {once}", once))


def at(seconds: int) -> PastDecision:
    return PastDecision(
        at=seconds * MICROSECONDS,
        seq=seconds,
        action="deny",
        plugin="policy",
        policy="p",
        binding="b",
        expression_index=None,
        message="no",
        validation_actions=(),
        patch=None,
        source="",
        audit_id=f"id-{seconds}",
        verb="create",
        username="ann",
        resource="pods",
        namespace="a",
        object_name="o",
        code=422,
        is_static=False,
        place="log:1",
    )


@pytest.mark.parametrize(
    ("seconds", "end", "goes_on", "text"),
    [
        ((5,), 65, None, "once, 1 min before the end of the log"),
        ((0, 10, 15), 25, True, "still happens: last 10 s before the end of the log, longest pause 10 s"),
        ((0, 10, 15), 26, False, "no longer happens: none in the last 11 s, longest pause before that 10 s"),
        ((10, 0), 5, True, "still happens: last 0 s before the end of the log, longest pause 10 s"),
    ],
    ids=["once", "a usual pause", "a longer pause", "an end before the last"],
)
def test_what_goes_on_is_told_by_its_pauses(
    seconds: tuple[int, ...], end: int, goes_on: bool | None, text: str
) -> None:
    assert ongoing_status([at(each) for each in seconds], end * MICROSECONDS) == (goes_on, text)


NETWORK, LABEL = "ClusterPolicy/network/deny", "ClusterPolicy/network/label"
WORK = {
    TriggeredWork("current", NETWORK, "makes NetworkPolicy a/deny afterwards", ""): 1,
    TriggeredWork("candidate", NETWORK, "makes NetworkPolicy a/deny afterwards", ""): 2,
    TriggeredWork("candidate", NETWORK, "makes NetworkPolicy b/deny afterwards", ""): 1,
    TriggeredWork("candidate", LABEL, "", "metadata: it is not in the log"): 4,
}


class _Result(Struct):
    summary: Summary


RESULT = cast("RunResult", _Result(Summary(triggered=Counter(WORK))))


def test_policies_that_do_something_afterwards_are_counted_and_their_work_is_listed() -> None:
    section = triggered_section(RESULT, 2)
    assert section is not None
    assert [(each.id, each.rows, each.total) for each in section.blocks if isinstance(each, Table)] == [
        ("triggered", ((LABEL, "0", "4"), (NETWORK, "1", "3")), 2),
        (
            "triggered-work",
            (
                (LABEL, "undetermined: metadata: it is not in the log", "0", "4"),
                (NETWORK, "makes NetworkPolicy a/deny afterwards", "1", "2"),
            ),
            3,
        ),
    ]


def test_json_has_all_that_policies_do_afterwards() -> None:
    made = "makes NetworkPolicy {}/deny afterwards"
    assert triggered_json(RESULT.summary) == [
        {"policy": LABEL, "work": "undetermined: metadata: it is not in the log", "current": 0, "candidate": 4},
        {"policy": NETWORK, "work": made.format("a"), "current": 1, "candidate": 2},
        {"policy": NETWORK, "work": made.format("b"), "current": 0, "candidate": 1},
    ]


def test_a_run_without_policies_that_do_something_afterwards_has_no_section() -> None:
    assert triggered_section(cast("RunResult", _Result(Summary())), 2) is None
