"""Policy engines that `replay plugin` can ask.

An engine decides the AdmissionRequests of cases with the objects of one policy file and of a snapshot. It runs alone,
without built-in plugins, webhook configurations and other policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import orjson
from msgspec import Struct

from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.engine_policy import ENGINES, function_of
from replay.pipeline.scenario import Scenario
from replay.reconstruct.snapshot import numbered_lines, read_snapshot

DECIDERS: Final[Mapping[str, str]] = {engine.name: engine.decider for engine in ENGINES}
"""Module and function of each engine, by its name."""


class EngineCase(Struct, frozen=True):
    """One request at the mutating and the validating webhook, or None for a phase that it did not reach.

    The requests are AdmissionRequests (`admission.k8s.io/v1`).
    """

    id: str
    mutating: dict[str, JSON] | None
    validating: dict[str, JSON] | None
    synthetic: bool = False


EngineDecider = Callable[[Path, Iterator[EngineCase], Sequence[dict[str, JSON]]], Iterator[dict[str, JSON]]]
"""Decides cases with the objects of a policy file and of a cluster; yields result lines.

A line is {id, PHASE: {allowed, ...}} or {id, undetermined: [reason]}. A first line {load: [...]} names refused objects.
Requests that are allowed and unchanged may have no line. Raises ManifestError for an unreadable policy file.
"""


def engine_results(name: str, config: Path, cases: Sequence[Path], scenario: Scenario) -> Iterator[dict[str, JSON]]:
    """Yield the result lines of an engine in the order of the cases. Raise ReplayError for unusable input."""
    if not cases:
        raise ReplayError("no requests: give files of AdmissionRequests with --cases")
    if scenario.logs or scenario.store is not None:
        raise ReplayError(f"{name} decides the requests of --cases: leave out LOG and --store")
    decide: EngineDecider = function_of(DECIDERS[name])
    cluster = [dict(obj) for obj in read_snapshot(scenario.cluster)] if scenario.cluster is not None else []
    yield from decide(config, (case for path in cases for case in engine_cases(path)), cluster)


def engine_cases(path: Path) -> Iterator[EngineCase]:
    """Yield the cases of a file. Raise ReplayError with file and line for an invalid case.

    A line is {id, mutating, validating} or {id, request}. In the second form both phases have the same request.
    """
    for number, line in numbered_lines(path):
        try:
            case = orjson.loads(line)
            both = case.get("request")
            mutating, validating = case.get("mutating", both), case.get("validating", both)
            if not any(isinstance(each, dict) for each in (mutating, validating)):
                raise ReplayError(
                    "is no case with `id` and `request`, `mutating` or `validating`", path=str(path), line=number
                )
            yield EngineCase(str(case["id"]), mutating, validating, bool(case.get("synthetic")))
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
            raise ReplayError(f"is no case: {error}", path=str(path), line=number) from error
