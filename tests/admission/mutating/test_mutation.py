"""Single mutations of a pod against the dispatcher of the API server (k8s.io/apiserver 0.37.1), run on the same input.

`data/mutation.jsonl` holds an expression a line and the patch from the pod before to the pod after, or the refusal. Refusals
that differ between runs or builds of the server are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.admission.chain import Chain
from replay.cellib.version import NEWEST
from replay.kube.admissionregistration import (
    FailurePolicy,
    ManifestSet,
    MatchResources,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    Mutation,
    Rule,
)
from replay.kube.attributes import Operation, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.json_patch import apply
from replay.kube.lister import ObjectTracker
from replay.kube.schema import Schemas
from tests.support.chain_sets import POD
from tests.support.creation import creation_of_pod

ROWS = [
    orjson.loads(line) for line in Path(__file__).with_name("data").joinpath("mutation.jsonl").read_bytes().splitlines()
]
ATTRIBUTES = creation_of_pod(
    POD,
    user_info=UserInfo("jane", "", ("g",)),
    namespace_object={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"q": "r"}}},
)


def set_of(expression: str, failure_policy: str = "Fail") -> ManifestSet:
    """A set with one policy for everything, of one mutation."""
    everything = MatchResources(resource_rules=(Rule(("*",), ("*",), ("*",), ("*/*",)),))
    mutation = Mutation("JSONPatch" if expression.startswith("[") else "ApplyConfiguration", expression)
    policy = MutatingAdmissionPolicy(
        "p", True, FailurePolicy(failure_policy), match_constraints=everything, mutations=(mutation,)
    )
    binding = MutatingAdmissionPolicyBinding("p-binding", True, "p")
    return ManifestSet((policy, binding))


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_mutation(row: dict[str, Any]) -> None:
    sets = [set_of(row["expression"])]
    (decision,) = Chain(sets, NEWEST, builtin_discovery(), Schemas()).decide(ATTRIBUTES, ATTRIBUTES, ObjectTracker())
    if "patch" in row:
        assert (decision.denials, apply(POD, decision.patch)) == ((), apply(POD, row["patch"]))
    else:
        assert [(each.message, each.reason, each.code) for each in decision.denials] == [
            (row["message"], row["reason"], row["code"])
        ]


LABEL = "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"
LABEL_BY_PATCH = "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}]"
SCALE = ("apps/v1", "deployments", "scale", "autoscaling/v1", "Scale", Operation.UPDATE)
EVICTION = ("v1", "pods", "eviction", "policy/v1", "Eviction", Operation.CREATE)
TOKEN = ("v1", "serviceaccounts", "token", "authentication.k8s.io/v1", "TokenRequest", Operation.CREATE)
BINDING = ("v1", "pods", "binding", "v1", "Binding", Operation.CREATE)
EXEC = ("v1", "pods", "exec", "v1", "PodExecOptions", Operation.CONNECT)


@pytest.mark.parametrize(
    ("request_of", "expression", "failure_policy", "expected"),
    [
        pytest.param(SCALE, LABEL, "Fail", "autoscaling/v1, Kind=Scale", id="scale"),
        pytest.param(EVICTION, LABEL, "Fail", "policy/v1, Kind=Eviction", id="eviction"),
        pytest.param(TOKEN, LABEL, "Fail", "authentication.k8s.io/v1, Kind=TokenRequest", id="token"),
        pytest.param(EXEC, LABEL, "Fail", "/v1, Kind=PodExecOptions", id="exec"),
        pytest.param(BINDING, LABEL, "Fail", {"a": "b"}, id="binding"),
        pytest.param(SCALE, LABEL_BY_PATCH, "Fail", {"a": "b"}, id="scale by JSON patch"),
        pytest.param(SCALE, LABEL, "Ignore", None, id="scale, ignored"),
    ],
)
def test_kinds_of_subresources(
    request_of: tuple[str, str, str, str, str, Operation], expression: str, failure_policy: str, expected: Any
) -> None:
    """The type converter has the kinds that are in the OpenAPI document of their own group version; answers of a server."""
    api_version, resource, subresource, of_kind, kind, operation = request_of
    value = {"apiVersion": of_kind, "kind": kind, "metadata": {"name": "web", "namespace": "shop"}}
    attributes = creation_of_pod(
        value,
        operation=operation,
        kind=GroupVersionKind(*_group_version(of_kind), kind),
        resource=GroupVersionResource(*_group_version(api_version), resource),
        subresource=subresource,
    )
    sets = [set_of(expression, failure_policy)]
    (decision,) = Chain(sets, NEWEST, builtin_discovery(), Schemas()).decide(attributes, attributes, ObjectTracker())
    if isinstance(expected, str):
        text = f"error applying patch: failed to convert patch object to typed object: no corresponding type for {expected}"
        assert [(each.message, each.reason, each.code) for each in decision.denials] == [(text, "Invalid", 403)]
    else:
        assert (decision.denials, apply(value, decision.patch)["metadata"].get("labels")) == ((), expected)


def _group_version(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    return group, version
