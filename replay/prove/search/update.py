"""Fields that an update cannot change, restored from the old object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replay.json import JSON
from replay.kube.immutable import IMMUTABLE
from replay.prove.request import Target

_MOSTLY_IMMUTABLE: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("", "persistentvolumeclaims"): (("spec",),),
    ("", "persistentvolumes"): (("spec",),),
}
"""Fields that an update may change in few ways, which are not tried."""

_NAME = ("metadata", "name")
_METADATA = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "generateName")


def _kept(target: Target) -> tuple[tuple[str, ...], ...]:
    key = (target.resource.group, target.resource.resource)
    return _MOSTLY_IMMUTABLE.get(key) or IMMUTABLE.get(key, ())


def agreed(target: Target, new: JSON, old: JSON, least: JSON) -> tuple[JSON, JSON]:
    """An update that a server takes, as new and old object: where the old one is still the least, it follows the new one."""
    followed = old
    if _part(old, _NAME) == _part(least, _NAME) and isinstance(_part(new, _NAME), str):
        followed = _with_part(followed, _NAME, new)
    for path in _kept(target):
        if _part(old, path) == _part(least, path):
            followed = _with_part(followed, path, new)
    if _is_pod(target) and target.subresource != "status" and old.get("spec") == least.get("spec"):
        spec = dict(new.get("spec") or {})
        if target.subresource == "ephemeralcontainers":
            spec.pop("ephemeralContainers", None)
        followed = {**followed, "spec": spec}
    return with_immutable_parts(target, new, followed), followed


def _part(value: JSON, path: tuple[str, ...]) -> JSON:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _is_pod(target: Target) -> bool:
    return target.kind.kind == "Pod" and not target.kind.group


def with_immutable_parts(target: Target, new: JSON, old: JSON) -> JSON:
    """The new object with what may not change taken from the old one; of pods, containers keep all but their images."""
    fixed: dict[str, Any] = dict(new)
    for path in _kept(target):
        fixed = _with_part(fixed, path, old)
    if isinstance(old.get("metadata"), dict) and isinstance(fixed.get("metadata"), dict):
        metadata = {key: value for key, value in fixed["metadata"].items() if key not in _METADATA}
        old_metadata = {key: value for key, value in old["metadata"].items() if key in _METADATA}
        fixed["metadata"] = {**old_metadata, **metadata}
    if _is_pod(target) and target.subresource != "status":
        fixed["spec"] = _pod_spec(target.subresource, fixed.get("spec") or {}, old.get("spec") or {})
    return fixed


def _with_part(value: JSON, path: tuple[str, ...], old: JSON) -> JSON:
    copy: dict[str, Any] = dict(value) if isinstance(value, dict) else {}
    old_part = old if isinstance(old, dict) else {}
    head, rest = path[0], path[1:]
    if rest:
        copy[head] = _with_part(copy.get(head), rest, old_part.get(head))
    elif head in old_part:
        copy[head] = old_part[head]
    else:
        copy.pop(head, None)
    return copy


def _pod_spec(subresource: str, new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """`ValidatePodUpdate`: images alone; through `ephemeralcontainers` more of these."""
    fixed = dict(old)
    if subresource == "ephemeralcontainers":
        if new.get("ephemeralContainers"):
            fixed["ephemeralContainers"] = new["ephemeralContainers"]
        return fixed
    for name in ("containers", "initContainers"):
        if name in old:
            pairs = zip(old[name], [*(new.get(name) or ()), *[{}] * len(old[name])], strict=False)
            fixed[name] = [
                {**old_container, "image": after.get("image") or old_container.get("image")}
                for old_container, after in pairs
            ]
    return fixed
