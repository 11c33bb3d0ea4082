"""Objects that a server of a version accepts with default feature gates: kinds, versions and static manifests.

From `k8s.io/kubernetes/pkg/registry/admissionregistration/rest` (versions), `pkg/features` (gates) and the plugins'
configuration types of `k8s.io/apiserver/pkg/admission/plugin`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from replay.cellib.version import NEWEST_MINOR, KubernetesVersion
from replay.go.format import aggregate
from replay.kube.admissionregistration import GROUP
from replay.manifests.finding import forbidden


class Minors(NamedTuple):
    """The minor versions from `since` to `last`, both included."""

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
"""API versions of policies and their bindings. Webhook configurations are `v1` in every server version."""

Gates = Mapping[str, bool]
"""Feature gates that a server's flags turn on or off, by name."""

NO_GATES: Gates = MappingProxyType({})
MUTATING_POLICIES, STATIC_MANIFESTS = "MutatingAdmissionPolicy", "ManifestBasedAdmissionControlConfig"
SKIPPED_REVIEWS = "ExcludeAdmissionWebhookVirtualResources"


class _Gate(NamedTuple):
    """The minor versions from which a gate exists, is beta, is on by default, is stable, and cannot be turned off."""

    since: int
    beta: int = NEWEST_MINOR + 1
    on: int = NEWEST_MINOR + 1
    stable: int = NEWEST_MINOR + 1
    locked: int = NEWEST_MINOR + 1


_GATES: Mapping[str, _Gate] = {
    MUTATING_POLICIES: _Gate(32, 34, 36, 36),
    STATIC_MANIFESTS: _Gate(36, 37, 37),
    SKIPPED_REVIEWS: _Gate(37, 37, 37),
    "GenericWorkload": _Gate(35, 37),
    "ClusterTrustBundle": _Gate(27, 33, 37, 37),
    "PodTopologyLabelsAdmission": _Gate(33, 35, 35),
    "NodeDeclaredFeatures": _Gate(35, 36, 36, 37, 37),
    "WorkloadWithJob": _Gate(36),
}
"""The gates of `pkg/features/kube_features.go` on which something here depends."""


def is_enabled(gate: str, version: KubernetesVersion, gates: Gates = NO_GATES) -> bool:
    """Return whether a gate is on.

    `AllAlpha` and `AllBeta` set all gates of a stage (`component-base/featuregate`).
    """
    known, minor = _GATES[gate], version.minor
    stage = "AllAlpha" if minor < known.beta else "AllBeta"
    default = minor >= known.on
    return minor >= known.since and gates.get(gate, gates.get(stage, default) if minor < known.stable else default)


def locked_problem(version: KubernetesVersion, gates: Gates) -> str:
    """Return why a server does not start with these gates, in its words, or "" (`featureGate.SetFromMap`)."""
    locked = (name for name, is_on in gates.items() if not is_on and name in _GATES)
    problems = [name for name in sorted(locked) if version.minor >= _GATES[name].locked]
    return aggregate(f"cannot set feature gate {name} to false, feature is locked to true" for name in problems)


STATIC_FIELD_SINCE = 36
"""First minor version whose plugin configurations have `staticManifestsDir`."""


def served_problem(api_version: str, kind: str, version: KubernetesVersion, gates: Gates = NO_GATES) -> str:
    """Return why a server cannot have an object of a kind, or "" if it can."""
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
    if not decides(policy, version, gates):
        return (
            f"Kubernetes {version} has mutating policies only with the feature gate MutatingAdmissionPolicy, "
            f"which is {_reason_not_served(MUTATING_POLICIES, gates)}"
        )
    return ""


def _reason_not_served(gate: str, gates: Gates) -> str:
    return "turned off by `--feature-gates`" if gate in gates else f"off by default before 1.{_GATES[gate].on}"


def decides(kind: str, version: KubernetesVersion, gates: Gates = NO_GATES) -> bool:
    """Return whether objects of a kind decide about requests on a server, in any API version."""
    return not kind.startswith("MutatingAdmissionPolicy") or is_enabled(MUTATING_POLICIES, version, gates)


def static_problem(version: KubernetesVersion, gates: Gates = NO_GATES) -> str:
    """Return why a server reads no static manifests, or "" if it does."""
    if is_enabled(STATIC_MANIFESTS, version, gates):
        return ""
    if version.minor < STATIC_FIELD_SINCE:
        return (
            f"Kubernetes {version} reads no static manifests: `staticManifestsDir` came with 1.{STATIC_FIELD_SINCE}; "
            "what the cluster holds goes into `api/`"
        )
    return (
        f"Kubernetes {version} reads static manifests only with the feature gate {STATIC_MANIFESTS}, which is "
        f"{_reason_not_served(STATIC_MANIFESTS, gates)}"
    )


def static_directory_problem(version: KubernetesVersion, gates: Gates = NO_GATES, *, webhooks: bool) -> str:
    """Return the error of a server that does not read `staticManifestsDir`, or "" (`admission/plugin/manifest`).

    Before `STATIC_FIELD_SINCE`, the plugins of policies read no configuration and report no error.
    """
    if is_enabled(STATIC_MANIFESTS, version, gates):
        return ""
    if version.minor >= STATIC_FIELD_SINCE:
        why = f"staticManifestsDir requires the {STATIC_MANIFESTS} feature gate to be enabled"
        return str(forbidden("staticManifestsDir", why))
    return 'strict decoding error: unknown field "staticManifestsDir"' if webhooks else static_problem(version, gates)


def is_suffix_reserved(version: KubernetesVersion, gates: Gates = NO_GATES) -> bool | None:
    """Return whether the API refuses names of static manifests.

    False if it only warns about them, None if it does not know them.
    """
    if version.minor < STATIC_FIELD_SINCE:
        return None
    return is_enabled(STATIC_MANIFESTS, version, gates)
