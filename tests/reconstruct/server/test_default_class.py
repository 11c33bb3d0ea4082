"""Default classes: from a snapshot, and from what other objects got."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from replay.audit.event import RequestRecord
from replay.json import JSON
from replay.kube.attributes import Basis, Missing
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, get
from replay.reconstruct.server.default_class import DefaultClasses, ShownClass, kinds_without_default

SECOND = 1_000_000
AT = 1_767_225_600 * SECOND
UNKNOWN = "unknown"
NO_SNAPSHOT = Missing("IngressClass", "the snapshot has no objects of kind IngressClass")


class Classes:
    """A lister of IngressClasses."""

    def __init__(self, classes: Sequence[JSON] | Missing) -> None:
        self._classes = classes

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        raise NotImplementedError

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        del kind, namespace
        return self._classes


def ingress_class(name: str, created: str, default: str = "true") -> JSON:
    annotations = {"ingressclass.kubernetes.io/is-default-class": default}
    return {"metadata": {"name": name, "creationTimestamp": created, "annotations": annotations}}


def got(seconds: int, name: str | None) -> ShownClass:
    return ("ingresses", AT + seconds * SECOND, AT + seconds * SECOND + 1000, name)


OLD, NEW = ingress_class("old", "2026-01-01T00:00:00Z"), ingress_class("new", "2026-01-02T00:00:00Z")


class Case(NamedTuple):
    name: str
    classes: Sequence[JSON] | Missing
    shown: list[ShownClass]
    response: str | None
    mutated: bool
    expected: str | None


CASES = [
    Case("the response shows it", NO_SNAPSHOT, [], "a", False, "a"),
    Case("the response shows none", NO_SNAPSHOT, [], None, True, None),
    Case("a policy may have set it", NO_SNAPSHOT, [], "a", True, UNKNOWN),
    Case("others got none", NO_SNAPSHOT, [got(-9, None), got(9, None)], "a", True, None),
    Case("others got one, perhaps of a policy", NO_SNAPSHOT, [got(-9, "a")], "a", True, UNKNOWN),
    Case("others got one of a policy or none", NO_SNAPSHOT, [got(-9, None), got(9, "a")], "a", True, None),
    Case("others differ", NO_SNAPSHOT, [got(-9, "b"), got(9, "a")], UNKNOWN, False, UNKNOWN),
    Case("a class was written", NO_SNAPSHOT, [got(-9, None), ("ingressclasses", AT, AT, "a")], "a", True, UNKNOWN),
    Case("the snapshot has no default", [ingress_class("a", "", "false")], [], "a", True, None),
    Case("the newest default", [OLD, NEW], [], "a", True, "new"),
    Case("refused, others got one", NO_SNAPSHOT, [got(-9, "a")], UNKNOWN, False, "a"),
    Case("refused, others got none", NO_SNAPSHOT, [got(9, None)], UNKNOWN, True, None),
    Case("refused, nothing is known", NO_SNAPSHOT, [], UNKNOWN, False, UNKNOWN),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_default_class(case: Case, pod_record: Callable[..., RequestRecord]) -> None:
    sent = {"kind": "Ingress", "apiVersion": "networking.k8s.io/v1", "metadata": {"name": "web"}, "spec": {}}
    refused = case.response is UNKNOWN
    spec = {"ingressClassName": case.response} if case.response and not refused else {}
    record = pod_record(
        "create",
        code=403 if refused else 201,
        ref={"resource": "ingresses", "apiGroup": "networking.k8s.io"},
        request=sent,
        response=None if refused else {**sent, "spec": spec},
    )
    exchange = Exchange(record, builtin_discovery())
    found = DefaultClasses(case.shown).filled(
        Known(sent, Basis.RECORDED), exchange, Classes(case.classes), mutated=case.mutated
    )
    shown = UNKNOWN if found.holes else get(found.value, ("spec", "ingressClassName"))
    assert shown == case.expected


PODS: list[tuple[str, list[ShownClass], int | None]] = [
    ("others got no class", [("pods", AT, AT, None)], 0),
    ("others got one", [("pods", AT, AT, None), ("pods", AT, AT, "a")], None),
    ("a class was written", [("pods", AT, AT, None), ("priorityclasses", AT, AT, "a")], None),
    ("nothing is shown", [], None),
]


@pytest.mark.parametrize(("name", "shown", "priority"), PODS, ids=[row[0] for row in PODS])
def test_priority_without_a_class(
    name: str, shown: list[ShownClass], priority: int | None, pod_record: Callable[..., RequestRecord]
) -> None:
    del name
    fields = ("priorityClassName", "priority", "preemptionPolicy")
    sent = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"}, "spec": {}}
    pod = Known(sent, Basis.RECORDED).with_holes([Hole(("spec", field), "unknown") for field in fields])
    exchange = Exchange(pod_record("create", code=403, request=sent, response=None), builtin_discovery())
    found = DefaultClasses(shown).filled(pod, exchange, Classes(NO_SNAPSHOT), mutated=True)
    assert (get(found.value, ("spec", "priority")), bool(found.holes)) == (priority, priority is None)


WITHOUT: list[tuple[str, list[ShownClass], set[str], list[str]]] = [
    ("nothing is shown", [], set(), []),
    ("a pod got none", [("pods", AT, AT, None)], set(), ["PriorityClass"]),
    ("a pod got none, the plugin was off", [("pods", AT, AT, None)], {"PodSecurity"}, []),
    ("a pod got one", [("pods", AT, AT, None), ("pods", AT, AT, "a")], set(), []),
    ("a priority class was written", [("pods", AT, AT, None), ("priorityclasses", AT, AT, "a")], set(), []),
    ("an Ingress got none", [got(0, None)], {"DefaultIngressClass"}, ["IngressClass"]),
    ("an Ingress got none, the plugin was off", [got(0, None)], {"Priority"}, []),
    ("a class was written", [got(0, None), ("ingressclasses", AT, AT, "a")], set(), []),
]


@pytest.mark.parametrize(("shown", "plugins", "kinds"), [row[1:] for row in WITHOUT], ids=[row[0] for row in WITHOUT])
def test_kinds_without_a_default(shown: list[ShownClass], plugins: set[str], kinds: list[str]) -> None:
    assert sorted(kind.kind for kind in kinds_without_default(shown, plugins)) == kinds
