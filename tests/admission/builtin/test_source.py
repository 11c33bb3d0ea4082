"""Plugins without a corpus, by what their source says, and configurations that the server does not start with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from replay.admission.builtin.plugin import PluginCluster
from replay.admission.builtin.registry import BY_NAME, PLUGINS
from replay.admission.builtin.run import ask
from replay.case.plugin import PluginConfig, PluginWorld
from replay.errors import ManifestError
from replay.kube.admission_request import attributes_of
from replay.kube.attributes import Missing, PartialObject
from replay.pipeline.plugin import result_line

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "n",
        "labels": {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r", "x": "y"},
    },
}
SIGNER_ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "approver"},
    "rules": [
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["signers"],
            "resourceNames": ["example.com/*"],
            "verbs": ["approve", "sign", "attest"],
        }
    ],
}
SIGNER_BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "approver"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "approver"},
    "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}],
}


def _world(plugin: str) -> PluginCluster:
    config = PluginConfig(plugin, objects=(NODE, SIGNER_ROLE, SIGNER_BINDING), authorizer="rbac")
    return PluginWorld(config, []).cluster


def _request(resource: str, kind: str, operation: str = "CREATE", **more: Any) -> Any:
    name, _, group = resource.partition(".")
    of = {"group": group, "version": "v1"}
    return {
        "kind": {**of, "kind": kind},
        "resource": {**of, "resource": name},
        "operation": operation,
        "name": "x",
        "userInfo": {"username": "bob"},
        **more,
    }


def _csr(signer: str, **status: Any) -> Any:
    return {"metadata": {"name": "x"}, "spec": {"signerName": signer}, "status": status}


CSR = "certificatesigningrequests.certificates.k8s.io"


def _update(subresource: str, user: str, new: Any, old: Any) -> Any:
    kind = "CertificateSigningRequest"
    return _request(
        CSR, kind, "UPDATE", subResource=subresource, userInfo={"username": user}, object=new, oldObject=old
    )


def _denied(message: str, subject: str = f'{CSR} "x"') -> Any:
    return {"denied": {"code": 403, "reason": "Forbidden", "message": f"{subject} is forbidden: {message}"}}


class Case(NamedTuple):
    name: str
    plugin: str
    request: Any
    admit: Any = None
    validate: Any = None


CASES = (
    Case(
        "a new node",
        "TaintNodesByCondition",
        _request("nodes", "Node", object={"metadata": {"name": "x"}, "spec": {}}),
        {
            "patch": [
                {
                    "op": "add",
                    "path": "/spec/taints",
                    "value": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}],
                }
            ]
        },
    ),
    Case(
        "a node with the taint and a value",
        "TaintNodesByCondition",
        _request(
            "nodes",
            "Node",
            object={
                "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule", "value": "1"}]}
            },
        ),
        {},
    ),
    Case(
        "a binding",
        "PodTopologyLabels",
        _request(
            "pods",
            "Binding",
            subResource="binding",
            object={"metadata": {"name": "x"}, "target": {"kind": "Node", "name": "n"}},
        ),
        {
            "patch": [
                {
                    "op": "add",
                    "path": "/metadata/labels",
                    "value": {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"},
                }
            ]
        },
    ),
    Case(
        "a pod on a node that is not there",
        "PodTopologyLabels",
        _request("pods", "Pod", object={"metadata": {"name": "x"}, "spec": {"nodeName": "gone"}}),
        {},
    ),
    Case(
        "approval without permission",
        "CertificateApproval",
        _update("approval", "bob", _csr("example.com/a"), _csr("example.com/a")),
        validate=_denied('user not permitted to approve requests with signerName "example.com/a"'),
    ),
    Case(
        "approval with permission for the domain",
        "CertificateApproval",
        _update("approval", "ann", _csr("example.com/a"), _csr("example.com/a")),
        validate={},
    ),
    Case(
        "a status without a certificate",
        "CertificateSigning",
        _update("status", "bob", _csr("example.com/a"), _csr("example.com/a")),
        validate={},
    ),
    Case(
        "a certificate",
        "CertificateSigning",
        _update("status", "bob", _csr("example.com/a", certificate="eA=="), _csr("example.com/a")),
        validate=_denied('user not permitted to sign requests with signerName "example.com/a"'),
    ),
    Case(
        "a trust bundle",
        "ClusterTrustBundleAttest",
        _request("clustertrustbundles.certificates.k8s.io", "ClusterTrustBundle", object=_csr("example.com/a")),
        validate=_denied(
            'user not permitted to attest for signerName "example.com/a"', 'clustertrustbundles.certificates.k8s.io "x"'
        ),
    ),
    Case(
        "a trust bundle that is collected",
        "ClusterTrustBundleAttest",
        _request(
            "clustertrustbundles.certificates.k8s.io",
            "ClusterTrustBundle",
            "UPDATE",
            object={**_csr("example.com/a"), "metadata": {"name": "x", "finalizers": ["f"]}},
            oldObject=_csr("example.com/a"),
        ),
        validate={},
    ),
    Case("anything", "AlwaysAdmit", _request("pods", "Pod", object={}), {}, {}),
    Case(
        "anything at all",
        "AlwaysDeny",
        _request("pods", "Pod", "DELETE", oldObject={}),
        _denied("admission control is denying all modifications", 'pods "x"'),
    ),
    Case("a pod group", "PodGroupProtection", _request("podgroups.scheduling.k8s.io", "PodGroup", object={}), {}),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.plugin}: {case.name}")
def test_answer(case: Case) -> None:
    plugin = BY_NAME[case.plugin].configured(None, {})
    line = result_line(ask(plugin, attributes_of(case.request), _world(case.plugin)))
    assert {key: line.get(key) for key in ("admit", "validate")} == {"admit": case.admit, "validate": case.validate}


LIMIT = {"type": "Server", "qps": 1, "burst": 1}
WRONG: Mapping[str, tuple[str, Any, str]] = {
    "no limits": ("EventRateLimit", None, "limits: Invalid value: null: must not be empty"),
    "an unknown type": (
        "EventRateLimit",
        {"limits": [{**LIMIT, "type": "Pod"}]},
        'limits[0].type: Unsupported value: "Pod": supported values: "Namespace", "Server", "SourceAndObject", "User"',
    ),
    "two errors": (
        "EventRateLimit",
        {"limits": [{**LIMIT, "qps": 0, "burst": -1}]},
        "[limits[0].burst: Invalid value: -1: must be positive, limits[0].qps: Invalid value: 0: must be positive]",
    ),
    "no policy": ("ImagePolicyWebhook", None, "no config specified"),
    "a long life": (
        "ImagePolicyWebhook",
        {"imagePolicy": {"allowTTL": 2000}},
        "valid value is between 1s and 30m0s, got 33m20s",
    ),
    "no resource": (
        "ResourceQuota",
        {"limitedResources": [{"matchContains": ["cpu"]}]},
        "limitedResources[0].resource: Required value",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_configuration_is_refused_in_the_words_of_the_server(name: str) -> None:
    plugin, configuration, message = WRONG[name]
    with pytest.raises(ManifestError, match=f"^{re.escape(message)}$"):
        BY_NAME[plugin].configured(configuration, {})


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(PLUGINS)


HOLE = Missing("object.spec.tolerations", "it is not known")


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        ("AlwaysPullImages", [{"op": "add", "path": "/spec/containers/0/imagePullPolicy", "value": "Always"}]),
        ("DefaultTolerationSeconds", "object.spec.tolerations: it is not known"),
    ],
)
def test_only_what_a_plugin_looks_at_must_be_known(plugin: str, expected: Any) -> None:
    known: Any = {"spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": HOLE}}
    attributes = attributes_of(_request("pods", "Pod", object=None)).with_object(PartialObject(known, (HOLE,)))
    line = result_line(ask(BY_NAME[plugin].configured(None, {}), attributes, _world(plugin)))
    found = line["undetermined"][0] if "undetermined" in line else line["admit"]["patch"]
    assert found == expected


@pytest.mark.parametrize(("strict", "allowed"), [(False, True), (True, False)])
def test_every_account_can_be_strict_about_secrets(strict: bool, allowed: bool) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "n"}}
    config = PluginConfig("ServiceAccount", objects=(account,))
    pod = {
        "metadata": {"name": "x"},
        "spec": {"containers": [], "volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
    }
    plugin = BY_NAME["ServiceAccount"].configured({"limitSecretReferences": strict}, {})
    request = attributes_of(_request("pods", "Pod", namespace="n", object=pod))
    assert ask(plugin, request, PluginWorld(config, []).cluster).allowed is allowed
