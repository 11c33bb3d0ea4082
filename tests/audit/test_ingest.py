"""What is read, what is rejected and why, and that neither form nor order of the files matters."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.audit.event import RequestRecord
from replay.audit.format.table import products
from replay.audit.reject import RejectReason
from replay.audit.store import Store
from replay.errors import AuditLogError, ReplayError
from tests.support.log_lines import event, records, rejects, zstd


def altered(data: bytes) -> bytes:
    """The same with another user: no form of compression notices but by its check."""
    assert data.count(b"alice") == 1
    return data.replace(b"alice", b"malle")


def altered_zstd(data: bytes) -> bytes:
    """One frame with its content as it is, of at least 256 bytes, and the checksum of another content."""
    header = b"\x28\xb5\x2f\xfd\x64" + (len(data) - 256).to_bytes(2, "little")
    return header + (len(data) << 3 | 1).to_bytes(3, "little") + data + bytes(4)


BOM = b"\xef\xbb\xbf"


class Case(NamedTuple):
    """`content` becomes one file; `read` are `(auditID, line)` of the requests, `rejected` `(line, reason)`."""

    name: str
    content: bytes
    read: Sequence[tuple[str, int]]
    rejected: Sequence[tuple[int, str]] = ()


ONE, TWO = event(1), event(2)
BOTH = [("id-1", 1), ("id-2", 2)]
ITEMS = [
    {key: value for key, value in json.loads(line).items() if key not in ("kind", "apiVersion")} for line in (ONE, TWO)
]
EVENT_LIST = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": ITEMS}

FORMS = [
    Case("lines", ONE + b"\n" + TWO + b"\n", BOTH),
    Case("no newline at the end", ONE + b"\n" + TWO, BOTH),
    Case("carriage returns", ONE + b"\r\n" + TWO + b"\r\n", BOTH),
    Case("byte order mark", BOM + ONE + b"\n" + TWO, BOTH),
    Case("gzip", gzip.compress(ONE + b"\n" + TWO), BOTH),
    Case("gzip of two members", gzip.compress(ONE + b"\n") + gzip.compress(TWO), BOTH),
    Case("gzip with padding", gzip.compress(ONE + b"\n" + TWO) + bytes(512), BOTH),
    Case("zstd", zstd(ONE + b"\n" + TWO), BOTH),
    Case("zstd of two frames", zstd(ONE + b"\n") + zstd(TWO), BOTH),
    Case("event list in a line", json.dumps(EVENT_LIST).encode(), [("id-1", 1), ("id-2", 1)]),
    Case(
        "event lists and events",
        event(3) + b"\n" + json.dumps(EVENT_LIST).encode(),
        [("id-3", 1), ("id-1", 2), ("id-2", 2)],
    ),
    Case("event list over lines", json.dumps(EVENT_LIST, indent=1).encode(), [("id-1", 1), ("id-2", 1)]),
    Case("events over lines", b"\n".join(json.dumps(json.loads(line), indent=1).encode() for line in (ONE, TWO)), BOTH),
    Case("array of events", b"[" + ONE + b",\n" + TWO + b"]", BOTH),
    Case("long line", event(1, requestObject={"data": "x" * 20_000_000}) + b"\n" + TWO, BOTH),
    Case("longer line", event(1, requestObject={"data": "x" * 40_000_000}) + b"\n" + TWO, BOTH),
    Case("longer line in gzip", gzip.compress(event(1, requestObject={"d": "x" * 40_000_000}) + b"\n" + TWO, 1), BOTH),
    Case("longer line in zstd", zstd(event(1, requestObject={"d": "x" * 40_000_000}) + b"\n" + TWO), BOTH),
]
DEFECTS = [
    Case("altered gzip", gzip.compress(ONE + b"\n") + altered(gzip.compress(TWO, 0)), [("id-1", 1)], [(0, "damaged")]),
    Case(
        "wrong size in gzip",
        gzip.compress(ONE + b"\n") + gzip.compress(TWO)[:-1] + b"z",
        [("id-1", 1)],
        [(0, "damaged")],
    ),
    Case("garbage after gzip", gzip.compress(ONE + b"\n") + b"garbage", [("id-1", 1)], [(0, "damaged")]),
    Case("altered zstd", zstd(ONE + b"\n") + altered_zstd(TWO), [("id-1", 1)], [(0, "damaged")]),
    Case("garbage after zstd", zstd(ONE + b"\n") + b"garbage", [("id-1", 1)], [(0, "damaged")]),
    Case("truncated last line", ONE + b"\n" + TWO[:-30], [("id-1", 1)], [(2, "truncated")]),
    Case("no JSON, after blank lines", b"\n \r\n" + ONE + b"\n\n\nbad\n", [("id-1", 1)], [(6, "malformed")]),
    Case("not text", b'{"kind":"\xff"}\n\0\0\n' + event(1), [("id-1", 3)], [(1, "malformed"), (2, "malformed")]),
    Case("JSON, but no object", b'[1]\n"s"\nnull\n' + event(1), [("id-1", 4)], [(n, "malformed") for n in (1, 2, 3)]),
    Case("two objects in a line", b"{} {}\n" + event(1), [("id-1", 2)], [(1, "malformed")]),
    Case("other kinds", b'{}\n{"kind": "Pod"}\n' + event(1), [("id-1", 3)], [(1, "not an event"), (2, "not an event")]),
    Case(
        "other versions",
        event(1, apiVersion="audit.k8s.io/v1beta1") + b"\n" + event(2, apiVersion="v1") + b"\n" + event(3),
        [("id-3", 3)],
        [(1, "another apiVersion"), (2, "another apiVersion")],
    ),
    Case(
        "no way to place it",
        b"\n".join(
            [
                event(1, auditID=""),
                event(2, stage="Done"),
                event(3, verb=None),
                event(4, stageTimestamp="soon", requestReceivedTimestamp=None),
                event(5, stageTimestamp="9999-01-01T00:00:00Z"),
                event(6, stageTimestamp="infinity", requestReceivedTimestamp="now"),
                event(7),
            ]
        ),
        [("id-7", 7)],
        [(n, "implausible time" if n == 5 else "incomplete") for n in range(1, 7)],
    ),
    Case(
        "times that no request has",
        b"\n".join(
            [
                event(1, stageTimestamp="2200-01-01T00:00:00Z", requestReceivedTimestamp="2200-01-01T00:00:00Z"),
                event(2, stageTimestamp="1970-01-01T00:00:00Z", requestReceivedTimestamp="1970-01-01T00:00:00Z"),
                event(3, requestReceivedTimestamp="2200-01-01T00:00:00Z"),
                event(4, requestReceivedTimestamp="1970-01-01T00:00:00Z"),
                event(5, stageTimestamp="2200-01-01T00:00:00Z"),
                event(6, requestReceivedTimestamp=None),
            ]
        ),
        [("id-6", 6)],
        [(n, "implausible time") for n in range(1, 6)],
    ),
    Case(
        "a year from nearly all others",
        b"\n".join(
            [
                event(1, stageTimestamp="2031-06-01T00:00:00Z", requestReceivedTimestamp="2031-06-01T00:00:00Z"),
                event(2, stageTimestamp="2019-06-01T00:00:00Z", requestReceivedTimestamp="2019-06-01T00:00:00Z"),
                *(
                    event(n % 60, auditID=f"id-{n}", stageTimestamp=f"2026-01-01T00:0{n // 60}:{n % 60:02}Z")
                    for n in range(100, 401)
                ),
            ]
        ),
        [(f"id-{n}", n - 97) for n in range(100, 401)],
        [(1, "implausible time"), (2, "implausible time")],
    ),
    Case(
        "years apart, and not few",
        b"\n".join(
            event(n, stageTimestamp=f"20{18 + n}-06-01T00:00:00Z", requestReceivedTimestamp=None)
            for n in range(0, 9, 2)
        ),
        [(f"id-{n}", n // 2 + 1) for n in range(0, 9, 2)],
    ),
    Case(
        "stages of one request",
        event(1, stage="RequestReceived") + b"\n" + event(1) + b"\n" + event(1, stage="ResponseStarted"),
        [("id-1", 2)],
    ),
    Case("panic", event(1, stage="RequestReceived") + b"\n" + event(1, stage="Panic"), [("id-1", 2)]),
    Case("duplicate", ONE + b"\n" + ONE, [("id-1", 1)], [(2, "duplicate")]),
    Case("another event of the same ID", ONE + b"\n" + event(1, verb="update"), [("id-1", 1)], [(2, "conflicting")]),
    Case(
        "item of a list",
        json.dumps({**EVENT_LIST, "items": [*ITEMS, 5, {"auditID": "x"}]}).encode(),
        [("id-1", 1), ("id-2", 1)],
        [(1, "incomplete"), (1, "incomplete")],
    ),
]


@pytest.mark.slow
def test_of_lines_that_are_too_long_only_these_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("salvage", "segment"):
        monkeypatch.setattr(f"replay.audit.{module}.LONGEST_READ", 1 << 25)
    long = event(2, requestObject={"data": "x" * (1 << 25)})
    content = b"\n".join([ONE, b"", long, b"\xff", event(3), long.replace(b"id-2", b"id-4"), event(5)])
    for name, data in {"plain": content, "gzip": gzip.compress(content, 1), "zstd": zstd(content)}.items():
        (tmp_path / name).write_bytes(data)
        (tmp_path / "other").write_bytes(event(6))
        with Store.open() as store:
            report = store.ingest([tmp_path / name, tmp_path / "other"])
            assert sorted(record.audit_id for record in records(store)) == ["id-1", "id-3", "id-5", "id-6"]
            assert rejects(store) == [(3, "too long"), (4, "malformed"), (6, "too long")]
            (first, _), _ = (report.rejects.examples[reason] for reason in report.rejects.examples)
            assert first.text == long[:200].decode()


@pytest.mark.slow
@pytest.mark.nightly
def test_lines_to_256_megabytes_are_read(tmp_path: Path) -> None:
    item = {"metadata": {"name": "x" * 20, "labels": {"a": "b"}}, "spec": {"containers": [{"image": "i" * 40}]}}
    text = json.dumps(item).encode()
    longest, too_long = (
        event(number, verb="list", responseObject={"items": "ITEMS"}).replace(
            b'"ITEMS"', b"[" + b", ".join([text] * ((1 << 28) // (len(text) + 2) + more)) + b"]"
        )
        for number, more in ((1, -10), (2, 10))
    )
    (tmp_path / "audit").write_bytes(b"\n".join([ONE.replace(b"id-1", b"id-0"), longest, too_long, event(3)]))
    with Store.open() as store:
        store.ingest([tmp_path / "audit"])
        found = store.sql("select audit_id, length(response_object) as size from request order by audit_id").rows()
        assert [audit_id for audit_id, _ in found] == ["id-0", "id-1", "id-3"]
        assert found[1][1] > 220_000_000
        assert rejects(store) == [(3, "too long")]


@pytest.mark.parametrize("case", [*FORMS, *DEFECTS], ids=lambda case: case.name)
def test_a_file(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "audit"
    path.write_bytes(case.content)
    with Store.open() as store:
        report = store.ingest([path])
        assert [(record.audit_id, record.line) for record in sorted(records(store))] == sorted(case.read)
        assert rejects(store) == list(case.rejected)
        assert (report.requests, report.rejects.total) == (len(case.read), len(case.rejected))
        assert report.events == report.requests + report.superseded + sum(
            report.rejects.counts[reason] for reason in (RejectReason.DUPLICATE, RejectReason.CONFLICTING)
        )


class Nothing(NamedTuple):
    name: str
    content: bytes
    message: str


NOTHINGS = [
    Nothing("empty", b"", "no audit event: the log is empty or cut off"),
    Nothing("blank", b"\n\n", "no audit event: the log is empty or cut off"),
    Nothing(
        "YAML",
        b"kind: Pod\n",
        "no audit event: 1 of 1 unusable lines are `malformed` (the line is not one JSON object)",
    ),
    Nothing(
        "fields of no format",
        b'{"a": {"b": 1}, "c": ["' + b"x" * 500 + b'"]}',
        "no audit event: 1 of 1 unusable lines are `not an event` (the kind is not Event or EventList); no known format has lines "
        f"with the fields `a`, `c`: say what wrote them with --from {'|'.join(products())}, or see docs/logs.md",
    ),
    Nothing(
        "old version",
        event(1, apiVersion="audit.k8s.io/v1beta1"),
        "no audit event: 1 of 1 unusable lines are `another apiVersion` (only audit.k8s.io/v1 is read)",
    ),
    Nothing(
        "damaged",
        zstd(ONE)[:6] + b"garbage",
        "no audit event: 1 of 1 unusable lines are `damaged` (the file cannot be read or decompressed to its end, or is not what was written)",
    ),
    Nothing("another compression", b"BZh91AY", "bzip2 compression is not read: decompress it first"),
]


@pytest.mark.parametrize("case", NOTHINGS, ids=lambda case: case.name)
def test_a_log_without_events(case: Nothing, tmp_path: Path) -> None:
    path = tmp_path / "audit"
    path.write_bytes(case.content)
    with Store.open() as store, pytest.raises(AuditLogError) as caught:
        store.ingest([path])
    assert str(caught.value) == f"{path}: {case.message}"


def test_arguments_that_name_nothing(tmp_path: Path) -> None:
    for argument in (tmp_path, tmp_path / "none", f"{tmp_path}/*.jsonl"):
        with Store.open() as store, pytest.raises(AuditLogError, match=r"no such file|holds no file"):
            store.ingest([argument])


def test_damaged_files_give_what_comes_before_the_damage(tmp_path: Path) -> None:
    lines = b"\n".join(event(n % 60, auditID=f"id-{n}", requestObject={"n": hash(str(n))}) for n in range(500))
    for name, data in {"gzip": gzip.compress(lines), "zstd": zstd(lines)}.items():
        path = tmp_path / name
        path.write_bytes(data[: len(data) * 3 // 4])
        with Store.open() as store:
            report = store.ingest([path])
        assert 0 < report.requests < 500, name
        assert report.rejects.counts[RejectReason.DAMAGED] == 1, name


def test_directories_globs_and_overlaps_count_each_file_once(tmp_path: Path) -> None:
    nested = tmp_path / "rotated" / "older [1]"
    nested.mkdir(parents=True)
    (tmp_path / "rotated" / "audit.log").write_bytes(ONE)
    (nested / "audit-2{026}*?.log").write_bytes(TWO)
    (tmp_path / "rotated" / ".hidden").write_bytes(event(3))
    with Store.open() as store:
        report = store.ingest([tmp_path / "rotated", f"{tmp_path}/rotated/*.log", tmp_path / "rotated" / "audit.log"])
        found = sorted((record.audit_id, Path(record.file).name) for record in records(store))
    assert (report.files, report.rejects.total) == (2, 0)
    assert found == [("id-1", "audit.log"), ("id-2", "audit-2{026}*?.log")]


PATHS = [
    "verb=create",
    "namespace=x",
    "stage=Panic",
    "kind=Pod",
    "user=eve",
    "file_index=7",
    "row_id=1",
    "part=7",
    "a[b]*",
]


@pytest.mark.parametrize("name", PATHS)
def test_no_path_says_anything_about_the_data(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / name / "code=201" / "audit"
    log.parent.mkdir(parents=True)
    log.write_bytes(ONE + b"\n" + TWO + b"\nbad\n" + json.dumps(EVENT_LIST).encode())

    (tmp_path / "plain").write_bytes(log.read_bytes())
    with Store.open() as store:
        store.ingest([tmp_path / "plain"])
        wanted = store.sql("select * exclude (file, part, source_ips) from request order by seq").rows(), rejects(store)
    for directory in [None] if "[" in name else [None, tmp_path / name / "audit_id=x" / "store"]:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / name))
        with Store.open(directory) as store:
            store.ingest([log])
            assert {record.verb for record in records(store)} == {"create"}
            rows = store.sql("select * exclude (file, part, source_ips) from request order by seq").rows()
            assert (rows, rejects(store)) == wanted


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin(NamedTuple):
        buffer: io.BytesIO

    monkeypatch.setattr(sys, "stdin", Stdin(io.BytesIO(gzip.compress(ONE))))
    with Store.open() as store:
        store.ingest(["-"])
        assert [(record.audit_id, record.file) for record in records(store)] == [("id-1", "<stdin>")]


def _all(files: Iterable[Path]) -> tuple[list[RequestRecord], list[tuple[str, str]]]:
    with Store.open() as store:
        store.ingest(list(files))
        found = [record._replace(file="", line=0) for record in records(store)]
        return found, sorted((str(reject.reason), reject.audit_id) for reject in store.rejects())


@pytest.mark.slow
def test_neither_the_order_of_lines_nor_where_files_are_cut_matters(tmp_path: Path) -> None:
    lines = [
        event(5, stage="RequestReceived"),
        event(5),
        event(5, stage="ResponseStarted"),
        event(4, auditID="same time", objectRef={"resource": "pods", "namespace": "n", "name": "p5"}),
        event(4, auditID="same time too", objectRef={"resource": "pods", "namespace": "n", "name": "p5"}),
        event(1),
        event(1),
        b"bad",
    ]
    results = []
    for number, order in enumerate(itertools.islice(itertools.permutations(lines), 0, 40320, 8000)):
        for cut in (0, 3, 6):
            first, second = tmp_path / f"{number}-{cut}-b", tmp_path / f"{number}-{cut}-a"
            first.write_bytes(b"\n".join(order[:cut]))
            second.write_bytes(b"\n".join(order[cut:]))
            results.append(_all([first, second]))
    assert all(result == results[0] for result in results)


FRAGMENTS = [
    ONE,
    event(1, verb="get"),
    json.dumps(EVENT_LIST).encode(),
    b"{",
    b"}",
    b"[",
    b"]",
    b"\n",
    b"\0",
    b"\xff",
    b",",
    b'"',
]


@pytest.mark.slow
@pytest.mark.property
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(st.binary(max_size=400), st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(b"".join)))
def test_no_bytes_make_the_ingest_fail(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "audit"
    for content in (ONE + b"\n" + data, gzip.compress(data)[:-4]):
        path.write_bytes(content)
        with Store.open() as store:
            try:
                report = store.ingest([path])
            except ReplayError as error:
                assert "\n" not in str(error)  # noqa: PT017 - most bytes are refused, and some are not
            else:
                assert report.requests == len(records(store)) > 0
