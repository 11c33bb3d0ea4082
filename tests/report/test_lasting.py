from __future__ import annotations

import pytest

from replay.report.lookup_report import PastDecision, ongoing_status
from replay.report.render.document import MICROSECONDS


def at(seconds: int) -> PastDecision:
    return PastDecision(
        at=seconds * MICROSECONDS,
        seq=seconds,
        action="deny",
        plugin="policy",
        policy="p",
        binding="b",
        expression_index=None,
        message="no",
        validation_actions=(),
        patch=None,
        source="",
        audit_id=f"id-{seconds}",
        verb="create",
        username="ann",
        resource="pods",
        namespace="a",
        object_name="o",
        code=422,
        is_static=False,
        place="log:1",
    )


@pytest.mark.parametrize(
    ("seconds", "end", "goes_on", "text"),
    [
        ((5,), 65, None, "once, 1 min before the end of the log"),
        ((0, 10, 15), 25, True, "still happens: last 10 s before the end of the log, longest pause 10 s"),
        ((0, 10, 15), 26, False, "no longer happens: none in the last 11 s, longest pause before that 10 s"),
        ((10, 0), 5, True, "still happens: last 0 s before the end of the log, longest pause 10 s"),
    ],
    ids=["once", "a usual pause", "a longer pause", "an end before the last"],
)
def test_what_goes_on_is_told_by_its_pauses(
    seconds: tuple[int, ...], end: int, goes_on: bool | None, text: str
) -> None:
    assert ongoing_status([at(each) for each in seconds], end * MICROSECONDS) == (goes_on, text)
