"""`PodSecurityConfiguration`, defaulted and validated as at the server's start.

Source: `pod-security-admission/admission/api`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from replay.admission.builtin.configuration import aggregate
from replay.admission.builtin.pod_security.policy import (
    LATEST,
    MODES,
    PRIVILEGED,
    LevelVersion,
    NamespacePolicy,
    parse_level,
    parse_version,
)
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.names import dns1123_label, dns1123_subdomain

_GROUP: Final = "pod-security.admission.config.k8s.io"
_VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
_KIND: Final = "PodSecurityConfiguration"


class PodSecurityConfiguration(NamedTuple):
    """Default levels and exemptions."""

    defaults: NamespacePolicy = NamespacePolicy(*(LevelVersion(PRIVILEGED, LATEST),) * 3)
    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


def read_configuration(document: JSON | None) -> PodSecurityConfiguration:
    """Return the configuration of a document.

    Raise ManifestError with the server's message if the server would not start.
    """
    if not document:
        return PodSecurityConfiguration()
    group, _, version = str(document.get("apiVersion") or "").partition("/")
    if group != _GROUP or version not in _VERSIONS or document.get("kind") != _KIND:
        kind, api_version = document.get("kind") or "", document.get("apiVersion") or ""
        raise ManifestError(f'no kind "{kind}" is registered for version "{api_version}"')
    defaults, exemptions = document.get("defaults") or {}, document.get("exemptions") or {}
    errors = [*_default_errors(defaults), *_exemption_errors(exemptions)]
    if errors:
        raise ManifestError(aggregate(errors))
    levels = [
        LevelVersion(
            parse_level(defaults.get(mode) or PRIVILEGED)[0],
            parse_version(defaults.get(f"{mode}-version") or "latest")[0],
        )
        for mode in MODES
    ]
    lists = (frozenset(exemptions.get(field) or ()) for field in ("usernames", "namespaces", "runtimeClasses"))
    return PodSecurityConfiguration(NamespacePolicy(*levels), *lists)


def _default_errors(defaults: JSON) -> Iterator[str]:
    for mode in ("enforce", "warn", "audit"):
        level, version = defaults.get(mode) or PRIVILEGED, defaults.get(f"{mode}-version") or "latest"
        for field, value, (_, message) in (
            (mode, level, parse_level(level)),
            (f"{mode}-version", version, parse_version(version)),
        ):
            if message:
                yield f'defaults.{field}: Invalid value: "{value}": {message}'


def _exemption_errors(exemptions: JSON) -> Iterator[str]:
    yield from _list_errors("namespaces", exemptions.get("namespaces") or (), dns1123_label)
    yield from _list_errors("runtimeClasses", exemptions.get("runtimeClasses") or (), dns1123_subdomain)
    yield from _list_errors(
        "usernames", exemptions.get("usernames") or (), lambda name: [] if name else ["username must not be empty"]
    )


def _list_errors(field: str, values: Sequence[str], messages_of: Callable[[str], list[str]]) -> Iterator[str]:
    values_so_far: set[str] = set()
    for index, value in enumerate(values):
        messages = messages_of(value)
        if messages:
            yield f'exemptions.{field}[{index}]: Invalid value: "{value}": {", ".join(messages)}'
        elif value in values_so_far:
            yield f'exemptions.{field}[{index}]: Duplicate value: "{value}"'
        values_so_far.add(value)
