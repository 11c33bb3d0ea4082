"""Decisions about a request that may have been to create or to update, and those that the log settles."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from replay.admission.decision import Decision, Denial, Undetermined, Verdict
from replay.audit.event import RequestRecord
from replay.json import JSON
from replay.world.decide import OPEN_OPERATION, common_decision, with_logged_denial
from replay.world.server.answer import may_refuse

NO, NEVER = Denial("p", "b", 0, "no", "Invalid", 422), Denial("q", "b", 0, "never", "Invalid", 422)
ADMITTED = Decision(Verdict.ADMITTED)
WARNED = Decision(Verdict.ADMITTED, warnings=("careful",))
UNKNOWN = Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("p", "b", "`oldObject` is not known"),))


def denied(*denials: Denial) -> Decision:
    return Decision(Verdict.DENIED, denials=denials)


def open_for(policy: str, *denials: Denial) -> Decision:
    entry = Undetermined(policy, "b" if policy else "", OPEN_OPERATION)
    return Decision(Verdict.UNDETERMINED, denials=denials, undetermined=(entry,))


class Case(NamedTuple):
    name: str
    update: Decision
    create: Decision
    expected: Decision


CASES = [
    Case("both admit", ADMITTED, ADMITTED, ADMITTED),
    Case("both deny alike", denied(NO), denied(NO), denied(NO)),
    Case("one denies", ADMITTED, denied(NO), open_for("p")),
    Case("one denies more", denied(NO, NEVER), denied(NO), open_for("q", NO)),
    Case("one warns", WARNED, ADMITTED, open_for("")),
    Case("one is open", UNKNOWN, ADMITTED, UNKNOWN),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_either(case: Case) -> None:
    assert common_decision(case.update, case.create) == case.expected


OF_P, OF_ALL, OF_Q = (Undetermined(*each, "`object` is not known") for each in (("p", "b"), ("p", ""), ("q", "b")))
TOLD = Denial("p", "b", None, "no", "Invalid", 422)
BY_P = "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"


def open_about(*entries: Undetermined, patch: tuple[JSON, ...] = ()) -> Decision:
    return Decision(Verdict.UNDETERMINED, undetermined=entries, patch=patch)


def denied_but(*entries: Undetermined) -> Decision:
    return Decision(Verdict.UNDETERMINED if entries else Verdict.DENIED, denials=(TOLD,), undetermined=entries)


def _compact(annotations: dict[str, str]) -> str:
    return json.dumps(annotations, separators=(",", ":"))


def annotated(annotations: dict[str, str]) -> Decision:
    return replace(denied_but(), audit_annotations=annotations)


FAILURES = "validation.policy.admission.k8s.io/validation_failure"


class Settled(NamedTuple):
    name: str
    message: str
    current: Decision
    candidate: Decision
    expected: tuple[Decision, Decision]
    annotations: str = ""


SETTLED = [
    Settled("both leave it open", BY_P, open_about(OF_P), open_about(OF_P), (denied_but(), denied_but())),
    Settled("the entry names no binding", BY_P, open_about(OF_ALL), open_about(OF_ALL), (denied_but(), denied_but())),
    Settled(
        "another policy stays open",
        BY_P,
        open_about(OF_P, OF_Q),
        open_about(OF_P, OF_Q),
        (denied_but(OF_Q), denied_but(OF_Q)),
    ),
    Settled("the candidate admits", BY_P, open_about(OF_P), ADMITTED, (denied_but(), ADMITTED)),
    Settled(
        "the candidate lacks the policy", BY_P, open_about(OF_P), open_about(OF_Q), (denied_but(), open_about(OF_Q))
    ),
    Settled(
        "the policy may decide otherwise",
        BY_P.replace("'p'", "'q'"),
        open_about(OF_Q),
        open_about(OF_Q),
        (Decision(Verdict.DENIED, denials=(replace(TOLD, policy="q"),)), open_about(OF_Q)),
    ),
    Settled(
        "the candidate mutates the object",
        BY_P,
        open_about(OF_P),
        open_about(OF_P, patch=({"op": "remove", "path": "/spec"},)),
        (denied_but(), open_about(OF_P, patch=({"op": "remove", "path": "/spec"},))),
    ),
    Settled("another policy denied", BY_P, open_about(OF_Q), open_about(OF_Q), (open_about(OF_Q), open_about(OF_Q))),
    Settled(
        "the policy wrote annotations",
        BY_P,
        open_about(OF_P),
        open_about(OF_P),
        (annotated({"p/size": "10"}), annotated({"p/size": "10"})),
        _compact({"p/size": "10", "q/size": "1", "authorization.k8s.io/decision": "allow"}),
    ),
    Settled(
        "the policy also audits",
        BY_P,
        open_about(OF_P),
        ADMITTED,
        (annotated({FAILURES: '[{"policy":"p"}]'}), ADMITTED),
        _compact({FAILURES: '[{"policy":"p"}]'}),
    ),
    Settled(
        "another policy audits too",
        BY_P,
        open_about(OF_P),
        ADMITTED,
        (denied_but(), ADMITTED),
        _compact({FAILURES: '[{"policy":"p"},{"policy":"q"}]'}),
    ),
    Settled("the request succeeded", "", open_about(OF_P), open_about(OF_P), (open_about(OF_P), open_about(OF_P))),
]


def answer(code: int, status_message: str, annotations: str) -> RequestRecord:
    empty: dict[str, Any] = dict.fromkeys(RequestRecord._fields, "")
    own = {"code": code, "status_message": status_message, "status_reason": "Invalid", "annotations": annotations}
    return RequestRecord(**{**empty, **own})


@pytest.mark.parametrize("case", SETTLED, ids=[case.name for case in SETTLED])
def test_with_logged_denial(case: Settled) -> None:
    request = answer(code=422 if case.message else 200, status_message=case.message, annotations=case.annotations)
    assert with_logged_denial(request, (case.current, case.candidate), {"p"}) == case.expected


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (ADMITTED, False),
        (open_about(OF_P), True),
        (open_about(Undetermined("DefaultIngressClass", "", "`object` is not known")), False),
        (open_about(Undetermined("DefaultIngressClass", "", "`object` is not known"), OF_P), True),
        (open_about(Undetermined("p", "b", "`object` is not known", never_refuses=True)), False),
    ],
    ids=["admitted", "a policy is open", "a plugin that only changes objects", "both", "a policy that only warns"],
)
def test_may_refuse(decision: Decision, expected: bool) -> None:
    assert may_refuse(decision) is expected
