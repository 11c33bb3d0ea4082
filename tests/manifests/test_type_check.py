"""The warnings about types are those of the real controller, for policies and custom kinds in `data/type_checking`.

`warnings.json` is what `TypeChecker` of k8s.io/apiserver v0.37.2 answered, with the OpenAPI definitions of Kubernetes 1.37 and without
the digits that it adds to the names of kinds.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from replay.cellib.version import NEWEST, KubernetesVersion
from replay.kube.discovery import builtin_discovery
from replay.kube.schema import Schemas
from replay.manifests.type_check import TypeChecker

DATA = Path(__file__).parent / "data" / "type_checking"
EXPECTED = json.loads((DATA / "warnings.json").read_text("utf-8"))


@cache
def policies() -> dict[str, Any]:
    text = (DATA / "policies.yaml").read_text("utf-8")
    return {policy["metadata"]["name"]: policy for policy in yaml.load_all(text, Loader=yaml.CSafeLoader)}


@cache
def checker(version: KubernetesVersion = NEWEST) -> TypeChecker:
    crds = list(yaml.load_all((DATA / "crds.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader))
    return TypeChecker(builtin_discovery().with_crds(crds), Schemas(crds), version)


@pytest.mark.parametrize("name", EXPECTED)
def test_warnings_are_those_of_the_controller(name: str) -> None:
    found = checker().check(policies()[name])
    assert {each.field_ref: each.warning for each in found} == EXPECTED[name]


@pytest.mark.parametrize(
    ("name", "minor", "fields"),
    [
        pytest.param("keyword-field", 30, [0, 2], id="fields named like keywords are not found before 1.31"),
        pytest.param("keyword-field", 31, [2], id="and are since"),
        pytest.param(
            "params-of-no-known-kind", 35, [0, 1], id="params of an unknown kind are not declared before 1.36"
        ),
        pytest.param("params-of-no-known-kind", 36, [1], id="and are since"),
    ],
)
def test_what_minors_do_otherwise(name: str, minor: int, fields: list[int]) -> None:
    found = checker(KubernetesVersion(1, minor)).check(policies()[name])
    assert [each.field_ref for each in found] == [f"spec.validations[{index}].expression" for index in fields]
