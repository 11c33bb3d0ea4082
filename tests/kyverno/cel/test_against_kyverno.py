"""Policies of CEL with the answers of the real engine (kyverno v1.19.1, beside this file as JSON).

`data/expressions.json` has expressions, each in a policy of its own; `data/sets` has sets of policies. The requests and the cluster
of both are in `data/requests.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind
from replay.kube.json_patch import apply
from replay.kube.lister import ObjectLister
from replay.kube.schema import Schemas
from replay.kyverno.cel.library.context import OfflineReader
from replay.kyverno.cel.request import CELRequest
from replay.kyverno.cel.webhook import CELPolicies, CELWebhook

_DATA = Path(__file__).parent / "data"
_SETS = sorted(path.stem for path in _DATA.joinpath("sets").glob("*.json"))
_REFUSED = "<nil>: Internal error: validating policy compiler 1.0 error: failed to compile policy, "
_MATCH = {"resourceRules": [{"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["pods"]}]}


def _read(name: str) -> Any:
    return json.loads(_DATA.joinpath(name).read_text("utf-8"))


_GIVEN = _read("requests.json")
_LISTER = ObjectLister(_GIVEN["cluster"])
_PATCHERS = ObjectPatchers(Schemas())
_EXPRESSIONS = _read("expressions.json")


def _no_entry(name: str, projection: str) -> JSON | Missing | None:  # noqa: ARG001 - there are none
    return None


def _webhook(policies: CELPolicies) -> CELWebhook:
    return CELWebhook(policies, OfflineReader(_LISTER, builtin_discovery(), _no_entry), _PATCHERS)


def _request(name: str) -> CELRequest:
    request = _GIVEN["requests"][name]
    namespace = request.get("namespace") or ""
    return CELRequest(request, _LISTER.get(GroupVersionKind("", "v1", "Namespace"), "", namespace))


@pytest.mark.parametrize("row", _EXPRESSIONS, ids=lambda row: f"{row['table']}: {row['expression'][:60]}")
def test_expression(row: dict[str, Any]) -> None:
    is_message = row["kind"] == "message"
    parts = {"expression": "false", "messageExpression": row["expression"]}
    validation = parts if is_message else {"expression": row["expression"], "message": "false"}
    policy = {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "ValidatingPolicy",
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": _MATCH, "validations": [validation]},
    }
    policies = CELPolicies([policy])
    if policies.refused:
        assert {"refused": policies.refused[0].partition(_REFUSED)[2][:-2]} == {"refused": row.get("refused")}
        return
    got = {}
    for name in ("pod", "pod-b"):
        (result,) = _webhook(policies).results(_request(name))
        got[name] = [result.rule.status, result.rule.message]
    assert got == {name: value for name, value in row.items() if name not in ("table", "kind", "expression")}


@pytest.mark.parametrize("name", _SETS)
def test_set(name: str) -> None:
    given = _read(f"sets/{name}.json")
    policies = CELPolicies(given["policies"], is_offline=True)
    webhook = _webhook(policies)
    wanted = {answer["id"]: answer for answer in given["answers"]}
    got, want = {}, {}
    for case in _GIVEN["requests"]:
        expected = wanted.get(case, {})
        validated, mutated = webhook.results(_request(case)), webhook.mutate(_request(case))
        got[case] = {
            "validate": [
                [each.policy, each.rule.status, each.rule.message, dict(each.properties)] for each in validated
            ],
            "mutate": [[each.policy, each.rule.status, each.rule.message] for each in mutated.results],
        }
        want[case] = {phase: expected.get(phase, []) for phase in ("validate", "mutate")}
        if mutated.allowed:
            sent = _request(case).object
            got[case]["object"] = apply(sent, mutated.patch)
            want[case]["object"] = expected.get("object", sent)
    assert (policies.refused, got) == (given["refused"], want)
