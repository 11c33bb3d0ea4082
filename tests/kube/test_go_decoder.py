from __future__ import annotations

import json

import pytest

from replay.json import JSON
from replay.kube.go_decoder import misfit
from replay.kube.gvk import GroupVersionKind

POD = GroupVersionKind("", "v1", "Pod")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
WIDGET = GroupVersionKind("example.com", "v1", "Widget")


def named(kind: GroupVersionKind | None) -> tuple[str | None, str | None]:
    """Return `apiVersion` and `kind` as a body has them."""
    return (kind.api_version, kind.kind) if kind is not None else (None, None)


FITS: list[tuple[str, GroupVersionKind | None, JSON]] = [
    ("nothing", POD, {}),
    (
        "null anywhere",
        POD,
        {"metadata": None, "spec": {"containers": [{"name": None, "env": None}], "nodeSelector": {"a": None}}},
    ),
    ("fields that the type does not know", POD, {"spec": {"$patch": "replace", "unknown": [1]}}),
    ("quantities as text and number", POD, {"spec": {"overhead": {"cpu": "1m", "memory": 1, "x": 1.5}}}),
    (
        "integers or text",
        DEPLOYMENT,
        {"spec": {"strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}}},
    ),
    (
        "a schema of a schema",
        CRD,
        {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": {"not": {}}}}}}]}},
    ),
    ("any specification of a custom kind", WIDGET, {"spec": [1, {"metadata": "x"}]}),
    ("an object without a kind", None, {"metadata": {"labels": {"a": None}}}),
]


@pytest.mark.parametrize(("kind", "body"), [row[1:] for row in FITS], ids=[row[0] for row in FITS])
def test_what_the_type_takes(kind: GroupVersionKind | None, body: JSON) -> None:
    assert misfit(json.dumps(body), *named(kind)) == ""


WRONG: list[tuple[str, GroupVersionKind | None, JSON, str]] = [
    ("metadata", POD, {"metadata": "x"}, "`metadata`: expected `object`, got `str`"),
    ("a label", POD, {"metadata": {"labels": {"a": 1}}}, "`metadata.labels[...]`: expected `str`, got `int`"),
    ("a list of text", POD, {"spec": {"tolerations": ["x"]}}, "`spec.tolerations[0]`: expected `object`, got `str`"),
    ("text for a list", POD, {"spec": {"containers": "x"}}, "`spec.containers`: expected `array`, got `str`"),
    ("a bool for text", POD, {"spec": {"nodeName": True}}, "`spec.nodeName`: expected `str`, got `bool`"),
    (
        "text for a number",
        DEPLOYMENT,
        {"spec": {"replicas": "1"}},
        "`spec.replicas`: expected `int | float`, got `str`",
    ),
    ("metadata of a custom kind", WIDGET, {"metadata": []}, "`metadata`: expected `object`, got `array`"),
    ("metadata without a kind", None, {"metadata": {"name": 1}}, "`metadata.name`: expected `str`, got `int`"),
    ("no object", POD, [], "the body: expected `object`, got `array`"),
]


@pytest.mark.parametrize(("kind", "body", "told"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_it_does_not_take(kind: GroupVersionKind | None, body: JSON, told: str) -> None:
    assert misfit(json.dumps(body), *named(kind)) == told


def test_depth_is_no_error_of_the_decoder() -> None:
    assert misfit('{"spec":' * 5000 + "1" + "}" * 5000, *named(WIDGET)) in ("", "it is nested too deep")
