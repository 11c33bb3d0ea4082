"""Kyverno's configuration: its ConfigMap, or the chart's default (`pkg/config`, `charts/kyverno/values.yaml`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final

from msgspec import Struct

from replay.json import JSON
from replay.kube.gvk import GroupVersionKind
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.image import ImageDefaults
from replay.kyverno.rules.match import Requester
from replay.kyverno.wildcard import KindSelector, matches_any, matches_wildcard, parse_kind_selector

_FILTER = re.compile(r"\[([^\[\]]*)\]")
_DNS_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*\.?", re.ASCII)
_USERS: Final = ("excludeUsernames", "excludeGroups", "excludeRoles", "excludeClusterRoles")
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_SUBRESOURCES: Final = ("Node", "APIService", "ReplicaSet")
DEFAULT: Final[Mapping[str, str]] = {
    "excludeGroups": "system:nodes",
    "resourceFilters": " ".join(
        [
            "[Event,*,*]",
            *(f"[*/*,{namespace},*]" for namespace in ("kube-system", "kube-public", "kube-node-lease", "kyverno")),
            *(f"[{kind}{part},*,*]" for kind in _SUBRESOURCES for part in ("", "/?*")),
            *(
                f"[{kind},*,*]"
                for kind in (
                    "TokenReview",
                    "SubjectAccessReview",
                    "SelfSubjectAccessReview",
                    "Binding",
                    "Pod/binding",
                    "EphemeralReport",
                    "ClusterEphemeralReport",
                )
            ),
        ]
    ),
    "webhooks": json.dumps(
        {
            "namespaceSelector": {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [namespace]}
                    for namespace in ("kube-system", "kyverno")
                ]
            }
        }
    ),
}
"""Data of the chart's ConfigMap, without the filters for the chart's own objects."""


_MOST: Final = 1024


class _Filter(Struct, frozen=True):
    """Entry of `resourceFilters`."""

    selector: KindSelector
    namespace: str
    name: str


_NOTHING: Final = _Filter(KindSelector("", "", "", ""), "", "")


class Configuration(Struct, frozen=True, dict=True):
    """Requests that Kyverno ignores, and selectors of the webhooks that it registers."""

    filters: tuple[_Filter, ...]
    excluded: tuple[tuple[str, ...], ...]
    included: tuple[tuple[str, ...], ...]
    images: ImageDefaults
    namespace_selector: JSON
    object_selector: JSON
    match_conditions: tuple[tuple[str, str], ...]

    @property
    def reads_roles(self) -> bool:
        """Whether it excludes or includes users by role."""
        return any((*self.excluded[2:], *self.included[2:]))

    def is_excluded(self, user: Requester) -> bool:
        """Return whether Kyverno ignores the requests of a user. A name with `!` overrides an exclusion."""
        excluded = self._known_users.get(user)
        if excluded is None:
            if len(self._known_users) >= _MOST:
                self._known_users.clear()
            excluded = self._known_users[user] = _names(self.excluded, user) and not _names(self.included, user)
        return excluded

    def is_filtered(self, kind: GroupVersionKind, subresource: str, namespace: str, name: str) -> bool:
        """Return whether Kyverno ignores an object. A filter for a namespace also covers the Namespace object."""
        for each in self._filters_of(kind, subresource):
            if matches_wildcard(each.namespace, namespace) and matches_wildcard(each.name, name):
                return True
            if kind == ("", "v1", "Namespace") and matches_wildcard(each.namespace, name):
                return True
        return False

    def _filters_of(self, kind: GroupVersionKind, subresource: str) -> tuple[_Filter, ...]:
        """Return the filters for a kind. The result is cached per kind and subresource."""
        found = self._known_filters.get((kind, subresource))
        if found is None:
            if len(self._known_filters) >= _MOST:
                self._known_filters.clear()
            found = self._known_filters[kind, subresource] = tuple(
                each
                for each in self.filters
                if all(map(matches_wildcard, each.selector, (kind.group, kind.version, kind.kind, subresource)))
            )
        return found

    @cached_property
    def _known_users(self) -> dict[Requester, bool]:
        return {}

    @cached_property
    def _known_filters(self) -> dict[tuple[GroupVersionKind, str], tuple[_Filter, ...]]:
        return {}


def _names(patterns: Sequence[Sequence[str]], user: Requester) -> bool:
    values = ((user.username,), user.groups, user.roles, user.cluster_roles)
    return any(matches_any(own, value) for own, names in zip(patterns, values, strict=True) if own for value in names)


def configuration_of(objects: Iterable[JSON]) -> Configuration:
    """Return the configuration of a set: its ConfigMap, or the chart's default."""
    found = [as_map(each.get("data")) for each in objects if each.get("kind") == "ConfigMap"]
    # JSON text is hashable, so that sets with the same ConfigMap share one parsed configuration.
    return _read(json.dumps(found[-1] if found else DEFAULT))


@lru_cache(maxsize=16)
def _read(text: str) -> Configuration:
    data = {name: str(value) for name, value in json.loads(text).items()}
    users = [_users(data.get(name, "")) for name in _USERS]
    webhooks = as_map(_decoded(data.get("webhooks")))
    conditions = _decoded(data.get("matchConditions"))
    return Configuration(
        filters=tuple(_filters(data.get("resourceFilters", ""))),
        excluded=tuple(excluded for excluded, _ in users),
        included=tuple(included for _, included in users),
        images=_images(data),
        namespace_selector=webhooks.get("namespaceSelector"),
        object_selector=webhooks.get("objectSelector"),
        match_conditions=tuple(
            (str(each.get("name")), str(each.get("expression")))
            for each in (conditions if isinstance(conditions, list) else ())
            if isinstance(each, dict)
        ),
    )


def _decoded(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None  # Kyverno logs it, and goes on without


def _filters(text: str) -> Iterable[_Filter]:
    for entry in _FILTER.findall(text):
        kind, _, place = entry.partition(",")
        namespace, _, name = place.partition(",")
        if "," not in name:
            yield _Filter(parse_kind_selector(kind), namespace, name) if kind else _NOTHING


def _users(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    entries = [entry.strip() for entry in text.split(",")]
    included = tuple(name for entry in entries if entry.startswith("!") and (name := entry[1:].strip()))
    return tuple(entry for entry in entries if entry and not entry.startswith("!")), included


def _images(data: Mapping[str, str]) -> ImageDefaults:
    registry, mutation = data.get("defaultRegistry", ""), data.get("enableDefaultRegistryMutation", "")
    # A name that is not valid leaves the default, and so does a text that is no boolean.
    is_valid = _DNS_NAME.fullmatch(registry.partition("/")[0]) is not None
    return ImageDefaults(registry if is_valid else ImageDefaults().registry, mutation not in _FALSE)
