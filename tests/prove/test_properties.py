"""What is told of the policies of a set by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from replay.kube.admissionregistration import ManifestSet
from replay.prove.properties import never_errors, properties_of
from replay.prove.prover import Prover, Settings
from replay.prove.symbolic.solver import is_available
from replay.prove.unit import BoundPolicy
from tests.prove.policies import DEPLOYMENTS, unit

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_available(), reason="z3 is not installed"),
]


@pytest.fixture(scope="module")
def prover() -> Iterator[Prover]:
    made = Prover(Settings(tries=100, attacks=100))
    yield made
    made.close()


def _set(*units: BoundPolicy) -> ManifestSet:
    named = [
        BoundPolicy(
            replace(each.policy, name=f"p{index}.static.k8s.io"),
            tuple(
                replace(b, name=f"b{index}.static.k8s.io", policy_name=f"p{index}.static.k8s.io") for b in each.bindings
            ),
        )
        for index, each in enumerate(units)
    ]
    return ManifestSet(tuple(registration for each in named for registration in (each.policy, *each.bindings)))


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (unit("object.spec.replicas <= 5"), "never-errors"),
        (unit("object.metadata.labels['a'] == 'b'"), "errors"),
        (unit("false", "object.metadata.labels['a'] == 'b'"), "errors"),
    ],
)
def test_errors(prover: Prover, policy: BoundPolicy, name: str) -> None:
    assert never_errors(prover, policy).name == name


BY_KIND = "object.kind != 'Deployment' || object.spec.replicas > 1"
BOTH = replace(DEPLOYMENTS, resources=("deployments", "statefulsets"))


@pytest.mark.parametrize(
    ("policies", "names"),
    [
        ([unit("object.spec.replicas <= 5 || object.spec.replicas > 4")], ["never-errors", "never-denies"]),
        ([unit("object.spec.replicas > 5 && object.spec.replicas < 3")], ["never-errors", "denies-everything"]),
        ([unit(BY_KIND, rules=[BOTH])], ["never-errors", "never-denies of StatefulSet"]),
        (
            [unit("object.kind != 'Deployment'", rules=[BOTH])],
            ["never-errors", "denies-everything of Deployment", "never-denies of StatefulSet"],
        ),
        (
            [unit("object.spec.replicas > 1", conditions=["request.operation == 'DELETE'"])],
            ["never-errors", "never-denies", "condition-never-true"],
        ),
        (
            [unit("object.spec.replicas > 1", conditions=["object.metadata.name == 'a'", "object.kind == 'Pod'"])],
            ["never-errors", "never-denies", "condition-never-true"],
        ),
        (
            [unit("object.spec.replicas > 1"), unit("object.spec.replicas > 2")],
            ["never-errors", "never-errors", "dead-policy"],
        ),
        (
            [unit("object.spec.replicas > 1"), unit("object.spec.replicas > 2", rules=[BOTH])],
            ["never-errors", "never-errors", "dead-policy"],
        ),
        (
            [unit("object.spec.replicas > 1"), unit("object.spec.replicas > 2", actions=["Warn"])],
            ["never-errors", "never-errors"],
        ),
        (
            [unit("object.spec.replicas > 5"), unit("object.spec.replicas < 5")],
            ["never-errors", "never-errors", "contradiction of Deployment"],
        ),
        ([unit("object.spec.replicas > 5"), unit("object.spec.replicas < 7")], ["never-errors", "never-errors"]),
        (
            [unit("object.spec.replicas > 5", rules=[BOTH]), unit("object.spec.replicas < 5")],
            ["never-errors", "never-errors", "contradiction of Deployment"],
        ),
    ],
)
def test_properties(prover: Prover, policies: list[BoundPolicy], names: list[str]) -> None:
    found = properties_of(prover, _set(*policies))
    assert [f"{each.name}{_kind(each.text)}" for each in found] == names


def _kind(text: str) -> str:
    """The kind that a property is about, if it is about one."""
    matched = re.search(r" of ([A-Z]\w+)", text)
    return f" of {matched[1]}" if matched else ""
