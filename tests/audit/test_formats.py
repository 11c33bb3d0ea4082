"""Events in envelopes are read as those that stand for themselves; what is damaged is counted, with its line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from replay.audit.format.recognise import HEAD, form_of
from replay.audit.format.table import formats_named
from replay.audit.store import Store
from replay.errors import AuditLogError, ReplayError
from replay.kube.attributes import UserInfo
from tests.support.log_lines import event, records, rejects, zstd
from tests.support.wrapping import WRAPPINGS, Wrapping

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop" / "audit.jsonl.zst"
_ALL = "select * exclude (file, line, part) from request order by seq, audit_id"


def rows_of(*paths: Path, names: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    """The requests of logs, without where they stand."""
    with Store.open() as store:
        formats = tuple(each for name in names for each in formats_named(name))
        store.ingest(paths, formats=formats)
        return store.sql(_ALL).rows()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Lines of the sample of all kinds, and their requests."""
    with pa.CompressedInputStream(str(SAMPLE), "zstd") as stream:
        lines = stream.read().decode().splitlines()[::21]
    path = tmp_path_factory.mktemp("sample") / "log"
    path.write_text("\n".join(lines))
    return lines, rows_of(path)


@pytest.mark.parametrize("wrapping", WRAPPINGS, ids=lambda each: each.what)
def test_a_wrapped_log_is_read_as_the_plain_one(
    wrapping: Wrapping, sample: tuple[list[str], list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    lines, expected = sample
    (tmp_path / "log").write_bytes(wrapping.wrap(lines))
    assert rows_of(tmp_path / "log") == expected
    assert rows_of(tmp_path / "log", names=[wrapping.name]) == expected


def test_formats_of_all_kinds_in_one_directory(sample: tuple[list[str], list[tuple[Any, ...]]], tmp_path: Path) -> None:
    lines, expected = sample
    for number, wrapping in enumerate(WRAPPINGS):
        content = wrapping.wrap(lines[number :: len(WRAPPINGS)])
        name = tmp_path / f"{number:02}"
        name.write_bytes([content, gzip.compress(content), zstd(content)][number % 3])
    assert rows_of(tmp_path) == expected


E = event(1).decode()
LIST = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [json.loads(E)]}


class Damaged(NamedTuple):
    """`content` becomes one file; `read` are the lines of its requests, `rejected` `(line, reason)`."""

    name: str
    content: str
    read: Sequence[int]
    rejected: Sequence[tuple[int, str]]


def logged(*messages: str) -> str:
    return json.dumps({"logEvents": [{"id": "1", "timestamp": 1, "message": message} for message in messages]})


DAMAGED = [
    Damaged("a wrapper that is cut", f"{logged(E)}\n{logged(E)[:-9]}", [1], [(2, "truncated")]),
    Damaged("a wrapper that is altered", f"{logged(E)[:-9]}\n{logged(E)}", [2], [(1, "malformed")]),
    Damaged("an event that was cut before", logged(event(2).decode()[:-9], E), [1], [(1, "malformed")]),
    Damaged(
        "other lines of the same log",
        logged("I0101 00:00:00.000000 1 trace.go:236] Trace", '{"level":"info"}', E),
        [1],
        [(1, "not an event"), (1, "not an event")],
    ),
    Damaged("another document", f"{logged(E)}\n" + '{"messageType":"CONTROL_MESSAGE"}', [1], [(2, "not an event")]),
    Damaged("a wrapper of nothing", f"{logged(E)}\n{logged()}", [1], [(2, "not an event")]),
    Damaged("blank lines", f"\n{logged(E)}\n\n{logged('')}\n", [1], [(4, "not an event")]),
    Damaged("an EventList in a wrapper", f"{logged('')}\n{logged(json.dumps(LIST))}", [2], [(1, "not an event")]),
    Damaged("text before", f"node-0 {E}\nnode-1 E0101 no event\n\nnode-0 {E[:-9]}\n", [1], [(2, "not an event"), (4, "malformed")]),
    Damaged(
        "parts of a container's line",
        f"t stdout P {E[:9]}\nt stderr F E0101 other\nt stdout F {E[9:]}\nt stdout P {E[:9]}\n",
        [3],
        [(2, "not an event"), (5, "damaged")],
    ),
    Damaged("a document of several without line ends", logged(E) + logged("")[:-2] + logged(""), [1], [(1, "malformed"), (1, "not an event")]),
    Damaged(
        "a document of several over lines",
        "\n".join(json.dumps(json.loads(each), indent=1) for each in (logged(E), logged("x"))).replace('"x"', '"x')
        + "\n"
        + logged(event(2).decode()),
        [1, 3],
        [(10, "malformed")],
    ),
    Damaged("a document over lines that is cut", json.dumps({"events": [{"message": E}]}, indent=1)[:-3], [], []),
]  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED, ids=lambda case: case.name)
def test_what_is_damaged_is_counted(case: Damaged, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(case.content)
    with Store.open() as store:
        if not case.read:
            with pytest.raises(AuditLogError):
                store.ingest([tmp_path / "log"])
            return
        store.ingest([tmp_path / "log"])
        assert (sorted(record.line for record in records(store)), rejects(store)) == (case.read, case.rejected)


def test_the_form_is_told_by_a_beginning_that_is_cut_off() -> None:
    long = json.dumps(LIST).replace('"verb"', f'"annotations": {{"x": "{"y" * HEAD}"}}, "verb"')
    for name, text in (
        ("cloudwatch-subscription", logged(long)),
        ("azure-record", json.dumps({"properties": {"log": long}})),
        ("log", json.dumps({"log": LIST, "x": "y" * HEAD})),
    ):
        assert [each.name for each in form_of(text.encode()[:HEAD]).wrappers] == [name]


def test_a_format_that_is_asked_for_is_taken_off_where_nothing_tells_of_it() -> None:
    assert [each.name for each in form_of(b'{"log": 1}', formats_named("log")).wrappers] == ["log"]
    assert [each.name for each in form_of(b"", formats_named("eks")).wrappers] == []


def test_names_of_formats() -> None:
    with pytest.raises(ReplayError, match=r"--from: `word` is not known: there are aks, docker, eks, .*, vector.*$"):
        formats_named("word")


FLAT = {
    "log.kind": "Event",
    "log.apiVersion": "audit.k8s.io/v1",
    "log.level": "RequestResponse",
    "log.auditID": "id-1",
    "log.stage": "ResponseComplete",
    "log.requestURI": "/api/v1/namespaces/n/pods",
    "log.verb": "create",
    "log.user.username": "alice",
    "log.user.groups.0": "g",
    "log.objectRef.resource": "pods",
    "log.objectRef.namespace": "n",
    "log.objectRef.name": "p1",
    "log.objectRef.apiVersion": "v1",
    "log.responseStatus.code": 201,
    "log.requestReceivedTimestamp": "2026-01-01T00:00:01.000001Z",
    "log.stageTimestamp": "2026-01-01T00:00:01.500000Z",
    "log.requestObject.metadata.labels.app.kubernetes.io/name": "shop",
    "log.requestObject.spec.containers.0.image": "a",
    "log.requestObject.spec.containers.1.image": "b",
    "host.name": "m0",
}
ENTRY: dict[str, Any] = {
    "protoPayload": {
        "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
        "authenticationInfo": {"principalEmail": "alice@example.com"},
        "authorizationInfo": [{"granted": True, "permission": "io.k8s.core.v1.pods.create", "resource": "core/v1/namespaces/n/pods/p1"}],
        "methodName": "io.k8s.core.v1.pods.create",
        "request": {"@type": "core.k8s.io/v1.Pod", "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p1"}},
        "requestMetadata": {"callerIp": "192.0.2.1", "callerSuppliedUserAgent": "kubectl/v1.37.0"},
        "resourceName": "core/v1/namespaces/n/pods/p1",
        "response": {"@type": "core.k8s.io/v1.Pod", "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p1", "uid": "u"}},
        "serviceName": "k8s.io",
        "status": {"code": 0},
    },
    "insertId": "id-1",
    "resource": {"type": "k8s_cluster", "labels": {"cluster_name": "shop"}},
    "timestamp": "2026-01-01T00:00:01.000001Z",
    "labels": {"authorization.k8s.io/decision": "allow"},
    "logName": "projects/p/logs/cloudaudit.googleapis.com%2Factivity",
    "operation": {"id": "id-1", "producer": "k8s.io", "first": True, "last": True},
    "receiveTimestamp": "2026-01-01T00:00:02Z",
}  # fmt: skip


def told(method: str, resource_name: str, **payload: Any) -> dict[str, Any]:
    return {
        **ENTRY,
        "protoPayload": {**ENTRY["protoPayload"], "methodName": method, "resourceName": resource_name, **payload},
    }


class Entry(NamedTuple):
    """`entry` is one of a Cloud Audit Log; `expected` are fields of the record that becomes of it."""

    name: str
    entry: dict[str, Any]
    expected: dict[str, Any]


DENIED = {
    "@type": "core.k8s.io/v1.Status",
    "apiVersion": "v1",
    "code": 422,
    "kind": "Status",
    "message": "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
    "reason": "Invalid",
    "status": "Failure",
}
NODE_UPDATE = {"@type": "core.k8s.io/v1.Node", "apiVersion": "v1", "kind": "Node", "metadata": {"resourceVersion": "7"}}
FRESH = {"metadata": {"creationTimestamp": "2026-01-01T00:00:01Z"}}
ENTRIES = [
    Entry(
        "creation",
        ENTRY,
        {
            "audit_id": "id-1",
            "level": "RequestResponse",
            "verb": "create",
            "request_uri": "/api/v1/namespaces/n/pods/p1",
            "user": UserInfo("alice@example.com", missing=("uid", "groups", "extra")),
            "caller": "alice@example.com",
            "resource": "pods",
            "namespace": "n",
            "name": "p1",
            "code": 201,
            "request_object": '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p1"}}',
            "response_uid": "u",
            "annotations": '{"authorization.k8s.io/decision":"allow"}',
        },
    ),
    Entry(
        "service account, cluster-wide, in a group",
        told(
            "io.k8s.authorization.rbac.v1.clusterroles.delete",
            "rbac.authorization.k8s.io/v1/clusterroles/r",
            authenticationInfo={"principalEmail": "system:serviceaccount:n:s"},
        ),
        {
            "api_group": "rbac.authorization.k8s.io",
            "resource": "clusterroles",
            "namespace": "",
            "name": "r",
            "code": 200,
            "user": UserInfo(
                "system:serviceaccount:n:s",
                groups=("system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"),
                missing=("uid", "extra"),
            ),
        },
    ),
    Entry(
        "denied",
        told("io.k8s.core.v1.pods.create", "core/v1/namespaces/n/pods", response=DENIED, status={"code": 3, "message": "no"}),
        {"code": 422, "status_reason": "Invalid", "status_message": DENIED["message"], "name": ""},
    ),
    Entry(
        "forbidden, without a body",
        told("io.k8s.core.v1.pods.list", "core/v1/namespaces/n/pods", request=None, response=None, status={"code": 7, "message": "no"}),
        {"code": 403, "status_reason": "Forbidden", "status_message": "no", "level": "Metadata", "request_object": None},
    ),
    Entry(
        "subresource",
        told("io.k8s.core.v1.pods.exec.create", "core/v1/namespaces/n/pods/p1/exec"),
        {"subresource": "exec", "name": "p1", "verb": "create"},
    ),
    Entry(
        "subresource of a namespace",
        told("io.k8s.core.v1.namespaces.finalize.update", "core/v1/namespaces/n/finalize"),
        {"resource": "namespaces", "name": "n", "namespace": "n", "subresource": "finalize"},
    ),
    Entry(
        "an update that says what it updates",
        told("io.k8s.core.v1.nodes.update", "core/v1/nodes/m", request=NODE_UPDATE, response=FRESH),
        {"code": 200, "resource": "nodes"},
    ),
    Entry(
        "an update that may have created",
        told("io.k8s.coordination.v1.leases.update", "coordination.k8s.io/v1/namespaces/n/leases/l", response=FRESH),
        {"code": 0, "resource": "leases"},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", ENTRIES, ids=lambda case: case.name)
@pytest.mark.parametrize("layout", ["lines", "array"])
def test_an_entry_of_a_cloud_audit_log(case: Entry, layout: str, tmp_path: Path) -> None:
    lines = layout == "lines"
    (tmp_path / "log").write_text(json.dumps(case.entry) if lines else json.dumps([case.entry], indent=2))
    with Store.open() as store:
        store.ingest([tmp_path / "log"])
        (record,) = records(store)
    assert {name: getattr(record, name) for name in case.expected} == case.expected


def test_an_entry_of_another_service_is_no_event(tmp_path: Path) -> None:
    other = told(
        "google.container.v1.ClusterManager.CreateCluster", "projects/p", serviceName="container.googleapis.com"
    )
    (tmp_path / "log").write_text(f"{json.dumps(ENTRY)}\n{json.dumps(other)}\n")
    with Store.open() as store:
        store.ingest([tmp_path / "log"])
        assert rejects(store) == [(2, "not an event")]


@pytest.mark.parametrize("prefix", ["log.", ""])
def test_a_flattened_event_is_put_together_again(prefix: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(json.dumps({key.replace("log.", prefix): value for key, value in FLAT.items()}))
    (tmp_path / "plain").write_bytes(
        event(
            1,
            requestObject={
                "metadata": {"labels": {"app.kubernetes.io/name": "shop"}},
                "spec": {"containers": [{"image": "a"}, {"image": "b"}]},
            },
        )
    )
    assert rows_of(tmp_path / "log") == rows_of(tmp_path / "plain")
