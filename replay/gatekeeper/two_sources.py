"""Templates with both Rego and CEL, split into two sets with one source each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from replay.errors import ReplayError
from replay.gatekeeper.constraint import GROUP
from replay.gatekeeper.match import group_of
from replay.gatekeeper.mutation.mutator import GROUP as MUTATIONS
from replay.gatekeeper.policy_set import TEMPLATES, GatekeeperPolicies
from replay.gatekeeper.template import CEL, REGO, engines_of
from replay.json import JSON

_TEMPLATE = "ConstraintTemplate"


class TwoSources(NamedTuple):
    """Objects of a set by the source that decides, and the names of the templates that have both."""

    rego: tuple[JSON, ...]
    cel: tuple[JSON, ...]
    templates: tuple[str, ...]


def two_sources(objects: Iterable[JSON], path: str = "") -> TwoSources:
    """Split a set. Raises ReplayError if no template has both sources, or if an object is refused.

    Every constraint denies, whatever its enforcement action. A template without a constraint gets one that matches
    everything. Mutators are skipped.
    """
    own = list(objects)
    both = {str(each["metadata"].get("name")): each for each in own if _is_template(each) and len(engines_of(each)) > 1}
    if not both:
        raise ReplayError("no ConstraintTemplate has both Rego and CEL (K8sNativeValidation)", path=path)
    kinds = {str(each["spec"]["crd"]["spec"]["names"]["kind"]): each for each in both.values()}
    constraints = [_denying(each) for each in own if group_of(each) == GROUP and each.get("kind") in kinds]
    # A template without a constraint is compared with a constraint that matches everything.
    bare = sorted(kinds.keys() - {each["kind"] for each in constraints})
    constraints += (
        {"apiVersion": f"{GROUP}/v1beta1", "kind": kind, "metadata": {"name": kind.lower()}} for kind in bare
    )
    others = [each for each in own if not _is_template(each) and group_of(each) not in (GROUP, MUTATIONS)]
    sides = [
        (*others, *(_with_one_engine(each, engine) for each in both.values()), *constraints) for engine in (REGO, CEL)
    ]
    for side in sides:
        for refusal in GatekeeperPolicies(side, prune=True).refused:
            raise ReplayError(str(refusal), path=path)
    return TwoSources(sides[0], sides[1], tuple(sorted(both)))


def _is_template(value: JSON) -> bool:
    return group_of(value) == TEMPLATES and value.get("kind") == _TEMPLATE


def _with_one_engine(template: JSON, engine: str) -> JSON:
    """Return a template with the code of one engine only."""
    spec = template["spec"]
    target = dict(spec["targets"][0])
    target["code"] = [each for each in target.get("code") or () if each.get("engine") == engine]
    if engine != REGO:
        target.pop("rego", None)
        target.pop("libs", None)
    return {**template, "spec": {**spec, "targets": [target]}}


def _denying(constraint: JSON) -> JSON:
    spec = constraint.get("spec") or {}
    kept = {
        name: value for name, value in spec.items() if name not in ("enforcementAction", "scopedEnforcementActions")
    }
    return {**constraint, "spec": kept}
