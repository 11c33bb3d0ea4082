"""Users of API versions that an upgrade removes, or that a later one will."""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from replay.cellib.version import Versions
from replay.kube.gvk import GroupVersionResource
from replay.kube.lifecycle import LIFECYCLES

_RELEASE = re.compile(r"1\.(\d{1,4})")


class Service(StrEnum):
    """Fate of an API version, the worst first."""

    REMOVED = "removed"
    """The server of the baseline serves it, that of the candidate does not."""
    GONE = "gone"
    """Neither serves it."""
    DEPRECATED = "deprecated"
    """Both serve it."""


class ApiVersionUse(Struct, frozen=True):
    """The requests of a user for one resource in a version that is deprecated or removed.

    `removed` is the minor that no longer serves it, 0 where none is announced; `agent` is the newest client, `last` in microseconds.
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
    """Return the fate of a version in an upgrade, the minor that removes it, and its replacement.

    `release` is the removal that the log states (`k8s.io/removed-release`), empty if none.
    """
    lifecycle = LIFECYCLES.get(resource)
    announced = _RELEASE.fullmatch(release)
    removed = lifecycle.removed if lifecycle is not None else int(announced[1]) if announced else 0
    replacement = lifecycle.replacement if lifecycle is not None else ""
    if not removed or removed > versions.candidate.minor:
        return Service.DEPRECATED, removed, replacement
    return (Service.GONE if removed <= versions.current.minor else Service.REMOVED), removed, replacement
