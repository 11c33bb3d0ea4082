"""AlwaysAdmit and AlwaysDeny (`plugin/pkg/admission/{admit,deny}/admission.go`), and PodGroupProtection while it is off."""

from __future__ import annotations

from replay.admission.builtin.plugin import CREATE, EVERY_OPERATION, Plugin, Refusal, Review


class AlwaysAdmit(Plugin):
    """Everything passes."""

    name = "AlwaysAdmit"
    operations = EVERY_OPERATION
    concerns = ()

    def admit(self, review: Review) -> Refusal | None:
        """Nothing."""
        del review
        return None

    def validate(self, review: Review) -> Refusal | None:
        """Nothing."""
        return self.admit(review)


class AlwaysDeny(Plugin):
    """Nothing passes."""

    name = "AlwaysDeny"
    operations = EVERY_OPERATION

    def admit(self, review: Review) -> Refusal | None:
        """Refuse."""
        return review.forbidden("admission control is denying all modifications")

    def validate(self, review: Review) -> Refusal | None:
        """Refuse."""
        return self.admit(review)


class PodGroupProtection(Plugin):
    """A finalizer for pod groups, behind the feature gate GenericWorkload, which is off in 1.37."""

    name = "PodGroupProtection"
    operations = CREATE
    concerns = ()

    def admit(self, review: Review) -> Refusal | None:
        """Nothing, as long as the gate is off."""
        del review
        return None
