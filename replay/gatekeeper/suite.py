"""Tests of gator: expected violations of an object (`gatekeeper/pkg/gator/verify`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from replay.errors import ReplayError
from replay.gatekeeper.constraint import GATOR, GENERATED, GROUP, ORIGINAL
from replay.gatekeeper.engine import GatekeeperEngine, inventory_of_all, typed_namespace
from replay.gatekeeper.expansion import ExpansionError
from replay.gatekeeper.mutation.mutator import GROUP as MUTATIONS
from replay.gatekeeper.policy_set import TEMPLATES, GatekeeperPolicies, Refusal
from replay.gatekeeper.rego.builtins.operand import BuiltinError
from replay.gatekeeper.rego.builtins.pattern import regexp
from replay.gatekeeper.review import Review, ReviewError, Violation, review, reviewed_object, reviewed_request
from replay.gatekeeper.template import CEL, REGO, engines_of
from replay.json import JSON
from replay.kube.engine_policy import group_of
from replay.manifests.engine_object import TwoSources

# Templates with both Rego and CEL, split into two sets with one source each.

_TEMPLATE = "ConstraintTemplate"


def two_sources(objects: Iterable[JSON], path: str = "") -> TwoSources:
    """Split a set. Raises ReplayError if no template has both sources, or if an object is refused.

    Every constraint denies, whatever its enforcement action. A template without a constraint gets one that matches
    everything. Mutators are skipped.
    """
    own = list(objects)
    both = {str(each["metadata"].get("name")): each for each in own if _is_template(each) and len(engines_of(each)) > 1}
    if not both:
        raise ReplayError("no ConstraintTemplate has both Rego and CEL (K8sNativeValidation)", path=path)
    kinds = {str(each["spec"]["crd"]["spec"]["names"]["kind"]): each for each in both.values()}
    constraints = [_denying(each) for each in own if group_of(each) == GROUP and each.get("kind") in kinds]
    # A template without a constraint is compared with a constraint that matches everything.
    bare = sorted(kinds.keys() - {each["kind"] for each in constraints})
    constraints += (
        {"apiVersion": f"{GROUP}/v1beta1", "kind": kind, "metadata": {"name": kind.lower()}} for kind in bare
    )
    others = [each for each in own if not _is_template(each) and group_of(each) not in (GROUP, MUTATIONS)]
    sides = [
        (*others, *(_with_one_engine(each, engine) for each in both.values()), *constraints) for engine in (REGO, CEL)
    ]
    for side in sides:
        for refusal in GatekeeperPolicies(side, prune=True).refused:
            raise ReplayError(str(refusal), path=path)

    def decider(own: Iterable[JSON], cluster: Iterable[JSON]) -> Callable[[Mapping[str, JSON]], dict[str, Any]]:
        return partial(GatekeeperEngine(own, cluster).results, None)

    return TwoSources(sides[0], sides[1], tuple(sorted(both)), decider)


def _is_template(value: JSON) -> bool:
    return group_of(value) == TEMPLATES and value.get("kind") == _TEMPLATE


def _with_one_engine(template: JSON, engine: str) -> JSON:
    """Return a template with the code of one engine only."""
    spec = template["spec"]
    target = dict(spec["targets"][0])
    target["code"] = [each for each in target.get("code") or () if each.get("engine") == engine]
    if engine != REGO:
        target.pop("rego", None)
        target.pop("libs", None)
    return {**template, "spec": {**spec, "targets": [target]}}


def _denying(constraint: JSON) -> JSON:
    spec = constraint.get("spec") or {}
    kept = {
        name: value for name, value in spec.items() if name not in ("enforcementAction", "scopedEnforcementActions")
    }
    return {**constraint, "spec": kept}


_SCHEMA = "schema validation failed"


class SuiteTest:
    """Template with a constraint and expansion templates, evaluated by one of the template's engines."""

    def __init__(self, objects: Sequence[JSON], engine: str) -> None:
        """Load these objects."""
        self._policies = GatekeeperPolicies(objects, engine=engine)

    @property
    def refused(self) -> Sequence[Refusal]:
        """Objects that Gatekeeper refuses."""
        return self._policies.refused

    def invalid_differences(self) -> list[str]:
        """Return the differences if the constraint should be refused by its schema."""
        if any(_SCHEMA in each.message for each in self.refused):
            return []
        got = str(self.refused[0]) if self.refused else "<nil>"
        return [f'expected constraint to be invalid: got error {got} but want "{_SCHEMA}"']

    def violations(self, value: JSON, inventory: Sequence[JSON]) -> tuple[list[Violation], list[str]]:
        """Return the violations of an object or AdmissionReview, and what is unknown.

        Raises ReviewError and ExpansionError.
        """
        known = inventory_of_all(inventory)
        namespaces = {
            str((each.get("metadata") or {}).get("name")): typed_namespace(each)
            for each in inventory
            if each.get("kind") == "Namespace" and each.get("apiVersion") == "v1"
        }
        if value.get("kind") == "AdmissionReview":
            request = value.get("request")
            if not isinstance(request, dict):
                raise ReviewError("request did not actually pass in an AdmissionRequest")
            if request.get("object") is None and request.get("oldObject") is None:
                raise ReviewError('AdmissionRequest does not contain an "object" or "oldObject" to review')
            if request.get("operation") == "DELETE" and request.get("oldObject") is None:
                raise ReviewError("oldObject cannot be nil for DELETE operations")
            return self._reviewed(reviewed_request(request, None), namespaces, known)
        found, unknown = self._reviewed(reviewed_object(value, None, "", ORIGINAL), namespaces, known)
        for each in self._policies.expansion.expand(value, None, lambda made: made):
            more, more_unknown = self._reviewed(reviewed_object(each.object, None, "", GENERATED), namespaces, known)
            for violation in more:
                violation.message = f"[Implied by {each.template}] {violation.message}"
            found += more
            unknown += more_unknown
        return found, unknown

    def _reviewed(
        self, under: Review, namespaces: Mapping[str, JSON], inventory: JSON
    ) -> tuple[list[Violation], list[str]]:
        """Review an object. Only the match sees the namespace of the inventory, not the policies."""
        under.namespace = namespaces.get(str(under.request.get("namespace") or ""))
        found = review(self._policies, under, lambda: inventory, GATOR)
        return found.violations, [reason for _, reason in found.undetermined]


def assertion_differences(assertion: Mapping[str, Any], violations: Sequence[Violation]) -> list[str]:
    """Return how violations differ from an assertion: `yes`, `no`, or a number of those with a matching message."""
    pattern = assertion.get("message")
    messages = [each.message for each in violations]
    if pattern is None:
        matching = len(messages)
    else:
        try:
            fits = regexp(str(pattern))
        except BuiltinError:
            return [f"message is not a valid regular expression: {pattern}"]
        matching = sum(fits.search(message) is not None for message in messages)
    wanted = assertion.get("violations", "yes")
    wanted = (
        {True: "yes", False: "no", "true": "yes", "false": "no", None: "yes"}.get(wanted, wanted)
        if not _is_number(wanted)
        else wanted
    )
    containing = "" if pattern is None else f' containing "{pattern}"'
    if _is_number(wanted):
        is_right, wants = matching == wanted, f"exactly {wanted}"
    elif wanted in ("yes", "no"):
        is_right, wants = (matching > 0) is (wanted == "yes"), "at least 1" if wanted == "yes" else "none"
    else:
        return ['assertion.violation, if set, must be a nonnegative integer, "yes", or "no"']
    if is_right:
        return []
    return [
        f"unexpected number of violations: got {matching} violations{containing} but want {wants}: got messages {messages}"
    ]


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


__all__ = ["ExpansionError", "SuiteTest", "assertion_differences"]
