"""`replay cel`."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from replay.cellib.version import NEWEST, OLDEST_MINOR

CEL_EPILOG = (
    "Examples: replay cel 'object.spec.replicas <= 5' --object deployment.json\n\n"
    'replay cel "[1, 2].map(x, x * 2)" --show-code\n\n'
    "replay cel --cases cases.jsonl --out results.jsonl\n\n"
    "Exit code: 0 a value, 1 the evaluation fails or is undetermined, 2 the expression does not compile, or an error."
)
FAILED, REFUSED = 1, 2

Expression = Annotated[str | None, typer.Argument(help="The expression.", show_default=False)]
Document = Annotated[Path | None, typer.Option(help="JSON or YAML file; - is standard input.", show_default=False)]
MinorVersion = Annotated[
    str, typer.Option(help=f"Minor version of Kubernetes whose CEL is used, 1.{OLDEST_MINOR} to {NEWEST}.")
]
Kind = Annotated[
    str, typer.Option(help="Place of the expression: variable (any type), validation, applyConfiguration, ...")
]
CodeOutput = Annotated[bool, typer.Option("--show-code", help="Print the generated Python code of the expression.")]
JsonOutput = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Cases = Annotated[
    Path | None, typer.Option(help="Evaluate a file of cases, one JSON object per line.", show_default=False)
]
OutputFile = Annotated[Path | None, typer.Option(help="Write the results of --cases here.", show_default=False)]


def cel(
    expression: Expression = None,
    object_: Annotated[Path | None, typer.Option("--object", help="New object: a JSON or YAML file.")] = None,
    old_object: Document = None,
    request: Document = None,
    params: Document = None,
    namespace_object: Document = None,
    kubernetes_version: MinorVersion = str(NEWEST),
    kind: Kind = "variable",
    show_code: CodeOutput = False,
    as_json: JsonOutput = False,
    cases: Cases = None,
    out: OutputFile = None,
) -> None:
    """Evaluate a CEL expression as the API server does. Print value, type and cost, or the error with its position."""
    from replay.cellib.version import KubernetesVersion

    version = KubernetesVersion.parse(kubernetes_version)
    if cases is not None:
        _evaluate_cases(cases, out, version)
        return
    if expression is None:
        raise typer.BadParameter("give an expression, or --cases", param_hint="EXPRESSION")
    documents = {"object": object_, "oldObject": old_object, "request": request, "params": params}
    documents["namespaceObject"] = namespace_object
    values = {name: _document(path) for name, path in documents.items() if path is not None}
    raise typer.Exit(_evaluate(expression, values, version, kind, show_code=show_code, as_json=as_json))


def _evaluate(
    expression: str, values: dict[str, Any], version: Any, kind_name: str, *, show_code: bool, as_json: bool
) -> int:
    from replay.cellib.environment import ExpressionKind
    from replay.pipeline.cel import evaluate, json_of, text_of

    try:
        kind = ExpressionKind(kind_name)
    except ValueError:
        raise typer.BadParameter(f"one of {', '.join(ExpressionKind)}", param_hint="--kind") from None
    answer = evaluate(expression, values, version, kind)
    sys.stdout.write(
        json.dumps(json_of(answer), ensure_ascii=answer.evaluated is None) + "\n" if as_json else text_of(answer)
    )
    if answer.evaluated is None:
        return REFUSED
    if show_code:
        sys.stdout.write(f"\n{answer.code}")
    return FAILED if answer.evaluated.error is not None or answer.evaluated.unknown else 0


def _document(path: Path) -> Any:
    """Return the value of a JSON or YAML file. Raises ReplayError for another format, or more than one document."""
    from replay.case.document import documents_of
    from replay.errors import ReplayError, reason_of
    from replay.json import decode_json

    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise ReplayError(f"cannot be read: {reason_of(error)}", path=str(path)) from error
    try:
        return decode_json(content)
    except (ValueError, RecursionError) as error:
        if path.suffix == ".json" or content.lstrip()[:1] in (b"{", b"["):
            raise ReplayError(f"is no JSON: {error}", path=str(path)) from error
    documents = list(documents_of(path, content))
    if len(documents) != 1:
        raise ReplayError(f"holds {len(documents)} documents; give one", path=str(path))
    return documents[0].value


def _evaluate_cases(cases: Path, out: Path | None, version: Any) -> None:
    """Evaluate cases one by one and print each result at once, so that a long file needs little memory."""
    from replay.cel.ast.walk import with_deep_stack
    from replay.errors import ReplayError
    from replay.pipeline.cel import results

    try:
        with ExitStack() as files:
            lines = files.enter_context(cases.open(encoding="utf-8"))
            target = files.enter_context(out.open("w", encoding="utf-8")) if out is not None else sys.stdout
            for result in results(lines, version):
                target.write(with_deep_stack(partial(json.dumps, result, ensure_ascii=False)) + "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ReplayError(str(error), path=str(cases)) from error
