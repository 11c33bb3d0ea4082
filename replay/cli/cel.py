"""`replay cel`."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from replay.cellib.composition import CompiledExpression, Evaluated

EPILOG = (
    "Examples: replay cel 'object.spec.replicas <= 5' --object deployment.json\n\n"
    'replay cel "[1, 2].map(x, x * 2)" --show-code\n\n'
    "replay cel --cases cases.jsonl --out results.jsonl\n\n"
    "Exit code: 0 there is a value, 1 the evaluation fails or is undetermined, 2 the expression does not compile (or an error)."
)
FAILED, REFUSED = 1, 2

Expression = Annotated[str | None, typer.Argument(help="The expression.", show_default=False)]
Document = Annotated[Path | None, typer.Option(help="A JSON file, `-` for standard input.", show_default=False)]
Version = Annotated[str, typer.Option(help="The minor version of Kubernetes whose CEL is used, 1.30 to 1.37.")]
Kind = Annotated[
    str, typer.Option(help="Where the expression would stand: variable (any type), validation, applyConfiguration, ...")
]
ShowCode = Annotated[bool, typer.Option("--show-code", help="Print the Python code that the expression becomes.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Cases = Annotated[
    Path | None, typer.Option(help="Evaluate a file of cases, one JSON object a line.", show_default=False)
]
Out = Annotated[Path | None, typer.Option(help="Write the results of --cases here.", show_default=False)]


def cel(
    expression: Expression = None,
    object_: Annotated[Path | None, typer.Option("--object", help="The new object, a JSON file.")] = None,
    old_object: Document = None,
    request: Document = None,
    params: Document = None,
    namespace_object: Document = None,
    kubernetes_version: Version = "1.37",
    kind: Kind = "variable",
    show_code: ShowCode = False,
    as_json: AsJson = False,
    cases: Cases = None,
    out: Out = None,
) -> None:
    """Evaluate a CEL expression as the API server does: value, type and cost, or the error with its place."""
    from replay.cellib.version import KubernetesVersion  # noqa: PLC0415 - keeps the start of other commands short

    version = KubernetesVersion.parse(kubernetes_version)
    if cases is not None:
        _evaluate_cases(cases, out, version)
        return
    if expression is None:
        raise typer.BadParameter("give an expression, or --cases", param_hint="EXPRESSION")
    documents = {"object": object_, "oldObject": old_object, "request": request, "params": params}
    documents["namespaceObject"] = namespace_object
    given = {name: _document(path) for name, path in documents.items() if path is not None}
    raise typer.Exit(_evaluate(expression, given, version, kind, show_code=show_code, as_json=as_json))


def _evaluate(
    expression: str, given: dict[str, Any], version: Any, kind_name: str, *, show_code: bool, as_json: bool
) -> int:
    from replay.cellib.composition import Evaluation, ExpressionCompiler  # noqa: PLC0415
    from replay.cellib.environment import ExpressionKind  # noqa: PLC0415
    from replay.pipeline.cases import bindings_of  # noqa: PLC0415

    try:
        kind = ExpressionKind(kind_name)
    except ValueError:
        raise typer.BadParameter(f"one of {', '.join(ExpressionKind)}", param_hint="--kind") from None
    compiler = ExpressionCompiler(version, has_params="params" in given)
    compiled = compiler.compile(kind, expression)
    if compiled.program is None:
        sys.stdout.write(json.dumps({"compile_error": compiled.error}) + "\n" if as_json else compiled.error + "\n")
        return REFUSED
    evaluation = Evaluation(compiler, bindings_of({"vars": given}, version), 10_000_000, exact=True)
    evaluated = evaluation.evaluate(compiled)
    sys.stdout.write(_as_json(compiled, evaluated) if as_json else _as_text(compiled, evaluated))
    if show_code:
        code = compiled.program.compiled
        sys.stdout.write(
            "\n" + (code.source if code is not None else f"no code: {compiled.program.why_not_compiled}\n")
        )
    return FAILED if evaluated.error is not None or evaluated.unknown else 0


def _as_json(compiled: CompiledExpression, evaluated: Evaluated) -> str:
    from replay.cel.value.text import type_text  # noqa: PLC0415
    from replay.cellib.tagged import tagged  # noqa: PLC0415

    assert compiled.output_type is not None
    result: dict[str, Any] = {"type": type_text(compiled.output_type), "cost": evaluated.cost}
    if evaluated.unknown:
        result["undetermined"] = _why_undetermined(evaluated)
    elif evaluated.error is None:
        result["value"] = tagged(evaluated.value)
    else:
        result["error"] = evaluated.error
    return json.dumps({**result, "footprint": sorted(compiled.footprint)}, ensure_ascii=False) + "\n"


def _as_text(compiled: CompiledExpression, evaluated: Evaluated) -> str:
    from replay.cel.value.text import type_text  # noqa: PLC0415
    from replay.cellib.tagged import shown  # noqa: PLC0415

    assert compiled.output_type is not None
    if evaluated.unknown:
        first = f"undetermined: {_why_undetermined(evaluated)}"
    else:
        first = f"error: {evaluated.error}" if evaluated.error is not None else shown(evaluated.value)
    lines = [first, f"type: {type_text(compiled.output_type)}", f"cost: {evaluated.cost}"]
    if compiled.footprint:
        lines.append(f"reads: {', '.join(sorted(compiled.footprint))}")
    return "\n".join(lines) + "\n"


def _why_undetermined(evaluated: Evaluated) -> str:
    return "; ".join(missing.reason for missing in evaluated.unknown)


def _document(path: Path) -> Any:
    from replay.errors import ReplayError  # noqa: PLC0415
    from replay.json import decode_json  # noqa: PLC0415

    try:
        return decode_json(sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes())
    except OSError as error:
        raise ReplayError(f"cannot be read: {error.strerror}", path=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise ReplayError(f"is no JSON: {error}", path=str(path)) from error


def _evaluate_cases(cases: Path, out: Path | None, version: Any) -> None:
    """Stream results, so that a long file needs no memory."""
    from replay.cel.ast.depth import with_room  # noqa: PLC0415
    from replay.errors import ReplayError  # noqa: PLC0415
    from replay.pipeline.cases import results  # noqa: PLC0415

    try:
        with ExitStack() as files:
            lines = files.enter_context(cases.open(encoding="utf-8"))
            target = files.enter_context(out.open("w", encoding="utf-8")) if out is not None else sys.stdout
            for result in results(lines, version):
                target.write(with_room(partial(json.dumps, result, ensure_ascii=False)) + "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ReplayError(str(error), path=str(cases)) from error
