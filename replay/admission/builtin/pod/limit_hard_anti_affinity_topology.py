"""LimitPodHardAntiAffinityTopology: required anti-affinity only by host.

Source: `plugin/pkg/admission/antiaffinity/admission.go`.
"""

from __future__ import annotations

from replay.admission.builtin.plugin import CREATE_UPDATE, Plugin, Refusal, Review

_HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class LimitPodHardAntiAffinityTopology(Plugin):
    """Names only the first term with another topology key, and the pod by its own name, which may be empty."""

    name = "LimitPodHardAntiAffinityTopology"
    operations = CREATE_UPDATE
    concerns = (("", ("pods",)),)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse a required term with a topology key other than the host."""
        if not review.is_resource("", "pods"):
            return None
        affinity = review.object["spec"].get("affinity") or {}
        for term in (affinity.get("podAntiAffinity") or {}).get(_REQUIRED) or ():
            key = term.get("topologyKey") or ""
            if key != _HOSTNAME:
                message = (
                    f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} "
                    f"but only key {_HOSTNAME} is allowed"
                )
                return review.forbidden(message, review.own_name)
        return None
