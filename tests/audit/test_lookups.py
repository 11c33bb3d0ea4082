"""What decisions look up, in a file: by object, in order, in any process, as long as somebody holds it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from replay.audit import store as store_module
from replay.audit.event import RequestRecord
from replay.audit.part import Lookups
from replay.audit.place import ObjectPlace, lookup_parts, object_place
from replay.audit.store import Store
from replay.kube.gvk import ObjectRef


def event(number: int, resource: str, name: str, **fields: object) -> str:
    reference = {"resource": resource, "apiVersion": "v1", **({"name": name} if name else {})}
    plain = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "verb": "create",
        "requestURI": "/",
        "responseStatus": {"code": 201},
        "stageTimestamp": f"2026-01-01T00:00:{number:02}.000000Z",
        "objectRef": {**reference, **({"namespace": "shop"} if resource != "namespaces" else {})},
    }
    return json.dumps({**plain, **fields})


GENERATED = {"kind": "ConfigMap", "metadata": {"name": "web-x7k"}}
LOG = [
    event(1, "namespaces", "shop"),
    event(2, "configmaps", "", responseObject=GENERATED),
    event(3, "configmaps", "", responseStatus={"code": 500}),
    event(4, "pods", "web"),
    event(
        5,
        "namespaces",
        "shop",
        verb="update",
        objectRef={"resource": "namespaces", "namespace": "shop", "name": "shop"},
    ),
    event(6, "namespaces", "shop", verb="get", responseStatus={"code": 200}),
    event(7, "configmaps", "web-x7k", verb="delete", responseStatus={"code": 200}),
    event(8, "configmaps", "web-x7k", annotations={"kcp.io/cluster": "2abc", "kcp.io/path": "root:a"}),
]
KNOWN = {
    ObjectRef("", "namespaces", "", "shop"): ["id-1", "id-5"],
    ObjectRef("", "configmaps", "shop", "web-x7k"): ["id-2", "id-7"],
    ObjectRef("", "configmaps", "shop", "web-x7k", "2abc"): ["id-8"],
}


def ids(lookups: Lookups) -> dict[ObjectRef, list[str]]:
    return {key: [record.audit_id for record in records] for key, records in lookups.items()}


@pytest.mark.parametrize("kept", [True, False])
def test_the_writes_to_each_object(tmp_path: Path, *, kept: bool) -> None:
    (tmp_path / "log").write_text("\n".join(LOG))
    with Store.open(tmp_path / "store" if kept else None) as store:
        store.ingest([tmp_path / "log"])
        found = store.lookups(["namespaces", "configmaps"])
        sent = pickle.loads(pickle.dumps(found))
        assert ids(found) == ids(sent) == KNOWN
        assert ids(store.lookups(["pods", "configmaps"])).keys() == {
            ObjectRef("", "configmaps", "shop", "web-x7k"),
            ObjectRef("", "configmaps", "shop", "web-x7k", "2abc"),
            ObjectRef("", "pods", "shop", "web"),
        }
        assert ids(store.lookups([])) == {}
    assert ids(found) == KNOWN  # the file is gone, and still open


@pytest.mark.parametrize(("most", "is_read_again"), [(1 << 20, False), (10, True)])
def test_a_kept_store_keeps_them_unless_they_are_large(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_read_again: bool
) -> None:
    monkeypatch.setattr(store_module, "MOST_LOOKUP_BYTES", most)
    resources = ["namespaces", "configmaps"]
    (tmp_path / "log").write_text("\n".join(LOG))
    with Store.open(tmp_path / "store") as store:
        store.ingest([tmp_path / "log"])
        first = dict(store.lookups(resources))
        asked: list[bool] = []

        def read_again(_names: Sequence[str]) -> Iterator[tuple[ObjectRef, list[RequestRecord]]]:
            asked.append(True)
            yield from first.items()

        monkeypatch.setattr(store, "_looked_up", read_again)
        assert dict(store.lookups(resources)) == first
        assert bool(asked) == is_read_again


@pytest.mark.parametrize(("parts", "of_lookups"), [(1, 1), (5, 1), (16, 1), (17, 2), (128, 8)])
def test_how_many_parts_are_for_what_is_looked_up(parts: int, of_lookups: int) -> None:
    assert lookup_parts(parts) == of_lookups


def test_kinds_that_are_looked_up_have_parts_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("\n".join(LOG))
    with Store.open(tmp_path / "store") as store:
        store.ingest([tmp_path / "log"])
        found = dict(store.sql("select resource, max(part) from request group by resource").iter_rows())
        last = store.parts - 1
    assert found["namespaces"] == found["configmaps"] == last > found["pods"]


@pytest.mark.parametrize("parts", [1, 5, 16, 128])
def test_where_an_object_stands_is_what_the_ingest_says(
    parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "FEWEST_KEPT_PARTS", parts)
    (tmp_path / "log").write_text("\n".join(LOG))
    with Store.open(tmp_path / "store") as store:
        store.ingest([tmp_path / "log"])
        rows = store.sql(
            "select api_group, resource, if(resource = 'namespaces', '', \"namespace\"), object_name, workspace, part, identity"
            " from request where object_name <> '' and verb <> 'deletecollection'"
        ).rows()
        assert store.parts == parts
    assert rows
    for *key, part, identity in rows:
        assert object_place(key if key[-1] else key[:-1], parts) == ObjectPlace(part, identity)
