"""Which policies decide in a cluster, and what depends on the time of a request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.cel.value.timestamp import parse_timestamp
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectLister
from replay.kube.schema import Schemas
from replay.kyverno.cel.library.context import ListerReader
from replay.kyverno.cel.request import CELRequest
from replay.kyverno.cel.webhook import CELPolicies, CELWebhook
from replay.kyverno.rules.response import UndeterminedError

_DATA = Path(__file__).parent / "data"
_GIVEN = json.loads(_DATA.joinpath("requests.json").read_text("utf-8"))
_NATIVE = json.loads(_DATA.joinpath("native.json").read_text("utf-8"))
_MATCH = {"resourceRules": [{"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["pods"]}]}
_CLOCK = "time.now() < timestamp('2026-01-01T00:00:00Z')"


def _policy(expression: str, kind: str = "ValidatingPolicy", **spec: JSON) -> dict[str, Any]:
    return {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": kind,
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": _MATCH, "validations": [{"expression": expression, "message": "no"}], **spec},
    }


def _exception(**spec: JSON) -> dict[str, Any]:
    references = [{"kind": "ValidatingPolicy", "name": "p"}]
    return {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "PolicyException",
        "metadata": {"name": "e", "namespace": "kyverno"},
        "spec": {"policyRefs": references, **spec},
    }


def _entry(name: str, projection: str) -> JSON | Missing | None:
    return {"a": name + projection} if name == "known" else None


def _answer(time: str, *objects: dict[str, Any]) -> str:
    """The message of the denial of the pod, empty where it is allowed; or why that is not known."""
    reader = ListerReader(ObjectLister(_GIVEN["cluster"]), builtin_discovery(), _entry)
    webhook = CELWebhook(CELPolicies(objects), reader, ObjectPatchers(Schemas()))
    request = CELRequest(_GIVEN["requests"]["pod"], None)
    if time:
        instant = parse_timestamp(time)
        assert instant is not None
        request.time = instant
    try:
        return webhook.validate(request).message
    except UndeterminedError as error:
        return f"undetermined: {error}"


_NO_TIME = "the time of the request is not known"
_DENIED = "Policy p failed: no"
_ROWS: dict[str, tuple[str, tuple[dict[str, Any], ...], str]] = {
    "before": ("2025-12-31T00:00:00Z", (_policy(_CLOCK),), ""),
    "after": ("2026-12-31T00:00:00Z", (_policy(_CLOCK),), _DENIED),
    "no time": ("", (_policy(_CLOCK),), f"undetermined: policy p: time.now(): {_NO_TIME}"),
    "no time where it does not matter": ("", (_policy(f"{_CLOCK} || true"),), ""),
    "exception in force": (
        "2025-01-01T00:00:00Z",
        (_policy("false"), _exception(expiresAt="2025-06-01T00:00:00Z")),
        "",
    ),
    "exception that has expired": (
        "2025-07-01T00:00:00Z",
        (_policy("false"), _exception(expiresAt="2025-06-01T00:00:00Z")),
        _DENIED,
    ),
    "exception that may have expired": (
        "",
        (_policy("false"), _exception(expiresAt="2025-06-01T00:00:00Z")),
        f"undetermined: policy p: exception kyverno/e expires at 2025-06-01T00:00:00Z, and {_NO_TIME}",
    ),
    "left out of admission": ("", (_policy("false", evaluation={"admission": {"enabled": False}}),), ""),
    "native policy in its place": (
        "",
        (_policy("false", autogen={"validatingAdmissionPolicy": {"enabled": True}}),),
        "",
    ),
    "objects of all namespaces": (
        "",
        (_policy("dyn(resource.List('v1', 'configmaps', '').items).size() == 2"),),
        "",
    ),
    "objects with a label": (
        "",
        (_policy("dyn(resource.List('v1', 'configmaps', '', {'a': 'b'}).items).size() == 0"),),
        "",
    ),
    "resource of a kind": (
        "",
        (_policy("resource.Get(resource.ToGVR('v1', 'ConfigMap'), 'team-a', 'limits').data.maxReplicas == '10'"),),
        "",
    ),
    "no such kind": (
        "",
        (_policy("resource.Get(resource.ToGVR('v1', 'Nope'), 'team-a', 'limits').a == 1"),),
        'Policy p error: error: failed to map kind to resource: no matches for kind "Nope" in version "v1"',
    ),
    "entry": ("", (_policy("globalContext.Get('known', 'x').a == 'knownx'"),), ""),
    "entry that is not given": (
        "",
        (_policy("globalContext.Get('other', '') == null"),),
        "undetermined: policy p: the evaluation: globalContext: GlobalContextEntry `other` is not known",
    ),
    "service": (
        "",
        (_policy("http.Get('http://a').b == 1"),),
        "undetermined: policy p: http: an external service answers the call",
    ),
    "images": (
        "",
        (_policy("true", kind="ImageValidatingPolicy"),),
        "undetermined: policy p verifies images, which only the image registry can answer",
    ),
    "images of other requests": (
        "",
        (
            _policy(
                "true",
                kind="ImageValidatingPolicy",
                matchConditions=[{"name": "a", "expression": "object.metadata.name == 'other'"}],
            ),
        ),
        "",
    ),
}


@pytest.mark.parametrize("name", _ROWS)
def test_answer(name: str) -> None:
    time, objects, expected = _ROWS[name]
    assert _answer(time, *objects) == expected


def _written(value: JSON) -> JSON:
    """A value without what is empty."""
    if isinstance(value, dict):
        return {key: _written(item) for key, item in value.items() if item not in (None, [], {}, "")}
    return [_written(item) for item in value] if isinstance(value, list) else value


def test_native_policies_are_those_that_kyverno_builds() -> None:
    policies = CELPolicies(_NATIVE["objects"])
    made = [_written(each["spec"]) for each in policies.native]
    got = [{"policy": made[index], "binding": made[index + 1]} for index in range(0, len(made), 2)]
    expected = [{"policy": each["policy"], "binding": each["binding"]} for each in _NATIVE["native"]]
    assert (got, bool(policies)) == (expected, False)


_NOT_A = {
    "resourceRules": _MATCH["resourceRules"],
    "objectSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]},
}
_OBJECTS: dict[str, tuple[JSON, str]] = {
    "labels with a map": ({"metadata": {"name": "a", "labels": {"team": {}}}}, _DENIED),
    "labels that are a list": ({"metadata": {"name": "a", "labels": ["team"]}}, _DENIED),
    "metadata that is a text": ({"metadata": "x"}, _DENIED),
    "text": ("x", "undetermined: the object of the request is not a JSON object"),
    "list": ([], "undetermined: the object of the request is not a JSON object"),
}


@pytest.mark.parametrize("name", _OBJECTS)
def test_odd_object(name: str) -> None:
    obj, expected = _OBJECTS[name]
    policies = CELPolicies([_policy("false", matchConstraints=_NOT_A)])
    reader = ListerReader(ObjectLister([]), builtin_discovery(), _entry)
    try:
        request = CELRequest({**_GIVEN["requests"]["pod"], "object": obj}, None)
        got = CELWebhook(policies, reader, ObjectPatchers(Schemas())).validate(request).message
    except UndeterminedError as error:
        got = f"undetermined: {error}"
    assert got == expected
