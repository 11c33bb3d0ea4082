"""What plugins may do with a request, by its class alone: its verb, group, resource and subresource. No body is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property

from replay.admission.inputs import Place, read_places
from replay.admission.ordered.registry import criteria_of, mutating_criteria, reads_of, unseen_criteria
from replay.admission.reads import AUTHORIZER, OLD_OBJECT
from replay.cellib.version import Versions
from replay.kube.admissionregistration import ManifestSet, MatchResources
from replay.kube.attributes import Operation
from replay.kube.discovery import Discovery
from replay.matching.coarse import Classed, CoarseClass, may_select
from replay.matching.rules import EquivalentResourceMapper, excluded_from_all


class ClassQuestions:
    """Questions about classes of requests to a baseline and a candidate. Each is answered once for a class."""

    def __init__(self, sets: Sequence[ManifestSet], versions: Versions, discovery: Discovery) -> None:
        """Read nothing of the sets yet. `discovery` has the resources that are the same through several groups."""
        self._current, self._candidate = sets
        self._versions = versions
        self._mapper = EquivalentResourceMapper(discovery)
        self._excluded = excluded_from_all(sets)
        self._changed: dict[tuple[CoarseClass, Operation], bool] = {}
        self._heeded: dict[tuple[CoarseClass, frozenset[Place]], bool] = {}

    def may_have_changed(self, record: Classed, operation: Operation) -> bool:
        """Return whether a mutating policy of the baseline may match a request of an operation, without a trace."""
        requests = _class_of(record)
        is_match = self._changed.get((requests, operation))
        if is_match is None:
            criteria = unseen_criteria(self._current, operation)
            is_match = any(select(requests) for select in self._selecting(criteria))
            self._changed[requests, operation] = is_match
        return is_match

    @cached_property
    def may_be_mutated(self) -> Callable[[Classed], bool]:
        """Return whether a mutating plugin of either set may match a request."""
        return self._any_selects(mutating_criteria((self._current, self._candidate)))

    @cached_property
    def asks_candidate(self) -> Callable[[Classed], bool]:
        """Return whether a plugin of the candidate may match a request."""
        return self._any_selects(criteria_of((self._candidate,)))

    @cached_property
    def consulted(self) -> Callable[[CoarseClass], bool]:
        """Return whether a candidate policy that may match a class of requests uses the authorizer or parameters."""
        asking = (
            each
            for each in reads_of(self._candidate, self._versions.candidate)
            if AUTHORIZER in each.inputs or each.param_kind is not None
        )
        selecting = self._selecting(together[0] for each in asking for together in each.criteria)
        return cache(lambda requests: any(each(requests) for each in selecting))

    def consults(self, record: Classed) -> bool:
        """Return whether a candidate policy with authorizer or parameters may match a request."""
        return self.consulted(_class_of(record))

    def reads_places(self, record: Classed, places: frozenset[Place]) -> bool:
        """Return whether a candidate policy or webhook that may match the request reads one of `places`.

        The places are in `object` or `oldObject`.
        """
        requests = _class_of(record)
        key = (requests, places)
        if key not in self._heeded:
            places_read = frozenset[str]().union(
                *(paths for selects, paths in self._candidate_reads if selects(requests))
            )
            # A later request has the same difference in its `oldObject`.
            old_places = frozenset((OLD_OBJECT, *place[1:]) for place in places)
            self._heeded[key] = bool(read_places(places_read, places | old_places))
        return self._heeded[key]

    @cached_property
    def _candidate_reads(self) -> list[tuple[Callable[[CoarseClass], bool], frozenset[str]]]:
        return [
            (may_select(together[0], self._mapper, self._excluded), each.paths)
            for each in reads_of(self._candidate, self._versions.candidate)
            for together in each.criteria
        ]

    def _selecting(self, criteria: Iterable[MatchResources]) -> list[Callable[[CoarseClass], bool]]:
        return [may_select(each, self._mapper, self._excluded) for each in criteria]

    def _any_selects(self, criteria: Iterable[MatchResources]) -> Callable[[Classed], bool]:
        selecting = self._selecting(criteria)
        verdicts: dict[tuple[str, str, str, str], bool] = {}

        def selects(record: Classed) -> bool:
            requests = (record.verb, record.api_group, record.resource, record.subresource)
            if requests not in verdicts:
                verdicts[requests] = any(each(CoarseClass(*requests)) for each in selecting)
            return verdicts[requests]

        return selects


def _class_of(record: Classed) -> CoarseClass:
    return CoarseClass(record.verb, record.api_group, record.resource, record.subresource)
