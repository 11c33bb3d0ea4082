"""The JSON form of authorization questions and answers: the `attributes` of a case, and the line that answers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replay.authorization.question import spec_from_attributes
from replay.authorization.trace import Authorization
from replay.json import JSON
from replay.kube.attributes import UserInfo
from replay.kube.authorizer import AuthorizationAttributes

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
