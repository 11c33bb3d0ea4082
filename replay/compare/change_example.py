"""One object before and after a mutation, for each group of mutations in a report.

The first request of each group is kept, for the groups with the earliest first requests. So the order in which parts
are merged does not matter.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct, field

from replay.compare.outcome import Outcome, OutcomeKind
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.kube.json_patch import JSONPatchError, apply
from replay.kube.redact import Redactor

MAX_GROUPS = 200
NOT_KNOWN = "(not known)"
GroupKey = tuple[OutcomeKind, tuple[str, ...], tuple[tuple[str, ...], ...]]
"""Key by which a report groups mutations: outcome, policies, and the shapes of their patches."""


class ChangeExample(NamedTuple):
    """The object that the baseline leaves, and the object that the candidate leaves."""

    seq: int
    item: int
    about: str
    current: JSON
    candidate: JSON


class ChangeExamples(Struct):
    """The examples of one part of a log, or of the whole log."""

    groups: dict[GroupKey, ChangeExample] = field(default_factory=dict)

    def offer(
        self, key: GroupKey, outcome: Outcome, current_attributes: Attributes | Missing, redactor: Redactor
    ) -> None:
        """Keep a request if it is the first of its group. `current_attributes` are the attributes before mutation."""
        first = self.groups.get(key)
        if isinstance(current_attributes, Missing) or (first is not None and first[:2] <= (outcome.seq, outcome.item)):
            return
        value = _shown(current_attributes.object)
        if not isinstance(value, dict):
            return
        try:
            current_object, candidate_object = (
                apply(value, decision.patch) for decision in (outcome.current, outcome.candidate)
            )
        except JSONPatchError:
            return
        sides = (redactor.object(current_object), redactor.object(candidate_object))
        self._keep(key, ChangeExample(outcome.seq, outcome.item, _about(outcome), *sides))

    def add(self, other: ChangeExamples) -> None:
        """Add the examples of another part."""
        for key, example in other.groups.items():
            first = self.groups.get(key)
            if first is None or example[:2] < first[:2]:
                self._keep(key, example)

    def _keep(self, key: GroupKey, example: ChangeExample) -> None:
        self.groups[key] = example
        if len(self.groups) > MAX_GROUPS:
            del self.groups[max(self.groups, key=lambda each: self.groups[each][:2])]


def _about(outcome: Outcome) -> str:
    resource = str(outcome.resource.group_resource)
    resource = f"{resource}/{outcome.subresource}" if outcome.subresource else resource
    name = f"{outcome.namespace}/{outcome.name}" if outcome.namespace else outcome.name
    return f"{outcome.operation} {resource} {name} by {outcome.user}"


def _shown(value: JSON | PartialObject | Missing) -> JSON:
    """Return an object as plain JSON, with unknown parts marked."""
    return _plain(value.value) if isinstance(value, PartialObject) else value


def _plain(value: JSON) -> JSON:
    if isinstance(value, Missing):
        return NOT_KNOWN
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
