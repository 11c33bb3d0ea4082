"""Conditions for exit code 1."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from replay.compare.api_version_use import Service
from replay.compare.authorization import FINDINGS as AUTHORIZATION_FINDINGS
from replay.compare.outcome import MUTATIONS, OutcomeKind
from replay.compare.result import RunResult
from replay.errors import ReplayError
from replay.pipeline.project.format import FailOn
from replay.report.run.views import lockout

USUAL = (FailOn.DENIED, FailOn.MUTATED, FailOn.REMOVED)
"""Default, as in `kubectl diff`: anything newly denied, mutated, forbidden, allowed, or no longer served."""


def exit_code(result: RunResult, fail_on: Collection[FailOn] = USUAL) -> int:
    """1 where something is found that a run is to fail on, else 0; raises ReplayError for `none` beside others."""
    if FailOn.NONE in fail_on and len(set(fail_on)) > 1:
        raise ReplayError("`none` stands alone: it fails on nothing", path="--fail-on")
    return int(any(_FOUND[each](result) for each in fail_on))


def _denied(result: RunResult) -> bool:
    authorization = result.authorization
    changes = authorization is not None and any(authorization.outcomes[kind] for kind in AUTHORIZATION_FINDINGS)
    return changes or result.summary.outcomes[OutcomeKind.NEWLY_DENIED] > 0


def _locked_out(result: RunResult) -> bool:
    """Whether a request of the cluster's own components is denied, and not in consequence of another denial."""
    return any(key.outcome is OutcomeKind.NEWLY_DENIED and lockout(key) for key in result.summary.cells)


def _mutated(result: RunResult) -> bool:
    return any(result.summary.outcomes[kind] for kind in MUTATIONS)


def _undecided(result: RunResult) -> bool:
    return result.summary.outcomes[OutcomeKind.UNDETERMINED] > 0


def _removed(result: RunResult) -> bool:
    """Whether a request succeeded in an API version that the candidate's server no longer serves."""
    return any(use.service is Service.REMOVED and use.succeeded for use in result.api_versions)


def _nothing(_result: RunResult) -> bool:
    return False


_FOUND: Mapping[FailOn, Callable[[RunResult], bool]] = {
    FailOn.DENIED: _denied,
    FailOn.LOCKOUT: _locked_out,
    FailOn.MUTATED: _mutated,
    FailOn.UNDECIDED: _undecided,
    FailOn.REMOVED: _removed,
    FailOn.NONE: _nothing,
}
