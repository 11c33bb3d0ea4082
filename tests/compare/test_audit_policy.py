"""Which audit policy follows from what policies read."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from replay.admission.reads import AUTHORIZER, NAMESPACE, OBJECT, OLD_OBJECT, OPTIONS, PARAMS, PolicyReads
from replay.compare.audit_policy import METADATA, REQUEST_RESPONSE, WRITES, AuditPolicy, audit_policy
from replay.kube.admissionregistration import MatchResources, ParamKind, Rule
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupResource

ALWAYS = 4
"""Every policy ends with what admission is not asked about, connections, reads, and the rest."""


def reads(inputs: set[str], *rules: Rule, param_kind: ParamKind | None = None) -> PolicyReads:
    return PolicyReads("p", ((MatchResources(resource_rules=rules),),), frozenset(inputs), param_kind)


def rule(operations: str, group: str, resources: str) -> Rule:
    return Rule(tuple(operations.split()), (group,), ("*",), tuple(resources.split()))


class Case(NamedTuple):
    name: str
    reads: PolicyReads
    rules: list[tuple[str, tuple[str, ...], dict[str, tuple[str, ...]]]]
    """Level, verbs and resources of the rules before those that every policy has."""


CREATING = ("create", "update", "patch")
CASES = [
    Case("only the request is read", reads(set(), rule("CREATE UPDATE", "", "pods")), []),
    Case(
        "the object that is created",
        reads({OBJECT}, rule("CREATE", "", "pods")),
        [(REQUEST_RESPONSE, CREATING, {"": ("pods",)})],
    ),
    Case(
        "the object that is updated, whose patch may be denied",
        reads({OBJECT}, rule("UPDATE", "apps", "deployments")),
        [(REQUEST_RESPONSE, WRITES, {"apps": ("deployments", "deployments/*")})],
    ),
    Case(
        "an object that a deletion does not have",
        reads({OBJECT}, rule("DELETE", "", "pods")),
        [(REQUEST_RESPONSE, ("deletecollection",), {"": ("pods",)})],
    ),
    Case(
        "the object that is deleted",
        reads({OLD_OBJECT}, rule("DELETE", "", "pods")),
        [(REQUEST_RESPONSE, WRITES, {"": ("pods", "pods/*")})],
    ),
    Case(
        "the options of a deletion",
        reads({OPTIONS}, rule("DELETE", "", "pods")),
        [(REQUEST_RESPONSE, ("delete", "deletecollection"), {"": ("pods",)})],
    ),
    Case(
        "a Scale is made of the workload",
        reads({OBJECT}, rule("UPDATE", "apps", "deployments/scale")),
        [(REQUEST_RESPONSE, WRITES, {"apps": ("deployments", "deployments/*")})],
    ),
    Case(
        "the other group of the same events",
        reads({OBJECT}, rule("CREATE", "events.k8s.io", "events")),
        [(REQUEST_RESPONSE, CREATING, {"": ("events",), "events.k8s.io": ("events",)})],
    ),
    Case(
        "Secrets stay secret",
        reads({OBJECT}, rule("CREATE", "", "secrets")),
        [(METADATA, WRITES, {"": ("secrets",)})],
    ),
    Case(
        "namespaces are looked up",
        reads({NAMESPACE}, rule("CREATE", "", "pods")),
        [(REQUEST_RESPONSE, WRITES, {"": ("namespaces", "namespaces/*")})],
    ),
    Case(
        "parameters are looked up",
        reads({PARAMS}, rule("CREATE", "", "pods"), param_kind=ParamKind("v1", "ConfigMap")),
        [(REQUEST_RESPONSE, WRITES, {"": ("configmaps", "configmaps/*")})],
    ),
    Case(
        "the authorizer asks RBAC",
        reads({AUTHORIZER}, rule("CREATE", "", "pods")),
        [
            (
                REQUEST_RESPONSE,
                WRITES,
                {
                    "rbac.authorization.k8s.io": tuple(
                        f"{name}{rest}"
                        for name in ("clusterrolebindings", "clusterroles", "rolebindings", "roles")
                        for rest in ("", "/*")
                    )
                },
            )
        ],
    ),
    Case(
        "everything, but for what is excluded and what is secret",
        PolicyReads(
            "p",
            (
                (
                    MatchResources(
                        resource_rules=(rule("*", "*", "*"),),
                        exclude_resource_rules=(rule("*", "coordination.k8s.io", "leases"),),
                    ),
                ),
            ),
            frozenset({OBJECT, OLD_OBJECT}),
        ),
        [
            (METADATA, WRITES, {"": ("secrets", "serviceaccounts/token")}),
            (METADATA, WRITES, {"coordination.k8s.io": ("leases", "leases/*")}),
            (REQUEST_RESPONSE, WRITES, {}),
        ],
    ),
]


def proposed(case: Case) -> AuditPolicy:
    return audit_policy([case.reads], builtin_discovery(), [(GroupResource("", "pods"), "exec")])


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_rules(case: Case) -> None:
    """The rules before the common ones."""
    rules = proposed(case).rules[:-ALWAYS]
    assert [(each.level, each.verbs, dict(each.resources)) for each in rules] == case.rules


LEVELS = [
    ("a write that policies read", ("create", "", "pods", ""), "RequestResponse"),
    ("a token", ("create", "", "serviceaccounts", "token"), "Metadata"),
    ("a Secret", ("update", "", "secrets", ""), "Metadata"),
    ("a lease", ("update", "coordination.k8s.io", "leases", ""), "Metadata"),
    ("a read", ("get", "", "pods", ""), "None"),
    ("a connection by GET", ("get", "", "pods", "exec"), "Metadata"),
    ("no resource", ("get", "", "", ""), "None"),
    ("a custom resource that nobody knew", ("create", "example.com", "widgets", "status"), "RequestResponse"),
]


@pytest.mark.parametrize(("request_of", "level"), [row[1:] for row in LEVELS], ids=[row[0] for row in LEVELS])
def test_levels(request_of: tuple[str, str, str, str], level: str) -> None:
    """The level of a request under the policy for everything."""
    assert proposed(CASES[-1]).level(*request_of) == level


def test_managed_fields_can_be_omitted_where_nobody_reads_them() -> None:
    """It is a note, not a rule: failing apply requests cannot be rebuilt without them."""
    one, other = (
        PolicyReads("p", CASES[1].reads.criteria, frozenset({OBJECT}), managed_fields=read) for read in (False, True)
    )
    notes = [audit_policy([each], builtin_discovery(), []).notes for each in (one, other)]
    assert ["omitManagedFields" in " ".join(each) for each in notes] == [True, False]
