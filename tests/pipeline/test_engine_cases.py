"""Cases of policy engines: both forms of a line, and what is no case."""

from pathlib import Path

import pytest

from replay.errors import ReplayError
from replay.kube.admission_request import PhaseRequests
from replay.pipeline.plugin import engine_cases

REQUEST = '{"uid": "u"}'
LINES = [
    ("one request for both phases", f'{{"id": "a", "request": {REQUEST}}}', PhaseRequests("a", {"uid": "u"}, {"uid": "u"})),
    ("each phase", f'{{"id": "a", "mutating": {REQUEST}, "validating": {{}}}}', PhaseRequests("a", {"uid": "u"}, {})),
    ("no validating phase", f'{{"id": "a", "mutating": {REQUEST}, "validating": null}}', PhaseRequests("a", {"uid": "u"}, None)),
    ("made up", f'{{"id": "a", "synthetic": true, "request": {REQUEST}}}', PhaseRequests("a", {"uid": "u"}, {"uid": "u"}, synthetic=True)),
]  # fmt: skip
BROKEN = [
    ("no JSON", "{", "is not a case: unexpected end of data"),
    ("no request", '{"id": "a"}', "is not a case with `id` and `request`, `mutating` or `validating`"),
    ("no id", f'{{"request": {REQUEST}}}', "is not a case: 'id'"),
    ("a list", "[]", "is not a case: 'list' object has no attribute 'get'"),
]


@pytest.mark.parametrize(("line", "case"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
def test_a_case(tmp_path: Path, line: str, case: PhaseRequests) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(line + "\n", "utf-8")
    assert list(engine_cases(path)) == [case]


@pytest.mark.parametrize(("line", "message"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_what_is_no_case(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{line}\n", "utf-8")
    with pytest.raises(ReplayError) as raised:
        list(engine_cases(path))
    assert raised.value.message.startswith(message)
