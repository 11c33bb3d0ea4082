"""The JSON form of authorization questions and answers: the `attributes` of a case, and the line that answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from replay.authorization.question import spec_from_attributes
from replay.authorization.trace import Authorization
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.attributes import UserInfo
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.discovery import Discovery
from replay.kube.rbac import SERVICE_ACCOUNT

_TEXTS = {
    "apiGroup": "api_group",
    "apiVersion": "api_version",
    "resource": "resource",
    "subresource": "subresource",
    "namespace": "namespace",
    "name": "name",
    "path": "path",
    "fieldSelector": "field_selector",
    "labelSelector": "label_selector",
}


_AUTHENTICATED, _UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
_ANONYMOUS = "system:anonymous"


class AttributesError(ValueError):
    """A case that cannot be read. `str()` is the reason."""


def attributes_from_case(case: JSON) -> AuthorizationAttributes:
    """Return the question of a case. Raises AttributesError."""
    if not isinstance(case, dict):
        raise AttributesError("not an object with `user`, `verb`, `resourceRequest` and the like")
    texts = {name: _text(case, field) for field, name in _TEXTS.items()}
    resource_request = case.get("resourceRequest", bool(texts["resource"]))
    if not isinstance(resource_request, bool):
        raise AttributesError("`resourceRequest` is neither true nor false")
    user = UserInfo(_text(case, "user"), _text(case, "uid"), _strings(case, "groups"), _extra(case.get("extra")))
    return AuthorizationAttributes(user, _text(case, "verb"), **texts, resource_request=resource_request)


def case_from_attributes(attributes: AuthorizationAttributes) -> JSON:
    """Return a question as a case, without empty fields."""
    user = attributes.user
    fields: dict[str, Any] = {
        "user": user.username,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
        "verb": attributes.verb,
        "resourceRequest": attributes.is_resource_request,
        **{field: getattr(attributes, name) for field, name in _TEXTS.items()},
    }
    return {
        name: value for name, value in fields.items() if value or name in ("user", "groups", "verb", "resourceRequest")
    }


def answer_line(attributes: AuthorizationAttributes, decided: Authorization) -> JSON:
    """Return the answer line of a case.

    It has the question, the spec that a webhook would be sent, the decision, and the same decision as that of the
    baseline.
    """
    decision = decided.as_json()
    return {
        "attributes": case_from_attributes(attributes),
        "subjectAccessReviewSpec": spec_from_attributes(attributes),
        **decision,
        "current": decision,
    }


def _text(case: Mapping[str, JSON], field: str) -> str:
    value = case.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise AttributesError(f"`{field}` is not a string")
    return value


def _strings(case: Mapping[str, JSON], field: str) -> tuple[str, ...]:
    value = case.get(field) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise AttributesError(f"`{field}` is not a list of strings")
    return tuple(value)


def _extra(value: JSON) -> dict[str, tuple[str, ...]]:
    if not value:
        return {}
    if not isinstance(value, dict):
        raise AttributesError("`extra` is not an object")
    return {key: _strings(value, key) for key in value}


class AccessQuestion(Struct, frozen=True):
    """One question from the command line. `target` is a resource, `resource/name` or a URL path."""

    verb: str
    target: str
    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[str, ...] = ()
    namespace: str = ""
    subresource: str = ""
    field_selector: str = ""
    label_selector: str = ""


def attributes_of(question: AccessQuestion, discovery: Discovery) -> AuthorizationAttributes:
    """Return the attributes of a question. Like kubectl, a resource that is unique needs no group."""
    user = UserInfo(question.user, question.uid, _groups(question), _extra_of_words(question.extra))
    if question.target.startswith("/"):
        return AuthorizationAttributes(user, question.verb, path=question.target, resource_request=False)
    target, _, name = question.target.partition("/")
    resource, _, group = target.partition(".")
    resource_ = _known(discovery, resource, group)
    return AuthorizationAttributes(
        user,
        question.verb,
        api_group=resource_[0],
        resource=resource,
        subresource=question.subresource,
        namespace=question.namespace,
        name=name,
        field_selector=question.field_selector,
        label_selector=question.label_selector,
        api_version="*",
        resource_request=True,
    )


def _known(discovery: Discovery, resource: str, group: str) -> tuple[str, str]:
    """Return group and resource. Without a group, it is the only group with the resource, or the core group."""
    if group:
        return group, resource
    groups = sorted({each.resource.group for each in discovery if each.resource.resource == resource})
    return (groups[0] if groups else "", resource)


def _groups(question: AccessQuestion) -> tuple[str, ...]:
    """Return the groups of an impersonated user (`k8s.io/apiserver/pkg/endpoints/filters/impersonation`)."""
    groups = list(question.groups)
    if not groups and question.user.startswith(SERVICE_ACCOUNT):
        namespace = question.user.removeprefix(SERVICE_ACCOUNT).partition(":")[0]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if question.user == _ANONYMOUS:
        return (*groups, *([] if _UNAUTHENTICATED in groups else [_UNAUTHENTICATED]))
    if _AUTHENTICATED in groups or _UNAUTHENTICATED in groups:
        return tuple(groups)
    return (*groups, _AUTHENTICATED)


def _extra_of_words(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise ReplayError(f"`{text}` is not KEY=VALUE", path="--as-extra")
        extra[key] = (*extra.get(key, ()), value)
    return extra
