"""A whole that is handed on stays known in part: an expression rewritten with an identity is decided alike, and no less often."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.admission.inputs import Inputs, evaluations
from replay.cellib.composition import Evaluated
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import ExpressionCompiler
from replay.cellib.version import NEWEST
from replay.json import JSON, FieldPath
from replay.kube.attributes import Missing, PartialObject

BUDGET = 10_000_000
IDENTITIES = {
    "a conditional": "(request.operation == 'DELETE' ? oldObject : {x})",
    "a conditional on the object": "(object == null ? oldObject : {x})",
    "an element of a list": "[{x}][0]",
    "an element of two": "[oldObject, {x}][1]",
    "an entry of a map": "{{'k': {x}}}.k",
    "an entry by a computed name": "{{'k': {x}}}[request.operation == '' ? 'a' : 'k']",
    "a mapped list": "[{x}].map(y, y)[0]",
    "a filtered list": "[{x}].filter(y, y != null)[0]",
    "joined lists": "([] + [{x}])[0]",
    "a list from two variables": "[{x}].transformList(i, y, y)[0]",
    "a map from two variables": "{{'k': {x}}}.transformMap(i, y, y).k",
    "an optional": "optional.of({x}).value()",
    "an optional with an alternative": "optional.of({x}).orValue(oldObject)",
    "a dynamic value": "dyn({x})",
    "a variable": "variables.whole",
}
EXPRESSIONS = {
    "labels": "has({x}.metadata.labels) && 'team' in {x}.metadata.labels",
    "a field beside what is missing": "{x}.metadata.uid == 'u' || {x}.metadata.name == 'n'",
    "a field or what is missing": "{x}.metadata.name == 'n' && {x}.metadata.uid == 'u'",
    "each container": "{x}.spec.containers.all(c, has(c.image) && c.image.startsWith('i'))",
    "some container": "{x}.spec.containers.exists(c, c.name == 'b')",
    "how many": "size({x}.spec.containers) == 2 && size({x}.metadata) > 0",
    "optional fields": "{x}.?spec.?hostNetwork.orValue(false) || {x}.metadata.?labels.?team.hasValue()",
    "names in a list": "'b' in {x}.spec.containers.map(c, c.name)",
    "an absent field": "{x}.spec.absent == 1 || {x}.metadata.name == 'n'",
    "the whole": "{x} == oldObject || {x}.metadata.name == 'n'",
    "null": "{x} != null && {x}.spec != null && {x}.metadata.name != null",
}
OBJECT: JSON = {
    "metadata": {"name": "n", "uid": "u", "labels": {"team": "t"}},
    "spec": {"hostNetwork": False, "containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]},
}
PARTS: tuple[FieldPath, ...] = (
    ("metadata", "uid"),
    ("metadata", "name"),
    ("metadata", "labels"),
    ("metadata", "labels", "team"),
    ("spec", "hostNetwork"),
    ("spec", "containers"),
    ("spec", "containers", 0, "image"),
    ("spec", "containers", 1, "image"),
    ("spec", "containers", 1, "name"),
    ("spec", "absent"),
)


def without(value: Any, part: FieldPath, missing: Missing) -> Any:
    """A copy with a part that is not known."""
    if not part:
        return missing
    copy = value.copy()
    copy[part[0]] = without(value[part[0]] if isinstance(part[0], int) else value.get(part[0], {}), part[1:], missing)
    return copy


def partly(parts: frozenset[FieldPath]) -> PartialObject | JSON:
    value, missing = OBJECT, []
    for part in sorted(parts, key=str):
        if any(other != part and part[: len(other)] == other for other in parts):
            continue
        path = "object" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in part)
        missing.append(Missing(path, "it is not in the log"))
        value = without(value, part, missing[-1])
    return PartialObject(value, tuple(missing)) if missing else value


def decided(expression: str, value: Any, whole: str = "object") -> Evaluated:
    compiler = ExpressionCompiler(NEWEST, has_params=False)
    compiler.declare_variable("whole", whole)
    bindings = {"object": value, "oldObject": {"metadata": {"name": "old"}}, "request": {"operation": "UPDATE"}}
    compiled = compiler.compile(ExpressionKind.VALIDATION, expression)
    assert compiled.error is None
    return evaluations(compiler, Inputs(bindings, bindings["request"]), BUDGET).evaluate(compiled)


@pytest.mark.parametrize("identity", IDENTITIES)
@settings(deadline=None, max_examples=25)
@given(
    expression=st.sampled_from(sorted(EXPRESSIONS.values())), parts=st.frozensets(st.sampled_from(PARTS), max_size=3)
)
def test_identities(identity: str, expression: str, parts: frozenset[FieldPath]) -> None:
    value = partly(parts)
    plain = decided(expression.format(x="object"), value)
    rewritten = decided(expression.format(x=IDENTITIES[identity].format(x="object")), value)
    if not plain.unknown:
        assert rewritten.unknown == ()
    if not rewritten.unknown:
        assert not plain.unknown
        assert (rewritten.value, rewritten.error) == (plain.value, plain.error)


NAMED = [
    (
        "what Gatekeeper generates",
        'has(request.operation) && request.operation == "DELETE" && object == null ? oldObject : object',
    ),
    ("a variable of a list", "[oldObject, object].filter(x, x.metadata.name == 'n')[0]"),
]


@pytest.mark.parametrize("whole", [row[1] for row in NAMED], ids=[row[0] for row in NAMED])
def test_variables(whole: str) -> None:
    value = partly(frozenset({("metadata", "uid"), ("spec", "containers", 0, "image")}))
    expression = "has(variables.whole.metadata.labels) && variables.whole.spec.containers.exists(c, c.image == 'j')"
    assert (decided(expression, value, whole).value, decided(expression, value).unknown) == (True, ())
