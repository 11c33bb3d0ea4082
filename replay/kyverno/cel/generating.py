"""GeneratingPolicy and its namespaced kind (`pkg/cel/policies/gpol`): what triggers them and what they create.

They give no verdict, because Kyverno creates the objects later. A DeletingPolicy is triggered by time only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from replay.cellib.environment import ExpressionKind
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kyverno.cel.autogen import generated_specs
from replay.kyverno.cel.compiler import PolicyCompiler, PolicyError, Purpose
from replay.kyverno.cel.evaluation import EvaluationError, PolicyInputs, compiled_exceptions
from replay.kyverno.cel.library.context import Reader, generator_binding
from replay.kyverno.cel.request import CELRequest, Constraints, MatchingError
from replay.kyverno.cel.spec import GeneratingSpec, PolicyException, Spec, constraints_of, read_spec
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.response import UndeterminedError

# ImageValidatingPolicy and its namespaced kind (`pkg/cel/policies/ivpol`): which requests they concern.
# Their verdict depends on signatures and attestations in a registry, so it is unknown here.


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


_REFUSED = "<nil>: Internal error: generating policy compiler 2.0 error: failed to compile policy"


class Generation(Struct, frozen=True):
    """Objects that a policy would create for a request. `error` and `unknown` say why there are none."""

    policy: str
    namespace: str
    objects: tuple[JSON, ...] = ()
    error: str = ""
    unknown: str = ""

    @property
    def work(self) -> str:
        """What the policy makes, in words."""
        if self.unknown:
            return f"creates objects afterwards, which are not known: {self.unknown}"
        if self.error:
            return f"makes nothing: {self.error}"
        names = [
            f"{obj.get('kind')} {'/'.join(str(metadata[key]) for key in ('namespace', 'name') if metadata.get(key))}"
            for obj in self.objects
            for metadata in (as_map(obj.get("metadata")),)
        ]
        return f"makes {', '.join(names) or 'nothing'} afterwards"


class GeneratingPolicy:
    """Compiled GeneratingPolicy."""

    def __init__(self, policy: JSON, exceptions: Sequence[PolicyException]) -> None:
        """Compile the policy. Raises PolicyError."""
        metadata = policy["metadata"]
        self.name = str(metadata["name"])
        self.namespace = str(metadata.get("namespace") or "")
        self.spec = read_spec(policy, GeneratingSpec)
        constraints = constraints_of(policy["spec"])
        self._constraints = None if constraints is None else Constraints(constraints)
        self._compiler = PolicyCompiler(self.namespace, Purpose.GENERATE)
        try:
            self._compile(exceptions)
        except PolicyError as error:
            raise PolicyError([_REFUSED, *error.errors]) from None

    def _compile(self, exceptions: Sequence[PolicyException]) -> None:
        compiler, spec = self._compiler, self.spec
        self._conditions = compiler.conditions("spec.matchConditions", spec.conditions)
        compiler.declare("spec.variables", spec.named_variables)
        self._generations = tuple(
            compiler.checked(f"spec.generate[{index}].expression", ExpressionKind.VALIDATION, each.expression)
            for index, each in enumerate(spec.generate)
            if each.expression
        )
        self._has_template = any(each.template is not None for each in spec.generate)
        self._exceptions = compiled_exceptions(compiler, exceptions)

    def generate(self, request: CELRequest, reader: Reader) -> Generation | None:
        """Return what the policy would create for a request, or None if the request does not trigger it."""
        if self._constraints is None or request.request.get("dryRun") or self.namespace not in ("", request.namespace):
            return None
        try:
            matched = self._constraints.matches(request)
            if matched is False:
                return None
            if isinstance(matched, Missing):
                return self._generation(unknown=f"{matched.path}: {matched.reason}")
            return self._generated(request, reader)
        except MatchingError as error:
            return self._generation(error=f"failed to execute matching: {error}")
        except EvaluationError as error:
            return self._generation(error=f"failed to evaluate policy: {error}")
        except UndeterminedError as error:
            return self._generation(unknown=str(error))

    def _generated(self, request: CELRequest, reader: Reader) -> Generation | None:
        inputs = PolicyInputs(self._compiler, request, reader, self.namespace, mutates=False)
        if inputs.exempted(self._exceptions, ignores_errors=False).exceptions:
            return None
        if not inputs.match(self._conditions, ignores_errors=False):
            return None
        if self._has_template:
            return self._generation(unknown="templates are not filled in")
        objects: list[JSON] = []
        inputs.bind("generator", generator_binding(objects))
        for generation in self._generations:
            # Only once: compiled code that gives up would already have added objects.
            inputs.value(generation, exact=True)
        return self._generation(tuple(objects))

    def _generation(self, objects: tuple[JSON, ...] = (), error: str = "", unknown: str = "") -> Generation:
        return Generation(self.name, self.namespace, objects, error, unknown)


def generating_policies(policy: JSON, exceptions: Iterable[PolicyException]) -> list[GeneratingPolicy]:
    """Return the compiled policy. Raises PolicyError."""
    kind, name = str(policy["kind"]), str(policy["metadata"]["name"])
    return [GeneratingPolicy(policy, [each for each in exceptions for _ in range(each.is_from(kind, name))])]
