"""Process that runs z3: questions come in as lines of JSON, answers go out the same way."""

from __future__ import annotations

import json
import sys
from typing import Any

import z3


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Solve one text and return the requested values as texts."""
    solver = z3.Solver()
    solver.from_string(question["text"])
    result = str(solver.check())
    if result != "sat":
        return {"answer": result, "reason": solver.reason_unknown() if result == "unknown" else ""}
    model = solver.model()
    names = set(question["names"])
    values = {}
    for declared in model.decls():
        if declared.name() in names:
            value = model[declared]
            values[declared.name()] = str(value.as_fraction()) if z3.is_rational_value(value) else str(value)
    return {"answer": "sat", "values": values}


def main() -> None:
    """Answer questions until the input ends."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
