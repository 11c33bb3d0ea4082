"""All Gatekeeper objects of a set, loaded as its controllers do. Refused objects are reported and skipped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from replay.gatekeeper.alike import AlikeSaid
from replay.gatekeeper.constraint import GROUP, Constraint, ConstraintIndex, constraint_of
from replay.gatekeeper.expansion import ExpansionSystem, ExpansionTemplate, expansion_template_of
from replay.gatekeeper.match import fits, group_of
from replay.gatekeeper.mutation.mutator import GROUP as MUTATIONS
from replay.gatekeeper.mutation.mutator import mutator_of
from replay.gatekeeper.mutation.system import MutationSystem
from replay.gatekeeper.rego.builtins.external import ProviderAnswer
from replay.gatekeeper.rego.value import from_json
from replay.gatekeeper.template import ConstraintTemplate, RefusedError, template_of
from replay.json import JSON

TEMPLATES, CONFIG, SYNC, EXPANSION, EXTERNAL = (
    "templates.gatekeeper.sh",
    "config.gatekeeper.sh",
    "syncset.gatekeeper.sh",
    "expansion.gatekeeper.sh",
    "externaldata.gatekeeper.sh",
)
GROUPS = frozenset({TEMPLATES, GROUP, MUTATIONS, CONFIG, SYNC, EXPANSION, EXTERNAL, "status.gatekeeper.sh"})
_PROCESSES = ("audit", "webhook", "mutation-webhook", "sync")

GroupVersionKind = tuple[str, str, str]


class Refusal(NamedTuple):
    """Object that Gatekeeper refuses, with the message."""

    kind: str
    name: str
    message: str

    def __str__(self) -> str:
        """Return `Kind/name: message`."""
        return f"{self.kind}/{self.name}: {self.message}"


class GatekeeperPolicies:
    """Templates, constraints, mutators, expansion and configuration of a set."""

    def __init__(self, objects: Iterable[JSON], *, engine: str = "", prune: bool = False) -> None:
        """Load templates first, then the other objects in order.

        `engine` is preferred if a template has code for it. `prune` drops unknown fields of constraints.
        """
        self.templates: dict[str, ConstraintTemplate] = {}
        self.constraints: dict[str, Constraint] = {}
        self.mutation = MutationSystem()
        self.expansion = ExpansionSystem()
        self.synced: set[GroupVersionKind] = set()
        self.excluded: dict[str, list[str]] = {process: [] for process in _PROCESSES}
        self.answers: dict[str, dict[str, ProviderAnswer]] = {}
        """Recorded answers of external data providers."""
        self.refused: list[Refusal] = []
        self.alike = AlikeSaid()
        """Earlier results of the constraints for alike reviews."""
        self._engine, self._prune = engine, prune
        own = [each for each in objects if isinstance(each, dict) and is_of_gatekeeper(each)]
        groups = {group_of(each) for each in own}
        self.mutates = MUTATIONS in groups
        """Whether the set has mutators, even refused ones. The mutating webhook then exists."""
        self.validates = bool(groups & {GROUP, TEMPLATES})
        for each in sorted(own, key=lambda value: value.get("kind") != "ConstraintTemplate"):
            try:
                self._add(each)
            except RefusedError as error:
                self.refused.append(
                    Refusal(
                        str(each.get("kind") or ""), str((each.get("metadata") or {}).get("name") or ""), str(error)
                    )
                )

    @cached_property
    def index(self) -> ConstraintIndex:
        """Constraints indexed by what they may match."""
        return ConstraintIndex(self.constraints.values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing in the set decides or changes anything."""
        return not self.constraints and not self.mutation.mutators

    def _add(self, value: JSON) -> None:
        group, kind = group_of(value), value.get("kind") or ""
        spec = value.get("spec") if isinstance(value.get("spec"), dict) else {}
        if (group, kind) == (TEMPLATES, "ConstraintTemplate"):
            template = template_of(value, self._engine)
            self.templates[template.kind.lower()] = template
        elif group == GROUP:
            known = self.templates.get(str(kind).lower())
            if known is None:
                raise RefusedError(f'missing ConstraintTemplate: template "{str(kind).lower()}" not found')
            constraint = constraint_of(value, known, prune=self._prune)
            self.constraints[constraint.key] = constraint
        elif group == MUTATIONS:
            self.mutation.add(mutator_of(value))
        elif (group, kind) == (EXPANSION, "ExpansionTemplate"):
            self.expansion.add(expansion_template_of(value))
        elif (group, kind) == (CONFIG, "Config"):
            self._configure(spec)
        elif (group, kind) == (SYNC, "SyncSet"):
            self._sync(spec.get("gvks"))
        elif (group, kind) == (EXTERNAL, "ProviderResponse"):
            self._record(str((value.get("metadata") or {}).get("name")), value.get("response"))

    def _configure(self, spec: JSON) -> None:
        self._sync((spec.get("sync") or {}).get("syncOnly"))
        for entry in spec.get("match") or ():
            for process in entry.get("processes") or ():
                for each in _PROCESSES if process == "*" else [process]:
                    self.excluded.setdefault(each, []).extend(entry.get("excludedNamespaces") or ())

    def _record(self, provider: str, response: JSON) -> None:
        recorded = self.answers.setdefault(provider, {})
        for item in (response or {}).get("items") or ():
            recorded[str(item.get("key"))] = ProviderAnswer(from_json(item.get("value")), str(item.get("error") or ""))

    def _sync(self, kinds: JSON) -> None:
        self.synced |= {
            (each.get("group") or "", each.get("version") or "", each.get("kind") or "") for each in kinds or ()
        }

    @property
    def uses_inventory(self) -> bool:
        """Whether a template reads the inventory."""
        return any(each.rego is not None and each.rego.uses_inventory for each in self.templates.values())

    def excludes_synced(self, group: str, kind: str, value: Mapping[str, JSON]) -> bool:
        """Return whether the configuration excludes an object from the inventory."""
        metadata = value.get("metadata") or {}
        own = metadata.get("name" if (group, kind) == ("", "Namespace") else "namespace") or ""
        return self.excludes("sync", str(own))

    def excludes(self, process: str, name: str) -> bool:
        """Return whether the configuration excludes a namespace."""
        return any(fits(pattern, name) for pattern in self.excluded.get(process, ()))


def is_of_gatekeeper(value: JSON) -> bool:
    """Return whether an object belongs to Gatekeeper."""
    return group_of(value) in GROUPS


__all__ = ["ExpansionTemplate", "GatekeeperPolicies", "Refusal", "is_of_gatekeeper"]
