"""Fields that selectors of built-in kinds may name besides name and namespace.

Source: `ToSelectableFields` of each strategy.
"""

from __future__ import annotations

from collections.abc import Mapping

from replay.json import JSON

_POD = {
    "spec.nodeName": "",
    "spec.restartPolicy": "Always",
    "spec.schedulerName": "default-scheduler",
    "spec.serviceAccountName": "default",
    "spec.hostNetwork": "false",
    "status.phase": "Pending",
    "status.podIP": "",
    "status.nominatedNodeName": "",
}
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
SELECTABLE: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("", "pods"): _POD,
    ("", "namespaces"): {"status.phase": "Active"},
    ("", "nodes"): {"spec.unschedulable": "false"},
    ("", "secrets"): {"type": "Opaque"},
    ("", "events"): {"reason": "", "type": "", **{f"involvedObject.{name}": "" for name in _INVOLVED}},
    ("", "replicationcontrollers"): {"status.replicas": "0"},
    ("apps", "replicasets"): {"status.replicas": "0"},
    ("certificates.k8s.io", "certificatesigningrequests"): {"spec.signerName": ""},
}
"""The selectable fields by group and resource, each with its value in an object that lacks it."""


def field_text(value: JSON, default: str) -> str:
    """Return the text of a field that a selector compares."""
    if value is None:
        return default
    return str(value).lower() if isinstance(value, bool) else str(value)
