"""The policies that decide cases: sets in any form, single files, and policies of other tools without validation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from replay.cellib.version import NEWEST, KubernetesVersion
from replay.json import JSON
from replay.kube.admissionregistration import GROUP, VALIDATING_POLICY, ManifestSet, Registration
from replay.manifests.api_object import defaulted_api_objects, refusals
from replay.manifests.manifest_set import manifest_set_from_objects
from replay.manifests.set_loader import SetObjects, set_objects
from replay.manifests.static_rule import STATIC_SUFFIX

NO_BINDING = "(no binding)"
"""Name of the binding that a policy without one gets, so that it can be tested alone. No real object can have it."""
_API_VERSION = "admissionregistration.k8s.io/v1"


class PoliciesOfOthers(Struct, frozen=True):
    """Policies as another tool accepts them, and the reasons for which a server would refuse them."""

    manifests: ManifestSet
    refusals: tuple[str, ...] = ()


class PolicyLoader(Struct):
    """Loader of the policies of cases. It loads each set once. `paths` are the policies of cases that name none."""

    version: KubernetesVersion = NEWEST
    paths: tuple[Path, ...] = ()
    _objects: dict[tuple[str, ...], SetObjects] = field(default_factory=dict)
    _sets: dict[tuple[tuple[str, ...], bytes], ManifestSet] = field(default_factory=dict)
    _of_others: dict[bytes, PoliciesOfOthers] = field(default_factory=dict)

    def load(self, paths: Iterable[Path], through_api: Iterable[JSON] = ()) -> ManifestSet:
        """Return the sets at these paths as one, with objects that were created through the API.

        Policies of a set without any binding get one, so that they decide. Raises ManifestError for what a server would
        refuse.
        """
        places, objects = tuple(str(path) for path in paths), list(through_api)
        key = places, orjson.dumps(objects)
        manifests = self._sets.get(key)
        if manifests is None:
            added = SetObjects(api=tuple(defaulted_api_objects(objects, self.version)))
            manifests = self._at(places).with_added(added, self.version).manifest_set(self.version)
            # A case says nothing of most objects that built-in plugins look at: they are not asked.
            manifests = replace(manifests, builtin=())
            manifests = self._sets[key] = manifests if manifests.bindings else bound(manifests)
        return manifests

    def _at(self, places: tuple[str, ...]) -> SetObjects:
        objects = self._objects.get(places)
        if objects is None:
            objects = SetObjects(api=())
            for place in places:
                objects = objects.with_added(set_objects(Path(place), self.version), self.version)
            self._objects[places] = objects
        return objects

    def of_others(
        self,
        objects: Iterable[JSON],
        *,
        only: str | None = None,
        first_binding: bool = False,
        params: JSON = None,
        strict: bool = False,
    ) -> PoliciesOfOthers:
        """Return `policies_of_others` with the server's refusals of the evaluated ones. Equal objects are loaded once.

        A `strict` tool accepts no field that the type does not have.
        """
        object_list = list(objects)
        key = orjson.dumps([object_list, only, first_binding, params, strict])
        policies = self._of_others.get(key)
        if policies is None:
            asked = [_with_actions(obj) for obj in object_list if is_policy(obj) and only in (None, _policy_of(obj))]
            refused = tuple(refusals(asked, self.version, strict=strict))
            manifests = (
                ManifestSet()
                if refused
                else policies_of_others(object_list, only=only, first_binding=first_binding, params=params)
            )
            policies = self._of_others[key] = PoliciesOfOthers(manifests, refused)
        return policies


def is_policy(obj: JSON) -> bool:
    """Return whether an object is a policy, a binding or a webhook configuration."""
    return isinstance(obj, dict) and str(obj.get("apiVersion")).startswith(f"{GROUP}/")


def bound(manifests: ManifestSet) -> ManifestSet:
    """Return a set in which every policy has a binding. An added binding denies."""
    unbound = (policy for policy, bindings in manifests.bound_policies(Registration) if not bindings)
    added = manifest_set_from_objects([], [_binding(each.kind, each.name) for each in unbound])
    return manifests.with_registrations(added.registrations)


def _binding(kind: str, policy: str, **spec: JSON) -> JSON:
    actions = {"validationActions": ["Deny"]} if kind == VALIDATING_POLICY else {}
    metadata = {"name": NO_BINDING}
    spec = {"policyName": policy, **actions, **spec}
    return {"apiVersion": _API_VERSION, "kind": f"{kind}Binding", "metadata": metadata, "spec": spec}


def policies_of_others(
    objects: Iterable[JSON], *, only: str | None = None, first_binding: bool = False, params: JSON = None
) -> ManifestSet:
    """Return policies and bindings as other tools use them: decoded and defaulted, but not validated.

    `only` names the tested policy, with its first binding if `first_binding`. `params` are given to every policy that
    takes some. A validating binding without actions denies.
    """
    policies = [_with_actions(obj) for obj in objects]
    defaulted = list(defaulted_api_objects(policies, NEWEST))
    chosen = defaulted if only is None else [obj for obj in defaulted if _policy_of(obj) == only]
    if first_binding:
        first = next((obj for obj in chosen if obj["kind"].endswith("Binding")), None)
        chosen = [obj for obj in chosen if not obj["kind"].endswith("Binding") or obj is first]
    if params is not None:
        chosen = [*_with_params(chosen, params)]
    static = [obj for obj in chosen if _policy_of(obj).endswith(STATIC_SUFFIX)]
    return bound(manifest_set_from_objects(static, [obj for obj in chosen if obj not in static]))


def _policy_of(obj: JSON) -> str:
    """Return the name of the policy that an object is or binds."""
    part, field_ = ("spec", "policyName") if str(obj.get("kind")).endswith("Binding") else ("metadata", "name")
    fields = obj.get(part)
    return str((fields.get(field_) if isinstance(fields, dict) else None) or "")


def _with_actions(obj: JSON) -> JSON:
    spec = obj.get("spec") if isinstance(obj, dict) else None
    if not isinstance(spec, dict) or obj.get("kind") != f"{VALIDATING_POLICY}Binding" or spec.get("validationActions"):
        return obj
    return {**obj, "spec": {**spec, "validationActions": ["Deny"]}}


def _with_params(objects: list[JSON], params: JSON) -> Iterator[JSON]:
    """Yield the objects with bindings that name the parameters. Policies without a binding get one."""
    metadata = params.get("metadata") or {}
    reference = {"name": metadata.get("name", ""), "parameterNotFoundAction": "Deny"}
    if metadata.get("namespace"):
        reference["namespace"] = metadata["namespace"]
    takes = {obj["metadata"]["name"]: obj for obj in objects if (obj.get("spec") or {}).get("paramKind")}
    bindings = {_policy_of(obj) for obj in objects if obj["kind"].endswith("Binding")}
    for obj in objects:
        is_bound = obj["kind"].endswith("Binding") and _policy_of(obj) in takes
        yield {**obj, "spec": {**obj["spec"], "paramRef": reference}} if is_bound else obj
    for name in takes.keys() - bindings:
        yield _binding(takes[name]["kind"], name, paramRef=reference)
