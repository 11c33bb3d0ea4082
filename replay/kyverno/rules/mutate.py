"""Rules that mutate the object of the request (`pkg/engine/mutate`, `pkg/engine/handlers/mutation`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from replay.go.format import marshal
from replay.json import JSON
from replay.kyverno.rules.condition import evaluate_conditions
from replay.kyverno.rules.context import LoaderSource, declare_entries
from replay.kyverno.rules.go_value import as_map, with_integers
from replay.kyverno.rules.json6902 import apply_json6902
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import ERROR, PASS, SKIP, RuleError, RuleResponse, UndeterminedError
from replay.kyverno.rules.strategic_merge import merge_with_anchors
from replay.kyverno.rules.substitution import substitute
from replay.kyverno.rules.validate import add_element, elements_of

Rule = Mapping[str, Any]
MOST_MUTATIONS = 500
"""Limit of ours for elements that are patched one by one. Kyverno reaches its webhook's timeout earlier."""


_PATCHES: Final = ("patchStrategicMerge", "patchesJson6902")


class _Mutated(Struct, frozen=True):
    """Result of a mutation: status, object, message."""

    status: str
    obj: JSON
    message: str


def mutate_rule(request: Request, rule: Rule, resource: JSON, source: LoaderSource) -> tuple[JSON, list[RuleResponse]]:
    """Return the object after a rule, None after an error, and the rule's result.

    Raises UndeterminedError and GoPanicError.
    """
    mutation = as_map(rule.get("mutate"))
    if mutation.get("foreach") is not None:
        result = _loops(request, mutation["foreach"], resource, source, 0)
    else:
        # Kyverno substitutes the whole rule, so an entry of its context or a condition that nothing else reads can fail.
        result = _patched(request, rule, resource, "mutate")
    message = _success(result.obj) if result.status == PASS else result.message
    return result.obj, [RuleResponse(str(rule.get("name") or ""), result.status, message)]


def _success(obj: JSON) -> str:
    if obj is None:
        return "mutated resource"
    metadata = as_map(obj.get("metadata"))
    place = f"mutated {obj.get('kind') or ''}/{metadata.get('name') or ''}"
    return f"{place} in namespace {metadata['namespace']}" if metadata.get("namespace") else place


def _error(message: str, error: Exception | None = None) -> _Mutated:
    return _Mutated(ERROR, None, f"{message}: {error}" if error is not None else message)


def _patched(request: Request, document: Mapping[str, Any], resource: JSON, place: str = "") -> _Mutated:
    """Apply one patch after substitution in the document. The patch is at `place` of it, or is the document itself."""
    try:
        patches = as_map(substitute(request.context, document))
        patches = as_map(patches[place]) if place else patches
    except RuleError as error:
        return _error("variable substitution failed", error)
    merge, operations = patches.get("patchStrategicMerge"), patches.get("patchesJson6902")
    if merge is None and not operations:
        return _error("empty mutate rule")
    try:
        if merge is not None:
            patched = merge_with_anchors(resource, merge)
        else:
            patched = apply_json6902(resource, str(operations))
    except RuleError as error:
        return _error("failed to patch resource", error)
    if not isinstance(patched, dict) or not patched.get("kind"):
        return _error(f"failed to unmarshal patched resource: Object 'Kind' is missing in '{marshal(patched)}'")
    patched = with_integers(patched)
    # The texts too: for Python, 1 equals 1.0 and true.
    if patched == resource and marshal(patched) == marshal(resource):
        return _Mutated(SKIP, resource, "no patches applied")
    return _Mutated(PASS, patched, "resource patched")


def _loops(
    request: Request, loops: Sequence[Mapping[str, Any]], resource: JSON, source: LoaderSource, nesting: int
) -> _Mutated:
    applied = 0
    for loop in loops:
        expression = str(loop.get("list") or "")
        try:
            elements = elements_of(request.context, expression)
        except RuleError as error:
            # Kyverno writes the error twice.
            return _error(f"failed to evaluate list {expression}: {error}", error)
        result = _elements(request, loop, elements, resource, source, nesting)
        if result.status == ERROR:
            return _error("failed to mutate elements", RuleError(result.message))
        if result.status != SKIP:
            applied += 1
            resource = result.obj if result.status == PASS else resource
            request.context.set_object(result.obj, "request", "object")
    message = f"{applied} elements processed"
    return _Mutated(PASS if applied else SKIP, resource, message)


def _elements(
    request: Request,
    loop: Mapping[str, Any],
    elements: list[JSON],
    resource: JSON,
    source: LoaderSource,
    nesting: int,
) -> _Mutated:
    """Process all elements, each on the result of the one before.

    A strategic merge goes from last to first.
    """
    if len(elements) > MOST_MUTATIONS:
        raise UndeterminedError(f"a foreach mutates more than {MOST_MUTATIONS} elements")
    order = loop.get("order")
    # A strategic merge puts new items first: the reversed loop keeps them in the order of the elements.
    is_reversed = loop.get("patchStrategicMerge") is not None if order is None else order == "Descending"
    numbered = list(enumerate(elements))
    request.context.checkpoint()
    try:
        patched = resource
        for index, element in reversed(numbered) if is_reversed else numbered:
            if element is None:
                continue
            request.context.reset()
            result = _element(request, loop, element, index, patched, source, nesting)
            if result is None:
                continue
            if result.status == ERROR:
                return result
            if result.status == PASS:
                patched = result.obj
    finally:
        request.context.restore()
    if patched == resource and marshal(patched) == marshal(resource):
        return _Mutated(SKIP, patched, "no patches applied")
    return _Mutated(PASS, patched, "")


def _element(
    request: Request,
    loop: Mapping[str, Any],
    element: JSON,
    index: int,
    resource: JSON,
    source: LoaderSource,
    nesting: int,
) -> _Mutated | None:
    """Process one element. Return None if its preconditions are not met."""
    place = f"mutate.foreach[{index}]"
    try:
        add_element(request, element, index, nesting, scope=False)
    except RuleError as error:
        return _error(f"failed to add element to {place}.context", error)
    try:
        declare_entries(request.context, loop.get("context"), source)
    except RuleError as error:
        return _error(f"failed to load to {place}.context", error)
    try:
        met, _ = evaluate_conditions(request.context, loop.get("preconditions"))
    except RuleError as error:
        return _error(f"failed to evaluate {place}.preconditions", error)
    if not met:
        return None
    if loop.get("foreach"):
        return _loops(request, loop["foreach"], resource, source, nesting + 1)
    return _patched(request, {key: loop[key] for key in _PATCHES if loop.get(key) is not None}, resource)
