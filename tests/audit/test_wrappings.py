"""Small logs in the documented shapes of clouds and shippers, made by hand: each is recognised, and read as the plain log is.

`data/wrapping/FORMAT.WHERE-FROM.EXTENSION` holds the same two creations, one of them denied.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.audit.format.recognise import HEAD, form_of
from replay.audit.format.table import FORMATS, formats_named
from replay.audit.store import Store

DATA = Path(__file__).parent / "data" / "wrapping"
PLAIN = "plain.audit.log"
FILES = sorted(path.name for path in DATA.iterdir())
LOST = {
    "admission-review": {
        "annotations", "code", "received", "request_object", "request_uri", "response_kind", "response_object",
        "response_resource_version", "response_uid", "source_ips", "stage_time", "status_message", "user_agent",
    },
    "cloud-audit": {"caller", "request_uri", "stage_time", "user", "username"},
    "flattened": {"response_object"},
}  # fmt: skip
"""What a format does not hold, or holds in another form, by the columns of a request; all others lose nothing."""


def requests(path: Path, *names: str) -> list[dict[str, object]]:
    with Store.open() as store:
        store.ingest([path], formats=tuple(each for name in names for each in formats_named(name)))
        found = store.sql("select * exclude (file, line, part, seq) from request order by audit_id")
        return list(found.iter_rows(named=True))


@pytest.fixture(scope="module")
def plain() -> list[dict[str, object]]:
    return requests(DATA / PLAIN)


@pytest.mark.parametrize("name", FILES)
def test_a_documented_shape(name: str, plain: list[dict[str, object]]) -> None:
    form = name.partition(".")[0]
    told = [each.name for each in form_of((DATA / name).read_bytes()[:HEAD]).wrappers]
    assert told[:1] == ([] if form == "plain" else [form])
    for found in (requests(DATA / name), requests(DATA / name, form)):
        assert len(found) == len(plain)
        pairs = zip(found, plain, strict=True)
        lost = {column for one, other in pairs for column in one if one[column] != other[column]}
        assert lost == LOST.get(form, set())


def test_each_format_has_a_shape() -> None:
    assert {name.partition(".")[0] for name in FILES} == {each.name for each in FORMATS}
