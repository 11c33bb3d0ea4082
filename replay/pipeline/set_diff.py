"""What differs between two sets, without a log: manifests, what servers of two minors make of them, and authorization."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from replay.authorization.chain import DEFAULT_CONFIGURATION
from replay.authorization.diff import diff_authorization
from replay.authorization.manifest import as_logged, load_authorization
from replay.cellib.version import Versions
from replay.errors import ReplayError
from replay.kube.admissionregistration import ManifestSet
from replay.manifests.diff import diff_sets
from replay.manifests.minor_diff import diff_minors
from replay.manifests.object_diff import ObjectDiff
from replay.manifests.set_loader import set_objects
from replay.pipeline.kcp.diff import diff_folders
from replay.pipeline.kcp.layout import is_by_workspace
from replay.pipeline.manifests import deciding_kinds, without_idle


class SetDifference(NamedTuple):
    """The objects that differ; `sets` are none where they are made by workspace."""

    objects: tuple[ObjectDiff, ...]
    sets: tuple[ManifestSet, ManifestSet] | None


def set_difference(
    current: Path, candidate: Path, versions: Versions, workspaces: Collection[str] = ()
) -> SetDifference:
    """What differs; `workspaces` are those of kcp that are asked about. Raises ReplayError for what cannot be used."""
    sets = None
    if is_by_workspace((current, candidate)):
        if versions.differ:
            text = "sets by workspace are of one server: leave out --current-version and --candidate-version"
            raise ReplayError(text, path=str(candidate))
        objects = diff_folders(current, candidate, versions.candidate, workspaces)
    elif workspaces:
        raise ReplayError("the sets have no workspaces: they are not of kcp", path="--workspace")
    else:
        stored = versions.current if current == candidate else None  # what stays is there already
        files = set_objects(current, versions.current), set_objects(candidate, versions.candidate, stored)
        own = [each.manifest_set(minor) for each, minor in zip(files, versions, strict=True)]
        others, kinds = [obj for each in files for obj in each.others], deciding_kinds(own)
        before, after = sets = without_idle(own[0], others, kinds), without_idle(own[1], others, kinds)
        objects = (*diff_sets(before, after), *diff_minors(before, after, versions))
    chains = load_authorization(current, versions.current), load_authorization(candidate, versions.candidate)
    authorization = diff_authorization(*as_logged(chains, DEFAULT_CONFIGURATION), DEFAULT_CONFIGURATION)
    return SetDifference((*objects, *authorization), sets)
