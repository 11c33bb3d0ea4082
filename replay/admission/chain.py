"""Admission plugins in the server's order, for several manifest sets at once.

Mutating plugins run first, and a second time if one changed the object and another asks for it (`admission.reinvoker`).
Validating plugins then see the resulting object. The first refusal ends the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from replay.admission.alike.decisions import AlikeDecisions, Made, is_creation
from replay.admission.conversion import Object
from replay.admission.decision import Decision, Undetermined, Verdict
from replay.admission.effects import ADMITTED, joined
from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.admission.ordered.by_minor import compiled_by_minor
from replay.admission.ordered.plugin import (
    AdmissionPlugin,
    Admitter,
    Asking,
    CompiledPlugin,
    Context,
    RequestValidator,
    Side,
)
from replay.admission.ordered.registry import ALL_ORDERED_PLUGINS
from replay.admission.validated_object import reference_object, validated_object
from replay.admission.webhook.plugin import Backends
from replay.cellib.version import KubernetesVersion
from replay.errors import UNFORESEEN
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Attributes, Missing
from replay.kube.authorizer import Authorizer
from replay.kube.discovery import Discovery
from replay.kube.lister import Lister
from replay.kube.overlay import Overlay, definitions
from replay.kube.rbac.authorizer import RBACAuthorizer
from replay.kube.schema import Schemas

_NO_BACKENDS: Backends = {}


class Decider(Protocol):
    """Decider of requests for several sets: a chain, or a chooser of a chain per request."""

    def decide(
        self, original: Attributes | Missing, attributes: Attributes, lister: Lister, backends: Backends = ..., /
    ) -> list[Decision]:
        """See `Chain.decide`."""
        ...

    def validated(
        self, original: Attributes | Missing, attributes: Attributes, lister: Lister, backends: Backends = ..., /
    ) -> list[Attributes]:
        """See `Chain.validated`."""
        ...


class ChainObserver(Protocol):
    """Observer of one set's decision. It replaces plugins with variants that report their steps."""

    def admitters(self, plugins: Sequence[CompiledPlugin], /) -> Sequence[Admitter]:
        """Return the mutating steps, in order."""
        ...

    def validators(self, plugins: Sequence[CompiledPlugin], /) -> Sequence[RequestValidator]:
        """Return the validating steps, in order."""
        ...


class _Mutation(NamedTuple):
    """Result of one set's mutating phase: the resulting object, and the plugins' effects."""

    object: Object
    parts: tuple[Decision, ...]
    """Effects of each plugin that ran, in order."""
    is_refused: bool


class Chain:
    """The plugins of several manifest sets; the first set is the one that was in force when the log was written."""

    def __init__(  # noqa: PLR0913 - what a cluster consists of
        self,
        sets: Sequence[ManifestSet],
        version: KubernetesVersion,
        discovery: Discovery,
        schemas: Schemas,
        *,
        authorizer: Callable[[Lister], Authorizer | Missing] = RBACAuthorizer,
        asked_by: Callable[[int, Lister, Lister], Lister] | None = None,
        plugins: Sequence[AdmissionPlugin] = ALL_ORDERED_PLUGINS,
        overlays: Sequence[Overlay] | None = None,
        versions: Sequence[KubernetesVersion] = (),
    ) -> None:
        """`schemas` include the custom kinds of the cluster, to which those of the sets are added; `authorizer` answers for the instant of a lister.

        Where the authorizers of the sets differ, `asked_by` makes of the lister of a request, and of what the set of a number
        sees of it, one by which `authorizer` knows the set. `plugins` are all that the server has, in its order.
        `overlays` are what each set lays over the cluster; None for the objects of the sets. `versions` are the minors of the server
        of each set, none where all are of `version`.
        """
        self._sets = len(sets)
        own = [each for manifests in sets for each in definitions(manifests.objects)]
        self.context = context = Context(version, discovery.with_crds(own), schemas.with_crds(own), authorizer)
        servers = versions or (version,) * len(sets)
        contexts = [context if each == version else replace(context, version=each) for each in servers]
        self.plugins: tuple[CompiledPlugin, ...] = tuple(compiled_by_minor(each, sets, contexts) for each in plugins)
        """In the server's order."""
        self._busy_plugins = tuple(plugin for plugin in self.plugins if not plugin.is_idle)
        self.patchers: ObjectPatchers = context.patchers
        self._overlays = _overlays(sets) if overlays is None else overlays
        self._asked_by = asked_by
        self._alike = AlikeDecisions()

    def decide(
        self,
        original: Attributes | Missing,
        attributes: Attributes,
        lister: Lister,
        backends: Backends = _NO_BACKENDS,
    ) -> list[Decision]:
        """Return the decision of each set, in order.

        `original` are the attributes before the mutating phase, `attributes` those of the recorded validating phase. If
        a set mutates differently from the first set, the difference is applied to `attributes`. `backends` answer for
        webhooks by name. A webhook without one is named in the decision and changes nothing. A request with unexpected
        objects is undetermined in all sets.
        """
        try:
            return self._decide(self.asking(original, attributes, lister, backends))
        except UNFORESEEN as error:
            return [_undecided(error)] * self._sets

    def mutated(
        self,
        original: Attributes | Missing,
        attributes: Attributes,
        lister: Lister,
        backends: Backends = _NO_BACKENDS,
    ) -> list[Decision]:
        """Return each set's decision in the mutating phase, for a request that got no further; arguments as for `decide`."""
        asking = self.asking(original, attributes, lister, backends)
        try:
            mutations = self._mutations(self._admitting(asking), asking)
            return [
                _combined(mutation, (), side, asking) for mutation, side in zip(mutations, asking.sides, strict=True)
            ]
        except UNFORESEEN as error:
            return [_undecided(error)] * self._sets

    def validated(
        self,
        original: Attributes | Missing,
        attributes: Attributes,
        lister: Lister,
        backends: Backends = _NO_BACKENDS,
    ) -> list[Attributes]:
        """Return each set's attributes in the validating phase; arguments as for `decide`."""
        asking = self.asking(original, attributes, lister, backends)
        admitting = self._admitting(asking)
        if not admitting:
            return [side.attributes for side in asking.sides]
        objects = _seen(asking, self._mutations(admitting, asking))
        return [side.attributes.with_object(value) for side, value in zip(asking.sides, objects, strict=True)]

    def asking(
        self, original: Attributes | Missing, attributes: Attributes, lister: Lister, backends: Backends
    ) -> Asking:
        """A request as each of the sets meets it."""
        if isinstance(original, Missing):
            original = attributes.with_object(original)
        if self._overlays is None:
            sides = [Side(original, attributes, lister)] * self._sets
        else:
            sides = [_laid_over(overlay, original, attributes, lister) for overlay in self._overlays]
        if self._asked_by is not None:
            sides = [
                side._replace(lister=self._asked_by(index, lister, side.lister)) for index, side in enumerate(sides)
            ]
        return Asking(sides, backends)

    def observe(self, index: int, asking: Asking, observer: ChainObserver) -> None:
        """Decide a request for one set with an observer: the same phases, with all plugins."""
        admitting = self._admitting(asking)
        admitters = [_admitters(each, admitting) for each in range(self._sets)]
        admitters[index] = observer.admitters(self.plugins)
        mutations = [_mutate(own, side) for own, side in zip(admitters, asking.sides, strict=True)]
        live = [each == index and not mutation.is_refused for each, mutation in enumerate(mutations)]
        _validate(observer.validators(self.plugins), _seen(asking, mutations), live, asking)

    def _admitting(self, asking: Asking) -> list[Sequence[Admitter | None]]:
        """By plugin, for each set what may change the request."""
        admitters = (plugin.admitters(asking) for plugin in self._busy_plugins)
        return [each for each in admitters if each is not None]

    def _mutations(self, admitting: Sequence[Sequence[Admitter | None]], asking: Asking) -> list[_Mutation]:
        """The mutating phase of each set."""
        return [_mutate(_admitters(index, admitting), side) for index, side in enumerate(asking.sides)]

    def _decide(self, asking: Asking) -> list[Decision]:
        side = asking.sides[0]
        if not asking.is_shared or asking.backends or not is_creation(side.original, side.attributes):
            return self._decided(asking)
        if self.context.schemas.is_custom(side.attributes.kind):  # whose definition may change
            return self._decided(asking)
        reads = [each for plugin in self._busy_plugins if (each := plugin.hook_reads(asking)) is not None]
        if len(reads) < len(self._busy_plugins):
            return self._decided(asking)
        return self._alike.decide(reads, side.original, side.attributes, partial(self._made, asking))

    def _made(self, asking: Asking) -> Made:
        return Made(self._decided(asking), asking.changes.are_of_own)

    def _decided(self, asking: Asking) -> list[Decision]:
        admitting = self._admitting(asking)
        validating = [each for plugin in self._busy_plugins if (each := plugin.validator(asking)) is not None]
        if not admitting and not validating:
            return [ADMITTED] * self._sets
        if not admitting and len(validating) == 1:
            objects = [side.attributes.object for side in asking.sides]
            return list(validating[0](objects, asking, [True] * self._sets))
        mutations = self._mutations(admitting, asking)
        objects_validated = _seen(asking, mutations)
        live = [not mutation.is_refused for mutation in mutations]
        parts = _validate(validating, objects_validated, live, asking)
        return [_combined(*each, asking) for each in zip(mutations, parts, asking.sides, strict=True)]


def _admitters(index: int, admitting: Sequence[Sequence[Admitter | None]]) -> Sequence[Admitter]:
    """Return the mutating steps of the request for one set, in order."""
    return [admitter for each in admitting if (admitter := each[index]) is not None]


def _mutate(admitters: Sequence[Admitter], side: Side) -> _Mutation:
    """The mutating phase of one set: all plugins, and once more if one of them asks for it."""
    value = side.original.object
    refused = False
    for reinvoke in (False, True):
        again = False
        for admitter in admitters:
            value, changed = admitter.admit(value, reinvoke=reinvoke)
            again = again or changed
            refused = bool(admitter.effects.denials)
            if refused:
                break
        if refused or not again:
            break
    return _Mutation(value, tuple(admitter.effects.decision() for admitter in admitters), refused)


def _validate(
    validating: Sequence[RequestValidator], objects: Sequence[Object], live: list[bool], asking: Asking
) -> list[list[Decision]]:
    """For each set that is still `live` what the validating plugins decide, up to the one that refuses."""
    parts: list[list[Decision]] = [[] for _ in live]
    for validator in validating:
        for index, decision in enumerate(validator(objects, asking, live)):
            if live[index]:
                parts[index].append(decision)
                live[index] = not decision.denials
    return parts


def _combined(mutation: _Mutation, validating: Sequence[Decision], side: Side, asking: Asking) -> Decision:
    """The decision of both phases; one that is that of a single plugin stays the same object."""
    object_before = side.original.object
    if (
        not mutation.is_refused
        and mutation.object is object_before
        and all(part is ADMITTED for part in mutation.parts)
    ):
        decisions = [part for part in validating if part is not ADMITTED]
        if len(decisions) <= 1 and len(validating) <= 1:
            return decisions[0] if decisions else ADMITTED
    if mutation.is_refused:
        return joined(mutation.parts, ())
    return joined((*mutation.parts, *validating), asking.changes(object_before, mutation.object))


def _seen(asking: Asking, mutations: Sequence[_Mutation]) -> list[Object]:
    """The object that each set validates; the first set is the one of the time."""
    first, changes = asking.sides[0], asking.changes
    reference = reference_object(first.original.object, mutations[0].object, first.attributes.object, changes)
    return [
        validated_object(reference, mutation.object, side.attributes.object, changes)
        for mutation, side in zip(mutations, asking.sides, strict=True)
    ]


def _overlays(sets: Sequence[ManifestSet]) -> list[Overlay] | None:
    """Return what each set lays over the cluster, None if none does."""
    if not any(manifests.objects or manifests.removed for manifests in sets):
        return None
    first = sets[0].objects
    return [
        Overlay(manifests.objects, (*(first if manifests is not sets[0] else ()), *manifests.removed))
        for manifests in sets
    ]


def _laid_over(overlay: Overlay, original: Attributes, attributes: Attributes, lister: Lister) -> Side:
    """A request in the cluster with the objects of a set laid over it."""
    if overlay.is_empty:
        return Side(original, attributes, lister)
    namespace = attributes.namespace_object
    if attributes.namespace and namespace is not None:
        namespace = overlay.over(("", "Namespace"), ("", attributes.namespace), namespace)
    if namespace is not attributes.namespace_object:
        original = replace(original, namespace_object=namespace)
        attributes = replace(attributes, namespace_object=namespace)
    return Side(original, attributes, overlay.lister(lister))


def _undecided(error: Exception) -> Decision:
    """The decision about a request that an error of Python ended."""
    text = " ".join(f"{type(error).__name__} {error}".split())[:200]
    reason = f"the request cannot be decided, its objects are not of the form that their kind has: {text}"
    return Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("", "", reason),))
