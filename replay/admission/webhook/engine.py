"""Policy engines that answer for their own webhooks with the objects of a set, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final, Protocol

from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.admission.webhook.answer import WebhookBackend
from replay.errors import ManifestError
from replay.identity import IdentityMap
from replay.kube.admissionregistration import ManifestSet
from replay.kube.discovery import Discovery
from replay.kube.lister import Lister

_ENGINES: Final = ("replay.gatekeeper.backend:gatekeeper_of", "replay.kyverno.backend:kyverno_of")
"""The function of each engine that makes it of a set; an engine knows of admission, and is imported where a set has objects of it."""
_MOST = 64


class Refused(Protocol):
    """An object that an engine refuses, and its text."""

    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def message(self) -> str: ...  # noqa: D102


class WebhookEngine(Protocol):
    """A policy engine with the objects of one set."""

    def answers_for(self, webhook: str) -> bool:
        """Whether it answers for the webhook of a name."""
        ...

    def looked_up(self) -> Iterator[tuple[str, str]]:
        """The kinds of other objects that it reads, as group and kind."""
        ...

    @property
    def refused(self) -> Sequence[Refused]:
        """The objects that it refuses, which decide nothing."""
        ...

    @property
    def refused_if_new(self) -> Sequence[Refused]:
        """Other objects that it refuses when they are written; one that a cluster has was taken at its time, and decides."""
        ...

    def backend(self, lister: Lister, discovery: Discovery, patchers: ObjectPatchers) -> WebhookBackend:
        """Who answers about a request that meets these objects, in a cluster that serves these kinds."""
        ...


_known: IdentityMap[object, tuple[WebhookEngine, ...]] = IdentityMap()


def check_engines(manifests: ManifestSet) -> tuple[str, ...]:
    """Name the objects of a cluster that an engine refuses; raise ManifestError for one that stands in a file of the set."""
    engines = engines_of(manifests)
    refused = [each for engine in engines for each in engine.refused]
    for each in (*refused, *(each for engine in engines for each in engine.refused_if_new)):
        origin = manifests.origins.get((each.kind, each.name))
        if origin is not None:
            raise ManifestError(f"{each.kind}/{each.name}: {each.message}", path=origin.file, line=origin.line)
    return tuple(f"{each.kind}/{each.name} of the snapshot decides nothing: {each.message}" for each in refused)


def engines_of(manifests: ManifestSet) -> tuple[WebhookEngine, ...]:
    """The engines of a set, made once for its objects."""
    global _known  # noqa: PLW0603 - what was compiled is kept for the process
    if not manifests.engine_objects:
        return ()
    key = manifests.engine_objects
    if key not in _known:
        if len(_known) >= _MOST:
            _known = IdentityMap()
        made = []
        for name in _ENGINES:
            module, function = name.split(":")
            engine = getattr(import_module(module), function)(manifests)
            if engine is not None:
                made.append(engine)
        _known[key] = tuple(made)
    return _known[key]
