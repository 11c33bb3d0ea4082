"""OwnerReferencesPermissionEnforcement: permissions for changing owner references.

Source: `plugin/pkg/admission/gc/gc_admission.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.admission.builtin.plugin import CREATE_UPDATE, RBAC, Plugin, Refusal, Review, known
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.gvk import GroupResource, GroupVersionKind

_ANYTHING = GroupResource("*", "*")
_NOT_DELETABLE = "cannot set an ownerRef on a resource you can't delete"
_NOT_FINALIZABLE = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"


class OwnerReferencesPermissionEnforcement(Plugin):
    """Requires permission to delete an object whose owners change, and to set finalizers on a blocked owner."""

    name = "OwnerReferencesPermissionEnforcement"
    operations = CREATE_UPDATE
    looks_up = RBAC

    def validate(self, review: Review) -> Refusal | None:
        """Refuse without permission. The message ends with the authorizer's reason and `<nil>` for no error."""
        attributes = review.attributes
        if review.is_resource("", "pods", "status"):
            return None
        new, old = _owners(review.object), _owners(review.old_object)
        if new == old:
            return None
        # A user who creates an object could as well not create it, so no permission to delete it is needed.
        if attributes.operation is not Operation.CREATE:
            target = attributes.subresource, attributes.name
            resource = attributes.resource.group_resource
            decision = _is_allowed(review, "delete", resource, target, attributes.namespace)
            if not decision.allowed:
                return review.forbidden(f"{_NOT_DELETABLE}: {decision.reason}, {decision.error or '<nil>'}")
        blocking = list(_newly_blocking(new, old))
        # Permission for the finalizers of all resources needs no discovery of the owners, as in the server.
        if not blocking or _is_allowed(review, "update", _ANYTHING, ("finalizers", "*"), "").allowed:
            return None
        return next((refusal for owner in blocking if (refusal := self._refusal(review, owner)) is not None), None)

    def _refusal(self, review: Review, owner: JSON) -> Refusal | None:
        """Return a refusal if the user may not block an owner."""
        api_version, kind = str(owner.get("apiVersion") or ""), str(owner.get("kind") or "")
        unknown = f"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} Kind {kind}"
        if api_version.count("/") > 1:
            return review.forbidden(f"{unknown}: unexpected GroupVersion string: {api_version}")
        group, _, version = api_version.rpartition("/")
        served = review.cluster.discovery.of_kind(GroupVersionKind(group, version, kind))
        if served is None:
            return review.forbidden(f'{unknown}: no matches for kind "{kind}" in version "{api_version}"')
        namespace = review.attributes.namespace if served.namespaced else ""
        target = "finalizers", owner.get("name") or ""
        decision = _is_allowed(review, "update", served.resource.group_resource, target, namespace)
        if decision.allowed:
            return None
        return review.forbidden(f"{_NOT_FINALIZABLE}: {decision.reason}, {decision.error or '<nil>'}")


def _is_allowed(
    review: Review, verb: str, resource: GroupResource, target: tuple[str, str], namespace: str
) -> AuthorizationDecision:
    """Return the decision about a verb on a target (subresource, name). Raise UnknownInputError."""
    question = AuthorizationAttributes(
        review.attributes.user_info,
        verb,
        api_group=resource.group,
        resource=resource.resource,
        subresource=target[0],
        namespace=namespace,
        name=target[1],
    )
    decision: AuthorizationDecision = known(review.cluster.authorizer.authorize(question))
    return decision


def _owners(obj: JSON | None) -> list[Any]:
    """Return the references as Go values, in which false differs from absent, but empty does not."""
    references = ((obj or {}).get("metadata") or {}).get("ownerReferences") or ()
    fields = ("apiVersion", "kind", "name", "uid")
    return [
        {**{field: each.get(field) or "" for field in fields}, **{k: each.get(k) for k in ("controller", _BLOCK)}}
        for each in references
    ]


_BLOCK = "blockOwnerDeletion"


def _newly_blocking(new: list[Any], old: list[Any]) -> Iterator[JSON]:
    """Yield the references that block the owner's deletion and did not before."""
    old_references = {each["uid"]: each for each in old}
    for reference in new:
        if reference[_BLOCK] and not (old_references.get(reference["uid"]) or {}).get(_BLOCK):
            yield reference
