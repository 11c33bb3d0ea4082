"""Plugins with one rule each: AlwaysAdmit, AlwaysDeny, PodGroupProtection with its gate off, and two about one field.

DenyServiceExternalIPs denies new external addresses, TaintNodesByCondition taints a new node as not ready.

Sources: `plugin/pkg/admission/{admit,deny}/admission.go`, `plugin/pkg/admission/serviceconfig/externalips/admission.go`,
`plugin/pkg/admission/nodetaint/admission.go`.
"""

from __future__ import annotations

from replay.admission.builtin.plugin import CREATE, CREATE_UPDATE, EVERY_OPERATION, Plugin, Refusal, Review
from replay.kube.plugin import with_not_ready_taint


class AlwaysAdmit(Plugin):
    """Allows every request."""

    name = "AlwaysAdmit"
    operations = EVERY_OPERATION
    concerns = ()

    def admit(self, review: Review) -> Refusal | None:
        """Allow the request."""
        del review
        return None

    def validate(self, review: Review) -> Refusal | None:
        """Allow the request."""
        return self.admit(review)


class AlwaysDeny(Plugin):
    """Denies every request."""

    name = "AlwaysDeny"
    operations = EVERY_OPERATION

    def admit(self, review: Review) -> Refusal | None:
        """Deny the request."""
        return review.forbidden("admission control is denying all modifications")

    def validate(self, review: Review) -> Refusal | None:
        """Deny the request."""
        return self.admit(review)


class PodGroupProtection(Plugin):
    """Adds a finalizer to pod groups. Its feature gate GenericWorkload is off in 1.37."""

    name = "PodGroupProtection"
    operations = CREATE
    concerns = ()

    def admit(self, review: Review) -> Refusal | None:
        """Allow the request: the gate is off."""
        del review
        return None


class DenyServiceExternalIPs(Plugin):
    """Allows the addresses of the old object, in any order. Addresses are compared as texts."""

    name = "DenyServiceExternalIPs"
    operations = CREATE_UPDATE
    concerns = (("", ("services",)),)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse addresses that the old object does not have."""
        if not review.is_resource("", "services"):
            return None
        old = (review.old_object or {}).get("spec") or {}
        new = review.object.get("spec") or {}
        if set(new.get("externalIPs") or ()) <= set(old.get("externalIPs") or ()):
            return None
        return review.forbidden("Use of external IPs is denied by admission control")


class TaintNodesByCondition(Plugin):
    """Adds the taint, unless the node has one with the same key and effect."""

    name = "TaintNodesByCondition"
    refuses = False
    operations = CREATE
    concerns = (("", ("nodes",)),)

    def admit(self, review: Review) -> Refusal | None:
        """Add the taint."""
        if review.is_resource("", "nodes"):
            spec = review.object.setdefault("spec", {})
            spec.update(with_not_ready_taint(spec))
        return None
