"""Policy engines that answer for their own webhooks with the objects of a set, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.admission.webhook.answer import WebhookBackend
from replay.errors import ManifestError
from replay.identity import IdentityMap
from replay.kube.admissionregistration import ManifestSet
from replay.kube.discovery import Discovery
from replay.kube.engine_policy import ENGINES, function_of
from replay.kube.lister import Lister

_MOST = 64


class Refused(Protocol):
    """An object that an engine refuses, with the engine's text."""

    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def message(self) -> str: ...  # noqa: D102


class WebhookEngine(Protocol):
    """A policy engine with the objects of one set."""

    def answers_for(self, webhook: str) -> bool:
        """Return whether the engine answers for the webhook of this name."""
        ...

    def looked_up(self) -> Iterator[tuple[str, str]]:
        """Yield the kinds of other objects that the engine looks up, as group and kind."""
        ...

    @property
    def refused(self) -> Sequence[Refused]:
        """The objects that the engine refuses, so that they have no effect."""
        ...

    @property
    def refused_if_new(self) -> Sequence[Refused]:
        """The objects that the engine would refuse on a write.

        Those that a cluster already has were accepted, and have effect.
        """
        ...

    @property
    def later(self) -> Sequence[str]:
        """Sentences about policies that decide no request, but act after requests or at times."""
        ...

    def backend(self, lister: Lister, discovery: Discovery, patchers: ObjectPatchers) -> WebhookBackend:
        """Return a backend for requests in a cluster with these objects and kinds."""
        ...


_known: IdentityMap[object, tuple[WebhookEngine, ...]] = IdentityMap()


def check_engines(manifests: ManifestSet) -> tuple[str, ...]:
    """Return what a set's engines leave undecided: cluster objects that they refuse, and policies that act later.

    Raise ManifestError for a refused object in a file of the set.
    """
    engines = engines_of(manifests)
    refused = [each for engine in engines for each in engine.refused]
    for each in (*refused, *(each for engine in engines for each in engine.refused_if_new)):
        origin = manifests.origins.get((each.kind, each.name))
        if origin is not None:
            raise ManifestError(f"{each.kind}/{each.name}: {each.message}", path=origin.file, line=origin.line)
    undecided = [f"{each.kind}/{each.name} of the snapshot decides nothing: {each.message}" for each in refused]
    return (*undecided, *(text for engine in engines for text in engine.later))


def engines_of(manifests: ManifestSet) -> tuple[WebhookEngine, ...]:
    """Return the engines of a set, created once for its objects."""
    global _known  # noqa: PLW0603 - what was compiled is kept for the process
    if not manifests.engine_objects:
        return ()
    key = manifests.engine_objects
    if key not in _known:
        if len(_known) >= _MOST:
            _known = IdentityMap()
        made = (function_of(engine.backend)(manifests) for engine in ENGINES)
        _known[key] = tuple(engine for engine in made if engine is not None)
    return _known[key]
