"""Expressions of one policy, compiled and evaluated together (apiserver `pkg/admission/plugin/cel/composition.go`).

Variables are compiled in order, each seeing those before it, and evaluated when they are first read. An `Evaluation` is
one `ForInput` of the server: the expressions of one kind, for one request, binding and parameter, on one cost budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from replay.cel.env import Env
from replay.cel.folding import PlanError
from replay.cel.footprint import footprint_of
from replay.cel.issues import Issues
from replay.cel.program import Program
from replay.cel.text import type_text
from replay.cel.types import ANY, BOOL, BYTES, DOUBLE, DURATION, DYN, INT, NULL, STRING, TIMESTAMP, UINT, Kind, Type, list_type, map_type, struct_type
from replay.cel.values import Value
from replay.cellib.activation import Activation
from replay.cellib.environment import ExpressionKind, admission_env
from replay.cellib.variables import Variable, VariableValues
from replay.cellib.version import KubernetesVersion
from replay.kube.attributes import Missing

OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"

_RESULT_TYPES: dict[ExpressionKind, tuple[Type, ...]] = {
    ExpressionKind.VALIDATION: (BOOL,),
    ExpressionKind.MATCH_CONDITION: (BOOL,),
    ExpressionKind.MESSAGE_EXPRESSION: (STRING,),
    ExpressionKind.AUDIT_ANNOTATION: (STRING, NULL),
    ExpressionKind.APPLY_CONFIGURATION: (struct_type("Object"),),
    ExpressionKind.JSON_PATCH: (list_type(struct_type("JSONPatch")),),
}
"""The types an expression of a kind may have; any type where a kind is absent."""

_KEPT = frozenset({ANY, BOOL, BYTES, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, UINT})


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """An expression of a policy: a program, or the exact text of why there is none.

    `footprint` are the paths that it may read, `{"object.spec.containers[].image", ...}`, those of its variables included.
    """

    kind: ExpressionKind
    expression: str
    program: Program | None
    error: str
    output_type: Type | None
    footprint: frozenset[str] = frozenset()


@dataclass(slots=True)
class Evaluated:
    """The outcome of one expression: a value, an error text, or what would have to be known.

    `cost` is what it was charged, variables that it was the first to read included; None where that was not counted.
    `out_of_budget` means that the budget of the evaluation is exhausted, and ends it.
    """

    value: Value = None
    error: str | None = None
    out_of_budget: bool = False
    unknown: tuple[Missing, ...] = ()
    cost: int | None = None


class ExpressionCompiler:
    """Compiles the expressions of one policy for a server of one version."""

    def __init__(
        self, version: KubernetesVersion, *, has_params: bool, mutation: bool = False, composed: bool = True
    ) -> None:
        """`has_params` declares `params`; `mutation` is for policies that change objects; not `composed`: no `variables`."""
        self._composed = composed
        self._version = version
        self._has_params = has_params
        self.mutation = mutation
        self._types: dict[str, Type] = {}
        self.variables: dict[str, CompiledExpression] = {}

    def declare_variable(self, name: str, expression: str) -> CompiledExpression:
        """Compile a variable and let later expressions read it; one that does not compile fails where it is read."""
        kind = ExpressionKind.MUTATION_EXPRESSION if self.mutation else ExpressionKind.VARIABLE
        compiled = self.compile(kind, expression)
        self._types = {**self._types, name: declared_type(compiled.output_type)}
        self.variables[name] = compiled
        return compiled

    def compile(self, kind: ExpressionKind, expression: str) -> CompiledExpression:
        """Compile an expression of a kind, seeing the variables declared so far."""
        variables = self._types if self._composed else None
        env = admission_env(self._version, kind, has_params=self._has_params, variables=variables)
        program, error, output_type = _compile(env, kind, expression)
        if program is None:
            return CompiledExpression(kind, expression, None, error, None)
        return CompiledExpression(kind, expression, program, "", output_type, self._footprint(program))

    def _footprint(self, program: Program) -> frozenset[str]:
        """The paths of an expression, with a read of a variable replaced by what that variable reads."""
        paths: set[str] = set()
        for path in footprint_of(program.ast):
            root, _, rest = path.partition(".")
            if root != "variables":
                paths.add(path)
                continue
            name = rest.partition(".")[0].partition("[")[0]
            read = [self.variables[name]] if name in self.variables else self.variables.values()
            paths.update(*(variable.footprint for variable in read))
        return frozenset(paths)


@lru_cache(maxsize=8192)
def _compile(env: Env, kind: ExpressionKind, expression: str) -> tuple[Program | None, str, Type | None]:
    """`(program, error, type)`; equal texts in equal environments are compiled once."""
    ast = env.compile(expression)
    if isinstance(ast, Issues):
        return None, f"compilation failed: {ast.to_display_string()}", None
    output_type = ast.type_map[ast.expr.id]
    wanted = _RESULT_TYPES.get(kind)
    if wanted is not None and output_type not in wanted:
        names = " ".join(map(type_text, wanted))
        required = names if len(wanted) == 1 else f"one of [{names}]"
        return None, f"must evaluate to {required} but got {type_text(output_type)}", None
    try:
        return env.program(ast), "", output_type
    except PlanError as error:
        return None, f"program instantiation failed: {error.message}", None


def declared_type(output: Type | None) -> Type:
    """The type under which a variable is declared: opaque, optional and message types become dyn (`convertCelTypeToDeclType`)."""
    if output is None:
        return DYN
    if output in _KEPT:
        return output
    if output.kind is Kind.LIST:
        return list_type(declared_type(output.parameters[0]))
    if output.kind is Kind.MAP:
        return map_type(*map(declared_type, output.parameters))
    return DYN


class Evaluation:
    """The expressions of one kind for one input, on one budget; `remaining` is what is left of it."""

    def __init__(self, compiler: ExpressionCompiler, bindings: Mapping[str, Value | Missing], budget: int) -> None:
        """`bindings` are `object`, `oldObject`, `request`, `namespaceObject`, `params`, `authorizer`, as far as they exist.

        A `Missing` or `PartialObject` is unknown, in whole or in part. An object of a built-in kind is a `TypedMap`.
        """
        self._activation = Activation(bindings, mutation=compiler.mutation)
        self._variables = VariableValues(
            {name: Variable(each.program, each.error) for name, each in compiler.variables.items()}, self._activation
        )
        self.remaining = budget
        self._exhausted = False

    def evaluate(self, compiled: CompiledExpression) -> Evaluated:
        """Evaluate the next expression; the order of calls is that of the server."""
        if self._exhausted:
            return Evaluated(error=OUT_OF_BUDGET, out_of_budget=True)
        if compiled.program is None:
            return Evaluated(error=f"compilation error: {compiled.error}", cost=0)
        return self._strictly(compiled.program, compiled.kind)

    def _strictly(self, program: Program, kind: ExpressionKind) -> Evaluated:
        bindings = self._activation.for_kind(kind, self._variables)
        result = program.eval(bindings)
        cost = self._variables.take_cost() + result.cost
        if cost > self.remaining:
            self._exhausted = True
            return Evaluated(error=OUT_OF_BUDGET, out_of_budget=True)
        self.remaining -= cost
        if result.unknown is not None:
            return Evaluated(unknown=tuple(result.unknown.missing), cost=cost)  # type: ignore[arg-type]
        if result.error is not None:
            return Evaluated(error=result.error, cost=cost)
        return Evaluated(result.value, cost=cost)
