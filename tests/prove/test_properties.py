"""What is told of the policies of a set by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from replay.kube.admissionregistration import ManifestSet
from replay.prove.properties import contradictions, never_errors, properties_of
from replay.prove.prover import Prover, Settings
from replay.prove.symbolic.solving.solver import is_available
from replay.prove.unit import Unit
from tests.prove.policies import unit

pytestmark = pytest.mark.skipif(not is_available(), reason="z3 is not installed")


@pytest.fixture(scope="module")
def prover() -> Iterator[Prover]:
    made = Prover(Settings(tries=100, attacks=100))
    yield made
    made.close()


def _set(*units: Unit) -> ManifestSet:
    named = [
        Unit(
            replace(each.policy, name=f"p{index}.static.k8s.io"),
            tuple(
                replace(b, name=f"b{index}.static.k8s.io", policy_name=f"p{index}.static.k8s.io") for b in each.bindings
            ),
        )
        for index, each in enumerate(units)
    ]
    return ManifestSet(
        validating_policies=tuple(each.policy for each in named),
        validating_bindings=tuple(b for each in named for b in each.bindings),
    )


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (unit("object.spec.replicas <= 5"), "never-errors"),
        (unit("object.metadata.labels['a'] == 'b'"), "errors"),
        (unit("false", "object.metadata.labels['a'] == 'b'"), "errors"),
    ],
)
def test_errors(prover: Prover, policy: Unit, name: str) -> None:
    assert never_errors(prover, policy).name == name


@pytest.mark.parametrize(
    ("policies", "names"),
    [
        ([unit("object.spec.replicas <= 5 || object.spec.replicas > 4")], {"never-errors", "never-denies"}),
        ([unit("object.spec.replicas > 5 && object.spec.replicas < 3")], {"never-errors", "denies-everything"}),
        (
            [unit("object.spec.replicas > 1", conditions=["request.operation == 'DELETE'"])],
            {"never-errors", "never-denies", "condition-never-true"},
        ),
        ([unit("object.spec.replicas > 1"), unit("object.spec.replicas > 2")], {"never-errors", "dead-policy"}),
    ],
)
def test_properties(prover: Prover, policies: list[Unit], names: set[str]) -> None:
    assert {each.name for each in properties_of(prover, _set(*policies))} == names


def test_contradiction(prover: Prover) -> None:
    found = list(contradictions(prover, _set(unit("object.spec.replicas > 5"), unit("object.spec.replicas < 5"))))
    assert [each.name for each in found] == ["contradiction"]
    assert not list(contradictions(prover, _set(unit("object.spec.replicas > 5"), unit("object.spec.replicas < 7"))))
