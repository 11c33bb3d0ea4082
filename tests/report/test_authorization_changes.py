from __future__ import annotations

import pytest

from replay.compare.authorization import AuthorizationCell, AuthorizationOutcome, AuthorizationSummary
from replay.report.run.authorization import authorization_json, authorization_sections

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
