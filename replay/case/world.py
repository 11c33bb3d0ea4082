"""The cluster that the request of a case meets: the objects that the case names, and its authorizer. All of it is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from replay.case.case import AuthorizerReply
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister, ObjectLister
from replay.kube.overlay import under
from replay.kube.rbac.authorizer import RBACAuthorizer
from replay.kube.rbac.kind import RBAC_GROUP

_NOBODY_SAYS = Missing(
    "authorizer",
    "the case says nothing of the authorizer",
    "give `authorizer:` with the answers, or RBAC objects among `objects:`",
)


class Answers(Struct, frozen=True):
    """Authorizer that answers from a table. Other questions are not allowed."""

    answers: Sequence[AuthorizerReply]

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        """The first answer that fits."""
        for answer in self.answers:
            if _fits(answer, attributes):
                if answer.allowed is None:
                    return Missing("authorizer", answer.reason or "the case does not tell its answer")
                return AuthorizationDecision(answer.allowed, answer.reason, answer.error)
        return AuthorizationDecision(allowed=False)


class UnknownAuthorizer:
    """The authorizer of a case that says nothing of it: no answer is known, and an expression that needs none does without."""

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:  # noqa: ARG002
        """Not known."""
        return _NOBODY_SAYS


def _fits(answer: AuthorizerReply, attributes: AuthorizationAttributes) -> bool:
    pairs = (
        (answer.verb, attributes.verb),
        (answer.group, attributes.api_group),
        (answer.resource, attributes.resource),
        (answer.subresource, attributes.subresource),
        (answer.namespace, attributes.namespace),
        (answer.name, attributes.name),
        (answer.path, attributes.path),
        (answer.user, attributes.user.username),
        (answer.field_selector, attributes.field_selector),
        (answer.label_selector, attributes.label_selector),
    )
    return all(condition is None or condition == value for condition, value in pairs)


class CaseLister:
    """The objects of a case as a lister, with the authorizer that goes with them."""

    def __init__(self, objects: Iterable[JSON], answers: Sequence[AuthorizerReply] | None) -> None:
        """`answers` None leaves it to the RBAC objects, if there are any."""
        object_list = list(objects)
        self._objects = ObjectLister(object_list)
        has_rbac = any(str(obj.get("apiVersion", "")).startswith(f"{RBAC_GROUP}/") for obj in object_list)
        self.authorizer: Authorizer = UnknownAuthorizer()
        if answers is not None:
            self.authorizer = Answers(answers)
        elif has_rbac:
            self.authorizer = RBACAuthorizer(self._objects)

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        return self._objects.get(kind, namespace, name)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON]:
        """See `Lister.list`."""
        return self._objects.list(kind, namespace)


def authorizer_of(lister: Lister) -> Authorizer:
    """Return the authorizer of policies, for a case's lister."""
    own = under(lister)
    assert isinstance(own, CaseLister)
    return own.authorizer
