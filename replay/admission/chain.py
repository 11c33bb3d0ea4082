"""Admission plugins in the server's order, for several manifest sets at once.

Mutating plugins run first, and a second time if one changed the object and another asks for it (`admission.reinvoker`).
Validating plugins then see the resulting object. The first refusal ends the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product, repeat
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from replay.admission.builtin.plugin import NAMESPACE
from replay.admission.conversion import Object
from replay.admission.decision import Decision, Undetermined, Verdict
from replay.admission.effects import ADMITTED, UNCHANGED, Admitted, Made, carried, joined
from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.admission.ordered.builtin import BuiltinPlugin
from replay.admission.ordered.plugin import (
    AdmissionPlugin,
    Admitter,
    Asking,
    CompiledPlugin,
    Context,
    RequestValidator,
    Side,
    compiled_by_minor,
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
from replay.kube.overlay import GroupKind, Overlay, definitions, objects_by_kind
from replay.kube.rbac import RBAC_GROUP
from replay.kube.rbac_authorizer import RBACAuthorizer
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


class _Mutation(Struct, frozen=True):
    """Result of one set's mutating phase: the resulting object, and the plugins' effects."""

    object: Object
    parts: tuple[Decision, ...]
    """Effects of each plugin that ran, in order."""
    is_refused: bool


class _Mutated(Struct, frozen=True):
    """The last request whose mutating phases ran, and the object that each set validates."""

    original: Attributes | Missing
    attributes: Attributes
    lister: Lister
    sides: Sequence[Side]
    objects: Sequence[Object]

    def is_about(self, original: Attributes | Missing, attributes: Attributes, lister: Lister) -> bool:
        """Return whether this is the result of a request."""
        return self.attributes is attributes and self.original is original and self.lister is lister


class Chain:
    """The plugins of several manifest sets.

    The first set is the baseline, which was in force when the log was written.
    """

    def __init__(  # noqa: PLR0913 - what a cluster consists of
        self,
        sets: Sequence[ManifestSet],
        version: KubernetesVersion,
        discovery: Discovery,
        schemas: Schemas,
        *,
        authorizer: Callable[[Lister], Authorizer | Missing] = RBACAuthorizer,
        view_of_set: Callable[[int, Lister, Lister], Lister] | None = None,
        plugins: Sequence[AdmissionPlugin] = ALL_ORDERED_PLUGINS,
        overlays: Sequence[Overlay] | None = None,
        versions: Sequence[KubernetesVersion] = (),
    ) -> None:
        """Compile the sets.

        `schemas` include the custom kinds of the cluster, and those of the sets are added. `authorizer` returns the
        authorizer for a lister's time. If the authorizers of the sets differ, `view_of_set` wraps a request's lister with
        the index of the set, so that `authorizer` recognizes the set. `plugins` are all plugins of the server, in its
        order. `overlays` are the objects that each set lays over the cluster. None takes them from the sets. `versions`
        are the server minors of each set, empty if all have `version`.
        """
        self._sets = len(sets)
        own = [each for manifests in sets for each in definitions(manifests.objects)]
        self.context = context = Context(version, discovery.with_crds(own), schemas.with_crds(own), authorizer)
        servers = versions or (version,) * len(sets)
        contexts = [context if each == version else replace(context, version=each) for each in servers]
        self.plugins: tuple[CompiledPlugin, ...] = tuple(compiled_by_minor(each, sets, contexts) for each in plugins)
        """All plugins, in the server's order."""
        # A plugin that is off in all sets is not asked about any request.
        self._admitting_plugins = [each for each in self.plugins if each.admits]
        self._validating_plugins = [each for each in self.plugins if each.validates]
        self.patchers: ObjectPatchers = context.patchers
        self._overlays = _overlays(sets) if overlays is None else overlays
        self._differing = _differing(sets, plugins) if overlays is None else None
        self._asked_by = view_of_set
        self._latest: _Mutated | None = None

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
        return self.decided(original, attributes, lister, backends).decisions

    def decided(
        self,
        original: Attributes | Missing,
        attributes: Attributes,
        lister: Lister,
        backends: Backends = _NO_BACKENDS,
    ) -> Made:
        """Return the decisions, and the mutating results that `decide_again` needs. Arguments as for `decide`."""
        try:
            asking = self.asking(original, attributes, lister, backends)
            admitting, validating = self._admitting(asking), self._validating(asking)
            if not admitting:
                admitted = [UNCHANGED] * self._sets
                objects = [attributes.object] * self._sets
            else:
                mutations = self._mutations(admitting, asking)
                objects = _validated_objects(asking, mutations)
                admitted = _admitted(mutations, objects, asking)
                # Who asks for a decision often asks for the object next.
                self._latest = None if backends else _Mutated(original, attributes, lister, asking.sides, objects)
            return Made(_decisions(admitted, objects, validating, asking), admitted)
        # Objects come from logs of any origin. An unexpected form costs one verdict and does not end the run.
        except UNFORESEEN as error:
            return Made([_undecided(error)] * self._sets, None)

    def decide_again(
        self,
        admitted: Sequence[Admitted],
        original: Attributes | Missing,
        attributes: Attributes,
        lister: Lister,
    ) -> list[Decision]:
        """Return the decision of each set about a request whose mutating results are known.

        The arguments are those of `decide`.
        """
        asking = self.asking(original, attributes, lister, _NO_BACKENDS)
        try:
            objects = _objects(admitted, asking)
            return _decisions(admitted, objects, self._validating(asking), asking)
        except UNFORESEEN as error:
            return [_undecided(error)] * self._sets

    def mutated(
        self,
        original: Attributes | Missing,
        attributes: Attributes,
        lister: Lister,
        backends: Backends = _NO_BACKENDS,
    ) -> list[Decision]:
        """Return each set's decision in the mutating phase, for a request that got no further.

        The arguments are those of `decide`.
        """
        asking = self.asking(original, attributes, lister, backends)
        try:
            mutations = self._mutations(self._admitting(asking), asking)
            objects = [attributes.object] * self._sets
            return [_combined(each, ()) for each in _admitted(mutations, objects, asking)]
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
        latest = self._latest
        if latest is not None and not backends and latest.is_about(original, attributes, lister):
            pairs = zip(latest.sides, latest.objects, strict=True)
            return [side.attributes.with_object(value) for side, value in pairs]
        asking = self.asking(original, attributes, lister, backends)
        admitting = self._admitting(asking)
        if not admitting:
            return [side.attributes for side in asking.sides]
        objects = _validated_objects(asking, self._mutations(admitting, asking))
        return [side.attributes.with_object(value) for side, value in zip(asking.sides, objects, strict=True)]

    def asking(
        self, original: Attributes | Missing, attributes: Attributes, lister: Lister, backends: Backends
    ) -> Asking:
        """Return a request as each of the sets sees it."""
        if isinstance(original, Missing):
            original = attributes.with_object(original)
        if self._overlays is None:
            sides = [Side(original, attributes, lister)] * self._sets
        elif self._differing is not None and not self._differing.touches(attributes):
            sides = [_laid_over(self._overlays[0], original, attributes, lister)] * self._sets
        else:
            sides = [_laid_over(overlay, original, attributes, lister) for overlay in self._overlays]
        if self._asked_by is not None:
            sides = [
                replace(side, lister=self._asked_by(index, lister, side.lister)) for index, side in enumerate(sides)
            ]
        # INVARIANT: either all sides are one object, or all are different objects.
        return Asking(sides, sides[0] is sides[-1], backends)

    def observe(self, index: int, asking: Asking, observer: ChainObserver) -> None:
        """Decide a request for one set with an observer: the same phases, with all plugins."""
        admitting = self._admitting(asking)
        mutations = self._mutations(admitting, asking)
        mutations[index] = _mutate(observer.admitters(self.plugins), asking.sides[index])
        live = [each == index and not mutation.is_refused for each, mutation in enumerate(mutations)]
        _validate(observer.validators(self.plugins), _validated_objects(asking, mutations), live, asking)

    def _admitting(self, asking: Asking) -> list[Sequence[Admitter | None]]:
        """Return, by plugin, the mutating steps of each set that may change the request."""
        admitting: list[Sequence[Admitter | None]] = []
        for plugin in self._admitting_plugins:
            admitters = plugin.admitters(asking)
            if admitters is not None:
                admitting.append(admitters)
        return admitting

    def _mutations(self, admitting: Sequence[Sequence[Admitter | None]], asking: Asking) -> list[_Mutation]:
        """Return the result of each set's mutating phase."""
        by_set = zip(*admitting, strict=True) if admitting else repeat(())
        return [_mutate(steps, side) for steps, side in zip(by_set, asking.sides, strict=False)]

    def _validating(self, asking: Asking) -> list[RequestValidator]:
        """Return the validating steps of the plugins that may act on the request."""
        validating: list[RequestValidator] = []
        for plugin in self._validating_plugins:
            validator = plugin.validator(asking)
            if validator is not None:
                validating.append(validator)
        return validating


def attributes_of(admitted: Sequence[Admitted], asking: Asking) -> list[Attributes]:
    """Return each set's attributes in the validating phase of a request whose mutating results are known."""
    objects = _objects(admitted, asking)
    return [side.attributes.with_object(value) for side, value in zip(asking.sides, objects, strict=True)]


def _objects(admitted: Sequence[Admitted], asking: Asking) -> list[Object]:
    """Return the objects that the sets validate. Sets with equal mutations validate one object, once."""
    recorded, objects = asking.sides[0].attributes.object, dict[int, Object]()
    for each in admitted:
        if id(each) not in objects:
            objects[id(each)] = each.validated(recorded, asking.changes)
    return [objects[id(each)] for each in admitted]


def _decisions(
    admitted: Sequence[Admitted], objects: Sequence[Object], validating: Sequence[RequestValidator], asking: Asking
) -> list[Decision]:
    """Return the decisions of all sets, from their mutating results and the objects that they validate."""
    # The common case: one validating plugin and no mutation. Its decisions are returned as they are, which keeps equal
    # decisions one object.
    if len(validating) == 1 and set(map(id, admitted)) == {id(UNCHANGED)}:
        return list(validating[0](objects, asking, [True] * len(admitted)))
    parts = _validate(validating, objects, [not each.is_refused for each in admitted], asking)
    return [_combined(each, part) for each, part in zip(admitted, parts, strict=True)]


def _mutate(steps: Iterable[Admitter | None], side: Side) -> _Mutation:
    """Run the mutating phase of one set: all plugins, and once more if one of them asks for it."""
    admitters = [each for each in steps if each is not None]
    value = side.original.object
    refused = False
    # `reinvoker.Admit` runs the chain twice at most. A change in the second pass does not cause a third.
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
    return _Mutation(value, tuple([admitter.effects.decision() for admitter in admitters]), refused)


def _validate(
    validating: Sequence[RequestValidator], objects: Sequence[Object], live: list[bool], asking: Asking
) -> list[list[Decision]]:
    """Return the decisions of the validating plugins up to the first that refuses.

    They are those of each set that is still `live`.
    """
    parts: list[list[Decision]] = [[] for _ in live]
    for validator in validating:
        for index, decision in enumerate(validator(objects, asking, live)):
            if live[index]:
                parts[index].append(decision)
                # `chainAdmissionHandler.Validate` returns the error of the first plugin that refuses.
                live[index] = not decision.denials
    return parts


def _admitted(mutations: Sequence[_Mutation], objects: Sequence[Object], asking: Asking) -> list[Admitted]:
    """Return the mutating results. `objects` are those that each set validates."""
    admitted = []
    for mutation, validated, side in zip(mutations, objects, asking.sides, strict=True):
        is_same = mutation.object is side.original.object
        if is_same and validated is side.attributes.object:  # nothing to compute
            admitted.append(Admitted(mutation.parts, is_refused=mutation.is_refused))
            continue
        patch = () if mutation.is_refused else asking.changes(side.original.object, mutation.object)
        way = carried(side.attributes.object, validated, asking.changes)
        admitted.append(Admitted(mutation.parts, patch, way, is_same, mutation.is_refused))
    return admitted


def _combined(admitted: Admitted, validating: Sequence[Decision]) -> Decision:
    """Return the decision of both phases. A decision of a single plugin is returned as the same object."""
    if admitted.is_refused:
        return joined(admitted.parts, ())
    is_unmutated = admitted.is_same and admitted.parts.count(ADMITTED) == len(admitted.parts)
    if is_unmutated and len(validating) <= 1:
        return validating[0] if validating else ADMITTED
    return joined((*admitted.parts, *validating), admitted.patch)


def _validated_objects(asking: Asking, mutations: Sequence[_Mutation]) -> list[Object]:
    """Return the object that each set validates. The first set is the baseline, whose result the record shows."""
    first, changes = asking.sides[0], asking.changes
    reference = reference_object(first.original.object, mutations[0].object, first.attributes.object, changes)
    return [
        validated_object(reference, mutation.object, side.attributes.object, changes)
        for mutation, side in zip(mutations, asking.sides, strict=True)
    ]


def _overlays(sets: Sequence[ManifestSet]) -> list[Overlay] | None:
    """Return the overlay of each set, None if none has objects."""
    if not any(manifests.objects or manifests.removed for manifests in sets):
        return None
    first = sets[0].objects
    return [
        # The baseline was applied before, so its fields that a candidate no longer has are removed.
        Overlay(manifests.objects, (*(first if manifests is not sets[0] else ()), *manifests.removed))
        for manifests in sets
    ]


class _Differing(Struct, frozen=True):
    """Objects that some sets lay over the cluster differently, of kinds that only built-in plugins look up."""

    namespaces: frozenset[str]
    """Namespaces of the differing objects, and namespaces that differ themselves."""
    concerned: frozenset[tuple[str, str]]
    """Group and resource of requests for which a plugin looks up a cluster-scoped object. `*` stands for all."""

    def touches(self, attributes: Attributes) -> bool:
        """Return whether the sets may see different objects for a request."""
        if not attributes.namespace or attributes.namespace in self.namespaces:
            return True
        group, resource = attributes.resource.group, attributes.resource.resource
        return any(each in self.concerned for each in product((group, "*"), (resource, "*")))


def _differing(sets: Sequence[ManifestSet], plugins: Sequence[AdmissionPlugin]) -> _Differing | None:
    """Return the objects that the sets lay over the cluster differently.

    None if policies, engines or authorizers may look them up.
    """
    first = objects_by_kind(sets[0].objects)
    namespaces, kinds, unscoped = set[str](), set[GroupKind](), set[GroupKind]()
    for manifests in sets[1:]:
        candidate, removed = objects_by_kind(manifests.objects), objects_by_kind(manifests.removed)
        for kind in {*first, *candidate, *removed}:
            own, other = first.get(kind, {}), candidate.get(kind, {})
            for name in {*own, *other, *removed.get(kind, {})}:
                if own.get(name) == other.get(name) and name not in removed.get(kind, {}):
                    continue
                kinds.add(kind)
                if namespace := name[1] if kind == (NAMESPACE.group, NAMESPACE.kind) else name[0]:
                    namespaces.add(namespace)
                else:
                    unscoped.add(kind)
    builtin = [each for each in plugins if isinstance(each, BuiltinPlugin)]
    others = {kind for each in plugins if each not in builtin for own in sets for kind in each.looked_up(own)}
    # Policies, engines and authorizers may look up objects for any request.
    if kinds & others or any(group == RBAC_GROUP for group, _ in kinds) or any(each.engine_objects for each in sets):
        return None
    concerned = {
        (group, resource.partition("/")[0])
        for each in builtin
        if unscoped & set(each.type.looks_up)
        for group, resources in each.type.concerns
        for resource in resources
    }
    return _Differing(frozenset(namespaces), frozenset(concerned))


def _laid_over(overlay: Overlay, original: Attributes, attributes: Attributes, lister: Lister) -> Side:
    """Return a request in the cluster, with the objects of a set laid over it."""
    if overlay.is_empty:
        return Side(original, attributes, lister)
    namespace = attributes.namespace_object
    # Policies read the namespace from the attributes and plugins from the lister, so that both need the overlay.
    if attributes.namespace and namespace is not None:
        namespace = overlay.over(("", "Namespace"), ("", attributes.namespace), namespace)
    if namespace is not attributes.namespace_object:
        original = replace(original, namespace_object=namespace)
        attributes = replace(attributes, namespace_object=namespace)
    return Side(original, attributes, overlay.lister(lister))


def _undecided(error: Exception) -> Decision:
    """Return the decision about a request that a Python error ended."""
    text = " ".join(f"{type(error).__name__} {error}".split())[:200]
    reason = f"replay cannot evaluate the request, because an object does not match the schema of its kind: {text}"
    return Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("", "", reason),))
