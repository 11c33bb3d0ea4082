"""The cluster at an instant, read object by object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.audit.event import RequestRecord
from replay.json import JSON
from replay.kube.attributes import Missing, UserInfo
from replay.kube.gvk import GroupVersionKind, ObjectRef
from replay.kube.rbac import ROLE
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.history.clock import RevisionClock

NAMESPACE = GroupVersionKind("", "v1", "Namespace")


def write(seq: int, verb: str, name: str, team: str) -> RequestRecord:
    body = f'{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"{name}","labels":{{"team":"{team}"}}}}}}'
    return RequestRecord(
        *(
            seq,
            f"id-{seq}",
            "RequestResponse",
            "ResponseComplete",
            verb,
            "/",
            "",
            UserInfo(),
            "",
            "",
            "v1",
            "namespaces",
        ),
        *("", name if verb == "update" else "", name, "", "", 201 if verb == "create" else 200, "", "", ""),
        *(seq * 10_000_000, seq * 10_000_000 + 1000, None, None, body, "log", seq),
    )


RECORDS = [
    write(1, "create", "shop", "red"),
    write(2, "create", "lab", "blue"),
    write(3, "update", "shop", "green"),
    write(4, "update", "lab", "grey"),
]


class Counted(dict[ObjectRef, Sequence[RequestRecord]]):
    """Lookups that note what is read."""

    read: int = 0

    def __getitem__(self, key: ObjectRef) -> Sequence[RequestRecord]:
        self.read += 1
        return super().__getitem__(key)


def teams(cluster: Cluster) -> Iterator[object]:
    for seq in (0, 2, 3, 9):
        for name in ("shop", "lab"):
            at = RECORDS[0]._replace(received=seq * 10_000_000 + 5_000_000, stage_time=seq * 10_000_000 + 5_000_001)
            found = cluster.at(at).get(NAMESPACE, "", name)
            yield found["metadata"]["labels"]["team"] if isinstance(found, dict) else found


def test_histories_are_forgotten_and_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [None, None, "red", "blue", "green", "blue", "green", "grey"]
    written = {
        ObjectRef("", "namespaces", "", name): [r for r in RECORDS if r.name == name] for name in ("shop", "lab")
    }
    assert list(teams(Cluster((), RECORDS))) == expected
    plenty = Counted(written)
    assert list(teams(Cluster((), plenty))) == expected
    monkeypatch.setattr("replay.reconstruct.cluster.MOST_HISTORIES", 1)
    scarce = Counted(written)
    assert list(teams(Cluster((), scarce))) == expected
    assert plenty.read < scarce.read


def test_records_may_be_timed_otherwise() -> None:
    cluster = Cluster((), RECORDS, timed=lambda record: record._replace(received=0, stage_time=1))
    assert next(teams(cluster)) == "green"


@pytest.mark.parametrize(("namespace", "is_absent"), [("shop", True), ("old", False)])
def test_what_is_in_a_namespace_of_the_log_came_later(namespace: str, is_absent: bool) -> None:
    """The log first shows a change of a role, in a namespace whose creation it holds, or does not."""
    body = '{"kind":"Role","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"r"}}'
    role = write(5, "update", "r", "")._replace(
        api_group=ROLE.group, resource="roles", namespace=namespace, response_object=body
    )
    at = RECORDS[0]._replace(received=30_000_000, stage_time=30_000_001)
    found = Cluster((), [*RECORDS, role]).at(at).get(ROLE, namespace, "r")
    assert found is None if is_absent else isinstance(found, Missing)


SNAPSHOT = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "shop", "resourceVersion": "7"}}
SETTLED: list[tuple[str, list[JSON], list[RequestRecord], RevisionClock | None, bool]] = [
    ("the log never writes it", [SNAPSHOT], [], None, True),
    ("the snapshot holds none", [], [], None, False),
    ("the log creates one", [], RECORDS[:1], None, False),
    ("the log changes it", [SNAPSHOT], RECORDS[2:3], None, False),
    ("it was stored before the log", [SNAPSHOT], [], RevisionClock([(9, 1_000_000, 1_100_000)]), True),
    ("it was stored in the time of the log", [SNAPSHOT], [], RevisionClock([(5, 20_000_000, 20_100_000)]), False),
]


@pytest.mark.parametrize(("name", "snapshot", "records", "clock", "settled"), SETTLED, ids=[row[0] for row in SETTLED])
def test_what_nobody_changes_is_settled(
    name: str, snapshot: list[JSON], records: list[RequestRecord], clock: RevisionClock | None, settled: bool
) -> None:
    del name
    assert Cluster(snapshot, records, clock).is_settled(NAMESPACE, 10_000_000) is settled


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 20)), max_size=8),
    st.lists(st.tuples(st.integers(0, 450), st.integers(0, 20)), min_size=1, max_size=30),
)
def test_what_was_listed_before_is_what_would_be_listed(
    writes: list[tuple[int, int]], instants: list[tuple[int, int]]
) -> None:
    """Times are tenths of a second: informers may lag by ten of them."""
    records = [
        write(number, "update" if number > 3 else "create", f"ns{number % 3}", f"team-{number}")._replace(
            received=start * 100_000, stage_time=(start + length) * 100_000
        )
        for number, (start, length) in enumerate(sorted(writes), 1)
    ]

    def listed(cluster: Cluster, start: int, length: int) -> object:
        at = RECORDS[0]._replace(received=start * 100_000, stage_time=(start + length) * 100_000)
        return cluster.at(at).list(NAMESPACE, None)

    snapshot = [SNAPSHOT]
    cluster = Cluster(snapshot, records)
    assert [listed(cluster, *each) for each in instants] == [
        listed(Cluster(snapshot, records), *each) for each in instants
    ]
