"""What of two policies formulas cannot hold against each other; each of it makes the answer not known."""

from __future__ import annotations

from collections.abc import Sequence

from replay.kube.discovery import Discovery
from replay.prove.normal.match import canonical, match_alike
from replay.prove.symbolic.policy_model import UnmodelledError
from replay.prove.unit import Unit


def require_covered(units: Sequence[Unit], discovery: Discovery) -> None:
    """Raise `UnmodelledError` for what is not covered."""
    if len({unit.policy.static for unit in units}) > 1:
        raise UnmodelledError("one side is a static manifest and the other an object of the API")
    _require_same_params(units)
    if not match_alike(units):
        _require_known_resources(units, discovery)


def _require_same_params(units: Sequence[Unit]) -> None:
    """Parameters are one object that is there or not: all bindings must look for the same ones."""
    kinds = {canonical(unit.policy.param_kind) for unit in units}
    if len(kinds) > 1:
        raise UnmodelledError("the sides take parameters of different kinds")
    if kinds == {None}:
        return
    refs = {
        None
        if each.param_ref is None
        else (each.param_ref.name, each.param_ref.namespace, canonical(each.param_ref.selector))
        for unit in units
        for each in unit.bindings
    }
    if len(refs) > 1:
        raise UnmodelledError("bindings look for different parameters")


def _require_known_resources(units: Sequence[Unit], discovery: Discovery) -> None:
    """Where match sections differ, custom resources stand for themselves only if rules tell no versions or scopes apart."""
    groups = {each.resource.group for each in discovery if not each.custom}
    sections = [section for unit in units for section in unit.matches]
    for section in sections:
        for rule in (*section.resource_rules, *section.exclude_resource_rules):
            names_custom = any(group not in groups for group in rule.api_groups)
            if names_custom and ("*" not in rule.api_versions or rule.scope != "*"):
                raise UnmodelledError("rules differ, and tell versions or scopes of custom resources apart")
