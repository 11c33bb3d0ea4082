"""The declared types of `request` and `namespaceObject` (apiserver `pkg/admission/plugin/cel/compile.go`).

A field that is not listed here is a compile error when an expression names it.
"""

from __future__ import annotations

from collections.abc import Mapping

from replay.cel.value.types import BOOL, DYN, INT, STRING, TIMESTAMP, Type, list_type, map_type, struct_type

REQUEST_TYPE = struct_type("kubernetes.AdmissionRequest")
NAMESPACE_TYPE = struct_type("kubernetes.Namespace")
VARIABLES_TYPE = struct_type("kubernetes.variables")

_KIND = struct_type("kubernetes.GroupVersionKind")
_RESOURCE = struct_type("kubernetes.GroupVersionResource")
_USER_INFO = struct_type("kubernetes.UserInfo")
_METADATA = struct_type("kubernetes.NamespaceMetadata")
_SPEC = struct_type("kubernetes.NamespaceSpec")
_STATUS = struct_type("kubernetes.NamespaceStatus")
_CONDITION = struct_type("kubernetes.NamespaceCondition")
_STRINGS = list_type(STRING)

STRUCT_FIELDS: Mapping[str, Mapping[str, Type]] = {
    _KIND.name: {"group": STRING, "version": STRING, "kind": STRING},
    _RESOURCE.name: {"group": STRING, "version": STRING, "resource": STRING},
    _USER_INFO.name: {
        "username": STRING,
        "uid": STRING,
        "groups": _STRINGS,
        "extra": map_type(STRING, _STRINGS),
    },
    REQUEST_TYPE.name: {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER_INFO,
        "dryRun": BOOL,
        "options": DYN,
    },
    NAMESPACE_TYPE.name: {"metadata": _METADATA, "spec": _SPEC, "status": _STATUS},
    _METADATA.name: {
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "labels": map_type(STRING, STRING),
        "annotations": map_type(STRING, STRING),
        "UID": STRING,
        "creationTimestamp": TIMESTAMP,
        "deletionGracePeriodSeconds": INT,
        "deletionTimestamp": TIMESTAMP,
        "generation": INT,
        "resourceVersion": STRING,
        "finalizers": _STRINGS,
    },
    _SPEC.name: {"finalizers": _STRINGS},
    _STATUS.name: {"conditions": list_type(_CONDITION), "phase": STRING},
    _CONDITION.name: {
        "status": STRING,
        "type": STRING,
        "lastTransitionTime": TIMESTAMP,
        "message": STRING,
        "reason": STRING,
    },
}
"""The fields of every declared type, by its name."""
