"""TaintNodesByCondition (`plugin/pkg/admission/nodetaint/admission.go`): a new node is not ready."""

from __future__ import annotations

from typing import Final

from replay.admission.builtin.plugin import CREATE, Plugin, Refusal, Review

_TAINT: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNodesByCondition(Plugin):
    """The taint is added unless there is one of its key and effect."""

    name = "TaintNodesByCondition"
    operations = CREATE
    concerns = (("", ("nodes",)),)
    is_on_by_default = True

    def admit(self, review: Review) -> Refusal | None:
        """Add the taint."""
        if not review.is_resource("", "nodes"):
            return None
        spec = review.object.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any((each.get("key"), each.get("effect")) == tuple(_TAINT.values()) for each in taints):
            spec["taints"] = [*taints, dict(_TAINT)]
        return None
