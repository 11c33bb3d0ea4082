"""ImageValidatingPolicy and its namespaced kind (`pkg/cel/policies/ivpol`): which requests they concern.

Their verdict depends on signatures and attestations in a registry, so it is unknown here.
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
    """Compiled policy. Its spec may be a generated one."""

    def __init__(self, policy: JSON, spec: Mapping[str, Any]) -> None:
        """`spec` is the policy's spec, or one generated from it. Raises PolicyError."""
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
        """Return whether the verdict for a request may depend on the policy."""
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
    """Return the policy and those that are generated from it for pod controllers. Raises PolicyError."""
    first = ImagePolicy(policy, policy.get("spec"))
    generated = generated_specs(policy["spec"], first.spec.controllers, mutates=False)
    return [first, *(ImagePolicy(policy, each.spec) for each in generated)]
