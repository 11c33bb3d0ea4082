"""Which writes create what is not there, beside a POST; server-side applies are among them."""

from __future__ import annotations

from replay.audit.event import RequestRecord
from replay.reconstruct.patch.body import PatchForm, form_of
from replay.reconstruct.record.exchange import Exchange

CREATED_BY_UPDATE = frozenset(
    {
        ("", "services"),
        ("", "endpoints"),
        ("", "events"),
        ("events.k8s.io", "events"),
        ("", "limitranges"),
        ("coordination.k8s.io", "leases"),
        ("coordination.k8s.io", "leasecandidates"),
        ("node.k8s.io", "runtimeclasses"),
        *(
            ("rbac.authorization.k8s.io", name)
            for name in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
        ),
    }
)
"""What a PUT may create (`AllowCreateOnUpdate` of the strategies)."""


def may_apply(record: RequestRecord) -> bool:
    """Whether a request may be a server-side apply, as its URI tells: patches of other forms hardly ever name their manager."""
    return record.verb == "patch" and "fieldManager=" in record.request_uri


def is_apply(exchange: Exchange) -> bool:
    """Whether a request is a server-side apply."""
    return exchange.record.verb == "patch" and form_of(exchange) is PatchForm.APPLY


def creates(exchange: Exchange) -> bool:
    """Whether an update or apply creates what is not there."""
    record = exchange.record
    if record.subresource:
        return False
    if record.verb == "patch":
        return is_apply(exchange)
    return (record.api_group, record.resource) in CREATED_BY_UPDATE
