"""ImageValidatingPolicy and its namespaced kind (`pkg/cel/policies/ivpol`): which requests they are about.

What they answer depends on signatures and attestations that a registry has, so that it is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from replay.cellib.environment import ExpressionKind
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kyverno.cel.autogen import generated_specs
from replay.kyverno.cel.compiler import PolicyCompiler
from replay.kyverno.cel.environment import Purpose
from replay.kyverno.cel.evaluation import PolicyInputs
from replay.kyverno.cel.library.context import Reader
from replay.kyverno.cel.match import Constraints, MatchingError
from replay.kyverno.cel.request import CELRequest
from replay.kyverno.cel.spec import Spec, constraints_of, read_spec


class ImagePolicy:
    """One policy, possibly generated from another."""

    def __init__(self, policy: JSON, spec: Mapping[str, Any]) -> None:
        """`spec` is that of the policy, or one that was generated. Raises PolicyError."""
        metadata = policy["metadata"]
        self.name = str(metadata["name"])
        self.namespace = str(metadata.get("namespace") or "")
        self.spec = read_spec({"spec": spec}, Spec)
        constraints = constraints_of(spec)
        self._constraints = None if constraints is None else Constraints(constraints)
        self._compiler = PolicyCompiler(self.namespace, Purpose.VALIDATE)
        kind = ExpressionKind.VALIDATION
        # A condition may read images, which are not known either.
        compiled = [self._compiler.compile(kind, each.expression) for each in self.spec.conditions]
        self._conditions = [each for each in compiled if each.error is None]

    def concerns(self, request: CELRequest, reader: Reader) -> bool:
        """Whether the answer to a request may depend on the policy."""
        if self._constraints is None or self.spec.is_for_json:
            return False
        try:
            matched = self._constraints.matches(request)
        except MatchingError:
            return True
        if matched is False:
            return False
        if isinstance(matched, Missing) or not self._conditions:
            return True
        inputs = PolicyInputs(self._compiler, request, reader, self.namespace, mutates=False)
        return not any(inputs.evaluate(each).value is False for each in self._conditions)


def image_policies(policy: JSON, _: Iterable[object]) -> list[ImagePolicy]:
    """A policy and those that are generated of it for controllers of pods. Raises PolicyError."""
    first = ImagePolicy(policy, policy.get("spec"))
    generated = generated_specs(policy["spec"], first.spec.controllers, mutates=False)
    return [first, *(ImagePolicy(policy, each.spec) for each in generated)]
