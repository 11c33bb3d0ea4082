"""One expression with its input documents: the result as text and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from replay.admission.validating.evaluations import RUNTIME_BUDGET
from replay.cel.value.text import type_text
from replay.cellib.composition import Evaluated, Evaluation
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.tagged import shown, tagged
from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.pipeline.cel.cases import bindings_of


class ExpressionAnswer(NamedTuple):
    """Result of an expression; `evaluated` is None if it does not compile."""

    compiled: CompiledExpression
    evaluated: Evaluated | None

    @property
    def type_text(self) -> str:
        """The type of the result."""
        assert self.compiled.output_type is not None
        return type_text(self.compiled.output_type)

    @property
    def why_undetermined(self) -> str:
        """Return what is missing, empty if the result is certain."""
        return "; ".join(missing.reason for missing in self.evaluated.unknown) if self.evaluated is not None else ""

    @property
    def code(self) -> str:
        """Return the generated Python code, or why there is none, with a line end."""
        assert self.compiled.program is not None
        code = self.compiled.program.compiled
        return code.source if code is not None else f"no code: {self.compiled.program.why_not_compiled}\n"


def evaluate(
    expression: str, documents: Mapping[str, JSON], version: KubernetesVersion, kind: ExpressionKind
) -> ExpressionAnswer:
    """Compile and evaluate an expression of a kind; `documents` are the documents by the names of the variables."""
    compiler = ExpressionCompiler(version, has_params="params" in documents)
    compiled = compiler.compile(kind, expression)
    if compiled.program is None:
        return ExpressionAnswer(compiled, None)
    evaluation = Evaluation(compiler, bindings_of({"vars": documents}, version), RUNTIME_BUDGET, exact=True)
    return ExpressionAnswer(compiled, evaluation.evaluate(compiled))


def json_of(answer: ExpressionAnswer) -> dict[str, Any]:
    """The answer as one JSON object."""
    compiled, evaluated = answer
    if evaluated is None:
        return {"compile_error": compiled.error}
    result: dict[str, Any] = {"type": answer.type_text, "cost": evaluated.cost}
    if evaluated.unknown:
        result["undetermined"] = answer.why_undetermined
    elif evaluated.error is None:
        result["value"] = tagged(evaluated.value)
    else:
        result["error"] = evaluated.error
    return {**result, "footprint": sorted(compiled.footprint)}


def text_of(answer: ExpressionAnswer) -> str:
    """The answer for people, in lines."""
    compiled, evaluated = answer
    if evaluated is None:
        return f"{compiled.error}\n"
    if evaluated.unknown:
        first = f"undetermined: {answer.why_undetermined}"
    else:
        first = f"error: {evaluated.error}" if evaluated.error is not None else shown(evaluated.value)
    lines = [first, f"type: {answer.type_text}", f"cost: {evaluated.cost}"]
    if compiled.footprint:
        lines.append(f"reads: {', '.join(sorted(compiled.footprint))}")
    return "\n".join(lines) + "\n"
