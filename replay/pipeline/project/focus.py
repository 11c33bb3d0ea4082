"""Selection of a run: policies, namespaces, users, a period.

A policy is named in full, with wildcards, or by a unique part of its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase

from msgspec.structs import replace

from replay.admission.ordered.registry import units_of
from replay.audit.answer import decision_views
from replay.audit.engine import literal
from replay.audit.ingest import ROW_BITS
from replay.audit.store import Store
from replay.authorization.manifest import NOTHING
from replay.compare.outcome import OutcomeKind
from replay.compare.summary import CellKey
from replay.errors import ReplayError
from replay.kube.admissionregistration import ManifestSet
from replay.kube.engine_policy import engine_policies
from replay.matching.coarse import Predicate, both, coarse_predicate
from replay.matching.rules import EquivalentResourceMapper
from replay.pipeline.log import MOST_SUGGESTIONS, require_known
from replay.pipeline.manifests import Manifests
from replay.pipeline.options import Focus, period, sql_time
from replay.pipeline.replay.distinct_set import only_named
from replay.pipeline.replay.job import Job
from replay.reconstruct.cluster import Cluster

WILDCARDS = frozenset("*?[")
_STATIC = ".static.k8s.io"
_CUT = "\u2026"
"""Ending of static names in narrow reports."""


def resolve_policy_names(name: str, names: Collection[str], place: str = "--policy") -> set[str]:
    """Return the known names that match. Raise ReplayError with near matches for none or several, at `place`.

    A name without wildcards is complete, lacks the static suffix, or is a unique prefix or part. The first reading that
    fits counts, so `team-label` is not also `default-team-label`.
    """
    if name in names:
        return {name}
    if WILDCARDS & set(name):
        matches = {each for each in names if fnmatchcase(each, name)}
        if matches:
            return matches
    holding: list[str] = []
    for holding in _possible_names(name.removesuffix(_CUT).lower(), names):
        if len(holding) == 1:
            return set(holding)
    near = holding or get_close_matches(name, sorted(names), n=MOST_SUGGESTIONS, cutoff=0.4)
    hint = f"; did you mean {' or '.join(f'`{each}`' for each in near[:MOST_SUGGESTIONS])}?" if near else ""
    what = f"`{name}` is part of {len(holding)} names" if holding else f"the sets have no policy `{name}`"
    raise ReplayError(f"{what}{hint}", path=place)


def names_of(manifests: ManifestSet) -> Iterator[str]:
    """Yield the names of a set's policies (also of engines), webhooks, webhook configurations and built-in plugins."""
    parts = (*manifests.policies, *manifests.builtin, *manifests.configurations(), *manifests.webhooks)
    yield from (each.name for each in parts)
    yield from engine_policies(manifests.engine_objects)


def contains_name(name: str, names: Collection[str]) -> bool:
    """Return whether a known name contains a short one."""
    return any(_possible_names(name.removesuffix(_CUT).lower(), names))


def _possible_names(name: str, names: Collection[str]) -> Iterator[list[str]]:
    """Yield names that a short one may mean, from the narrowest to the widest reading."""
    if name:
        yield sorted(each for each in names if each.lower() == f"{name}{_STATIC}")
        yield sorted(each for each in names if each.lower().startswith(name))
        yield sorted(each for each in names if name in each.lower())


_OF_NAME = {
    "namespace": 'select 1 from request where "namespace" = $name limit 1',
    "user": "select 1 from request where username = $name limit 1",
}
_OF_ALL = frozenset({OutcomeKind.UNDETERMINED, OutcomeKind.NEWLY_WARNED, OutcomeKind.NEWLY_AUDITED})
"""Outcomes whose cause is a text, or that may belong to a named policy in any case."""


def named_policies(manifests: Manifests, names: Iterable[str]) -> frozenset[str]:
    """Return the policies, webhooks and plugins that names match in both sets.

    `resolve_policy_names` reads the names. Raise ReplayError with near matches.
    """
    policy_names = {name for each in manifests.sets for name in names_of(each)}
    policies: set[str] = set()
    for name in names:
        policies |= resolve_policy_names(name, policy_names)
    listed = {
        (configuration.name, webhook.name)
        for each in manifests.sets
        for configuration in each.configurations()
        for webhook in configuration.webhooks
    }
    webhooks = {webhook for configuration, webhook in listed if configuration in policies}
    configurations = {configuration for configuration, webhook in listed if webhook in policies}
    asked = webhooks | policies
    behind = {each for sets in manifests.sets for name in asked for each in engine_policies(sets.engine_objects, name)}
    return frozenset(policies | webhooks | configurations | behind)


def narrowed(manifests: Manifests, names: frozenset[str]) -> Manifests:
    """Return both sets without validating parts that are not named, and without authorizers."""
    current, candidate = (
        None if each is None else only_named(each, names) for each in (manifests.current, manifests.candidate)
    )
    nobody = (NOTHING, NOTHING)
    return replace(manifests, current=current, candidate=candidate, authorization=nobody, only=names)


def concerns(names: frozenset[str], key: CellKey) -> bool:
    """Return whether a finding concerns a named policy. Mutating policies run without being named."""
    return (
        not names
        or key.outcome in _OF_ALL
        or any(policy == name or policy.endswith(f"/{name}") for policy in key.policies for name in names)
    )


def chosen(store: Store, focus: Focus) -> Predicate | None:
    """Return a predicate for the requests of some namespaces and users in a period, and of some batches, None for all.

    Raise ReplayError for names that the log does not know, and for a period without events.
    """
    for kind, names in (("namespace", focus.namespaces), ("user", focus.users)):
        _require_known(store, kind, names)
    parts = [
        _any_of('"namespace"', focus.namespaces),
        _any_of("username", focus.users),
        _any_of(_workspaces(store), focus.workspaces) if focus.workspaces else "",
    ]
    if focus.since or focus.until:
        begin, end = period(store, focus.since, focus.until, focus.zone)
        parts.append(f"stage_time between {literal(sql_time(begin))} and {literal(sql_time(end))}")
    if focus.batches is not None:
        parts.append(_OF_BATCHES.format(*(batch << ROW_BITS for batch in focus.batches)))
    conditions = [part for part in parts if part]
    return Predicate(f"({' and '.join(conditions)})", ()) if conditions else None


_OF_BATCHES = (
    "seq in (select seq from read_parquet(getvariable('store_rows'), hive_partitioning = false)"
    " where row_id >= {} and row_id < {})"
)


def _workspaces(store: Store) -> str:
    """Return an SQL expression for the path of a request's workspace.

    Raise ReplayError for a log without workspaces.
    """
    rows = store.answer("workspaces")
    if not rows:
        raise ReplayError("the log has no workspaces: it is not of kcp", path="--workspace")
    cases = " ".join(f"when {literal(str(row[0]))} then {literal(str(row[1] or row[0]))}" for row in rows)
    return f"(case workspace {cases} else '' end)"


def _require_known(store: Store, kind: str, names: tuple[str, ...]) -> None:
    """Raise ReplayError for a name that the log does not know. All names are looked up only if one has no request."""
    for name in names:
        if not WILDCARDS & set(name) and store.sql(_OF_NAME[kind], name=name).is_empty():
            store.sql(decision_views())
            require_known(store, kind, name)


def _any_of(column: str, patterns: tuple[str, ...]) -> str:
    condition = " or ".join(f"{column} glob {literal(pattern)}" for pattern in patterns)
    return f"({condition})" if condition else ""


def concerning(job: Job, names: frozenset[str]) -> Predicate | None:
    """Return a predicate for the requests that policies of some names may match, None for all requests."""
    if not names:
        return None
    units = [unit for each in job.distinct_sets for unit in units_of(each) if unit.name in names]
    mapper = EquivalentResourceMapper(Cluster(job.snapshot).discovery)
    return coarse_predicate([unit.match for unit in units], mapper, excluded=job.excluded)


def within(store: Store, job: Job, focus: Focus) -> Job:
    """Return a job limited to the selection."""
    predicate = chosen(store, focus)
    return job if predicate is None else replace(job, within=predicate, predicate=both(job.predicate, predicate))


def conjunction(*predicates: Predicate | None) -> Predicate | None:
    """Return the conjunction of predicates; None selects everything."""
    predicate: Predicate | None = None
    for each in predicates:
        predicate = each if predicate is None else predicate if each is None else both(predicate, each)
    return predicate
