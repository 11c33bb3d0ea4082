"""Recording of a decision: the objects that it looked up, and its questions to the authorizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from replay.case.case import AuthorizerReply
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.overlay import under


class RecordingLister(Struct):
    """Lister that records the objects that it returned, and the authorizer's answers.

    `missing` are lookups with an unknown answer. No case can hold them.
    """

    lister: Lister
    objects: dict[tuple[str, str, str, str], JSON] = field(default_factory=dict)
    answers: dict[AuthorizerReply, None] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        obj = self.lister.get(kind, namespace, name)
        self._note(kind, namespace, name, obj)
        return obj

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        """See `Lister.list`."""
        objects = self.lister.list(kind, namespace)
        if isinstance(objects, Missing):
            self.missing.append(objects)
            return objects
        for each in objects:
            value: JSON = each.value if isinstance(each, PartialObject) else each
            metadata = value.get("metadata") or {}
            self._note(kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or ""), each)
        return objects

    def _note(self, kind: GroupVersionKind, namespace: str, name: str, result: JSON | Missing | None) -> None:
        if isinstance(result, Missing):
            self.missing.append(result)
        elif result is not None:
            self.objects[kind.group, kind.kind, namespace, name] = result

    def replies(self) -> tuple[AuthorizerReply, ...]:
        """Return the recorded answers, each for exactly its question."""
        return tuple(self.answers)


class _Recording(Struct, frozen=True):
    """Authorizer whose answers are recorded. Its own lookups are not part of the case."""

    authorizer: Authorizer
    into: RecordingLister

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        """See `Authorizer`."""
        decision = self.authorizer.authorize(attributes)
        self.into.answers[_answer(attributes, decision)] = None
        return decision


def recording(authorizer_at: Callable[[Lister], Authorizer | Missing]) -> Callable[[Lister], Authorizer | Missing]:
    """Return the authorizer of a recording lister."""

    def at(lister: Lister) -> Authorizer | Missing:
        own = under(lister)
        assert isinstance(own, RecordingLister)
        authorizer = authorizer_at(own.lister)
        return authorizer if isinstance(authorizer, Missing) else _Recording(authorizer, own)

    return at


def _answer(attributes: AuthorizationAttributes, decision: AuthorizationDecision | Missing) -> AuthorizerReply:
    return AuthorizerReply(
        None if isinstance(decision, Missing) else decision.allowed,
        verb=attributes.verb,
        group=attributes.api_group,
        resource=attributes.resource,
        subresource=attributes.subresource,
        namespace=attributes.namespace,
        name=attributes.name,
        path=attributes.path,
        user=attributes.user.username,
        field_selector=attributes.field_selector or None,
        label_selector=attributes.label_selector or None,
        reason=decision.reason,
        error=None if isinstance(decision, Missing) else decision.error,
    )
