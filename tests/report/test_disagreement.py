from __future__ import annotations

import pytest

from replay.compare.fidelity import Disagreement
from replay.report.trust import differing

DENIAL = '["team.example","all.example","team label is required"]'
FAILURE = '{"binding":"b","expressionIndex":1,"message":"no","policy":"p","validationActions":["Audit","Warn"]}'


@pytest.mark.parametrize(
    ("aspect", "observed", "replayed", "expected"),
    [
        pytest.param(
            "denial",
            DENIAL,
            "nothing",
            ("team.example (all.example): team label is required", "nothing"),
            id="denied in the log alone",
        ),
        pytest.param(
            "failure",
            f"[{FAILURE}]",
            f'[{FAILURE},{{"policy":"q","message":"never"}}]',
            ("nothing", "q: never"),
            id="what both say is left out",
        ),
        pytest.param(
            "failure",
            f"[{FAILURE}]",
            "nothing",
            ("p (b, validation 1): no [Audit, Warn]", "nothing"),
            id="an audited failure",
        ),
        pytest.param(
            "annotation", '{"p/a":"1","p/b":"2"}', '{"p/a":"1","p/b":"3"}', ("p/b = 2", "p/b = 3"), id="a value"
        ),
        pytest.param("failure", f"[{FAILURE},{FAILURE}]", f"[{FAILURE}]", None, id="as often"),
        pytest.param("denial", "no JSON", '["a"]', ("no JSON", "a"), id="no JSON"),
        pytest.param("denial", "", "7", ("nothing", "7"), id="another kind of value"),
    ],
)
def test_differences_are_told_in_words(
    aspect: str, observed: str, replayed: str, expected: tuple[str, str] | None
) -> None:
    told = differing(Disagreement(1, "id", aspect, observed, replayed))
    once = "p (b, validation 1): no [Audit, Warn]"
    assert told == (expected or (f"{once}; {once}", once))
