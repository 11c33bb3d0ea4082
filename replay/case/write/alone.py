"""The single policy that makes a decision, for tools that test one policy."""

from __future__ import annotations

import re

from msgspec import Struct

from replay.admission.decision import Verdict
from replay.case.exported import Exported, UnrepresentableError
from replay.json import JSON

_MUTATING = "MutatingAdmissionPolicy"


class SinglePolicy(Struct, frozen=True):
    """A policy with the binding that made the decision, as manifests."""

    policy: JSON
    binding: JSON | None

    @property
    def name(self) -> str:
        """Name of the policy."""
        return str(self.policy["metadata"]["name"])

    @property
    def mutates(self) -> bool:
        """Whether the policy mutates."""
        return bool(self.policy["kind"] == _MUTATING)

    @property
    def expressions(self) -> tuple[str, ...]:
        """All its expressions."""
        return tuple(_expressions(self.policy["spec"]))

    @property
    def configurations(self) -> tuple[str, ...]:
        """The expressions of its apply configurations."""
        mutations = self.policy["spec"].get("mutations") or ()
        configurations = (each.get("applyConfiguration") for each in mutations)
        return tuple(each["expression"] for each in configurations if each)


def alone(exported: Exported) -> SinglePolicy:
    """Return the first policy that denies, or the only one that mutates. Raises UnrepresentableError if there is none."""
    decision = exported.decision
    if decision.verdict is Verdict.UNDETERMINED:
        raise UnrepresentableError("it cannot say that a decision is undetermined")
    acting = list(dict.fromkeys((each.policy, each.binding) for each in decision.denials or decision.mutated))
    if not acting:
        raise UnrepresentableError("nothing is denied or mutated")
    if len(acting) > 1 and not decision.denials:
        raise UnrepresentableError(f"{len(acting)} policies change the object, and it asks one at a time")
    policy, binding = acting[0]
    policies = {(obj["kind"], obj["metadata"]["name"]): _as_written(obj) for obj in exported.policies}
    own = next((obj for (kind, name), obj in policies.items() if name == policy and kind.endswith("Policy")), None)
    if own is None:
        raise UnrepresentableError(f"`{policy}` is no policy but a webhook")
    return SinglePolicy(own, policies.get((f"{own['kind']}Binding", binding)))


def _as_written(obj: JSON) -> JSON:
    """Return a policy without the fields that only a stored object has."""
    metadata = {name: obj["metadata"][name] for name in ("name", "labels") if obj["metadata"].get(name)}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, "spec": obj.get("spec") or {}}


def _expressions(value: JSON) -> list[str]:
    expressions: list[str] = []
    if isinstance(value, dict):
        for name, part in value.items():
            expressions += (
                [part] if name.lower().endswith("expression") and isinstance(part, str) else _expressions(part)
            )
    elif isinstance(value, list):
        for part in value:
            expressions += _expressions(part)
    return expressions


_OPTIONAL = re.compile(r"\.\?|\[\?|\boptional\.|\.orValue\(|\.hasValue\(|\{\s*\?")


def uses_optionals(policy: SinglePolicy) -> bool:
    """Return whether an expression uses optional values."""
    return any(_OPTIONAL.search(expression) for expression in policy.expressions)
