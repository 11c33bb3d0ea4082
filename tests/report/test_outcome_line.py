"""Lines of `--outcomes` written by a template of their class are those that are written value by value."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from replay.admission.decision import Decision, Verdict
from replay.audit.event import RequestRecord
from replay.compare.outcome import NOWHERE, DecidedIn, Outcome, OutcomeKind
from replay.kube.attributes import Basis, Operation, UserInfo
from replay.kube.gvk import GroupVersionResource
from replay.report.outcome_line import LineTemplate, outcome_line

ADMITTED = Decision(Verdict.ADMITTED)
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")


class Row(NamedTuple):
    name: str
    resource: GroupVersionResource = DEPLOYMENTS
    candidate: Decision = ADMITTED
    decided_in: DecidedIn = NOWHERE
    texts: tuple[str, str, str, str] = ("id-1", "alice", "shop", "web")
    """Audit id, user, namespace and name."""


ROWS = [
    Row("as most are"),
    Row("a subresource of the core group", GroupVersionResource("", "v1", "pods")),
    Row("refused by the candidate's authorizers", candidate=Decision(Verdict.NOT_REACHED)),
    Row("of kcp", decided_in=DecidedIn("root:a", "root:b", "root:c")),
    Row("neither namespace nor name", texts=("", "", "", "")),
    Row("texts that JSON escapes", texts=('"namespace":', "a\nb", '","outcome":', "ä\\")),
    Row("a resource that reads like a line", GroupVersionResource('"namespace":', '","operation":', '","outcome":')),
]


def outcome(row: Row, texts: tuple[str, str, str, str], stage_time: int) -> Outcome:
    audit_id, user, namespace, name = texts
    return Outcome(
        seq=1,
        item=0,
        audit_id=audit_id,
        stage_time=stage_time,
        user=user,
        operation=Operation.UPDATE,
        resource=row.resource,
        subresource="status",
        kind="",
        namespace=namespace,
        name=name,
        outcome=OutcomeKind.UNCHANGED,
        basis=dict.fromkeys(("object", "oldObject", "namespaceObject"), Basis.UNREAD),
        current=ADMITTED,
        candidate=row.candidate,
        decided_in=row.decided_in,
    )


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_template_writes_what_is_written_value_by_value(row: Row) -> None:
    template = LineTemplate(outcome(row, ("other", "bob", "lab", "db"), 1))
    record = RequestRecord._make([1, "", *("",) * (len(RequestRecord._fields) - 2)])
    audit_id, user, namespace, name = row.texts
    for time in (0, 1_795_226_955_550_868, 1_795_226_956_000_001):
        asked = record._replace(audit_id=audit_id, user=UserInfo(user), namespace=namespace, name=name, stage_time=time)
        assert template.line(asked) == outcome_line(outcome(row, row.texts, time))
