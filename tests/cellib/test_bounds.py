"""Evaluations that grow without being charged for: bounded here, with the server's answer wherever its limits give one."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from replay.cellib.composition import OUT_OF_BUDGET, Evaluated, Evaluation
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import ExpressionCompiler
from replay.cellib.version import NEWEST

TOO_MANY = "it reads more values than replay evaluates"
CANCELLED = "operation cancelled: actual cost limit exceeded"


class Row(NamedTuple):
    """Variables that grow from a first one by a step in which `V` is the one before, and an expression that reads them."""

    first: str
    step: str
    doublings: int
    expression: str
    value: object = None
    error: str = ""
    undetermined: str = ""


ROWS = {
    "a list doubled is not copied": Row("[1]", "V + V", 60, "V.size()", 2**60),
    "an element of it": Row("[1, 2]", "V + V", 40, "V[1099511627775] == 2", value=True),
    "its end": Row("[1, 2]", "V + V", 40, "V.last().value() + V.slice(4, 5)[0]", 3),
    "a fold that stops": Row("[1]", "V + V", 40, "V.exists(x, x == 1)", value=True),
    "a fold that does not": Row("[1]", "V + V", 40, "V.all(x, x == 1)", error=CANCELLED),
    "equal by size": Row("[1]", "V + V", 8, "V == V + [1]", value=False),
    "compared": Row("[1]", "V + V", 40, "V == V", error=OUT_OF_BUDGET),
    "summed": Row("[1]", "V + V", 40, "V.sum()", error=OUT_OF_BUDGET),
    "searched without being charged": Row("[dyn(1)]", "V + V", 40, "dyn(2) in dyn(V)", undetermined=TOO_MANY),
    "printed": Row(
        "[1]",
        "V + V",
        40,
        "'%s'.format([V])",
        undetermined="it reads a list of 1099511627776 elements, which is more than replay evaluates",
    ),
    "handed on": Row("[1]", "V + V", 40, "V", undetermined=TOO_MANY),
    "handed on in one": Row("[1]", "V + V", 3, "V", [1] * 8),
    "more than can be counted": Row(
        "[1]", "V + V", 63, "V.size()", undetermined="it makes a list of more than 2^63 elements"
    ),
    "of the object": Row("object.l", "V + V", 40, "V.size()", 2**41),
    "nothing added": Row("[]", "V + V", 3, "V + [1] == [1] + V", value=True),
    "a text replaced by itself": Row(
        "'a'",
        "V + V",
        20,
        "V.replace('a', V).size()",
        undetermined="it builds a string of 1099511627776 characters, which is more than replay evaluates",
    ),
    "joined by itself": Row("'a'", "V + V", 16, "V.split('').join(V).size()", error=OUT_OF_BUDGET),
    "lists in lists compared": Row("[1]", "[V, V]", 40, "V == [V[0], V[1]]", undetermined=TOO_MANY),
    "lists in lists printed": Row("[1]", "[V, V]", 40, "'%s'.format([V])", undetermined=TOO_MANY),
    "lists in lists flattened": Row("[1]", "[V, V]", 40, "dyn(V).flatten(50)", undetermined=TOO_MANY),
    "maps in maps handed on": Row("{'a': 1}", "{'a': V, 'b': V}", 30, "V", undetermined=TOO_MANY),
    "digits": Row("'9'", "V + V", 14, "isCIDR('1.2.3.4/' + V) || isQuantity(V) || isSemver(V)", value=False),
    "digits of a duration": Row(
        "'9'",
        "V + V",
        14,
        "duration(V + 's')",
        error="type conversion error from 'string' to 'google.protobuf.Duration'",
    ),
    "a long pattern": Row("'a'", "V + V", 14, "''.matches(V)", value=False),
}


def evaluated(row: Row, *, exact: bool) -> Evaluated:
    """What becomes of a row."""
    compiler = ExpressionCompiler(NEWEST, has_params=False)
    compiler.declare_variable("v0", row.first)
    for index in range(1, row.doublings + 1):
        compiler.declare_variable(f"v{index}", row.step.replace("V", f"variables.v{index - 1}"))
    compiled = compiler.compile(ExpressionKind.VARIABLE, row.expression.replace("V", f"variables.v{row.doublings}"))
    assert compiled.program is not None, compiled.error
    return Evaluation(compiler, {"object": {"l": [1, 2]}}, 10_000_000, exact=exact).evaluate(compiled)


@pytest.mark.slow
@pytest.mark.parametrize("exact", [True, False], ids=["strict", "compiled"])
@pytest.mark.parametrize("name", ROWS)
def test_bounded(name: str, *, exact: bool) -> None:
    row = ROWS[name]
    result = evaluated(row, exact=exact)
    reason = "; ".join(missing.reason for missing in result.unknown)
    assert (result.value, result.error or "", reason) == (row.value, row.error, row.undetermined)
