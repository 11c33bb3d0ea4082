"""The time that policies read: it lies between the coming of a request and its answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.admission.chain import Chain
from replay.admission.decision import Verdict
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectLister
from replay.kube.schema import Schemas
from replay.manifests.set_loader import load_manifest_set
from tests.support.creation import creation_of_config_map

_NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
_CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}}
_SECOND = 1_000_000
_START = 1_790_000_000 * _SECOND
"""2026-09-21T14:13:20Z."""


class _Timed(ObjectLister):
    """Objects at the time of a request."""

    start = _START
    end = _START + _SECOND


def _rule(when: str) -> JSON:
    after = {"key": f"{{{{ time_after(time_now_utc(), '{when}') }}}}", "operator": "Equals", "value": True}
    rule = {
        "name": "r",
        "match": {"any": [{"resources": {"kinds": ["ConfigMap"]}}]},
        "validate": {"failureAction": "Enforce", "message": "late", "deny": {"conditions": {"all": [after]}}},
    }
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "p"},
        "spec": {"rules": [rule]},
    }


def _cel(when: str) -> JSON:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    return {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "ValidatingPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": f"time.now() <= timestamp('{when}')", "message": "late"}],
        },
    }


def _decided(policy: JSON, lister: ObjectLister, folder: Path) -> Any:
    (folder / "kyverno").mkdir()
    (folder / "kyverno" / "p.json").write_text(json.dumps(policy))
    manifests = load_manifest_set(folder, version=NEWEST)
    chain = Chain([ManifestSet(), manifests], NEWEST, builtin_discovery(), Schemas([]))
    attributes = creation_of_config_map(_CONFIG_MAP, name="c", namespace_object=_NAMESPACE)
    decision = chain.decide(attributes, attributes, lister)[1]
    return decision.verdict, [each.reason for each in decision.undetermined]


_BEFORE, _WITHIN, _AFTER = "2026-09-21T14:13:19Z", "2026-09-21T14:13:20Z", "2026-09-21T14:13:25Z"
_INSTANT = "its answer is not known: it depends on the exact time of the request"
_ROWS = [
    ("a rule about a time before", _rule(_BEFORE), True, (Verdict.DENIED, [])),
    ("a rule about a time after", _rule(_AFTER), True, (Verdict.ADMITTED, [])),
    ("a rule about a time within", _rule(_WITHIN), True, (Verdict.UNDETERMINED, [_INSTANT])),
    ("CEL about a time before", _cel(_BEFORE), True, (Verdict.DENIED, [])),
    ("CEL about a time after", _cel(_AFTER), True, (Verdict.ADMITTED, [])),
    ("CEL about a time within", _cel(_WITHIN), True, (Verdict.UNDETERMINED, [_INSTANT])),
    (
        "a rule, where there is no time",
        _rule(_BEFORE),
        False,
        (Verdict.UNDETERMINED, ["its answer is not known: the time of the request is not known"]),
    ),
]


@pytest.mark.parametrize(("policy", "is_timed", "expected"), [row[1:] for row in _ROWS], ids=[row[0] for row in _ROWS])
def test_decisions(policy: JSON, is_timed: bool, expected: Any, tmp_path: Path) -> None:
    lister = (_Timed if is_timed else ObjectLister)([_NAMESPACE])
    assert _decided(policy, lister, tmp_path) == expected
