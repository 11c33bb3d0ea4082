"""Compile time and microseconds per evaluation of realistic expressions: `python tests/bench/cel.py [CASES.jsonl]`.

Each expression of the policy areas is evaluated on its own object: by the compiled code alone, through an `Evaluation` as
admission calls it, by the strict engine, and by cel-python (compiled program, object converted beforehand) where that can.
Numbers are printed, nothing is asserted.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import celpy
from celpy.adapter import json_to_cel

from replay.cellib.activation import Activation, Views
from replay.cellib.composition import Evaluation
from replay.cellib.environment import ExpressionKind, admission_env
from replay.cellib.expression import ExpressionCompiler
from replay.cellib.version import NEWEST
from replay.json import decode_json
from replay.pipeline.cel import bindings_of

CASES = Path(__file__).parents[1] / "admission" / "data" / "cases.jsonl"
BUDGET = 10_000_000


def microseconds(action: Callable[[], object], rounds: int = 200) -> float:
    """The best of three averages."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(rounds):
            action()
        best = min(best, (time.perf_counter() - start) / rounds)
    return best * 1e6


def second_opinion(expression: str, variables: dict[str, Any]) -> float | None:
    """cel-python's time, None where it does not parse, compile or evaluate."""
    try:
        environment = celpy.Environment(runner_class=celpy.CompiledRunner)
        program = environment.program(environment.compile(expression))
        activation = {name: json_to_cel(value) for name, value in variables.items()}
        program.evaluate(activation)
        return microseconds(lambda: program.evaluate(activation), 20)
    except Exception:  # noqa: BLE001 - whatever it cannot do is left out
        return None


def measure(case: dict[str, Any]) -> dict[str, float | None] | None:
    """The times of one case, None where it does not compile or has variables."""
    if "compile_error" in case or "error" in case or case.get("variables"):
        return None
    kind = ExpressionKind(case["kind"])
    compiler = ExpressionCompiler(NEWEST, has_params="params" in case.get("vars", {}))
    compiled = compiler.compile(kind, case["expr"])
    assert compiled.program is not None
    bindings = bindings_of(case)
    activation = Activation(bindings)
    code, plain = compiled.program.compiled, activation.plain(kind, Views.TYPED)
    times: dict[str, float | None] = {
        "evaluation": microseconds(lambda: Evaluation(compiler, activation, BUDGET).evaluate(compiled)),
        "strict": microseconds(lambda: Evaluation(compiler, bindings, BUDGET, exact=True).evaluate(compiled), 20),
        "cel-python": second_opinion(case["expr"], case.get("vars", {})),
    }
    if code is not None:
        try:
            code.function(plain, {})
        except Exception:  # noqa: BLE001 - left to the strict engine
            return times
        function = code.function
        times["code"] = microseconds(lambda: function(plain, {}), 500)
    return times


def compile_times() -> list[tuple[int, float, float]]:
    """Length, milliseconds to check and plan, milliseconds to make code, of expressions of growing length."""
    env = admission_env(NEWEST, ExpressionKind.VALIDATION, has_params=False, variables={})
    clause = "object.spec.containers.all(c, c.image.startsWith('a/') && !has(c.securityContext.privileged))"
    rows = []
    for count in (1, 2, 4):
        text = " && ".join([clause] * count)
        front = microseconds(lambda: env.program(env.compile(text)), 50) / 1000  # type: ignore[arg-type]  # noqa: B023
        whole = microseconds(lambda: env.program(env.compile(text)).compiled, 50) / 1000  # type: ignore[arg-type]  # noqa: B023
        rows.append((len(text), front, whole - front))
    return rows


def main() -> None:
    """Print the table."""
    lines = Path(sys.argv[1] if len(sys.argv) > 1 else CASES).read_text(encoding="utf-8").splitlines()
    cases = [case for case in map(decode_json, lines) if case["area"].startswith("policy-")]
    measured = [times for times in map(measure, cases) if times is not None]
    print(f"{len(measured)} expressions; microseconds per evaluation")  # noqa: T201
    for name in ("code", "evaluation", "strict", "cel-python"):
        values = sorted(value for times in measured if (value := times.get(name)) is not None)
        if values:
            nine = values[int(len(values) * 0.9)]
            print(f"{name:12} {len(values):4} median {statistics.median(values):8.2f}  p90 {nine:8.2f}")  # noqa: T201
    for length, front, code in compile_times():
        print(f"{length} characters: {front:.2f} ms to check and plan, {code:.2f} ms to make code")  # noqa: T201


if __name__ == "__main__":
    main()
