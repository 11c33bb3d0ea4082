"""The SubjectAccessReview of a request: as a webhook is sent it, and as match conditions see it.

`k8s.io/apiserver/plugin/pkg/authorizer/webhook`, `k8s.io/apiserver/pkg/authorization/cel`.
"""

from __future__ import annotations

from collections.abc import Sequence

from replay.json import JSON
from replay.kube.attributes import UserInfo
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.selector import Requirement

_RESOURCE_FIELDS = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
_FIELD_OPERATORS = {"=": "In", "!=": "NotIn"}
_LABEL_OPERATORS = {
    "=": "In",
    "==": "In",
    "in": "In",
    "!=": "NotIn",
    "notin": "NotIn",
    "exists": "Exists",
    "!": "DoesNotExist",
}


def spec_from_attributes(attributes: AuthorizationAttributes) -> JSON:
    """The `spec` that a webhook gets, without empty fields."""
    spec: JSON = {}
    if attributes.is_resource_request:
        spec["resourceAttributes"] = _resource_attributes(attributes)
    else:
        spec["nonResourceAttributes"] = _set({"path": attributes.path, "verb": attributes.verb})
    return {**spec, **user_fields(attributes.user)}


def user_fields(user: UserInfo) -> JSON:
    """Return `user`, `groups`, `uid` and `extra`, as far as set."""
    extra = {key: list(values) for key, values in user.extra.items()}
    return _set({"user": user.username, "groups": list(user.groups), "extra": extra, "uid": user.uid})


def _resource_attributes(attributes: AuthorizationAttributes) -> JSON:
    fields: JSON = {
        "namespace": attributes.namespace,
        "verb": attributes.verb,
        "group": attributes.api_group,
        "version": attributes.api_version,
        "resource": attributes.resource,
        "subresource": attributes.subresource,
        "name": attributes.name,
    }
    if attributes.field_selector:
        fields["fieldSelector"] = _selector(attributes.field_requirements, _FIELD_OPERATORS)
    if attributes.label_selector:
        fields["labelSelector"] = _selector(attributes.label_requirements, _LABEL_OPERATORS)
    return _set(fields)


def _selector(requirements: Sequence[Requirement], operators: dict[str, str]) -> JSON:
    """Requirements with an operator that the API does not know are left out: selectors only narrow."""
    terms = [
        {
            "key": each.key,
            "operator": operators[each.operator],
            **({"values": list(each.values)} if each.values else {}),
        }
        for each in requirements
        if each.operator in operators
    ]
    return {"requirements": terms} if terms else {}


def _set(fields: JSON) -> JSON:
    return {name: value for name, value in fields.items() if value}


def request_variable(spec: JSON, *, field_selector: bool, label_selector: bool) -> JSON:
    """The variable `request` of match conditions: all texts are there, selectors only where a condition names them."""
    request: JSON = {
        "user": spec.get("user", ""),
        "groups": spec.get("groups", []),
        "uid": spec.get("uid", ""),
        "extra": spec.get("extra", {}),
    }
    if "resourceAttributes" in spec:
        attributes = spec["resourceAttributes"]
        request["resourceAttributes"] = {name: attributes.get(name, "") for name in _RESOURCE_FIELDS}
        for name, is_shown in (("fieldSelector", field_selector), ("labelSelector", label_selector)):
            if is_shown and name in attributes:
                request["resourceAttributes"][name] = _selector_variable(attributes[name])
    if "nonResourceAttributes" in spec:
        attributes = spec["nonResourceAttributes"]
        request["nonResourceAttributes"] = {name: attributes.get(name, "") for name in ("verb", "path")}
    return request


def _selector_variable(selector: JSON) -> JSON:
    requirements = selector["requirements"]
    return {"requirements": [{**each, "values": each.get("values", [])} for each in requirements]}
