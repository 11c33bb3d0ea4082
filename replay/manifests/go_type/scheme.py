"""The kinds that the server's loaders know, with their Go types.

A loader's scheme knows the kinds of `admissionregistration.k8s.io` in all versions, and the kinds of `meta/v1` that
every API group has. The loader then accepts only those of its own plugin. `List` and `Status` are known in any group
and version.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from replay.kube.admissionregistration import GROUP, KINDS

SCHEME_NAME = "pkg/runtime/scheme.go:111"
"""Name of the server's scheme in errors, which is a place in its source code."""

_KINDS = {
    "v1": KINDS,
    "v1beta1": KINDS,
    "v1alpha1": tuple(each for each in KINDS if not each.endswith("WebhookConfiguration")),
}
_OPTIONS = tuple(f"{verb}Options" for verb in ("Create", "Delete", "Get", "List", "Patch", "Update"))
_UNVERSIONED = ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "List", "Status")


class Registered(Struct, frozen=True):
    """A kind that a scheme knows, with its Go type. `package` is the Go package in decoding errors.

    `converted` is the Go type, with its package, into which a converting scheme turns it.
    """

    kind: str
    go_type: str
    package: str = "v1"
    converted: str = ""

    @property
    def shown(self) -> str:
        """The type of a pointer to it, as `%T` prints it."""
        return f"*{self.converted or f'{self.package}.{self.kind}'}"


class Scheme(Struct, frozen=True):
    """Kinds by API version and kind, and those known in every version."""

    versioned: Mapping[tuple[str, str], Registered]
    unversioned: Mapping[str, Registered]
    name: str = "SCHEME"

    def lookup(self, api_version: str, kind: str) -> Registered | None:
        """Return the kind of that version, or None if it is not registered."""
        return self.versioned.get((api_version, kind)) or self.unversioned.get(kind)


def _versioned() -> dict[tuple[str, str], Registered]:
    registry: dict[tuple[str, str], Registered] = {}
    for version, kinds in _KINDS.items():
        for kind in kinds:
            for name in (kind, f"{kind}List"):
                registry[f"{GROUP}/{version}", name] = Registered(name, f"v1.{name}", version)
                registry[f"{GROUP}/__internal", name] = Registered(name, "v1.TypeMeta", "admissionregistration")
        for name in (*_OPTIONS, "WatchEvent"):
            registry[f"{GROUP}/{version}", name] = Registered(name, "v1.TypeMeta")
    return registry


LOADER_SCHEME = Scheme(_versioned(), {kind: Registered(kind, f"v1.{kind}") for kind in _UNVERSIONED})
"""The scheme of the manifest loaders (`k8s.io/kubernetes/pkg/admission/plugin/.../manifest/loader`)."""
