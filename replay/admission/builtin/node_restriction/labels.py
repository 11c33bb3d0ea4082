"""Labels that a kubelet may not set on its node (`getForbiddenLabels`, `k8s.io/kubelet/pkg/apis`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_OF_KUBELETS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)
_NAMESPACES_OF_KUBELETS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESERVED: Final = ("node-restriction.kubernetes.io",)
_OF_KUBERNETES: Final = ("kubernetes.io", "k8s.io")


def forbidden_labels(new: Mapping[str, str] | None, old: Mapping[str, str] | None) -> list[str]:
    """Return the labels that differ and that a kubelet may not change, sorted."""
    ours, theirs = new or {}, old or {}
    return sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key) and _is_forbidden(key))


def _is_forbidden(key: str) -> bool:
    namespace = key.split("/", 1)[0] if "/" in key else ""
    if _is_in(namespace, _RESERVED):
        return True
    is_of_kubelets = key in _OF_KUBELETS or _is_in(namespace, _NAMESPACES_OF_KUBELETS)
    return _is_in(namespace, _OF_KUBERNETES) and not is_of_kubelets


def _is_in(namespace: str, domains: Iterable[str]) -> bool:
    return any(namespace == domain or namespace.endswith("." + domain) for domain in domains)
