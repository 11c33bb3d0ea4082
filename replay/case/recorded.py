"""A decision watched: which objects of the cluster it looked up, and what it asked the authorizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from replay.case.case import AuthorizerReply
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister


@dataclass
class RecordingLister:
    """A lister that remembers what it gave out, and the answers of the authorizer at its instant.

    `missing` are the lookups whose answer is not known: no case can hold them.
    """

    lister: Lister
    found: dict[tuple[str, str, str, str], JSON] = field(default_factory=dict)
    answers: dict[AuthorizerReply, None] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        found = self.lister.get(kind, namespace, name)
        self._note(kind, namespace, name, found)
        return found

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        """See `Lister.list`."""
        found = self.lister.list(kind, namespace)
        if isinstance(found, Missing):
            self.missing.append(found)
            return found
        for each in found:
            value: JSON = each.value if isinstance(each, PartialObject) else each
            metadata = value.get("metadata") or {}
            self._note(kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or ""), each)
        return found

    def _note(self, kind: GroupVersionKind, namespace: str, name: str, found: JSON | Missing | None) -> None:
        if isinstance(found, Missing):
            self.missing.append(found)
        elif found is not None:
            self.found[kind.group, kind.kind, namespace, name] = found

    def told(self) -> tuple[AuthorizerReply, ...]:
        """The answers as a case gives them: to exactly the questions that were asked."""
        return tuple(self.answers)


@dataclass(frozen=True)
class _Recording:
    """An authorizer whose answers a lister remembers; what it looks up itself is not part of the case."""

    authorizer: Authorizer
    into: RecordingLister

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        """See `Authorizer`."""
        given = self.authorizer.authorize(attributes)
        self.into.answers[_answer(attributes, given)] = None
        return given


def recording(authorizer_at: Callable[[Lister], Authorizer | Missing]) -> Callable[[Lister], Authorizer | Missing]:
    """Who answers for a recording lister, watched."""

    def at(lister: Lister) -> Authorizer | Missing:
        assert isinstance(lister, RecordingLister)
        found = authorizer_at(lister.lister)
        return found if isinstance(found, Missing) else _Recording(found, lister)

    return at


def _answer(asked: AuthorizationAttributes, given: AuthorizationDecision | Missing) -> AuthorizerReply:
    return AuthorizerReply(
        None if isinstance(given, Missing) else given.allowed,
        verb=asked.verb,
        group=asked.api_group,
        resource=asked.resource,
        subresource=asked.subresource,
        namespace=asked.namespace,
        name=asked.name,
        path=asked.path,
        user=asked.user.username,
        field_selector=asked.field_selector or None,
        label_selector=asked.label_selector or None,
        reason=given.reason,
        error=None if isinstance(given, Missing) else given.error,
    )
