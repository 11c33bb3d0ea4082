"""Tests of gator: expected violations of an object (`gatekeeper/pkg/gator/verify`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replay.gatekeeper.cluster import inventory_of_all, typed_namespace
from replay.gatekeeper.constraint import GATOR
from replay.gatekeeper.expansion import ExpansionError
from replay.gatekeeper.match import GENERATED, ORIGINAL
from replay.gatekeeper.policy_set import GatekeeperPolicies, Refusal
from replay.gatekeeper.rego.builtins.operand import BuiltinError
from replay.gatekeeper.rego.builtins.pattern import regexp
from replay.gatekeeper.review import Review, ReviewError, Violation, review, reviewed_object, reviewed_request
from replay.json import JSON

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
