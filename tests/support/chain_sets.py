"""Sets of policies for one point each, a pod, and what a chain decides about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replay.admission.chain import Chain
from replay.admission.decision import Decision, Denial, Mutated, Verdict
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectTracker
from replay.kube.schema import Schemas
from replay.manifests.manifest_set import manifest_set_from_objects
from tests.support.creation import creation_of_pod

API = "admissionregistration.k8s.io/v1"
EVERYTHING = {
    "resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}],
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
}
ADD_A = "Object{metadata: Object.metadata{labels: {'a': '1'}}}"
ADD_SIDECAR = (
    "[JSONPatch{op: 'add', path: '/spec/containers/-', value: Object.spec.containers{name: 'log', image: 'log:1'}}]"
)
PULL_ALWAYS = (
    "Object{spec: Object.spec{containers: object.spec.containers.map(c, "
    "Object.spec.containers{name: c.name, imagePullPolicy: 'Always'})}}"
)


class NobodyMay:
    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:  # noqa: ARG002
        return AuthorizationDecision(allowed=False)


def policy(name: str, *mutations: str, **spec: Any) -> list[JSON]:
    """A mutating policy and its binding; a mutation that is a list is a JSON patch, any other an apply configuration."""
    steps = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": each}}
        if each.startswith(("[", "patch:"))
        else {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": each}}
        for each in mutations
    ]
    conditions = [{"name": f"c{i}", "expression": each} for i, each in enumerate(spec.pop("conditions", []))]
    binding = spec.pop("binding", {})
    defaults = {"failurePolicy": "Fail", "reinvocationPolicy": "Never", "matchConstraints": EVERYTHING}
    return [
        {
            "apiVersion": API,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {**defaults, "mutations": steps, "matchConditions": conditions, **spec},
        },
        {
            "apiVersion": API,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": f"{name}-binding"},
            "spec": {"policyName": name, **binding},
        },
    ]


def validating(name: str, expression: str, **spec: Any) -> list[JSON]:
    return [
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": EVERYTHING,
                "validations": [{"expression": expression}],
                **spec,
            },
        },
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": f"{name}-binding"},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


POD: JSON = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
    "spec": {
        "containers": [
            {
                "name": "web",
                "image": "web:1",
                "imagePullPolicy": "IfNotPresent",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    },
    "status": {},
}
SIDECAR: JSON = {**POD["spec"]["containers"][0], "name": "log", "image": "log:1"}


def request(value: Any = POD, **changes: Any) -> Attributes:
    options = {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
    return creation_of_pod(value, **{"options": options, **changes})


def decide(
    *sets: list[JSON], before: Attributes | None = None, after: Attributes | None = None, objects: Sequence[JSON] = ()
) -> list[Decision]:
    before = before or request()
    chain = Chain(
        [manifest_set_from_objects(each, []) for each in sets],
        NEWEST,
        builtin_discovery(),
        Schemas(),
        authorizer=lambda _: NobodyMay(),
    )
    return chain.decide(before, after or before, ObjectTracker(objects))


def add(path: str, value: JSON) -> JSON:
    return {"op": "add", "path": path, "value": value}


def replaced(path: str, value: JSON) -> JSON:
    return {"op": "replace", "path": path, "value": value}


def admitted(*mutated: tuple[str, JSON], patch: Sequence[JSON] | None = None) -> Decision:
    entries = tuple(Mutated(name, f"{name}-binding", (operation,)) for name, operation in mutated)
    total = tuple(patch) if patch is not None else tuple(operation for _, operation in mutated)
    return Decision(Verdict.ADMITTED, patch=total, mutated=entries)


def denied(name: str, message: str, reason: str = "Invalid", code: int = 403) -> Decision:
    return Decision(
        Verdict.DENIED, denials=(Denial(name, f"{name}-binding", None, message, reason, code, is_error=True),)
    )
