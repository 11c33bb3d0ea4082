"""What the stages make of one request together."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from replay.admission.decision import Decision, Denial, Undetermined, Verdict
from replay.audit.event import RequestRecord
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.pipeline.replay.replayer import as_far_as_reached
from replay.reconstruct.request import Reached, ReplayRequest

ADMITTED = Decision(Verdict.ADMITTED)
DENIED = Decision(Verdict.DENIED, denials=(Denial("p", "b", 0, "no", "Invalid", 422),))
WARNED = Decision(Verdict.ADMITTED, warnings=("careful",))
ANNOTATED = Decision(Verdict.ADMITTED, audit_annotations={"p/who": "jane"})
OPEN = Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("p", "b", "`object` is not known"),))
REASON = "whether the request reached the policies is not known: it was overtaken"


class Case(NamedTuple):
    name: str
    reached: Reached
    decision: Decision
    expected: Decision


CASES = [
    Case("it was asked for", Reached.VALIDATION, DENIED, DENIED),
    Case("admitted either way", Reached.UNKNOWN, ADMITTED, ADMITTED),
    Case(
        "denied if it came so far",
        Reached.UNKNOWN,
        DENIED,
        Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("p", "b", REASON),)),
    ),
    Case(
        "warned if it came so far",
        Reached.UNKNOWN,
        WARNED,
        Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("", "", REASON),)),
    ),
    Case(
        "annotated if it came so far",
        Reached.UNKNOWN,
        ANNOTATED,
        Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("", "", REASON),)),
    ),
    Case("undetermined anyway", Reached.UNKNOWN, OPEN, OPEN),
]


def request(reached: Reached) -> ReplayRequest:
    record = RequestRecord._make([0, "id", *("",) * (len(RequestRecord._fields) - 2)])
    kind, resource = GroupVersionKind("", "v1", "Pod"), GroupVersionResource("", "v1", "pods")
    attributes = Attributes(Operation.UPDATE, kind, resource, "", "shop", "web", UserInfo())
    return ReplayRequest(record, attributes, attributes, {}, reached, "it was overtaken")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_as_far_as_reached(case: Case) -> None:
    """A request that may not have come as far as the policies is not said to be denied."""
    found = as_far_as_reached(request(case.reached), [case.decision, case.decision])
    assert found == [case.expected, case.expected]
    assert found[0] is found[1]
