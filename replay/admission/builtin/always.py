"""AlwaysAdmit, AlwaysDeny, and PodGroupProtection with its gate off.

Source: `plugin/pkg/admission/{admit,deny}/admission.go`.
"""

from __future__ import annotations

from replay.admission.builtin.plugin import CREATE, EVERY_OPERATION, Plugin, Refusal, Review


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
