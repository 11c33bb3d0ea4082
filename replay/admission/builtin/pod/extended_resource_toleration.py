"""ExtendedResourceToleration: tolerations for device taints.

Source: `plugin/pkg/admission/extendedresourcetoleration/admission.go`.
"""

from __future__ import annotations

from replay.admission.builtin.plugin import CREATE_UPDATE, Plugin, Refusal, Review, containers_of
from replay.admission.builtin.pod.toleration import add_or_update_toleration
from replay.kube.names import qualified_name

_QUOTA_PREFIX = "requests."
_NATIVE = "kubernetes.io/"


class ExtendedResourceToleration(Plugin):
    """Adds, for each extended resource that a container requests (even 0), a toleration of the taint of that name."""

    name = "ExtendedResourceToleration"
    refuses = False
    operations = CREATE_UPDATE
    concerns = (("", ("pods",)),)

    def admit(self, review: Review) -> Refusal | None:
        """Add the tolerations in the order of the resources' names."""
        if not review.is_resource("", "pods"):
            return None
        spec = review.object["spec"]
        resources = {
            name
            for container in containers_of(spec, "containers", "initContainers")
            for name in ((container.get("resources") or {}).get("requests") or {})
            if is_extended_resource(name)
        }
        for resource in sorted(resources):
            add_or_update_toleration(spec, {"key": resource, "operator": "Exists", "effect": "NoSchedule"})
        return None


def is_extended_resource(name: str) -> bool:
    """Return whether a resource is not one of Kubernetes' own (`helper.IsExtendedResourceName`)."""
    if "/" not in name or _NATIVE in name or name.startswith(_QUOTA_PREFIX):
        return False
    return not qualified_name(f"{_QUOTA_PREFIX}{name}")
