"""Decisions shared by alike creations: equal objects except for their names and the like.

The pods of a controller differ in their names and in the name of the token volume. If no policy reads or sets either,
all of these pods get the same decision, so it is made once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from replay.admission.admitted import Admitted
from replay.admission.alike.own import OWN, OWN_PLACES, TOKEN_PLACES, content_of
from replay.admission.alike.plain_bindings import RequestBindings
from replay.admission.alike.projection import ROOTS, Projection, ProjectionKey, projection
from replay.admission.alike.results import AlikeResults
from replay.admission.decision import Decision
from replay.admission.place import read_places, root_of
from replay.identity import IdentityMemo
from replay.kube.attributes import Attributes, Operation
from replay.kube.gvk import GroupVersionKind

MOST_DECISIONS = 4096
"""How many decisions about the requests of a plan are remembered."""
MOST_PLANS = 1024
_TRIES, _WORTH = 256, 8
"""After `_TRIES` requests of a kind, one in `_WORTH` must have been alike. Making keys costs a tenth of deciding."""
_LENGTH = 16


class HookReads(NamedTuple):
    """The policies that may act on a request, for each set, and all that their expressions read of it."""

    hooks: object
    footprint: frozenset[str]


NOTHING = HookReads(None, frozenset())
"""That of a plugin which does not act on a request."""


class Made(NamedTuple):
    """Decisions, what the mutating phase of each set left, and whether they depend on the object's own values (its name and the like) or set them.

    `admitted` is None where that is not known.
    """

    decisions: list[Decision]
    admitted: Sequence[Admitted] | None
    is_of_own: bool = False


class _Plan:
    """What the policies of several plugins read of a request, and their earlier decisions."""

    def __init__(self, footprint: frozenset[str]) -> None:
        self.decisions: AlikeResults[Made] = AlikeResults(MOST_DECISIONS)
        names = {place[2] for place in read_places(footprint, OWN_PLACES)}
        self._own = tuple(name for name in OWN if name not in names)
        self._with_token = bool(read_places(footprint, TOKEN_PLACES))
        rest = frozenset(path for path in footprint if root_of(path) != "object")
        self._projection: Projection | None = projection(rest) if {root_of(path) for path in rest} <= ROOTS else None

    def key(
        self, original: Attributes, attributes: Attributes
    ) -> tuple[bytes, ProjectionKey, tuple[bytes, ...]] | None:
        """Return what a decision depends on, with the object's own texts; None if there is no such key."""
        if self._projection is None:
            return None
        projected = self._projection(RequestBindings(attributes))
        if projected is None:
            return None
        objects: list[Any] = [original.object, attributes.object]
        try:
            contents = [content_of(each, self._own, with_token=self._with_token) for each in objects]
        except TypeError:  # what orjson does not write
            return None
        digest = hashlib.blake2b(digest_size=_LENGTH)
        for each in contents:
            digest.update(b"%d " % len(each.text) + each.text)
        return digest.digest(), projected, tuple(own for each in contents for own in each.own)


class _Use(Struct):
    """How many requests about a kind were looked for, and found."""

    tries: int = 0
    hits: int = 0

    @property
    def finds_enough(self) -> bool:
        """Whether enough were found."""
        return self.tries < _TRIES or self.hits * _WORTH >= self.tries

    def count(self, *, is_hit: bool) -> None:
        """Count one."""
        self.tries += 1
        self.hits += is_hit


class AlikeDecisions:
    """The decisions of several sets about creations, remembered where nothing but these policies acts on them."""

    def __init__(self) -> None:
        """None yet."""
        self._plans: IdentityMemo[_Plan] = IdentityMemo()
        self._uses: dict[GroupVersionKind, _Use] = {}

    def decide(
        self,
        reads: Sequence[HookReads],
        original: Attributes,
        attributes: Attributes,
        decide: Callable[[], Made],
    ) -> Made:
        """Return the decisions about a creation (`is_creation`), reused from an alike one if there is one."""
        use = self._uses.setdefault(attributes.kind, _Use())
        plan = self._plan(reads)
        key = plan.key(original, attributes) if use.finds_enough else None
        if key is None:
            return decide()
        content, projected, own = key
        earlier = plan.decisions.get((content, projected))
        use.count(is_hit=earlier is not None)
        if earlier is not None:
            return earlier
        made = decide()
        if not made.is_of_own and not _holds(made.decisions, own):
            plan.decisions.remember((content, projected), made)
        return made

    def _plan(self, reads: Iterable[HookReads]) -> _Plan:
        hooks = tuple(each.hooks for each in reads)
        plan = self._plans.get(hooks)
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans = IdentityMemo()
            footprint = frozenset[str]().union(*(each.footprint for each in reads))
            plan = self._plans.put(hooks, _Plan(footprint))
        return plan


def _holds(decisions: Sequence[Decision], texts: Iterable[bytes]) -> bool:
    """Whether decisions may hold any of some texts."""
    try:
        content = msgspec.json.encode(decisions)
    except (TypeError, ValueError):  # what msgspec does not write
        return True
    return any(text in content for text in texts)


def is_creation(original: Attributes, attributes: Attributes) -> bool:
    """Return whether a request creates an object that is completely known, before and after mutation."""
    is_known = type(original.object) is dict and type(attributes.object) is dict
    return is_known and attributes.operation is Operation.CREATE and attributes.old_object is None
