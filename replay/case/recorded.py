"""From a request of a log to a case: what its decision looked up, and the smallest form that is decided alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field

from replay.case.case import AuthorizerReply
from replay.json import JSON, FieldPath
from replay.kube.attributes import Missing, PartialObject
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.overlay import under
from replay.reconstruct.record.known import get


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


def recording_authorizer(
    authorizer_at: Callable[[Lister], Authorizer | Missing],
) -> Callable[[Lister], Authorizer | Missing]:
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


_WHOLE = ("validatedObject", "options", "missing", "authorizer", "objects", "oldObject", "object", "user", "namespace")
"""Fields of a case that may be removed, in order."""
_KEPT = frozenset(
    {
        ("object",),
        ("oldObject",),
        ("object", "metadata"),
        ("oldObject", "metadata"),
        ("validatedObject", "metadata"),
        ("object", "apiVersion"),
        ("object", "kind"),
        ("oldObject", "apiVersion"),
        ("oldObject", "kind"),
        ("validatedObject", "apiVersion"),
        ("validatedObject", "kind"),
        ("object", "metadata", "name"),
        ("oldObject", "metadata", "name"),
        ("validatedObject", "metadata", "name"),
    }
)
"""Fields that identify an object. Without them a case cannot be read."""
_OBJECT_FIELDS = ("apiVersion", "kind", "metadata")
_ROUNDS = 4


def minimised(case: dict[str, JSON], is_held: Callable[[dict[str, JSON]], bool]) -> dict[str, JSON]:
    """Return the case without parts that do not matter. `is_held` returns whether a reduced case has the same decision."""
    for _ in range(_ROUNDS):
        smaller = _pass(case, is_held)
        if smaller == case:
            break
        case = smaller
    return case


def _pass(case: dict[str, JSON], is_held: Callable[[dict[str, JSON]], bool]) -> dict[str, JSON]:
    """Try once to remove every part."""
    for name in _WHOLE:
        if name not in case:
            continue
        pending: list[FieldPath] = [(name,)]
        while pending:
            path = pending.pop()
            without = _without(case, path)
            if not _is_kept(path) and is_held(without):
                case = without
            else:
                pending += _parts(case, path)
    return case


def _is_kept(path: FieldPath) -> bool:
    return path in _KEPT or (path[0] == "objects" and len(path) == 3 and path[2] in _OBJECT_FIELDS)


def _parts(case: dict[str, JSON], path: FieldPath) -> Iterator[FieldPath]:
    """Yield the parts at a path in stack order: the last items of a list first."""
    value = get(case, path)
    if isinstance(value, dict):
        yield from ((*path, name) for name in value)
    elif isinstance(value, list):
        yield from ((*path, index) for index in range(len(value)))


def _without(value: JSON, path: FieldPath) -> JSON:
    """Return a copy without the value at a path."""
    head, rest = path[0], path[1:]
    if isinstance(value, list) and isinstance(head, int):
        return [*value[:head], *([_without(value[head], rest)] if rest else []), *value[head + 1 :]]
    return {
        name: _without(part, rest) if name == head else part for name, part in value.items() if name != head or rest
    }
