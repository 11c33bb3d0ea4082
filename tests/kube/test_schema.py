from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import ObjectLister
from replay.kube.schema import Encoding, Schemas
from tests.tools import distill_schema

OPENAPI = Path(__file__).parents[2].parent / "shared" / "kubernetes-1.37" / "openapi"
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
WIDGET = GroupVersionKind("shop.example.com", "v1", "Widget")
WIDGET_CRD: dict[str, Any] = {
    "spec": {
        "group": "shop.example.com",
        "names": {"kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "default": 3},
                                    "port": {"x-kubernetes-int-or-string": True},
                                    "inner": {"type": "object", "x-kubernetes-embedded-resource": True},
                                },
                            }
                        },
                    }
                },
            },
            {"name": "v2", "served": False},
        ],
    }
}


def test_built_in_kind() -> None:
    schema = Schemas().for_kind(DEPLOYMENT)
    assert schema is not None
    pod = schema.fields["spec"].fields["template"].fields["spec"]
    containers = pod.fields["containers"]
    assert containers.items is not None
    ports = containers.items.fields["ports"]
    assert ports.items is not None
    assert {
        "name": schema.name,
        "containers": (
            containers.list_type,
            containers.map_keys,
            containers.patch_strategy,
            containers.patch_merge_key,
        ),
        "ports": ports.map_keys,
        "protocol": ports.items.fields["protocol"].default,
        "strategy": schema.fields["spec"].fields["strategy"].patch_strategy,
        "selector": schema.fields["spec"].fields["selector"].map_type,
        "target": ports.items.fields["name"].type,
        "labels": schema.fields["metadata"].fields["labels"].field("any") is not None,
        "unknown": schema.field("unknown"),
        "encodings": [containers.items.fields[name].encoding for name in ("image", "securityContext", "resources")],
    } == {
        "name": "io.k8s.api.apps.v1.Deployment",
        "containers": ("map", ("name",), "merge", "name"),
        "ports": ("containerPort", "protocol"),
        "protocol": "TCP",
        "strategy": "retainKeys",
        "selector": "atomic",
        "target": "string",
        "labels": True,
        "unknown": None,
        "encodings": [Encoding.OMIT_EMPTY, Encoding.POINTER, Encoding.ALWAYS],
    }


def test_custom_kind() -> None:
    schemas = Schemas([WIDGET_CRD])
    schema = schemas.for_kind(WIDGET)
    assert schema is not None
    spec = schema.fields["spec"]
    assert (spec.fields["size"].default, spec.fields["port"].int_or_string) == (3, True)
    assert sorted(spec.fields["inner"].fields) == ["apiVersion", "kind", "metadata"]
    assert "labels" in schema.fields["metadata"].fields
    assert schemas.is_custom(WIDGET)
    assert not schemas.is_custom(DEPLOYMENT)


@pytest.mark.parametrize("kind", [WIDGET, WIDGET._replace(version="v2"), GroupVersionKind("", "v1", "Nothing")])
def test_kind_without_schema(kind: GroupVersionKind) -> None:
    crds = [] if kind == WIDGET else [WIDGET_CRD]
    assert Schemas(crds).for_kind(kind) is None


def _defaulting(size: int, *, served: bool = True) -> dict[str, Any]:
    """The definition with another default."""
    node = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"default": size}}}}}
    versions = [{"name": "v1", "served": served, "schema": {"openAPIV3Schema": node}}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.example.com"},
        "spec": {**WIDGET_CRD["spec"], "versions": versions},
    }


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param([_defaulting(1)], 1, id="as the definition was"),
        pytest.param([_defaulting(1, served=False)], None, id="a version that was not served"),
        pytest.param([], 2, id="nothing is shown of it"),
    ],
)
def test_definitions_of_another_time(shown: list[dict[str, Any]], expected: int | None) -> None:
    schemas = Schemas([_defaulting(2)])
    schema = schemas.seen_by(ObjectLister(shown)).for_kind(WIDGET)
    assert (schema and schema.fields["spec"].fields["size"].default) == expected
    last = schemas.for_kind(WIDGET)
    assert last is not None
    assert last.fields["spec"].fields["size"].default == 2


def test_kinds_that_their_own_document_lacks() -> None:
    schemas = Schemas()
    kinds = [("autoscaling", "v1", "Scale"), ("policy", "v1", "Eviction"), ("", "v1", "Binding"), DEPLOYMENT]
    assert [schemas.is_foreign(GroupVersionKind(*kind)) for kind in kinds] == [True, True, False, False]


def test_the_newest_minor_is_what_the_data_is() -> None:
    newest = Schemas((), 37)
    assert newest.types.items() >= Schemas().types.items()
    assert Schemas((), 36).types.items() != newest.types.items()


@pytest.mark.shared
@pytest.mark.skipif(not OPENAPI.is_dir(), reason="the OpenAPI documents are not beside the checkout")
def test_data_is_what_the_script_makes() -> None:
    """But for `x-go-encoding`, which needs the Go modules too."""
    data = files("replay.kube") / "data" / "schema.json"
    guessed = distill_schema.distill(OPENAPI)
    assert _without_encoding(data.read_text("utf-8")) == _without_encoding(guessed)


def _without_encoding(text: str) -> str:
    for encoding in ("pointer", "always", "null"):
        text = text.replace(f',"x-go-encoding":"{encoding}"', "").replace(f'"x-go-encoding":"{encoding}",', "")
        text = text.replace(f'{{"x-go-encoding":"{encoding}"}}', "{}")
    return text
