"""What an admission plugin is to everything that asks it (`k8s.io/apiserver/pkg/admission/interfaces.go`).

A plugin is a value: what it says of a manifest set without any request (what changes as one, which requests that may concern,
what it reads), and what it is over several sets at once, whose requests it decides and explains.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from replay.admission.alike.decisions import HookReads
from replay.admission.change import Changes
from replay.admission.conversion import Object
from replay.admission.decision import Decision, Denial
from replay.admission.effects import Effects
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
from replay.kube.rbac.authorizer import RBACAuthorizer
from replay.kube.schema import Schemas


class Unit(NamedTuple):
    """What changes as one: a policy with its bindings, a webhook, a built-in plugin with its configuration.

    `name` is how decisions name it, `digest` is of all that it says, and `match` selects too many requests rather than too few.
    """

    name: str
    digest: str
    match: MatchResources


class Side(NamedTuple):
    """One request as one set meets it: `original` is what the mutating phase begins with, `attributes` what was validated."""

    original: Attributes
    attributes: Attributes
    lister: Lister


class Asking(Struct):
    """One request put to several sets: a side for each, the same object where nothing tells them apart."""

    sides: Sequence[Side]
    backends: Backends
    changes: Changes = field(default_factory=Changes)

    @property
    def is_shared(self) -> bool:
        """Whether all sets meet the same."""
        first = self.sides[0]
        return all(side is first for side in self.sides)


class Context(Struct, frozen=True, dict=True):
    """What plugins are made with; `schemas` include the custom kinds, `authorizer` answers for the instant of a lister."""

    version: KubernetesVersion
    discovery: Discovery
    schemas: Schemas
    authorizer: Callable[[Lister], Authorizer | Missing] = RBACAuthorizer

    @cached_property
    def patchers(self) -> ObjectPatchers:
        """What applies patches to objects of each kind."""
        return ObjectPatchers(self.schemas)


class Admitter(Protocol):
    """A mutating plugin of one set on one request; it remembers between the passes."""

    @property
    def effects(self) -> Effects:
        """What it did, in both passes."""
        ...

    def admit(self, value: Object, *, reinvoke: bool) -> tuple[Object, bool]:
        """One pass: the object that is left, and whether all mutating plugins are to run once more."""
        ...


class RequestValidator(Protocol):
    """A validating plugin that has something to say about a request."""

    def __call__(self, objects: Sequence[Object], asking: Asking, live: Sequence[bool]) -> Sequence[Decision]:
        """The decision of each set about the object that it validates; of those that are not `live` nobody asks."""
        ...


class AdmitterWatch(Admitter, Protocol):
    """A mutating plugin of one set on one request, watched: it tells what it did and why."""

    def explained(self, number: int, refused: str) -> Explanation:
        """What it did in a pass, counted from 1; `refused` says why it was not asked, if it was not."""
        ...


class ValidatorWatch(RequestValidator, Protocol):
    """A validating plugin, watched as it decides for one set."""

    @property
    def denials(self) -> Sequence[Denial]:
        """How it refuses the request."""
        ...

    def explained(self, refused: str) -> Explanation:
        """What it did; `refused` says why it was not asked, if it was not."""
        ...


class CompiledPlugin(Protocol):
    """A plugin over several sets."""

    @property
    def is_idle(self) -> bool:
        """Whether no set has anything for it."""
        ...

    def hook_reads(self, asking: Asking) -> HookReads | None:
        """What acts on this request and all that it reads of it; None where its decisions may depend on more."""
        ...

    def admitters(self, asking: Asking) -> Sequence[Admitter | None] | None:
        """For each set what changes this request; None if nothing does in any."""
        ...

    def validator(self, asking: Asking) -> RequestValidator | None:
        """What validates this request, None if no set has anything to say."""
        ...

    def admitter_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> AdmitterWatch | None:
        """The mutating phase of one set, watched; `manifests` may have more webhooks than are asked. None without one."""
        ...

    def validator_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> ValidatorWatch | None:
        """The validating phase of one set, watched, likewise."""
        ...


class AdmissionPlugin(Protocol):
    """A plugin of the server."""

    @property
    def name(self) -> str:
        """Its name in an AdmissionConfiguration."""
        ...

    @property
    def mutates(self) -> bool:
        """Whether it may change objects."""
        ...

    @property
    def leaves_trace(self) -> bool:
        """Whether the log says so where it changed an object."""
        ...

    @property
    def differs_by_minor(self) -> bool:
        """Whether servers of different minors decide otherwise by the same set."""
        ...

    def units(self, manifests: ManifestSet) -> Iterator[Unit]:
        """What it has of a set, in its order; what can match no request is left out."""
        ...

    def names(self, manifests: ManifestSet) -> Iterator[str]:
        """The names of what it has of a set, as a decision has them."""
        ...

    def reads(self, manifests: ManifestSet, version: KubernetesVersion) -> Iterator[PolicyReads]:
        """What each unit reads of a request."""
        ...

    def looked_up(self, manifests: ManifestSet) -> Iterator[tuple[str, str]]:
        """The kinds of other objects that it reads, as group and kind."""
        ...

    def compiled(self, sets: Sequence[ManifestSet], context: Context) -> CompiledPlugin:
        """The plugin over several sets."""
        ...


def digest_of(*parts: str) -> str:
    """A digest of texts, each with its length."""
    hash_ = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        hash_.update(len(content).to_bytes(8, "big") + content)
    return hash_.hexdigest()[:24]
