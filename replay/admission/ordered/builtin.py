"""Built-in plugins as members of the chain, each with the configuration and flags of a set in which it is on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import orjson
from msgspec import Struct
from msgspec.structs import replace

from replay.admission.builtin.partial import UnknownInputError
from replay.admission.builtin.plugin import Plugin, PluginCluster, PluginPhase
from replay.admission.builtin.run import MALFORMED, PhaseResult, phase_result
from replay.admission.conversion import Object
from replay.admission.decision import Decision, Denial, Mutated, Undetermined
from replay.admission.effects import ADMITTED, Effects
from replay.admission.explain.builtin import BuiltinAdmitterWatch, BuiltinValidatorWatch
from replay.admission.ordered.plugin import (
    Admitter,
    Asking,
    CompiledPlugin,
    Context,
    RequestValidator,
    Side,
    Unit,
    digest_of,
)
from replay.admission.reads import INPUTS_OF_ANY, PolicyReads
from replay.cellib.version import KubernetesVersion
from replay.errors import ManifestError
from replay.kube.admissionregistration import ManifestSet, MatchPolicy, MatchResources, PluginSettings, Rule
from replay.kube.attributes import Attributes, Missing
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.lister import Lister

REFUSED = "is refused"


class BuiltinPlugin(Struct, frozen=True):
    """One built-in plugin. Plugins with state are evaluated elsewhere (`pipeline/replay/ledger`)."""

    type: type[Plugin]
    is_visible_in_log = False
    differs_by_minor = False

    @property
    def name(self) -> str:
        """The name in an AdmissionConfiguration."""
        return self.type.name

    @property
    def mutates(self) -> bool:
        """Return whether the plugin may change objects."""
        return self.type.admit is not None

    def settings(self, manifests: ManifestSet) -> PluginSettings | None:
        """Return a set's settings of the plugin, None if it is off."""
        return next((each for each in manifests.builtin if each.name == self.name), None)

    def units(self, manifests: ManifestSet) -> Iterator[Unit]:
        """Yield the plugin as a unit, if it is on."""
        settings = self.settings(manifests)
        rules = rules_of(self.type)
        if settings is not None and rules:
            yield Unit(
                self.name,
                self._digest(settings, manifests),
                MatchResources(resource_rules=rules, match_policy=MatchPolicy.EXACT),
            )

    def _digest(self, settings: PluginSettings, manifests: ManifestSet) -> str:
        """Return a digest of the plugin's configuration and of the objects that it may look up."""
        said = orjson.dumps([settings.configuration, self.given_flags(settings), manifests.objects, manifests.removed])
        return digest_of("builtin", self.name, said.decode("utf-8", "replace"))

    def given_flags(self, settings: PluginSettings) -> dict[str, str]:
        """Return the given flags that the plugin reads."""
        return {name: settings.flags[name] for name in self.type.flags if name in settings.flags}

    def is_alike(self, one: ManifestSet, other: ManifestSet) -> bool:
        """Return whether two sets configure the plugin alike."""
        first, second = self.settings(one), self.settings(other)
        if first is None or second is None:
            return first is second
        return (first.configuration, self.given_flags(first)) == (second.configuration, self.given_flags(second))

    def names(self, manifests: ManifestSet) -> Iterator[str]:
        """Yield the plugin's name and the prefixes of its audit annotations."""
        if self.settings(manifests) is not None:
            yield self.name
            yield from self.type.annotation_prefixes

    def reads(self, manifests: ManifestSet, version: KubernetesVersion) -> Iterator[PolicyReads]:
        """Yield the reads of the plugin: the whole request."""
        del version
        for unit in self.units(manifests):
            yield PolicyReads(self.name, ((unit.match,),), INPUTS_OF_ANY)

    def looked_up(self, manifests: ManifestSet) -> Iterator[tuple[str, str]]:
        """Yield the kinds of objects that the plugin looks up."""
        if self.settings(manifests) is not None:
            yield from self.type.looks_up

    def plugin(self, manifests: ManifestSet) -> Plugin | None:
        """Return the plugin as a set configures it.

        Raise ManifestError with the server's text for an invalid configuration.
        """
        settings = self.settings(manifests)
        if settings is None:
            return None
        try:
            return self.type.configured(settings.configuration, settings.flags)
        except ManifestError as error:
            text = f'couldn\'t init admission plugin "{self.name}": {error.message}'
            raise ManifestError(text, path=settings.path) from error
        except MALFORMED as error:
            text = f'couldn\'t init admission plugin "{self.name}": its configuration is not of its kind: {error!r}'
            raise ManifestError(text, path=settings.path) from error

    def compiled(self, sets: Sequence[ManifestSet], context: Context) -> CompiledPlugin:
        """Return the plugin compiled for several sets. A plugin with state is left to the ledger."""
        return CompiledBuiltin(self, sets, context)


def rules_of(plugin: type[Plugin]) -> tuple[Rule, ...]:
    """Return the requests that a plugin handles, as match rules."""
    operations = tuple(sorted(plugin.operations))
    return tuple(Rule(operations, (group,), ("*",), resources) for group, resources in plugin.concerns)


class CompiledBuiltin:
    """A built-in plugin of several sets."""

    def __init__(self, value: BuiltinPlugin, sets: Sequence[ManifestSet], context: Context) -> None:
        """Raise ManifestError for an invalid configuration."""
        self.value = value
        self._context = context
        # A stateful plugin runs in the order of admission, after all plugins that only read the request.
        self.plugins = [None if value.type.is_stateful else value.plugin(manifests) for manifests in sets]
        settings = [found for each in sets if (found := value.settings(each)) is not None]
        self.admits = value.mutates and any(self.plugins) and any(each.admits for each in settings)
        self.validates = value.type.validate is not None and any(self.plugins)
        self._is_alike = all(value.is_alike(sets[0], other) for other in sets)
        self._concerns: dict[tuple[str, str, str], bool] = {}

    def concerns(self, attributes: Attributes) -> bool:
        """Return whether the plugin acts on requests of this kind."""
        if attributes.operation not in self.value.type.operations:
            return False
        resource = attributes.resource
        key = resource.group, resource.resource, attributes.subresource
        concerns = self._concerns.get(key)
        if concerns is None:
            concerns = self._concerns[key] = any(
                group in ("*", resource.group) and any(_names(pattern, key[1], key[2]) for pattern in resources)
                for group, resources in self.value.type.concerns
            )
        return concerns

    def admitters(self, asking: Asking) -> Sequence[Admitter | None] | None:
        """Return, for each set in which the plugin is on, its mutating step."""
        if not self.admits or not self.concerns(asking.sides[0].original):
            return None
        return [
            None if plugin is None else BuiltinAdmitter(plugin, self.cluster(side), side.original)
            for plugin, side in zip(self.plugins, asking.sides, strict=True)
        ]

    def validator(self, asking: Asking) -> RequestValidator | None:
        """Return the validating step of a request."""
        if not self.validates or not self.concerns(asking.sides[0].attributes):
            return None
        return self._validate

    def _validate(self, objects: Sequence[Object], asking: Asking, live: Sequence[bool]) -> Sequence[Decision]:
        # All sets decide alike here, so the plugin runs once.
        if self._is_alike and self.plugins[0] is not None and asking.is_shared and all(live) and _are_same(objects):
            answered = self.plugins[0].answered_by(asking.backends)
            return [self.decision(answered, asking.sides[0], objects[0])] * len(objects)
        decisions = []
        for plugin, side, value, is_live in zip(self.plugins, asking.sides, objects, live, strict=True):
            plugin_asked = plugin.answered_by(asking.backends) if plugin is not None and is_live else None
            decisions.append(self.decision(plugin_asked, side, value) if plugin_asked is not None else ADMITTED)
        return decisions

    def decision(self, plugin: Plugin, side: Side, value: Object) -> Decision:
        """Return one set's decision in the validating phase."""
        attributes = side.attributes if value is side.attributes.object else side.attributes.with_object(value)
        effects = Effects()
        result, _ = _run_phase(plugin, plugin.validate, attributes, self.cluster(side), effects)
        if result is not None:
            note(effects, plugin.name, result)
        return effects.decision()

    def cluster(self, side: Side) -> PluginCluster:
        """Return the plugin's view of the cluster."""
        return cluster_of(side.lister, self._context)

    def admitter_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> BuiltinAdmitterWatch | None:
        """Return the observed mutating phase of one set on one request."""
        del manifests
        admitters = self.admitters(asking)
        admitter = None if admitters is None else admitters[index]
        return None if admitter is None else BuiltinAdmitterWatch(self.value.name, admitter)

    def validator_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> BuiltinValidatorWatch | None:
        """Return the observed validating step of one set."""
        del manifests
        validator = None if self.plugins[index] is None else self.validator(asking)
        return None if validator is None else BuiltinValidatorWatch(self.value.name, index, validator)


class BuiltinAdmitter:
    """The mutating phase of a plugin of one set on one request."""

    def __init__(self, plugin: Plugin, cluster: PluginCluster, attributes: Attributes) -> None:
        """`attributes` are the attributes before mutation."""
        self._plugin = plugin
        self._cluster = cluster
        self._original = attributes
        self.effects = Effects()

    def admit(self, value: Object, *, reinvoke: bool) -> tuple[Object, bool]:
        """Run one pass. Its changes do not cause a second pass (`admission.reinvoker`)."""
        del reinvoke
        attributes = replace(self._original, object=value)
        result, left = _run_phase(self._plugin, self._plugin.admit, attributes, self._cluster, self.effects)
        if result is None:
            return Missing("object", f"the object after {self._plugin.name} is not known"), False
        note(self.effects, self._plugin.name, result)
        return left if result.patch else value, False


def run_stateful_phase(
    plugin: Plugin, attributes: Attributes, cluster: PluginCluster, time: int, effects: Effects
) -> tuple[PhaseResult | None, Object]:
    """Return the result of a plugin with state in the validating phase, at a time in microseconds."""
    return _run_phase(plugin, plugin.validate, attributes, cluster, effects, time)


def _run_phase(  # noqa: PLR0913, PLR0917 - what a phase is asked with
    plugin: Plugin,
    phase: PluginPhase | None,
    attributes: Attributes,
    cluster: PluginCluster,
    effects: Effects,
    time: int = 0,
) -> tuple[PhaseResult | None, Object]:
    """Run one phase; return None and record the reason if an input is unknown."""
    try:
        # Each access to a method makes a new bound method, so that `is` would never hold.
        mutates = phase == plugin.admit
        return phase_result(phase, attributes, cluster, time, mutates=mutates)
    except UnknownInputError as error:
        missing = error.missing
    except MALFORMED as error:
        missing = Missing("object", f"an object does not match the schema of its kind: {error!r}")
    reason = f"`{missing.path}` is not known: {missing.reason}"
    entry = Undetermined(plugin.name, "", reason, missing.path, missing.fix)
    if entry not in effects.undetermined:
        effects.undetermined.append(entry)
    return None, attributes.object


def note(effects: Effects, name: str, result: PhaseResult) -> None:
    """Add the effects of one phase."""
    refusal = result.refusal
    if refusal is not None:
        effects.denials.append(Denial(name, "", None, refusal.message, refusal.reason, refusal.code))
    if result.patch:
        effects.mutated.append(Mutated(name, "", result.patch))
    # The server writes each warning once (`filters.recorder.AddWarning`).
    effects.warnings += [warning for warning in result.warnings if warning not in effects.warnings]
    effects.audit_annotations.update(result.audit_annotations)


def _are_same(objects: Sequence[Object]) -> bool:
    return all(each is objects[0] for each in objects)


def _names(pattern: str, resource: str, subresource: str) -> bool:
    name, _, sub = pattern.partition("/")
    return name in ("*", resource) and sub in ("*", subresource)


def cluster_of(lister: Lister, context: Context) -> PluginCluster:
    """Return the plugins' view of the cluster at a lister's time."""
    authorizer_found = context.authorizer(lister)
    authorizer: Authorizer = _Unknown(authorizer_found) if isinstance(authorizer_found, Missing) else authorizer_found
    return PluginCluster(lister, authorizer, context.discovery)


class _Unknown:
    """Authorizer whose answers are unknown."""

    def __init__(self, missing: Missing) -> None:
        self._missing = missing

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """Raise UnknownInputError: no decision is known."""
        del attributes
        raise UnknownInputError(self._missing)
