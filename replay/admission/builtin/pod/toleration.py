"""Tolerations as plugins handle them.

Source: `pkg/apis/core/helper/helpers.go`, `staging/src/k8s.io/api/core/v1/toleration.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from replay.json import JSON
from replay.kube.names import label_value, qualified_name
from replay.manifests.field_error import invalid, not_supported

Toleration = Mapping[str, Any]
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MATCHED = ("key", "effect", "operator", "value")


def matches_toleration(one: Toleration, other: Toleration) -> bool:
    """Return whether two tolerations match the same taint.

    An empty field equals an absent one, and no operator means `Equal`.
    """
    return all(_field(one, name) == _field(other, name) for name in _MATCHED)


def _field(toleration: Toleration, name: str) -> str:
    value = toleration.get(name) or ""
    return "Equal" if name == "operator" and not value else str(value)


def add_or_update_toleration(spec: JSON, toleration: Toleration) -> None:
    """Replace the tolerations of the same taint, or append the new one."""
    old = spec.get("tolerations") or []
    if any(each == toleration for each in old):
        return
    is_there = [matches_toleration(toleration, each) for each in old]
    spec["tolerations"] = [dict(toleration) if same else each for same, each in zip(is_there, old, strict=True)]
    if not any(is_there):
        spec["tolerations"].append(dict(toleration))


def merged_tolerations(first: list[JSON], second: list[JSON]) -> list[JSON]:
    """Return both lists merged, without tolerations that another one covers.

    Of equal ones the first stays (`pkg/util/tolerations`).
    """
    every = [*first, *second]
    merged: list[JSON] = []
    for index, toleration in enumerate(every):
        is_covered = any(covers(each, toleration) for each in merged)
        later = every[index + 1 :]
        if not is_covered and not any(each != toleration and covers(each, toleration) for each in later):
            merged.append(toleration)
    return merged


def covers(wide: Toleration, narrow: Toleration) -> bool:
    """Return whether a toleration tolerates everything that another one does (`tolerations.isSuperset`)."""
    if wide == narrow:
        return True
    key, operator, effect = (wide.get(name) or "" for name in ("key", "operator", "effect"))
    if (narrow.get("key") or "") != key and (key or operator != "Exists"):
        return False
    if (narrow.get("effect") or "") != effect and effect:
        return False
    seconds = wide.get("tolerationSeconds")
    if effect == "NoExecute" and seconds is not None:
        narrow_seconds = narrow.get("tolerationSeconds")
        if narrow_seconds is None or narrow_seconds > seconds:
            return False
    if operator in ("", "Equal"):
        # As in Go, a toleration without an operator is not covered here, although it means `Equal`.
        return narrow.get("operator") == "Equal" and (narrow.get("value") or "") == (wide.get("value") or "")
    return bool(operator == "Exists")


def are_covered(tolerations: list[JSON], allowed: list[JSON]) -> bool:
    """Return whether an allowed toleration covers each toleration. An empty list allows all."""
    return not allowed or all(any(covers(wide, each) for wide in allowed) for each in tolerations)


def toleration_problems(tolerations: Iterable[Toleration], path: str) -> Iterator[str]:
    """Yield the problems of tolerations, without comparisons of numbers.

    Source: `ValidateTolerations` in `pkg/apis/core/validation`.
    """
    for index, toleration in enumerate(tolerations):
        yield from _problems_of(toleration, f"{path}[{index}]")


def _problems_of(toleration: Toleration, path: str) -> Iterator[str]:
    key, operator, effect, value = (str(toleration.get(name) or "") for name in ("key", "operator", "effect", "value"))
    yield from (str(invalid(f"{path}.key", key, problem)) for problem in (qualified_name(key) if key else ()))
    if not key and operator != "Exists":
        reason = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield str(invalid(f"{path}.operator", operator, reason))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield str(invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
    if operator in ("", "Equal"):
        if problems := label_value(value):
            yield str(invalid(f"{path}.operator", value, ";".join(problems)))
    elif operator == "Exists":
        if value:
            yield str(invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'"))
    else:
        operators = ("Equal", "Exists", *(("Lt", "Gt") if operator in ("Lt", "Gt") else ()))
        yield str(not_supported(f"{path}.operator", operator, operators))
    if effect and effect not in _EFFECTS:
        yield str(not_supported(f"{path}.effect", effect, _EFFECTS))
