"""The validation of custom resources as a plugin: the definitions of a set may refuse objects of the log.

The server validates an object before its validating plugins (`k8s.io/apiserver/pkg/registry/rest/create.go`,
`BeforeCreate`). For the first set the log itself has the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import orjson

from replay.admission.conversion import Object
from replay.admission.custom_resource import invalid_text, judged
from replay.admission.decision import Decision, Denial, Undetermined
from replay.admission.effects import ADMITTED, Effects
from replay.admission.explain.builtin import BuiltinValidatorWatch
from replay.admission.ordered.plugin import Asking, Context, RequestValidator, Side, Unit, digest_of
from replay.admission.reads import INPUTS_OF_ANY, PolicyReads
from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet, MatchPolicy, MatchResources, Rule
from replay.kube.attributes import Missing, Operation, PartialObject
from replay.kube.overlay import definitions
from replay.kube.schema import CRD, known_spec

KIND = CRD.kind
_WRITES = (Operation.CREATE, Operation.UPDATE, Operation.DELETE)
_SUBRESOURCES = ("", "status")
_METADATA = ".metadata."
_NOT_SERVED = "the server could not find the requested resource"


def _name(definition: JSON) -> str:
    return str(definition["metadata"]["name"])


def _shown(name: str) -> str:
    return f"{KIND}/{name}"


class CustomResourcePlugin:
    """The definitions among the objects of a set."""

    name = KIND
    mutates = False
    is_visible_in_log = False
    differs_by_minor = False

    def units(self, manifests: ManifestSet) -> Iterator[Unit]:
        """Yield a unit for each definition."""
        for each in definitions(manifests.objects):
            names = (each.get("spec") or {}).get("names") or {}
            group, plural = str((each.get("spec") or {}).get("group")), str(names.get("plural"))
            rule = Rule(_WRITES, (group,), ("*",), (plural, f"{plural}/status"))
            # Sorted, so that the order of keys in a manifest makes no difference.
            digest = digest_of(KIND, orjson.dumps(each.get("spec"), option=orjson.OPT_SORT_KEYS).decode())
            yield Unit(
                _shown(_name(each)), digest, MatchResources(resource_rules=(rule,), match_policy=MatchPolicy.EXACT)
            )

    def names(self, manifests: ManifestSet) -> Iterator[str]:
        """Yield the names of the definitions."""
        yield from (_shown(_name(each)) for each in definitions(manifests.objects))

    def reads(self, manifests: ManifestSet, version: KubernetesVersion) -> Iterator[PolicyReads]:
        """Yield the reads of the definitions: whole objects."""
        del version
        for unit in self.units(manifests):
            yield PolicyReads(unit.name, ((unit.match,),), INPUTS_OF_ANY)

    def looked_up(self, manifests: ManifestSet) -> Iterator[tuple[str, str]]:
        """Yield the kind of definitions, to find the one that was in force."""
        if definitions(manifests.objects):
            yield CRD.group, CRD.kind

    def compiled(self, sets: Sequence[ManifestSet], context: Context) -> CompiledCustomResources:
        """Return the definitions compiled for several sets."""
        return CompiledCustomResources(sets, context)


class CompiledCustomResources:
    """The definitions of several sets, by group and resource."""

    def __init__(self, sets: Sequence[ManifestSet], context: Context) -> None:
        """`sets` begins with the baseline, whose definitions were in force."""
        self._version = context.version
        self._own = [_definitions_by_resource(manifests) for manifests in sets]
        self.admits = False
        self.validates = any(self._own[1:])

    def _definition(self, asking: Asking) -> str | None:
        """Return the name of a definition that some set brings for a request."""
        attributes = asking.sides[0].attributes
        if attributes.operation not in _WRITES or attributes.subresource not in _SUBRESOURCES:
            return None
        key = attributes.resource.group, attributes.resource.resource
        return next((own[key] for own in self._own[1:] if key in own), None)

    def admitters(self, asking: Asking) -> None:
        """Return None: definitions change nothing."""
        del asking

    def validator(self, asking: Asking) -> RequestValidator | None:
        """Return the validation of a request to a kind that a set defines."""
        return None if self._definition(asking) is None else self._validate

    def _validate(self, objects: Sequence[Object], asking: Asking, live: Sequence[bool]) -> Sequence[Decision]:
        name = self._definition(asking)
        assert name is not None
        before = known_spec(asking.sides[0].lister.get(CRD, "", name))
        return [
            ADMITTED if index == 0 or not is_live else self._decision(name, before, side, value)
            for index, (side, value, is_live) in enumerate(zip(asking.sides, objects, live, strict=True))
        ]

    def _decision(self, name: str, before: JSON, side: Side, value: Object) -> Decision:
        after, attributes = known_spec(side.lister.get(CRD, "", name)), side.attributes
        if after is None or after == before:
            return ADMITTED
        effects, version = Effects(), attributes.resource.version
        served = _served(after, version)
        if served is None:
            effects.denials.append(Denial(_shown(name), "", None, _NOT_SERVED, "NotFound", 404))
            return effects.decision()
        earlier = None if before is None else _schema(_served(before, version))
        # A deletion is not validated. It only needs a version that is served.
        if attributes.operation == Operation.DELETE or _schema(served) == earlier:
            return ADMITTED
        old = attributes.old_object if attributes.operation == Operation.UPDATE else None
        if (unknown := _unknown(value, old)) is not None:
            reason = f"`{unknown.path}` is not known: {unknown.reason}"
            effects.undetermined.append(Undetermined(_shown(name), "", reason, unknown.path, unknown.fix))
            return effects.decision()
        content, found = _known(value), _known(old)
        judgement = judged(_schema(served), earlier, content, found, self._version)
        if judgement.errors:
            kind, own_name = attributes.kind, str((content.get("metadata") or {}).get("name") or attributes.name)
            text = invalid_text(kind.kind, kind.group, own_name, judgement.errors)
            effects.denials.append(Denial(_shown(name), "", None, text, "Invalid", 422))
        effects.undetermined += (Undetermined(_shown(name), "", reason) for reason in judgement.open)
        return effects.decision()

    def admitter_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> None:
        """Return None: there is no mutating phase."""
        del index, manifests, asking

    def validator_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> BuiltinValidatorWatch | None:
        """Return the observed validation of one set."""
        del manifests
        validator = self.validator(asking) if index else None
        return None if validator is None else BuiltinValidatorWatch(KIND, index, validator)


def _definitions_by_resource(manifests: ManifestSet) -> dict[tuple[str, str], str]:
    specs = ((each.get("spec") or {}, _name(each)) for each in definitions(manifests.objects))
    return {(str(spec.get("group")), str((spec.get("names") or {}).get("plural"))): name for spec, name in specs}


def _served(spec: JSON, version: str) -> Mapping[str, JSON] | None:
    """Return a version that a definition serves."""
    return next(
        (each for each in spec.get("versions") or () if each.get("name") == version and each.get("served")), None
    )


def _schema(version: Mapping[str, JSON] | None) -> JSON:
    return None if version is None else (version.get("schema") or {}).get("openAPIV3Schema")


def _unknown(*objects: Object) -> Missing | None:
    """Return an unknown part of the objects outside of their metadata, which a schema does not describe."""
    for value in objects:
        if isinstance(value, Missing):
            return value
        if isinstance(value, PartialObject):
            parts = (each for each in value.missing if _METADATA not in f".{each.path}.")
            if (part := next(parts, None)) is not None:
                return part
    return None


def _known(value: Object) -> JSON:
    return value.value if isinstance(value, PartialObject) else value
