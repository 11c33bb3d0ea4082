"""Expansion of workloads to the objects that they create (`gatekeeper/pkg/expansion`)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from replay.gatekeeper.template import RefusedError
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.engine_policy import group_of

_DEEPEST = 30

GroupVersionKind = tuple[str, str, str]


class ExpansionError(Exception):
    """Workload that cannot be expanded. `str()` is Gatekeeper's message."""


class ExpansionTemplate(Struct, frozen=True):
    """Kinds that are expanded, the field that holds the template, and the generated kind."""

    name: str
    applies: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...]
    source: str
    generated: GroupVersionKind
    action: str = ""

    def is_for(self, kind: GroupVersionKind) -> bool:
        """Return whether the template expands a kind."""
        return any(
            kind[0] in groups and kind[1] in versions and kind[2] in kinds for groups, versions, kinds in self.applies
        )


class Resultant(NamedTuple):
    """Object that a workload would create."""

    object: dict[str, JSON]
    template: str
    action: str


def expansion_template_of(value: JSON) -> ExpansionTemplate:
    """Return an ExpansionTemplate. Raises RefusedError."""
    name = (value.get("metadata") or {}).get("name") or ""
    spec = value.get("spec") or {}
    generated = spec.get("generatedGVK") or {}
    if not name:
        raise RefusedError("ExpansionTemplate has empty name field")
    if len(name) >= 64:
        raise RefusedError("ExpansionTemplate name must be less than 64 characters")
    if not spec.get("templateSource"):
        raise RefusedError(f"ExpansionTemplate {name} has empty source field")
    kind = (generated.get("group") or "", generated.get("version") or "", generated.get("kind") or "")
    if not any(kind):
        raise RefusedError(f"ExpansionTemplate {name} has empty generatedGVK field")
    if not spec.get("applyTo"):
        raise RefusedError(f"ExpansionTemplate {name} must specify ApplyTo")
    applies = tuple(
        (tuple(each.get("groups") or ()), tuple(each.get("versions") or ()), tuple(each.get("kinds") or ()))
        for each in spec["applyTo"]
    )
    template = ExpansionTemplate(name, applies, spec["templateSource"], kind, spec.get("enforcementAction") or "")
    if template.is_for(kind):
        shown = f"{kind[0]}/{kind[1]}, Kind={kind[2]}"
        raise RefusedError(f"ExpansionTemplate {name} generates GVK {shown}, but also applies to that same GVK")
    return template


class ExpansionSystem:
    """All expansion templates, except those in a cycle."""

    def __init__(self) -> None:
        """Start without templates."""
        self._templates: dict[str, ExpansionTemplate] = {}
        self._circular: set[str] = set()

    def add(self, template: ExpansionTemplate) -> None:
        """Add a template. Raises RefusedError if it closes a cycle."""
        self._templates[template.name] = template
        circular = {name for name in self._templates if self._reaches(name, name)}
        is_new = bool(circular - self._circular) or template.name in circular
        self._circular = circular
        if is_new:
            raise RefusedError("template forms expansion cycle")

    def _reaches(self, start: str, goal: str) -> bool:
        seen: set[str] = set()
        left = [start]
        while left:
            made = self._templates[left.pop()].generated
            for name, each in self._templates.items():
                if each.is_for(made):
                    if name == goal:
                        return True
                    if name not in seen:
                        seen.add(name)
                        left.append(name)
        return False

    @property
    def is_empty(self) -> bool:
        """Whether there are no templates."""
        return not self._templates

    def templates_for(self, kind: GroupVersionKind) -> Iterator[ExpansionTemplate]:
        """Yield the templates that expand a kind."""
        return (
            each for name, each in sorted(self._templates.items()) if name not in self._circular and each.is_for(kind)
        )

    def expand(
        self,
        value: Mapping[str, JSON],
        namespace: Mapping[str, JSON] | None,
        mutate: Callable[[dict[str, JSON]], dict[str, JSON]],
        depth: int = 0,
    ) -> list[Resultant]:
        """Return all objects that an object creates, recursively. Raises ExpansionError."""
        if depth >= _DEEPEST:
            raise ExpansionError(f"maximum recursion depth of {_DEEPEST} reached")
        version = str(value.get("apiVersion") or "").rpartition("/")[2]
        kind = (group_of(value), version, str(value.get("kind") or ""))
        if not any(kind):
            raise ExpansionError(f"cannot expand resource {_name(value)} with empty GVK")
        made = [
            Resultant(_generated_object(value, namespace, each), each.name, each.action)
            for each in self.templates_for(kind)
        ]
        made = [each._replace(object=mutate(each.object)) for each in made]
        found: list[Resultant] = []
        for each in made:
            found += self.expand(each.object, namespace, mutate, depth + 1)
        return found + made


def _name(value: Mapping[str, JSON]) -> str:
    return str((value.get("metadata") or {}).get("name") or "")


def _generated_object(
    value: Mapping[str, JSON], namespace: Mapping[str, JSON] | None, template: ExpansionTemplate
) -> dict[str, JSON]:
    found: JSON = value
    for part in template.source.split("."):
        if isinstance(found, dict) and isinstance(found.get(part), Missing):
            raise ExpansionError(found[part].reason)
        if not isinstance(found, dict) or part not in found:
            raise ExpansionError(f'could not find source field "{template.source}" in resource {_name(value)}')
        found = found[part]
    if not isinstance(found, dict):
        raise ExpansionError(
            f"could not extract source field from unstructured: .{template.source} accessor error: {found} is of the type, expected map[string]interface{{}}"
        )
    made: dict[str, JSON] = copy.deepcopy(found)
    group, version, kind = template.generated
    made["apiVersion"], made["kind"] = (f"{group}/{version}" if group else version), kind
    metadata = made["metadata"] = dict(made.get("metadata") or {})
    own = (
        (namespace.get("metadata") or {}).get("name")
        if namespace is not None
        else (value.get("metadata") or {}).get("namespace")
    )
    if own:
        metadata["namespace"] = own
    elif namespace is not None or own == "":
        metadata.pop("namespace", None)
    name = _name(value)
    metadata["name"] = (f"{name}-{kind}" if kind else name).lower()
    if value.get("apiVersion") and value.get("kind") and name:
        owner = {"apiVersion": value["apiVersion"], "kind": value["kind"], "name": name}
        known = list(metadata.get("ownerReferences") or ())
        if not any(all(each.get(key) == item for key, item in owner.items()) for each in known):
            metadata["ownerReferences"] = [*known, {**owner, "uid": ""}]
    return made
