"""Interface of an admission plugin (`k8s.io/apiserver/pkg/admission/interfaces.go`).

A plugin describes a manifest set without a request: its units, the requests that they may match, and the inputs that
they read. Compiled over several sets, it decides and explains requests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from replay.admission.conversion import Object
from replay.admission.decision import Decision, Denial
from replay.admission.effects import ADMITTED, Changes, Effects
from replay.admission.explain.explanation import Explanation
from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.admission.reads import PolicyReads
from replay.admission.webhook.plugin import Backends
from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import ManifestSet, MatchResources
from replay.kube.attributes import Attributes, Missing
from replay.kube.authorizer import Authorizer
from replay.kube.discovery import Discovery
from replay.kube.lister import Lister
from replay.kube.rbac_authorizer import RBACAuthorizer
from replay.kube.schema import Schemas


class Unit(NamedTuple):
    """Smallest part that changes as a whole.

    It is a policy with its bindings, a webhook, or a built-in plugin with its configuration. `name` is its name in
    decisions, `digest` covers its whole content, and `match` selects too many requests rather than too few.
    """

    name: str
    digest: str
    match: MatchResources


class Side(Struct, frozen=True):
    """One request in one set: `original` enters the mutating phase, `attributes` were validated."""

    original: Attributes
    attributes: Attributes
    lister: Lister


class Asking(Struct):
    """One request for several sets, with a side for each set. It `is_shared` if all sets see the same side."""

    sides: Sequence[Side]
    is_shared: bool
    backends: Backends
    changes: Changes = field(default_factory=Changes)


class Context(Struct, frozen=True, dict=True):
    """Inputs for compiling plugins. `schemas` include custom kinds, `authorizer` answers for a lister's time."""

    version: KubernetesVersion
    discovery: Discovery
    schemas: Schemas
    authorizer: Callable[[Lister], Authorizer | Missing] = RBACAuthorizer

    @cached_property
    def patchers(self) -> ObjectPatchers:
        """Return the patchers for objects of each kind."""
        return ObjectPatchers(self.schemas)


class Admitter(Protocol):
    """A mutating plugin of one set on one request. It keeps state between the passes."""

    @property
    def effects(self) -> Effects:
        """Return its effects in both passes."""
        ...

    def admit(self, value: Object, *, reinvoke: bool) -> tuple[Object, bool]:
        """Run one pass; return the object, and whether all mutating plugins must run again."""
        ...


class RequestValidator(Protocol):
    """A validating plugin that may act on a request."""

    def __call__(self, objects: Sequence[Object], asking: Asking, live: Sequence[bool]) -> Sequence[Decision]:
        """Return the decision of each set about its object. Sets that are not `live` are skipped."""
        ...


class AdmitterWatch(Admitter, Protocol):
    """Observed mutating plugin of one set on one request, with its explanation."""

    def explained(self, number: int, refused: str) -> Explanation:
        """Explain a pass, counted from 1. `refused` says why it did not run, if so."""
        ...


class ValidatorWatch(RequestValidator, Protocol):
    """A validating plugin, observed while it decides for one set."""

    @property
    def denials(self) -> Sequence[Denial]:
        """The denials of the plugin."""
        ...

    def explained(self, refused: str) -> Explanation:
        """Explain the phase. `refused` says why it did not run, if so."""
        ...


class CompiledPlugin(Protocol):
    """A plugin over several sets."""

    @property
    def admits(self) -> bool:
        """Return whether some set has anything for the mutating phase of the plugin."""
        ...

    @property
    def validates(self) -> bool:
        """Return whether some set has anything for the validating phase of the plugin."""
        ...

    def admitters(self, asking: Asking) -> Sequence[Admitter | None] | None:
        """Return, for each set, the mutating step of this request, or None if no set has one."""
        ...

    def validator(self, asking: Asking) -> RequestValidator | None:
        """Return the validating step of this request, None if no set has one."""
        ...

    def admitter_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> AdmitterWatch | None:
        """Return the observed mutating phase of one set, None without one.

        `manifests` may have webhooks that are not called.
        """
        ...

    def validator_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> ValidatorWatch | None:
        """Return the observed validating phase of one set, None without one; arguments as for `admitter_watch`."""
        ...


class AdmissionPlugin(Protocol):
    """A plugin of the server."""

    @property
    def name(self) -> str:
        """The name in an AdmissionConfiguration."""
        ...

    @property
    def mutates(self) -> bool:
        """Return whether the plugin may change objects."""
        ...

    @property
    def is_visible_in_log(self) -> bool:
        """Return whether the log shows its changes of an object."""
        ...

    @property
    def differs_by_minor(self) -> bool:
        """Return whether the same set decides differently on servers of different minors."""
        ...

    def units(self, manifests: ManifestSet) -> Iterator[Unit]:
        """Yield its units of a set, in order, without those that match no request."""
        ...

    def names(self, manifests: ManifestSet) -> Iterator[str]:
        """Yield the names of its parts of a set, as decisions use them."""
        ...

    def reads(self, manifests: ManifestSet, version: KubernetesVersion) -> Iterator[PolicyReads]:
        """Yield the inputs that each unit reads of a request."""
        ...

    def looked_up(self, manifests: ManifestSet) -> Iterator[tuple[str, str]]:
        """Yield the kinds of other objects that the plugin looks up, as group and kind."""
        ...

    def compiled(self, sets: Sequence[ManifestSet], context: Context) -> CompiledPlugin:
        """Return the plugin compiled for several sets."""
        ...


def digest_of(*parts: str) -> str:
    """Return a digest of texts, each with its length."""
    hash_ = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        # The length keeps apart texts that are only divided differently.
        hash_.update(len(content).to_bytes(8, "big") + content)
    return hash_.hexdigest()[:24]


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
    def admits(self) -> bool:
        """See `CompiledPlugin.admits`."""
        return any(each.admits for each in self._servers)

    @property
    def validates(self) -> bool:
        """See `CompiledPlugin.validates`."""
        return any(each.validates for each in self._servers)

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
