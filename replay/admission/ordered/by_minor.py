"""A plugin over sets of different server minors. Each set is compiled for its own server."""

from __future__ import annotations

from collections.abc import Sequence

from replay.admission.conversion import Object
from replay.admission.decision import Decision
from replay.admission.effects import ADMITTED
from replay.admission.ordered.plugin import (
    AdmissionPlugin,
    Admitter,
    AdmitterWatch,
    Asking,
    CompiledPlugin,
    Context,
    RequestValidator,
    ValidatorWatch,
)
from replay.kube.admissionregistration import ManifestSet


def compiled_by_minor(
    plugin: AdmissionPlugin, sets: Sequence[ManifestSet], contexts: Sequence[Context]
) -> CompiledPlugin:
    """Return the plugin over several sets, each with the context of its server."""
    versions = [context.version for context in contexts]
    if len(set(versions)) <= 1 or not plugin.differs_by_minor:
        return plugin.compiled(sets, contexts[0])
    servers: list[CompiledPlugin] = []
    for version in dict.fromkeys(versions):
        # Sets of other versions become empty, so that the indices of sets stay the same.
        own = [each if of_set == version else ManifestSet() for each, of_set in zip(sets, versions, strict=True)]
        servers.append(plugin.compiled(own, contexts[versions.index(version)]))
    order = list(dict.fromkeys(versions))
    return _PluginByMinor(servers, [order.index(version) for version in versions])


class _PluginByMinor:
    """One compiled plugin per server version. It sees the sets of other versions as empty."""

    def __init__(self, servers: Sequence[CompiledPlugin], server_of: Sequence[int]) -> None:
        """`server_of` is, for each set, the index of its server."""
        self._servers = servers
        self._server_of = server_of

    @property
    def is_idle(self) -> bool:
        """Return whether no set has anything for the plugin."""
        return all(each.is_idle for each in self._servers)

    def admitters(self, asking: Asking) -> Sequence[Admitter | None] | None:
        """Return, for each set, the mutating step of this request."""
        by_server = [each.admitters(asking) for each in self._servers]
        if all(each is None for each in by_server):
            return None
        admitters = (by_server[server] for server in self._server_of)
        return [own[index] if own is not None else None for index, own in enumerate(admitters)]

    def validator(self, asking: Asking) -> RequestValidator | None:
        """Return the validating step of this request under any server version."""
        validators = [each.validator(asking) for each in self._servers]
        return _ValidatorByMinor(validators, self._server_of) if any(validators) else None

    def admitter_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> AdmitterWatch | None:
        """Return the observed mutating phase of one set."""
        return self._servers[self._server_of[index]].admitter_watch(index, manifests, asking)

    def validator_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> ValidatorWatch | None:
        """Return the observed validating phase of one set."""
        return self._servers[self._server_of[index]].validator_watch(index, manifests, asking)


class _ValidatorByMinor:
    """Validating step of one request, by server version."""

    def __init__(self, validators: Sequence[RequestValidator | None], server_of: Sequence[int]) -> None:
        self._validators = validators
        self._server_of = server_of

    def __call__(self, objects: Sequence[Object], asking: Asking, live: Sequence[bool]) -> Sequence[Decision]:
        """Return the decision of each set."""
        by_server = [None if each is None else each(objects, asking, live) for each in self._validators]
        decisions = (by_server[server] for server in self._server_of)
        return [own[index] if own is not None else ADMITTED for index, own in enumerate(decisions)]
