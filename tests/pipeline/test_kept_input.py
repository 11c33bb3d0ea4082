"""Requests that are kept as they came to the validating phase come back as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from replay.admission.decision import Decision, Mutated, Verdict
from replay.admission.effects import ADMITTED, UNCHANGED, Admitted
from replay.audit.event import RequestRecord
from replay.kube.attributes import Attributes, Basis, Missing, Operation, PartialObject, PossiblyAbsent, UserInfo
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.pipeline.replay.kept_input import UNKEEPABLE, KeptRequest, block_of, kept_row, rows_of
from replay.reconstruct.request import Reached, ReplayRequest
from replay.world.decide import MutatedRequest

USER = UserInfo("ann", "7", ("devs",), {"scopes": ("a", "b")})
_NAMES = (
    "create",
    "/api",
    "kubectl",
    USER,
    "ann",
    "",
    "v1",
    "pods",
    "",
    "shop",
    "web",
    "",
    "",
    201,
    "",
    "",
    "",
    10,
    20,
)
_FIELDS: tuple[Any, ...] = (5, "id", "RequestResponse", "ResponseComplete", *_NAMES, '{"a":"b"}', "{}", "{}", "log", 3)
RECORD = RequestRecord(*_FIELDS)
POD = {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"n": [1, 2.0, -(2**63), True, None, "ü"]}}
ATTRIBUTES = Attributes(
    Operation.CREATE,
    GroupVersionKind("", "v1", "Pod"),
    GroupVersionResource("", "v1", "pods"),
    *("", "shop", "web", USER),
    object=POD,
    namespace_object={"kind": "Namespace"},
)
HOLE = Missing("object.spec.n[1]", "it is not in the log", "record it")
PARTLY = PartialObject({"kind": "Pod", "spec": {"n": [1, HOLE]}, "status": HOLE}, (HOLE,))
PATCH = ({"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},)
MUTATED = Admitted(
    (ADMITTED, Decision(Verdict.ADMITTED, mutated=(Mutated("p", "b", PATCH),))), PATCH, PATCH, is_same=False
)
REFUSED = Admitted((Decision(Verdict.DENIED, audit_annotations={"k": "v"}),), is_refused=True)
BASIS = {"object": Basis.RECORDED, "oldObject": None, "namespaceObject": Basis.MISSING}


def mutated(
    attributes: Attributes = ATTRIBUTES, original: Any = None, admitted: Any = (UNCHANGED, UNCHANGED)
) -> MutatedRequest:
    record = RECORD._replace(request_object=None, response_object=None)
    return MutatedRequest(ReplayRequest(record, attributes, original or attributes, BASIS), [list(admitted)])


KEPT: list[tuple[str, MutatedRequest]] = [
    ("a creation", mutated()),
    (
        "what was mutated",
        mutated(original=replace(ATTRIBUTES, name="", object={"a": 1}), admitted=(UNCHANGED, MUTATED)),
    ),
    ("what was refused", mutated(admitted=(REFUSED, MUTATED))),
    ("a partly known object", mutated(ATTRIBUTES.with_object(PARTLY))),
    ("a partly known object that was mutated", mutated(admitted=(UNCHANGED, replace(MUTATED, carried=PARTLY)))),
    ("nothing but a hole", mutated(ATTRIBUTES.with_object(PartialObject(HOLE, (HOLE,))))),
    ("an object that is not known", mutated(ATTRIBUTES.with_object(HOLE), original=HOLE)),
    ("unknown options and name", mutated(replace(ATTRIBUTES, options=HOLE, missing=(HOLE,), dry_run=True))),
    (
        "an open operation",
        MutatedRequest(
            ReplayRequest(
                RECORD._replace(request_object=None, response_object=None),
                *(ATTRIBUTES, ATTRIBUTES, BASIS, Reached.UNKNOWN, "it failed", 4, ("note",)),
                (HOLE, replace(ATTRIBUTES, operation=Operation.UPDATE, old_object=POD)),
            ),
            [[UNCHANGED, MUTATED], [UNCHANGED, UNCHANGED]],
        ),
    ),
]


@pytest.mark.parametrize("request_met", [row[1] for row in KEPT], ids=[row[0] for row in KEPT])
def test_a_request_comes_back_as_it_was(request_met: MutatedRequest) -> None:
    (row,) = rows_of(block_of([kept_row(request_met)]))
    back = KeptRequest(row).mutated
    assert back == MutatedRequest(request_met.request, [list(each) for each in request_met.admitted])
    assert [part is ADMITTED for each in back.admitted for one in each for part in one.parts] == [
        part is ADMITTED for each in request_met.admitted for one in each for part in one.parts
    ]


@pytest.mark.parametrize(("resource", "are_kept"), [("pods", False), ("secrets", True)])
def test_bodies_are_kept_where_their_values_are_hidden(resource: str, *, are_kept: bool) -> None:
    record = RECORD._replace(resource=resource)
    back = KeptRequest(kept_row(mutated()._replace(request=replace(mutated().request, record=record)))).mutated
    assert (back.request.record.request_object, back.request.record.response_object) == (
        ("{}", "{}") if are_kept else (None, None)
    )


UNKEPT: list[tuple[str, Callable[[], MutatedRequest]]] = [
    ("what may be absent", lambda: mutated(ATTRIBUTES.with_object(PossiblyAbsent("object", "it is not known")))),
    ("a number above 64 bits", lambda: mutated(ATTRIBUTES.with_object({"n": 2**64}))),
    ("half a character", lambda: mutated(ATTRIBUTES.with_object({"n": "\ud800"}))),
    ("a patch with a hole", lambda: mutated(admitted=(UNCHANGED, replace(MUTATED, patch=({"value": HOLE},))))),
]


@pytest.mark.parametrize("make", [row[1] for row in UNKEPT], ids=[row[0] for row in UNKEPT])
def test_what_would_not_come_back_is_not_kept(make: Callable[[], MutatedRequest]) -> None:
    with pytest.raises(UNKEEPABLE):
        kept_row(make())
