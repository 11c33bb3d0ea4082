"""Policy engines that answer for their own webhooks with the objects of a set, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final, Protocol

from replay.admission.webhook.answer import WebhookBackend
from replay.identity import IdentityMap
from replay.kube.admissionregistration import ManifestSet
from replay.kube.lister import Lister

_ENGINES: Final = ("replay.gatekeeper.backend:gatekeeper_of",)
"""The function of each engine that makes it of a set; an engine knows of admission, and is imported where a set has objects of it."""
_MOST = 64


class WebhookEngine(Protocol):
    """A policy engine with the objects of one set."""

    @property
    def webhooks(self) -> Sequence[str]:
        """The names of the webhooks that it answers for."""
        ...

    def looked_up(self) -> Iterator[tuple[str, str]]:
        """The kinds of other objects that it reads, as group and kind."""
        ...

    def backend(self, lister: Lister) -> WebhookBackend:
        """Who answers about a request that meets these objects."""
        ...


_known: IdentityMap[object, tuple[WebhookEngine, ...]] = IdentityMap()


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
