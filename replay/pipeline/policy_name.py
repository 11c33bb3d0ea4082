"""Which policies an operator means: by name, with wildcards, or by as much of a name as tells it from all others."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase

from replay.errors import ReplayError
from replay.kube.admissionregistration import ManifestSet
from replay.kube.engine_policy import engine_policies
from replay.pipeline.log import NEAR

WILDCARDS = frozenset("*?[")
_STATIC = ".static.k8s.io"
_CUT = "\u2026"
"""Ending of static names in narrow reports."""


def resolve_policy_names(name: str, names: Collection[str], place: str = "--policy") -> set[str]:
    """Return the known names that match; raises ReplayError with near matches for none or several, at `place`.

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
    for holding in _holding(name.removesuffix(_CUT).lower(), names):
        if len(holding) == 1:
            return set(holding)
    near = holding or get_close_matches(name, sorted(names), n=NEAR, cutoff=0.4)
    hint = f"; did you mean {' or '.join(f'`{each}`' for each in near[:NEAR])}?" if near else ""
    what = f"`{name}` is part of {len(holding)} names" if holding else f"the sets have no policy `{name}`"
    raise ReplayError(f"{what}{hint}", path=place)


def names_of(manifests: ManifestSet) -> Iterator[str]:
    """The names of all policies, of engines too, webhooks, their configurations, and built-in plugins of a set."""
    yield from (policy.name for policy in manifests.validating_policies)
    yield from (policy.name for policy in manifests.mutating_policies)
    yield from (plugin.name for plugin in manifests.builtin)
    for configuration in (*manifests.validating_webhooks, *manifests.mutating_webhooks):
        yield configuration.name
        yield from (webhook.name for webhook in configuration.webhooks)
    yield from engine_policies(manifests.engine_objects)


def is_part(name: str, names: Collection[str]) -> bool:
    """Whether any known name holds a short one."""
    return any(_holding(name.removesuffix(_CUT).lower(), names))


def _holding(name: str, names: Collection[str]) -> Iterator[list[str]]:
    """Yield names that a short one may mean, from the narrowest to the widest reading."""
    if name:
        yield sorted(each for each in names if each.lower() == f"{name}{_STATIC}")
        yield sorted(each for each in names if each.lower().startswith(name))
        yield sorted(each for each in names if name in each.lower())
