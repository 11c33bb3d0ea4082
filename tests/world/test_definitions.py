"""Definitions of custom resources that are others in the candidate's world than in the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.kube.attributes import Attributes
from replay.kube.lister import ObjectLister
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.reconstructor import Reconstructor
from replay.reconstruct.record.exchange import Exchange
from replay.world.request_adapter import RequestAdapter
from tests.world.test_consequences import BAD, DENIED, DENIES, SUCCEEDS, Request, Row, replayed
from tests.world.test_rules import record


def definition(maximum: int, *, served: bool = True, labels: dict[str, str] | None = None) -> dict[str, Any]:
    node = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"maximum": maximum}}}}}
    return {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "dolls.example.com", **({"labels": labels} if labels else {})},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Doll", "plural": "dolls"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": served, "storage": True, "schema": {"openAPIV3Schema": node}}],
        },
    }


def defines(verb: str, code: int, body: Any, message: str = "") -> Request:
    labels = body["metadata"].get("labels") or {}
    name, resource = "dolls.example.com", "customresourcedefinitions"
    if verb == "update":  # of the version that the creation stored
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": "100"}}
    return Request(verb, name, labels, code, message, resource, namespace="", body=body)


def doll(verb: str, size: int, code: int, message: str = "", name: str = "u") -> Request:
    body: dict[str, Any] = {"spec": {"size": size}}
    if verb == "create":
        metadata = {"name": name, "namespace": "default"}
        body |= {"kind": "Doll", "apiVersion": "example.com/v1", "metadata": metadata}
    return Request(verb, name, code=code, message=message, resource="dolls", body=body)


CREATED = defines("create", 201, definition(99))
NARROWED, UNSERVED = definition(9, labels=BAD), definition(99, served=False, labels=BAD)
BUSY = [Request("create", f"a-{number}", code=201) for number in range(2)]
"""What happens until all see a definition."""
INVALID = 'Doll.example.com "u" is invalid: spec.size: Invalid value: 10: should be less than or equal to 9'
ROWS = [
    Row(
        "a narrower schema that is refused here",
        [
            CREATED,
            *BUSY,
            defines("update", 200, NARROWED),
            *BUSY,
            doll("create", 10, 422, INVALID),
            doll("patch", 10, 404, 'dolls.example.com "u" not found'),
            doll("patch", 100, 404, 'dolls.example.com "u" not found'),
        ],
        [SUCCEEDS, *[SUCCEEDS] * 2, DENIES, *[SUCCEEDS] * 2, ("succeeds", 3), ("succeeds", 3), ("invalid", 3)],
    ),
    Row(
        "a narrower schema that is admitted here",
        [
            CREATED,
            *BUSY,
            defines("update", 422, NARROWED, DENIED),
            *BUSY,
            doll("create", 10, 201),
            doll("patch", 10, 200),
            doll("create", 5, 201, name="v"),
        ],
        [SUCCEEDS, *[SUCCEEDS] * 2, ("succeeds", "root"), *[SUCCEEDS] * 2, ("invalid", 3), ("absent", 3), SUCCEEDS],
        reverse=True,
    ),
    Row(
        "what was stored under the wider schema stays as it is",
        [
            CREATED,
            *BUSY,
            doll("create", 10, 201),
            defines("update", 422, NARROWED, DENIED),
            *BUSY,
            doll("patch", 10, 200),
            doll("patch", 11, 200),
        ],
        [SUCCEEDS, *[SUCCEEDS] * 3, ("succeeds", "root"), *[SUCCEEDS] * 2, SUCCEEDS, ("invalid", 4)],
        reverse=True,
    ),
    Row(
        "a definition that differs in a label alone",
        [
            CREATED,
            *BUSY,
            defines("update", 200, definition(99, labels=BAD)),
            *BUSY,
            doll("create", 1, 422, 'Doll.example.com "u" is invalid: spec: Invalid value: a rule of its own'),
        ],
        [SUCCEEDS, *[SUCCEEDS] * 2, DENIES, *[SUCCEEDS] * 2, ("invalid", None)],
    ),
    Row(
        "what is invalid under both schemas, for a rule that neither states",
        [
            CREATED,
            *BUSY,
            defines("update", 200, NARROWED),
            *BUSY,
            doll("create", 1, 422, 'Doll.example.com "u" is invalid: spec: Invalid value: a rule of its own'),
        ],
        [SUCCEEDS, *[SUCCEEDS] * 2, DENIES, *[SUCCEEDS] * 2, ("invalid", None)],
    ),
    Row(
        "a version that is served here",
        [
            CREATED,
            *BUSY,
            doll("create", 1, 201),
            defines("update", 200, UNSERVED),
            *BUSY,
            Request("delete", "u", code=404, resource="dolls"),
            Request("delete", "other", code=404, resource="dolls"),
        ],
        [SUCCEEDS, *[SUCCEEDS] * 3, DENIES, *[SUCCEEDS] * 2, ("succeeds", 4), ("absent", None)],
    ),
    Row(
        "a version that is not served here",
        [
            CREATED,
            *BUSY,
            doll("create", 1, 201),
            defines("update", 422, UNSERVED, DENIED),
            *BUSY,
            Request("delete", "u", resource="dolls"),
        ],
        [SUCCEEDS, *[SUCCEEDS] * 3, ("succeeds", "root"), *[SUCCEEDS] * 2, ("absent", 4)],
        reverse=True,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_definitions(row: Row, tmp_path: Path) -> None:
    assert replayed(row, tmp_path)[1] == row.expected


def test_what_an_apply_creates_has_the_defaults_of_its_time() -> None:
    last, earlier = definition(9), definition(9)
    last["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["default"] = 5
    cluster = Cluster([last])
    configuration = {"apiVersion": "example.com/v1", "kind": "Doll", "metadata": {"name": "u"}, "spec": {}}
    applied = record(
        verb="patch",
        api_group="example.com",
        api_version="v1",
        resource="dolls",
        namespace="default",
        name="u",
        request_uri="/apis/example.com/v1/namespaces/default/dolls/u?fieldManager=me",
        request_object=orjson.dumps(configuration).decode(),
    )
    request_adapter = RequestAdapter(Reconstructor(cluster), ObjectPatchers(cluster.schemas_of("")))
    specs = []
    for shown in (earlier, last):
        request = request_adapter.creation(Exchange(applied, cluster.discovery), ObjectLister([shown]))
        assert isinstance(request.before_mutation, Attributes)
        value = request.before_mutation.object
        assert isinstance(value, dict)
        specs.append(value["spec"])
    assert specs == [{}, {"size": 5}]
