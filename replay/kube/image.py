"""Image references, as far as defaults need them (github.com/distribution/reference)."""

from __future__ import annotations

import re

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?"
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}


def is_latest(image: str) -> bool:
    """Return whether an image has the tag `latest`, or has neither tag nor digest.

    A text that is no reference has no tag (`ParseImageName` of k8s.io/kubernetes/pkg/util/parsers, its error ignored).
    """
    if _IDENTIFIER.fullmatch(image):
        return False
    match = _REFERENCE.fullmatch(_normalized(image))
    if match is None:
        return False
    digest = match["digest"]
    if digest is None:
        return match["tag"] in {None, "latest"}
    algorithm, _, encoded = digest.partition(":")
    return match["tag"] == "latest" and _DIGEST_LENGTHS.get(algorithm) == len(encoded) and encoded == encoded.lower()


def _normalized(image: str) -> str:
    """Return the reference with an explicit domain.

    Otherwise its first component could be taken for one (`splitDockerDomain`).
    """
    first, slash, _ = image.partition("/")
    is_domain = bool(slash) and ("." in first or ":" in first or first == "localhost" or first != first.lower())
    return image if is_domain else f"docker.io/{image}"
