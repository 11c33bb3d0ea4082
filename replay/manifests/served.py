"""What a server of a minor can be given, its feature gates being at their defaults: kinds, versions, static manifests.

From `k8s.io/kubernetes/pkg/registry/admissionregistration/rest` (versions), `pkg/features` (gates) and the plugins'
configuration types of `k8s.io/apiserver/pkg/admission/plugin`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from replay.cellib.version import NEWEST_MINOR, KubernetesVersion
from replay.manifests.go_type.scheme import GROUP


class Minors(NamedTuple):
    """The minors from `since` to `last`, both of them included."""

    since: int
    last: int = NEWEST_MINOR


_SERVED: Mapping[tuple[str, str], Minors] = {
    ("ValidatingAdmissionPolicy", "v1alpha1"): Minors(26, 32),
    ("ValidatingAdmissionPolicy", "v1beta1"): Minors(28),
    ("ValidatingAdmissionPolicy", "v1"): Minors(30),
    ("MutatingAdmissionPolicy", "v1alpha1"): Minors(32),
    ("MutatingAdmissionPolicy", "v1beta1"): Minors(34),
    ("MutatingAdmissionPolicy", "v1"): Minors(36),
}
"""The versions of policies and their bindings; webhook configurations are `v1` in every minor."""

MUTATING_POLICIES_SINCE = 36
"""The first minor whose gate `MutatingAdmissionPolicy` is on; without it there is no such plugin."""

STATIC_FIELD_SINCE = 36
"""The first minor whose plugin configurations have `staticManifestsDir`."""

STATIC_MANIFESTS_SINCE = 37
"""The first minor whose gate `ManifestBasedAdmissionControlConfig` is on."""


def served_problem(api_version: str, kind: str, version: KubernetesVersion) -> str:
    """Why a server cannot hold an object of a kind, empty if it can."""
    policy = kind.removesuffix("List").removesuffix("Binding")
    spans = {name: minors for (served, name), minors in _SERVED.items() if served == policy}
    if not spans:
        return ""
    first = min(minors.since for minors in spans.values())
    if version.minor < first:
        return f"Kubernetes {version} has no {policy}: it came with 1.{first}"
    span = spans.get(api_version.removeprefix(f"{GROUP}/"))
    if span is not None and not span.since <= version.minor <= span.last:
        last = f" to 1.{span.last}" if version.minor > span.last else ""
        return f"Kubernetes {version} does not serve {api_version} of {kind}: that is served from 1.{span.since}{last}"
    if not decides(policy, version):
        return (
            f"Kubernetes {version} has mutating policies only with the feature gate MutatingAdmissionPolicy, "
            f"which is off by default before 1.{MUTATING_POLICIES_SINCE}"
        )
    return ""


def decides(kind: str, version: KubernetesVersion) -> bool:
    """Whether objects of a kind decide about requests on a server, in whatever version they are written."""
    return not kind.startswith("MutatingAdmissionPolicy") or version.minor >= MUTATING_POLICIES_SINCE


def static_problem(directory: str, version: KubernetesVersion, *, webhooks: bool) -> str:
    """Why a server does not read static manifests from a directory, empty if it does; the second text is the server's."""
    if version.minor >= STATIC_MANIFESTS_SINCE:
        return ""
    if version.minor < STATIC_FIELD_SINCE:
        return (
            f"Kubernetes {version} reads no static manifests: `staticManifestsDir` came with 1.{STATIC_FIELD_SINCE}; "
            "what the cluster holds goes into `api/`"
        )
    what = "webhook" if webhooks else "policy"
    return (
        f'static {what} manifests dir "{directory}" configured but ManifestBasedAdmissionControlConfig '
        "feature gate is not enabled"
    )
