"""A request that a webhook recorded. Its AdmissionReview has everything, so nothing is rebuilt."""

from __future__ import annotations

from msgspec.structs import replace

from replay.json import JSON
from replay.kube.admission_request import as_sent_to_webhook, attributes_of
from replay.kube.attributes import Attributes, Basis, Missing
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known, attribute, basis_of
from replay.reconstruct.request import Reached, ReplayRequest


def reviewed_request(exchange: Exchange, namespace_object: Known | Missing) -> ReplayRequest:
    """Return the request that a webhook got. Raise KeyError, TypeError or ValueError if the review is malformed.

    A review of only the validating phase shows the object after mutation. A candidate's mutating policies begin with
    that object.
    """
    review = exchange.response.json
    namespace = attribute(namespace_object, "namespaceObject")

    def told(request: JSON) -> Attributes:
        return replace(attributes_of(as_sent_to_webhook(request)), namespace_object=namespace)

    attributes = told(review["request"])
    original = told(review["mutating"]) if review.get("mutating") else attributes
    basis = {
        "object": None if attributes.object is None else Basis.RECORDED,
        "oldObject": None if attributes.old_object is None else Basis.RECORDED,
        "namespaceObject": basis_of(namespace_object),
    }
    if review.get("isValidated", True):
        return ReplayRequest(exchange.record, attributes, original, basis)
    # Policies run before the webhooks of the same phase, so one of them may have denied the request.
    reason = "the recording has no call of a validating webhook"
    return ReplayRequest(exchange.record, attributes, original, basis, Reached.UNKNOWN, reason)
