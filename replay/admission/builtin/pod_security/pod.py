"""Input of the checks: a pod's metadata and spec, and the wording of findings (`policy/{visitor,helpers}.go`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from msgspec import Struct

from replay.json import JSON


class Violation(NamedTuple):
    """Violation of a check: a short reason and details."""

    reason: str
    detail: str


class Pod(Struct, dict=True):
    """The metadata and the spec of a pod or of a template."""

    metadata: JSON
    spec: JSON

    @cached_property
    def annotations(self) -> Mapping[str, str]:
        """The annotations, empty if there are none."""
        return self.metadata.get("annotations") or {}

    @cached_property
    def containers(self) -> list[JSON]:
        """Return all containers: init, regular, ephemeral."""
        fields = ("initContainers", "containers", "ephemeralContainers")
        return [container for field in fields for container in (self.spec.get(field) or ())]

    @cached_property
    def security_context(self) -> Mapping[str, Any]:
        """The security context of the pod, empty if there is none."""
        return self.spec.get("securityContext") or {}

    @property
    def is_windows(self) -> bool:
        """Return whether the pod declares that it runs on Windows."""
        return (self.spec.get("os") or {}).get("name") == "windows"

    @property
    def has_user_namespace(self) -> bool:
        """Return whether the pod has a user namespace."""
        return self.spec.get("hostUsers") is False

    def bad(self, is_bad: Callable[[Mapping[str, Any]], bool]) -> list[str]:
        """Return the names of the containers whose security context fails a check."""
        return [
            str(container.get("name") or "")
            for container in self.containers
            if is_bad(container.get("securityContext") or {})
        ]


def quoted(items: Iterable[str]) -> str:
    """Return quoted names, separated by commas."""
    return ", ".join(f'"{item}"' for item in items)


def plural(singular: str, count: int) -> str:
    """Return a noun, with a plural `s` unless the count is 1."""
    return singular if count == 1 else f"{singular}s"


def containers_named(names: list[str]) -> str:
    """Return containers by name: `container "a"`, `containers "a", "b"`."""
    return f"{plural('container', len(names))} {quoted(names)}"


def setters(*, pod: bool, containers: list[str]) -> str:
    """Return the setters of a field as text: the pod, containers, or both."""
    return " and ".join((*(("pod",) if pod else ()), *((containers_named(containers),) if containers else ())))
