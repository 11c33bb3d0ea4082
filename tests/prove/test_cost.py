"""How large values may be before an evaluation runs out of its budget."""

from __future__ import annotations

import pytest

from replay.cellib.version import NEWEST
from replay.prove.prover import ANY, affordable_size
from replay.prove.unit import BoundPolicy
from tests.prove.policies import unit

LIST = "object.spec.l"


@pytest.mark.parametrize(
    ("policy", "size"),
    [
        (unit("object.spec.replicas <= 5"), ANY),
        (unit(f"{LIST}.all(x, x > 1)"), 100_000),
        (unit(f"{LIST}.all(x, {LIST}.all(y, x + y > 1))"), 100),
        (unit("variables.both.all(x, x > 1)", variables={"both": f"{LIST} + {LIST}"}), 30_000),
        (unit("variables.text != ''", variables={"text": f"{LIST}.join(',')"}), None),
        (unit("authorizer.group('').resource('pods').check('create').allowed()"), ANY),
        (unit(*["authorizer.group('').resource('pods').check('create').allowed()"] * 40), None),
    ],
    ids=["a number", "a list", "pairs", "a joined variable", "a grown variable", "a question", "many questions"],
)
def test_affordable_size(policy: BoundPolicy, size: int | None) -> None:
    assert affordable_size([policy], [policy.compiled(NEWEST)]) == size
