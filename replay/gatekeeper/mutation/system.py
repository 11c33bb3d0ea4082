"""All mutators of a set, applied until nothing changes (`gatekeeper/pkg/mutation/system.go`)."""

from __future__ import annotations

import copy

from replay.gatekeeper.match import Matchable, MatchError, group_of
from replay.gatekeeper.mutation.conflict import ImpliedSchemas
from replay.gatekeeper.mutation.mutator import Mutator
from replay.gatekeeper.mutation.walk import MutationError
from replay.gatekeeper.template import RefusedError
from replay.json import JSON
from replay.kube.json_patch import diff

NO_UUID = "00000000-0000-0000-0000-000000000000"
"""Placeholder for the random identifier in the errors of a mutation."""


class MutationSystem:
    """Mutators, ordered by kind and name."""

    def __init__(self) -> None:
        """Start without mutators."""
        self._mutators: dict[tuple[str, str], Mutator] = {}
        self._schemas = ImpliedSchemas()
        self._ordered: list[Mutator] = []

    def add(self, mutator: Mutator) -> None:
        """Add a mutator. Raises RefusedError if it conflicts with others. Then none of these is applied."""
        self._mutators[mutator.kind, mutator.name] = mutator
        self._ordered = [self._mutators[key] for key in sorted(self._mutators)]
        found = self._schemas.add(
            mutator.key, mutator.bindings, mutator.location, mutator.terminal, terminates=mutator.terminates
        )
        if found:
            raise RefusedError(f"the following mutators have conflicting schemas: [{','.join(sorted(found))}]")

    @property
    def mutators(self) -> tuple[Mutator, ...]:
        """Mutators that are applied, in order."""
        return tuple(each for each in self._ordered if each.key not in self._schemas.conflicting)

    def mutate(
        self, value: dict[str, JSON], namespace: JSON, source: str, operation: str
    ) -> tuple[dict[str, JSON], dict[str, list[JSON]]]:
        """Return the object after all mutators, and each mutator's changes. Raises MutationError and NotKnownError."""
        mutators = self.mutators
        patches: dict[str, list[JSON]] = {}
        current = copy.deepcopy(value)
        # Each round applies every mutator once. As in Gatekeeper, there is one round more than mutators.
        for _ in range(len(self._ordered) + 1):
            before = copy.deepcopy(current)
            applied = False
            for mutator in mutators:
                try:
                    if not mutator.matches(Matchable(current, namespace, source), operation):
                        continue
                except MatchError as error:
                    raise MutationError(
                        f"matching for mutator {mutator.key} failed for {_described(current)}: failed to run Match criteria: {error}"
                    ) from None
                try:
                    own = copy.deepcopy(current)
                    if mutator.mutate(current):
                        applied = True
                        if own != current:
                            patches.setdefault(mutator.policy, []).extend(diff(own, current))
                except MutationError as error:
                    raise MutationError(
                        f"mutation {NO_UUID} for mutator {mutator.key} failed for {_described(current)}: {error}"
                    ) from None
            if not applied or current == before:
                return current, patches
        raise MutationError(f"mutation not converging: mutation {NO_UUID} not converging for {_described(current)}")


def _described(value: dict[str, JSON]) -> str:
    metadata = value.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    return f"{group_of(value)} {value.get('kind') or ''} {metadata.get('namespace') or ''} {name}"
