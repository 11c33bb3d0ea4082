"""Answers of Gatekeeper's webhooks, from the objects of a set and the cluster's objects at the time of a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.admission.webhook.answer import WebhookAnswer, WebhookReview
from replay.admission.webhook.webhooks import WebhookInvocation
from replay.gatekeeper.constraint import NotKnownError
from replay.gatekeeper.engine import inventory_of_all, typed_namespace
from replay.gatekeeper.naming import MUTATION, VALIDATION
from replay.gatekeeper.policy_set import GatekeeperPolicies, Refusal
from replay.gatekeeper.rego.value import UnknownValue, Value
from replay.gatekeeper.webhook import GatekeeperAnswer, mutate, validate
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet, Phase
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupVersionKind
from replay.kube.json_patch import diff
from replay.kube.lister import Lister

_NAMESPACE = GroupVersionKind("", "v1", "Namespace")


def gatekeeper_of(manifests: ManifestSet) -> Gatekeeper | None:
    """Return Gatekeeper with the objects of a set, or None if the set has none."""
    policies = GatekeeperPolicies(manifests.engine_objects, prune=True)
    return Gatekeeper(policies) if policies.mutates or policies.validates or policies.refused else None


class Gatekeeper:
    """Gatekeeper with the objects of one set."""

    def __init__(self, policies: GatekeeperPolicies) -> None:
        """Keep the compiled policies."""
        self._policies = policies

    @property
    def refused(self) -> Sequence[Refusal]:
        """Objects that Gatekeeper refuses. They decide nothing."""
        return self._policies.refused

    @property
    def refused_if_new(self) -> Sequence[Refusal]:
        """Always empty: every refusal is in `refused`."""
        return ()

    @property
    def later(self) -> Sequence[str]:
        """Nothing: all that Gatekeeper's objects do is decided."""
        return ()

    def looked_up(self) -> Iterator[tuple[str, str]]:
        """Yield the group and kind of Namespaces, and of synchronized objects if a template reads the inventory."""
        yield "", "Namespace"
        if self._policies.uses_inventory:
            yield from ((group, kind) for group, _, kind in sorted(self._policies.synced))

    def answers_for(self, webhook: str) -> bool:
        """Return whether a webhook of this name belongs to Gatekeeper."""
        return webhook in (VALIDATION, MUTATION)

    def backend(self, lister: Lister, _discovery: Discovery, _patchers: ObjectPatchers) -> GatekeeperBackend:
        """Return the backend for one request, with the objects of `lister`. Gatekeeper needs no kinds and schemas."""
        return GatekeeperBackend(self._policies, lister)


class GatekeeperBackend:
    """Answers of Gatekeeper's webhooks to one request."""

    def __init__(self, policies: GatekeeperPolicies, lister: Lister) -> None:
        """Prepare the lookups of one request."""
        self._policies = policies
        self._lister = lister

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        """Return Gatekeeper's answer to each review, or `Missing` if it is unknown."""
        return [self._answered(each.phase, each.request) for each in reviews]

    def recall(
        self, invocation: WebhookInvocation, phase: Phase, attributes: Attributes
    ) -> WebhookAnswer | Missing | None:
        """Return the answer about a partly known object, or None if the answer needs the whole object."""
        if isinstance(attributes.object, Missing) or isinstance(attributes.old_object, Missing):
            return None
        request: dict[str, JSON] = {
            "uid": "",
            "kind": invocation.kind._asdict(),
            "resource": invocation.resource._asdict(),
            "subResource": attributes.subresource,
            "name": attributes.name,
            "namespace": attributes.namespace,
            "operation": str(attributes.operation),
            "userInfo": attributes.user_info.value,
            "object": _value(attributes.object),
            "oldObject": _value(attributes.old_object),
            "options": attributes.options,
        }
        answer = self._answered(phase, request, attributes)
        # A patch would also have to apply to the unknown parts.
        return None if isinstance(answer, WebhookAnswer) and answer.patch else answer

    def _answered(
        self, phase: Phase, request: Mapping[str, Any], attributes: Attributes | None = None
    ) -> WebhookAnswer | Missing:
        if phase == "mutating":
            answer = mutate(self._policies, request, self._namespace)
        else:
            answer = validate(self._policies, request, self._namespace, lambda: self._inventory, attributes=attributes)
        # A known denial decides, whatever the constraints with unknown results say.
        if answer.undetermined and not answer.denials:
            return WebhookAnswer(unknown=tuple((key, Missing("webhook", why)) for key, why in answer.undetermined))
        if answer.code == 500:
            return WebhookAnswer(status={"code": 500, "message": answer.message})
        warnings = tuple(sorted(answer.warnings))
        if not answer.allowed:
            message = "\n".join(sorted(answer.denials))
            status = {"reason": "Forbidden", "code": 403, "message": message}
            return WebhookAnswer(status=status, warnings=warnings, policies=_denying(answer), places=_places(answer))
        patches = tuple((key, tuple(patch)) for key, patch in answer.patches.items())
        return WebhookAnswer(allowed=True, patch=_patch(answer, request), warnings=warnings, mutated=patches)

    def _namespace(self, name: str) -> JSON:
        """Return a namespace of the cluster. Raises NotKnownError."""
        found = self._lister.get(_NAMESPACE, "", name)
        if isinstance(found, Missing):
            raise NotKnownError(found.reason)
        if isinstance(found, PartialObject):
            return typed_namespace(found.value)
        return None if found is None else typed_namespace(found)

    @cached_property
    def _inventory(self) -> Value:
        """Synchronized objects at the time of the request. It is unknown if the objects of one kind are unknown."""
        found: list[JSON] = []
        for group, version, kind in sorted(self._policies.synced):
            listed = self._lister.list(GroupVersionKind(group, version, kind), None)
            if isinstance(listed, Missing):
                return UnknownValue(f"the synchronized objects of {kind} are not known: {listed.reason}")
            found += [
                {**value, "apiVersion": f"{group}/{version}" if group else version, "kind": kind}
                for value in map(_value, listed)
                if not self._policies.excludes_synced(group, kind, value)
            ]
        return inventory_of_all(found)


def _value(value: Any) -> Any:
    return value.value if isinstance(value, PartialObject) else value


def _denying(answer: GatekeeperAnswer) -> tuple[str, ...]:
    """Return the constraints that deny, ordered by name. The lines of the message begin with these names."""
    denying = {
        violation.constraint.key: violation.constraint.name
        for violation in answer.violations
        if "deny" in violation.actions
    }
    return tuple(sorted(denying, key=lambda key: (denying[key], key)))


def _places(answer: GatekeeperAnswer) -> dict[str, tuple[str, ...]]:
    """Return the places in their templates where constraints deny, by constraint."""
    found: dict[str, dict[str, None]] = {}
    for violation in answer.violations:
        if "deny" in violation.actions and violation.place:
            found.setdefault(violation.constraint.key, {})[violation.place] = None
    return {key: tuple(places) for key, places in found.items()}


def _patch(answer: GatekeeperAnswer, request: Mapping[str, JSON]) -> tuple[JSON, ...]:
    return () if answer.object is None else diff(request.get("object"), answer.object)
