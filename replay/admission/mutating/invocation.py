"""Invocations of policies in the mutating phase, and repeated ones (`policy/mutating/reinvocationcontext.go`)."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct, field

from replay.admission.conversion import Object
from replay.admission.hooks import BoundBinding, PlannedHook, PolicyHook
from replay.admission.mutating.mutator import MutateResult, Mutator
from replay.json import JSON
from replay.kube.admissionregistration import MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding
from replay.kube.attributes import Missing, PartialObject
from replay.matching.matcher import Match

Planned = PlannedHook[MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, Mutator]
Hook = PolicyHook[MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, Mutator]
Bound = BoundBinding[MutatingAdmissionPolicyBinding]


class Invocation(NamedTuple):
    """A policy with a matching binding and parameter; `unknown` says what the match depends on."""

    hook: Hook
    binding: MutatingAdmissionPolicyBinding
    match: Match
    param: JSON | PartialObject | None
    unknown: Missing | None

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what identifies an invocation in both passes."""
        metadata: dict[str, str] = {}
        if self.param is not None:
            param = self.param.value if isinstance(self.param, PartialObject) else self.param
            metadata = param.get("metadata") or {}
        return self.hook.policy.name, self.binding.name, f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


class MutationOutcome(NamedTuple):
    """Result of an invocation on its input object; `unknown` as in the invocation."""

    original: Object
    result: MutateResult
    unknown: Missing | None


class Reinvocation(Struct):
    """Policies that run again in the second pass (`reinvocationcontext.go`)."""

    last_output: Object = None
    invoked: set[Any] = field(default_factory=set)
    again: set[Any] = field(default_factory=set)

    def require(self) -> None:
        """Something changed the object after those who ran."""
        self.again |= self.invoked
        self.invoked = set()
