"""A document of JSON that is made piece by piece is the one that would be made at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import orjson
import pytest

from replay.compare.result import RunResult
from replay.report.run import json

RESULT = cast("RunResult", None)
ROW = {"workload": 'a "name"\n', "users": ["é", {"nested": []}], "origin": None}


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("before", [{}, {"log": {"files": 1}, "decided": {}, "outcomes": []}], ids=["first", "later"])
@pytest.mark.parametrize("after", [{}, {"mutations": [1, [2]], "webhooks": {"calls": {}}}], ids=["last", "earlier"])
def test_pieces_make_the_document(
    before: dict[str, Any], rows: int, after: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[dict[str, Any]] = [{**ROW, "requests": number} for number in range(rows)]
    taken = 0

    def values() -> Iterator[dict[str, Any]]:
        nonlocal taken
        for each in listed:
            taken += 1
            yield each

    monkeypatch.setattr(json, "_ROWS", 2)
    monkeypatch.setattr(json, "_members", lambda _result: {**before, "rows": values(), **after})
    pieces: list[str] = []
    for piece in json.summary_pieces(RESULT):
        assert taken - sum(each.count("requests") for each in pieces) <= 2
        pieces.append(piece)
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    assert "".join(pieces) == orjson.dumps({**before, "rows": listed, **after}, option=options).decode()
