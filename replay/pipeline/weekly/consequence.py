"""Consequences in a period, as in `replay run`.

They are the denials that follow from a set enforced from the start of the period.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from replay.audit.ingest import Progress
from replay.audit.store import Store
from replay.compare.weekly import EffectSide
from replay.pipeline.manifests import Manifests
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.workers import WorkerPool
from replay.pipeline.replay.world import World, world_of
from replay.pipeline.weekly.promotion import planned_policies
from replay.pipeline.weekly.scope import ReportScope
from replay.world.reach import LogAnswers

PeriodSide = tuple[int, EffectSide]
"""The position of a period, and whose policies are enforced."""


class Enforcement(Struct, frozen=True):
    """The sets to enforce: the candidate, and the baseline with its policies on trial denying.

    `trial` are the policies that the candidate does not enforce, by workspace.
    """

    manifests: Manifests
    candidate: bool
    trial: Mapping[str, frozenset[str]]

    @staticmethod
    def from_scope(scope: ReportScope) -> Enforcement:
        """Return the policies of a report's sets that could be enforced."""
        candidate, trial = False, dict[str, frozenset[str]]()
        for own in scope.own_sets():
            policies = list(planned_policies(own.manifests))
            candidate |= any(each.side is EffectSide.CANDIDATE for each in policies)
            trial[own.workspace] = frozenset(each.policy.name for each in policies if each.side is EffectSide.CURRENT)
        return Enforcement(scope.manifests, candidate, trial)

    def denying(self) -> Manifests:
        """Return the baseline, and as candidate the baseline with policies on trial denying."""
        return self.manifests.denying(self.trial)


def consequences_by_side(
    store: Store,
    worker_pools: Mapping[EffectSide, WorkerPool[Job]],
    divergence: Mapping[PeriodSide, Divergence],
    progress: Progress,
) -> dict[PeriodSide, World]:
    """Return the consequences of each side. The pool's job has the enforced policies as candidate."""
    answers = LogAnswers(store)
    return {
        where: world_of(answers, worker_pools[where[1]], divergence[where], progress) for where in sorted(divergence)
    }
