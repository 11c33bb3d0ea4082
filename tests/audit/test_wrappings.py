"""Small logs in the documented shapes of clouds and shippers, made by hand: each is recognised, and read as the plain log is.

`data/wrapping/FORMAT.WHERE-FROM.EXTENSION` holds the same two creations, one of them denied.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.audit.format.form import Layout
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


ALONE = {
    "admission-review": "a review may take several lines",
    "cri": "a line of a container may be a part of a document",
    "cloudwatch-subscription": "Firehose writes documents without line ends",
}
"""Formats that a file of mixed lines cannot hold."""


@pytest.mark.parametrize("first", ["plain.audit.log", "flattened.dots.jsonl", "cloud-audit.sink.jsonl"])
def test_lines_of_all_forms_in_one_file(first: str, tmp_path: Path) -> None:
    """A collector may write what several sources send. Each line counts, where it stands, and garbage is told."""
    kept = [name for name in FILES if name.partition(".")[0] not in ALONE and is_by_line(DATA / name)]
    lines: list[str] = []
    expected: dict[str, int] = {}
    for number, name in enumerate(sorted(kept, key=lambda name: name != first)):
        text = (DATA / name).read_text("utf-8").replace("5b1f8a5e-0000-4000-8000-", f"{number:08}-0000-4000-8000-")
        for line in filter(str.strip, text.splitlines()):
            lines.append(line)
            for each in ("1", "2"):
                if f"{number:08}-0000-4000-8000-00000000000{each}" in line:
                    expected[f"{number:08}-0000-4000-8000-00000000000{each}"] = len(lines)
    lines.append('{"level":"info","msg":"audit backend restarted"}')
    (tmp_path / "mixed.log").write_text("\n".join(lines) + "\n", "utf-8")
    with Store.open() as store:
        report = store.ingest([tmp_path / "mixed.log"])
        found = dict(store.sql("select audit_id, line from request").iter_rows())
        rejects = store.sql("select line, reason from reject").rows()
        files = store.sql("select sum(lines), sum(size), count(distinct name) from file").rows()
    assert found == expected
    assert len(found) > 50
    assert rejects == [(len(lines), "not an event")]
    assert files == [(len(lines), (tmp_path / "mixed.log").stat().st_size, 1)]
    assert (report.files, report.lines, report.requests) == (1, len(lines), len(expected))


def is_by_line(path: Path) -> bool:
    """Return whether the documents of a file are lines."""
    head = path.read_bytes()[:HEAD]
    return form_of(head).layout is Layout.LINES and not head.startswith(b"{\n")


def test_each_format_has_a_shape() -> None:
    assert {name.partition(".")[0] for name in FILES} == {each.name for each in FORMATS}
