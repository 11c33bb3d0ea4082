"""LimitRanger's defaults for containers (`plugin/pkg/admission/limitranger`, `mergePodResourceRequirements`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from replay.json import JSON
from replay.kube.gvk import GroupVersionKind

LIMIT_RANGE: Final = GroupVersionKind("", "v1", "LimitRange")
ANNOTATION: Final = "kubernetes.io/limit-ranger"
"""Annotation of a pod that lists the added values."""
CONTAINERS: Final = (("containers", "container"), ("initContainers", "init container"))
"""The fields of a pod's spec with containers, with the annotation's word for one."""

ContainerDefaults = Mapping[str, Mapping[str, str]]
"""The amounts by name, under `requests` and `limits`."""


def container_defaults(limit_range: JSON) -> ContainerDefaults:
    """Return the values for containers that set none. A later item of the list wins."""
    defaults: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            defaults["requests"].update(item.get("defaultRequest") or {})
            defaults["limits"].update(item.get("default") or {})
    return defaults


def fill_containers(spec: JSON, defaults: ContainerDefaults) -> list[str]:
    """Add missing values to the containers of a pod's spec.

    Return the annotation's texts, none if nothing was missing.
    """
    return [
        text
        for field, noun in CONTAINERS
        for container in spec.get(field) or ()
        for text in _fill(container, defaults, noun)
    ]


def _fill(container: JSON, defaults: ContainerDefaults, noun: str) -> Iterator[str]:
    for kind, word in (("requests", "request"), ("limits", "limit")):
        own = (container.get("resources") or {}).get(kind) or {}
        added = {name: value for name, value in defaults[kind].items() if name not in own}
        if added:
            container.setdefault("resources", {})[kind] = {**own, **added}
            yield f"{', '.join(sorted(added))} {word} for {noun} {container.get('name') or ''}"


def annotation(sentences: Iterable[str]) -> str:
    """Return the text of `ANNOTATION`."""
    return f"LimitRanger plugin set: {'; '.join(sentences)}"
