"""Evaluation of match conditions when only some fields of the request are known.

The conjuncts of a condition are its requirements: `a.b == 'c' && has(a.d) && !has(a.e)`. Known fields replace their
expressions, and everything else is unknown in the evaluation. A known result is then certain for every such request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from replay.cel.ast import operator
from replay.cel.ast.issues import Issues
from replay.cel.ast.tree import Call, Const, Expr, Select
from replay.cel.env import Env
from replay.cel.strict.folding import PlanError
from replay.cel.value.values import Unknown, Value
from replay.kube.attributes import Missing
from replay.manifests.lint.reachable import Facts, evaluator, reachable
from replay.manifests.lint.reading import Reading, SchemaPath, conjuncts, path_of, reading_of

_UNKNOWN = Unknown((Missing("request", "the request is not known"),))


class Condition(Struct, frozen=True):
    """A condition with the environment in which the server compiles it."""

    env: Env
    expression: str

    def facts(self) -> Facts:
        """Return the facts that must hold if the condition is true."""
        ast = self.env.parse(self.expression)
        values: dict[SchemaPath, Value] = {}
        presence: dict[SchemaPath, bool] = {}
        for node in () if isinstance(ast, Issues) else conjuncts(ast.expr):
            for path, value in _equality(node):
                values.setdefault(path, value)
                presence.update(dict.fromkeys((path[:end] for end in range(2, len(path) + 1)), True))
            presence.update(_presence(node))
        return Facts(values, presence)

    def reading(self, facts: Facts, variables: Mapping[str, Reading] | None = None) -> Reading | None:
        """Return what the condition reads under facts, or None if it cannot be parsed."""
        ast = self.env.parse(self.expression)
        if isinstance(ast, Issues):
            return None
        left = reachable(ast.expr, facts, evaluator(self.env, ast))
        return reading_of(replace(ast, expr=left), variables)

    def value(self, facts: Facts) -> Value:
        """Return the value of the condition under facts: a bool, an `EvalError` or an `Unknown`."""
        ast = self.env.parse(self.expression)
        if isinstance(ast, Issues):
            return _UNKNOWN
        left = reachable(ast.expr, replace(facts, is_read=True), evaluator(self.env, ast))
        checked = self.env.check(replace(ast, expr=left, macro_calls={}))
        if isinstance(checked, Issues):
            return _UNKNOWN
        try:
            program = self.env.program(checked)
        except PlanError:
            return _UNKNOWN
        names = {variable.name: _UNKNOWN for library in self.env.libraries for variable in library.variables}
        return program.eval(names).value


def first_contradicting_condition(conditions: Sequence[Condition], known: Facts) -> int | None:
    """Return the index of a condition that is false whenever all others are true, or None."""
    facts = [condition.facts() for condition in conditions]
    for index, condition in enumerate(conditions):
        # What the conditions before it demand is what a reader has in mind.
        if condition.value(_joined([known, *facts[:index]])) is False:
            return index
    for index, condition in enumerate(conditions):
        if condition.value(_joined([known, *facts[:index], *facts[index + 1 :]])) is False:
            return index
    return None


def _joined(facts: Iterable[Facts]) -> Facts:
    values: dict[SchemaPath, Value] = {}
    presence: dict[SchemaPath, bool] = {}
    for each in facts:
        for path, value in each.values.items():
            values.setdefault(path, value)
        for path, is_there in each.presence.items():
            presence.setdefault(path, is_there)
    return Facts(values, presence)


def _equality(node: Expr) -> Iterator[tuple[SchemaPath, Value]]:
    if isinstance(node, Call) and node.function == operator.EQUALS:
        for one, other in (node.args, node.args[::-1]):
            if isinstance(other, Const) and (path := path_of(one)) is not None and len(path) > 1:
                yield path, other.value


def _presence(node: Expr) -> Iterator[tuple[SchemaPath, bool]]:
    is_there = True
    if isinstance(node, Call) and node.function == operator.LOGICAL_NOT:
        is_there, node = False, node.args[0]
    if isinstance(node, Select) and node.test_only and (path := path_of(node)) is not None:
        yield path, is_there
