"""Policies that are evaluated together decide as each does by itself: values, errors, unknowns and budgets."""

from __future__ import annotations

from typing import Any

import pytest

from replay.admission.inputs import Inputs
from replay.admission.validating.evaluation import SharedEvaluation
from replay.admission.validating.outcome import Action
from replay.admission.validating.validator import Validator
from replay.cel.value.values import TypedMap
from replay.cellib.version import NEWEST
from replay.kube.admissionregistration import (
    AuditAnnotation,
    FailurePolicy,
    MatchCondition,
    ValidatingAdmissionPolicy,
    Validation,
    Variable,
)
from replay.kube.attributes import Missing, PartialObject

OBJECT: dict[str, Any] = {"kind": "Pod", "name": "a", "size": 3, "items": [1, 2], "text": "x" * 4_500_000}
MISSING = Missing("object.size", "not in the log")
DEAR = "!object.text.contains('y')"
"""Costs some 450,000."""


def policy(*validations: str | Validation, **others: Any) -> ValidatingAdmissionPolicy:
    made = tuple(Validation(each, "no") if isinstance(each, str) else each for each in validations)
    return ValidatingAdmissionPolicy("p", static=True, validations=made, **others)


def variables(**expressions: str) -> tuple[Variable, ...]:
    return tuple(Variable(name, expression) for name, expression in expressions.items())


def conditions(*expressions: str) -> tuple[MatchCondition, ...]:
    return tuple(MatchCondition(f"c{index}", each) for index, each in enumerate(expressions))


ROWS: dict[str, tuple[tuple[ValidatingAdmissionPolicy, ...], tuple[str, ...]]] = {
    "the same text, other variables": (
        (
            policy("variables.a == 1", variables=variables(a="1")),
            policy("variables.a == 1", variables=variables(a="2")),
            policy("variables.a == 1", variables=variables(a="1", b="2")),
            policy("variables.a == 1", variables=variables(b="1", a="variables.b")),
            policy("variables.a == 1", variables=variables(b="2", a="variables.b")),
            policy("variables.a == 1", variables=variables(a="'1'")),
            policy("variables.a == 1", variables=variables(a="dyn(object).nothing")),
            policy("variables.a == 1"),
        ),
        ("", "deny", "", "", "deny", "compilation", "nothing", "compilation"),
    ),
    "a variable that replaces another one": (
        (policy("variables.a == 1", variables=(*variables(a="1"), *variables(a="variables.a + 1"))),) * 2,
        ("reads itself", "reads itself"),
    ),
    "all variables at once": (
        (
            policy("dyn(variables).all(v, v == 1)", variables=variables(a="1")),
            policy("dyn(variables).all(v, v == 1)", variables=variables(a="1", b="2")),
        ),
        ("", "deny"),
    ),
    "operands in common": (
        (
            policy("object.size > 5 || object.name == 'b'"),
            policy("object.size > 5 || object.name == 'a'"),
            policy("object.name == 'c' || object.size > 5 || object.kind == 'Node'"),
            policy("object.nothing == 1 || object.size > 5"),
            policy("object.nothing == 1 || object.size > 2"),
            policy("object.size > 2 || object.nothing == 1"),
            policy("object.size > 5 || dyn('text')"),
            policy("(object.size > 5 || object.name == 'b') && object.size == 3"),
        ),
        ("deny", "", "deny", "nothing", "", "", "no such overload", "deny"),
    ),
    "a loop's name that is not the same": (
        (
            policy("object.items.all(i, i < 3) || object.name == 'b'"),
            policy("object.items.all(j, j < 3) || object.name == 'c'"),
            policy("object.items.exists(j, j > 3) || object.name == 'c'"),
        ),
        ("", "", "deny"),
    ),
    "match conditions": (
        (
            policy("false", match_conditions=conditions("object.size > 5")),
            policy("false", match_conditions=conditions("object.size > 2", "object.size > 5")),
            policy("false", match_conditions=conditions("object.nothing == 1", "object.size > 5")),
            policy("false", match_conditions=conditions("object.nothing == 1", "object.size > 2")),
            policy(
                "false",
                match_conditions=conditions("object.nothing == 1", "object.size > 2"),
                failure_policy=FailurePolicy.IGNORE,
            ),
            policy("false", match_conditions=conditions("object.size > 2")),
            policy("false", match_conditions=conditions("has(namespaceObject.metadata)")),
        ),
        ("", "", "", "nothing", "", "deny", ""),
    ),
    "messages": (
        (
            policy(Validation("object.size > 5", "no", "'%d'.format([object.size])")),
            policy(Validation("object.size > 5", "other", "'%d'.format([object.size])", "Forbidden")),
            policy(Validation("object.size > 5", "other", "object.nothing")),
            policy(Validation("object.size > 2", "no", "object.nothing")),
        ),
        ("deny", "deny", "deny", ""),
    ),
    "annotations": (
        (
            policy("true", audit_annotations=(AuditAnnotation("a", "object.name"),)),
            policy("true", audit_annotations=(AuditAnnotation("b", "object.name"), AuditAnnotation("c", "''"))),
            policy("true", audit_annotations=(AuditAnnotation("b", "object.nothing"),)),
            policy("object.size > 5", audit_annotations=(AuditAnnotation("b", "object.name"),)),
        ),
        ("admit", "admit", "admit", "deny"),
    ),
    "budget of validations": (
        (policy(DEAR), policy(*[DEAR] * 30), policy(DEAR)),
        ("", "out of cost budget", ""),
    ),
    "budget of match conditions": (
        (
            policy("false", match_conditions=conditions(DEAR)),
            policy("true", match_conditions=conditions(*[DEAR] * 8)),
            policy("true", match_conditions=conditions("false", *[DEAR] * 8)),
        ),
        ("deny", "out of cost budget", "out of cost budget"),
    ),
    "the limit of one expression, which its operands keep": (
        (
            policy(f"!({DEAR}) || object.size > 5"),
            policy(f"!({DEAR}) || !({DEAR}) || !({DEAR}) || object.size > 2"),
        ),
        ("deny", "actual cost limit exceeded"),
    ),
    "budget of messages": (
        (
            policy(*[Validation("false", "no", f"{DEAR} ? 'text' : ''")] * 2),
            policy(*[Validation("false", "no", f"{DEAR} ? 'text' : ''")] * 30),
        ),
        ("deny", "failed messageExpression"),
    ),
}


def outcome(result: Any) -> str:
    """The first error or message, else what the first decision does."""
    for decision in result.decisions:
        if decision.action is Action.DENY:
            return str(decision.message) if decision.evaluation == "error" else "deny"
    return str(result.decisions[0].action) if result.decisions else ""


@pytest.mark.parametrize("name", ROWS)
def test_together_as_alone(name: str) -> None:
    policies, expected = ROWS[name]
    validators = [Validator(each, NEWEST) for each in policies]
    for _ in range(2):  # operands are told apart once they were met
        shared = SharedEvaluation(inputs(OBJECT))
        together = [each.decide(shared) for each in validators]
        assert together == [each.validate(inputs(OBJECT)) for each in validators]
    found = [outcome(each) for each in together]
    assert [text if text and text in told else told for text, told in zip(expected, found, strict=True)] == list(
        expected
    )


def test_unknown_parts_together_as_alone() -> None:
    partial = PartialObject({**OBJECT, "size": MISSING}, (MISSING,))
    expressions = (
        "object.size > 5",
        "object.size > 5 || object.name == 'a'",
        "object.size > 5 || object.name == 'b'",
        "object.name == 'a' || object.size > 5",
        "object.name == 'b' || object.kind == 'Pod'",
    )
    validators = [Validator(policy(each), NEWEST) for each in expressions]
    shared = SharedEvaluation(inputs(partial))
    together = [each.decide(shared) for each in validators]
    assert together == [each.validate(inputs(partial)) for each in validators]
    assert [outcome(each) for each in together] == ["unknown", "", "unknown", "", ""]


def inputs(obj: Any) -> Inputs:
    request: dict[str, Any] = {"name": "a"}
    bindings = {"object": TypedMap(obj), "oldObject": None, "request": request, "namespaceObject": None}
    return Inputs(bindings, request)
