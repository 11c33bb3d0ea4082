"""Tolerations as plugins handle them (`pkg/apis/core/helper/helpers.go`, `staging/src/k8s.io/api/core/v1/toleration.go`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replay.json import JSON

Toleration = Mapping[str, Any]
_MATCHED = ("key", "effect", "operator", "value")


def matches_toleration(one: Toleration, other: Toleration) -> bool:
    """Whether both are about the same taint: an empty field is an absent one, and `Equal` is what no operator means."""
    return all(_field(one, name) == _field(other, name) for name in _MATCHED)


def _field(toleration: Toleration, name: str) -> str:
    value = toleration.get(name) or ""
    return "Equal" if name == "operator" and not value else str(value)


def add_or_update_toleration(spec: JSON, toleration: Toleration) -> None:
    """Put a toleration in the place of those about the same taint, or at the end."""
    old = spec.get("tolerations") or []
    if any(each == toleration for each in old):
        return
    is_there = [matches_toleration(toleration, each) for each in old]
    spec["tolerations"] = [dict(toleration) if same else each for same, each in zip(is_there, old, strict=True)]
    if not any(is_there):
        spec["tolerations"].append(dict(toleration))
