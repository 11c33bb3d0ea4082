"""What a record holds of its event, and the records of an object."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from replay.audit.place import object_place
from replay.audit.store import Store
from replay.kube.gvk import ObjectRef
from tests.support.log_lines import event, records


def test_bodies_keep_what_json_can_tell(tmp_path: Path) -> None:
    body = (
        '{"int":9223372036854775808,"big":123456789012345678901234567890,"float":1.0,"exp":1e3,"tiny":1e-400,"neg":-5,'
        '"same":1,"same":2,"z":0,"a":"\\u003c\\u0000\\n\\ud83d\\ude00","null":null}'
    )
    line = event(1).decode()[:-1] + f', "requestObject": {body}, "responseObject": null}}'
    path = tmp_path / "audit"
    path.write_text(line)
    with Store.open() as store:
        store.ingest([path])
        (record,) = records(store)
    assert record.response_object is None
    assert record.request_object is not None
    spelled: list[Any] = json.loads(record.request_object, object_pairs_hook=list, parse_float=str, parse_int=str)
    expected: list[Any] = json.loads(body, object_pairs_hook=list, parse_float=str, parse_int=str)
    expected[3] = ("exp", "1000.0")
    expected[4] = ("tiny", "0.0")
    assert spelled == expected


def test_a_record_holds_every_field(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    path.write_bytes(
        event(
            1,
            impersonatedUser={"username": "bob", "uid": "u", "groups": ["x"], "extra": {"k": ["v", "w"]}},
            userAgent="kubectl",
            verb="update",
            objectRef={
                "resource": "deployments",
                "apiGroup": "apps",
                "apiVersion": "v1",
                "namespace": "n",
                "name": "d",
                "uid": "123",
                "resourceVersion": "7",
                "subresource": "scale",
            },
            responseStatus={"code": 403, "status": "Failure", "reason": "Forbidden", "message": "no"},
            annotations={"a/b": "c"},
            requestObject={"a": 1},
            responseObject={"kind": "Status", "metadata": {}},
        )
    )
    with Store.open() as store:
        store.ingest([path])
        (record,) = records(store)
    assert record._asdict() == {
        "seq": record.seq,
        "audit_id": "id-1",
        "level": "RequestResponse",
        "stage": "ResponseComplete",
        "verb": "update",
        "request_uri": "/api/v1/namespaces/n/pods",
        "user_agent": "kubectl",
        "user": record.user,
        "caller": "alice",
        "api_group": "apps",
        "api_version": "v1",
        "resource": "deployments",
        "subresource": "scale",
        "namespace": "n",
        "name": "d",
        "object_uid": "123",
        "object_resource_version": "7",
        "code": 403,
        "status": "Failure",
        "status_reason": "Forbidden",
        "status_message": "no",
        "received": 1767225601000001,
        "stage_time": 1767225601500000,
        "annotations": '{"a/b":"c"}',
        "request_object": '{"a":1}',
        "response_object": '{"kind":"Status","metadata":{}}',
        "file": str(path),
        "line": 1,
        "selected": True,
        "response_kind": "Status",
        "response_uid": "",
        "response_resource_version": "",
        "workspace": "",
        "scoped": False,
    }
    assert (record.user.username, record.user.uid, record.user.groups) == ("bob", "u", ("x",))
    assert record.user.extra == {"k": ("v", "w")}


def test_fields_of_another_type_lose_their_value_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    path.write_bytes(event(1, user="u", objectRef="x", responseStatus=[1], annotations=5, sourceIPs="q", userAgent=7))
    with Store.open() as store:
        store.ingest([path])
        (record,) = records(store)
    assert (record.user.username, record.resource, record.code, record.user_agent) == ("", "", 0, "7")


class Objects(NamedTuple):
    """A predicate over `request`."""

    sql: str
    parameters: tuple[str, ...] = ()


def test_history_of_objects(tmp_path: Path) -> None:
    def pod(number: int, verb: str, code: int = 200, **ref: str) -> bytes:
        named = {"resource": "pods", "namespace": "n", "name": "p", **ref}
        status, audit_id = {"code": code}, f"{verb}-{number}"
        line: bytes = event(number, verb=verb, objectRef=named, responseStatus=status, auditID=audit_id)
        return line

    path = tmp_path / "audit"
    path.write_bytes(
        b"\n".join(
            [
                pod(1, "create", 201),
                pod(2, "get"),
                pod(3, "update", 409),
                pod(4, "patch", subresource="status"),
                pod(5, "create", subresource="exec"),
                pod(6, "update"),
                pod(7, "delete", 504),
                pod(20, "update"),
                pod(8, "create", 201, name="other"),
                pod(9, "deletecollection", name=""),
                pod(10, "create", 201, resource="secrets"),
            ]
        )
    )
    with Store.open() as store:
        store.ingest([path])
        chosen = Objects("verb = ? and subresource = ? and name = ? and code < 300", ("update", "", "p"))
        found = [list(each) for part in range(store.parts) for each in store.part(part).objects(chosen)]
        assert [[(record.audit_id, record.selected) for record in each] for each in found] == [
            [("create-1", False), ("patch-4", False), ("update-6", True), ("delete-7", False), ("update-20", True)]
        ]
        grouped = sorted(len(each) for part in range(store.parts) for each in store.part(part).objects())
        assert grouped == [1, 1, 1, 8]
        found_writes = {key: [record.audit_id for record in rows] for key, rows in store.lookups(["secrets"]).items()}
        assert found_writes == {ObjectRef("", "secrets", "n", "p"): ["create-10"]}
        assert [record.audit_id for record in store.collections()] == ["deletecollection-9"]


def test_writes_of_objects_are_what_a_predicate_selects(tmp_path: Path) -> None:
    def pod(number: int, verb: str, name: str, **more: object) -> bytes:
        line: bytes = event(number, verb=verb, objectRef={"resource": "pods", "namespace": "n", "name": name, **more})
        return line

    lines = [
        *(pod(10 * each, "create", f"p{each}") for each in range(40)),
        *(pod(10 * each + 1, "update", f"p{each}") for each in range(0, 40, 2)),
        *(pod(10 * each + 2, "get", f"p{each}") for each in range(40)),
        *(pod(10 * each + 3, "get", f"p{each}", subresource="exec") for each in range(0, 40, 3)),
        *(pod(10 * each + 4, "delete", f"p{each}") for each in range(0, 40, 4)),
        pod(10, "create", "p1"),
        pod(31, "update", "p3")[:-1] + b', "stage": "RequestReceived"}',
        event(999, auditID=""),
    ]
    (tmp_path / "audit").write_bytes(b"\n".join(reversed(lines)))
    with Store.open(tmp_path / "store") as store:
        store.ingest([tmp_path / "audit"])
        selecting = Objects("verb in ('create', 'update', 'delete') or subresource = 'exec'")
        for part in map(store.part, range(store.parts)):
            expected = [each for each in part.objects(selecting) if int(each[0].name[1:]) % 5]
            identities = [object_place(("", "pods", "n", each[0].name), store.parts).identity for each in expected]
            written = list(part.writes(identities))
            assert [records for _, records in written] == expected
            assert [identity for identity, _ in written] == identities
            assert list(part.writes([])) == []


def test_each_object_is_whole_in_one_share_of_its_part(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    path.write_bytes(b"\n".join(event(each, objectRef=_named(each % 20), auditID=f"id-{each}") for each in range(60)))
    predicate, others = Objects("object_name <> 'p0'"), Objects("object_name in ('p1', 'p2', 'p3', 'p4')")
    with Store.open() as store:
        store.ingest([path])
        whole = store.whole()
        shares = whole.shares(3)
        objects = [[[record.audit_id for record in each] for each in share.objects(predicate)] for share in shares]
        unread = [[each.audit_id for each in share.selection(others, only_failed=False).others()] for share in shares]
        assert all(objects)
        assert sorted(each for share in objects for each in share) == sorted(
            [record.audit_id for record in each] for each in whole.objects(predicate)
        )
        assert sorted(each for share in unread for each in share) == sorted(
            each.audit_id for each in whole.selection(others, only_failed=False).others()
        )


def _named(number: int) -> dict[str, str]:
    return {"resource": "pods", "namespace": "n", "name": f"p{number}", "apiVersion": "v1"}


@pytest.mark.parametrize(
    ("within", "only_failed", "selected", "others"),
    [
        (None, True, ["-create-1", "update-2"], ["update-3", "create-5-exec"]),
        (None, False, ["-create-1", "update-2"], ["create-1", "update-3", "create-4", "create-5-exec"]),
        (Objects("name = ?", ("p",)), False, ["-create-1", "update-2"], ["create-1", "update-3", "create-5-exec"]),
        (Objects("name = 'q'"), False, [], ["create-4"]),
        (Objects("null"), False, [], []),
    ],
    ids=["what did not succeed", "all others", "of an object", "nothing is selected", "nothing at all"],
)
def test_a_part_tells_what_is_not_selected_beside_what_is(
    within: Objects | None, only_failed: bool, selected: list[str], others: list[str], tmp_path: Path
) -> None:
    def pod(number: int, verb: str, code: int, name: str = "p", **ref: str) -> bytes:
        about = {"resource": "pods", "namespace": "n", "name": name, **ref}
        audit_id = "-".join((verb, str(number), *ref.values()))
        line: bytes = event(number, verb=verb, objectRef=about, responseStatus={"code": code}, auditID=audit_id)
        return line

    lines = [
        pod(1, "create", 201),
        pod(2, "update", 200),
        pod(3, "update", 409),
        pod(4, "create", 201, name="q"),
        pod(5, "create", 101, subresource="exec"),
        pod(6, "get", 200),
    ]
    (tmp_path / "audit").write_bytes(b"\n".join(lines))
    with Store.open() as store:
        store.ingest([tmp_path / "audit"])
        updates = Objects("verb = 'update' and code = ?", ("200",))
        selection = store.whole().selection(updates, within, only_failed=only_failed)
        found = [each for group in selection.objects() for each in group]
        assert [("" if each.selected else "-") + each.audit_id for each in found] == selected
        assert [(each.audit_id, each.request_object) for each in selection.others()] == [
            (each, None) for each in others
        ]


def test_a_generated_name_is_in_the_response(tmp_path: Path) -> None:
    nameless = {"resource": "pods", "namespace": "n"}
    path = tmp_path / "audit"
    path.write_bytes(
        b"\n".join(
            [
                event(1, objectRef=nameless, responseObject={"kind": "Pod", "metadata": {"name": "p-x1"}}),
                event(2, verb="update", objectRef={**nameless, "name": "p-x1"}),
                event(3, objectRef=nameless, responseStatus={"code": 422}, responseObject={"kind": "Status"}),
                event(4, objectRef=nameless, responseStatus={"code": 422}, responseObject={"kind": "Status"}),
            ]
        )
    )
    with Store.open() as store:
        store.ingest([path])
        found = [
            [record.audit_id for record in each] for part in range(store.parts) for each in store.part(part).objects()
        ]
    assert sorted(found) == [["id-1", "id-2"], ["id-3"], ["id-4"]]


def test_a_store_made_where_another_one_was(tmp_path: Path) -> None:
    found = []
    for name in ("first", "second"):
        (tmp_path / name).write_bytes(event(1))
        with Store.open(tmp_path / "store") as store:
            store.ingest([tmp_path / name])
            found += [Path(record.file).name for record in records(store)]
        shutil.rmtree(tmp_path / "store")
    assert found == ["first", "second"]
