"""Recognition of the files of a set that are about authorization. The loaders of admission leave them alone."""

from __future__ import annotations

import re
from pathlib import Path

CONFIGURATION_FILE, RBAC_DIRECTORY = "authorization.yaml", "rbac"
_SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")
_KIND = re.compile(rb"""^\s*(?:\{\s*|.*,\s*)?["']?kind["']?\s*:\s*["']?AuthorizationConfiguration\b""", re.MULTILINE)
_RBAC_GROUP, _OTHER_GROUP = b"rbac.authorization.k8s.io/", b"admissionregistration.k8s.io/"


def is_about_authorization(path: Path) -> bool:
    """Return whether a whole set is about authorization.

    It is then an AuthorizationConfiguration, RBAC objects, or a directory of these.
    """
    if not path.is_dir():
        return is_configuration(path) or is_rbac(path)
    return is_rbac(path) or {each.name for each in path.iterdir()} <= {CONFIGURATION_FILE, RBAC_DIRECTORY}


def is_configuration(path: Path) -> bool:
    """Return whether a file is an AuthorizationConfiguration, by its kind."""
    return path.is_file() and _KIND.search(path.read_bytes()) is not None


def is_rbac(path: Path) -> bool:
    """Return whether a file, or every manifest directly in a directory, has RBAC objects and no objects of admission."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    contents = [file.read_bytes() for file in files if file.is_file() and file.suffix.lower() in _SUFFIXES]
    return bool(contents) and all(_RBAC_GROUP in data and _OTHER_GROUP not in data for data in contents)
