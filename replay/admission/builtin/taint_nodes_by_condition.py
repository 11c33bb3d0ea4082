"""TaintNodesByCondition (`plugin/pkg/admission/nodetaint/admission.go`): taints a new node as not ready."""

from __future__ import annotations

from replay.admission.builtin.plugin import CREATE, Plugin, Refusal, Review
from replay.kube.plugin import with_not_ready_taint


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
