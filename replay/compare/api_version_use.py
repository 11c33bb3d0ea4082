"""Users of API versions that the upgrade or a later upgrade removes."""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from replay.cellib.version import Versions
from replay.kube.gvk import GroupVersionResource
from replay.kube.lifecycle import LIFECYCLES

_RELEASE = re.compile(r"1\.(\d{1,4})")


class Service(StrEnum):
    """Change of an API version in an upgrade, the worst first."""

    REMOVED = "removed"
    """The server of the baseline serves it, and that of the candidate does not."""
    GONE = "gone"
    """Neither serves it."""
    DEPRECATED = "deprecated"
    """Both serve it."""


class ApiVersionUse(Struct, frozen=True):
    """The requests of a user for one resource in a deprecated or removed version.

    `removed` is the minor version that no longer serves it, or 0 if none is announced. `agent` is the newest client.
    `last` is in microseconds.
    """

    resource: GroupVersionResource
    service: Service
    removed: int
    replacement: str
    user: str
    agent: str
    requests: int
    succeeded: int
    last: int


def service_of(resource: GroupVersionResource, release: str, versions: Versions) -> tuple[Service, int, str]:
    """Return what happens to a version in an upgrade, the minor version that removes it, and its replacement.

    `release` is the removal that the log states (`k8s.io/removed-release`), or empty.
    """
    lifecycle = LIFECYCLES.get(resource)
    announced = _RELEASE.fullmatch(release)
    removed = lifecycle.removed if lifecycle is not None else int(announced[1]) if announced else 0
    replacement = lifecycle.replacement if lifecycle is not None else ""
    if not removed or removed > versions.candidate.minor:
        return Service.DEPRECATED, removed, replacement
    return (Service.GONE if removed <= versions.current.minor else Service.REMOVED), removed, replacement
