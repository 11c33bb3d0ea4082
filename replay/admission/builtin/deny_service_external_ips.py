"""DenyServiceExternalIPs: denies new external addresses.

Source: `plugin/pkg/admission/serviceconfig/externalips/admission.go`.
"""

from __future__ import annotations

from replay.admission.builtin.plugin import CREATE_UPDATE, Plugin, Refusal, Review


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
