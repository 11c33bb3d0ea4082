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
    ManifestSet,
    MatchResources,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    Mutation,
    Rule,
)
from replay.kube.attributes import UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.json_patch import apply
from replay.kube.object_lister import ObjectTracker
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


def set_of(expression: str) -> ManifestSet:
    """A set with one policy for everything, of one mutation."""
    everything = MatchResources(resource_rules=(Rule(("*",), ("*",), ("*",), ("*",)),))
    mutation = Mutation("JSONPatch" if expression.startswith("[") else "ApplyConfiguration", expression)
    policy = MutatingAdmissionPolicy("p", True, match_constraints=everything, mutations=(mutation,))
    binding = MutatingAdmissionPolicyBinding("p-binding", True, "p")
    return ManifestSet(mutating_policies=(policy,), mutating_bindings=(binding,))


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
