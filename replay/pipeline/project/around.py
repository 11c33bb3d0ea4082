"""Discovery of a directory's logs, store, manifest sets, snapshot and owner label."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from replay.errors import ReplayError
from replay.reconstruct.snapshot import read_snapshot

DEEPEST = 4
"""The number of directory levels below its own in which a project is searched."""
MOST_ENTRIES = 20_000
"""Maximum number of entries to look at. A home directory is not a project."""
_BEGINNING = 1 << 16
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "venv", "vendor", "site-packages"})
_SETS = frozenset({"vap", "map", "vwc", "mwc"})
_LOG = re.compile(r"(.*[-_.])?audit([-_.].*)?\.(jsonl?|log|ndjson)(\.\d+)?(\.gz|\.zst)?")
_SNAPSHOT = re.compile(r"(cluster|snapshot)\.(jsonl?|ya?ml)(\.gz|\.zst)?")
_POLICY = re.compile(
    rb"^\s*(- )?[\"']?kind[\"']?\s*:\s*[\"']?(Validating|Mutating)(AdmissionPolicy|WebhookConfiguration)", re.MULTILINE
)
_CURRENT = ("current", "now", "in-force", "live", "prod", "production", "main")
_CANDIDATE = ("candidate", "next", "planned", "new", "proposed", "staging")
_OWNERS = ("team", "owner", "squad", "group")


class ProjectFindings(Struct, frozen=True):
    """Findings by the keys of `replay.toml`; None or empty if absent or ambiguous."""

    logs: tuple[Path, ...] = ()
    store: Path | None = None
    current: Path | None = None
    candidate: Path | None = None
    cluster: Path | None = None
    owner_label: str | None = None


def search_directory(directory: Path) -> ProjectFindings:
    """Search a directory. Only files that look like manifests or snapshots are opened."""
    logs: dict[Path, None] = {}
    stores, sets, snapshots = [], [], []
    for place, folders, files in _walk(directory):
        if "store.json" in files and "segments" in folders:
            stores.append(place)
            folders.clear()
        elif _SETS & set(folders) or any(_holds_policies(place / name) for name in files):
            sets.append(place)
            folders.clear()
        snapshots += [place / name for name in files if _SNAPSHOT.fullmatch(name)]
        log_files = [place / name for name in files if _LOG.fullmatch(name)]
        if log_files:
            logs[log_files[0] if len(log_files) == 1 else place] = None
    current, candidate = _current_and_candidate(sets)
    cluster = snapshots[0] if len(snapshots) == 1 else None
    return ProjectFindings(
        logs=tuple(logs),
        store=stores[0] if len(stores) == 1 else None,
        current=current,
        candidate=candidate,
        cluster=cluster,
        owner_label=owner_label(cluster) if cluster is not None else None,
    )


def _walk(directory: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Walk visible directories, without hidden, installed or linked ones. Removed folders are not entered."""
    entry_count = 0
    for place, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if name[0] != "." and name not in _PASSED_OVER)
        below = Path(place).relative_to(directory)
        entry_count += len(folders) + len(files)
        yield below, folders, sorted(files)
        if len(below.parts) >= DEEPEST or entry_count > MOST_ENTRIES:
            folders.clear()


def _holds_policies(path: Path) -> bool:
    """Return whether a file begins with a policy or a webhook configuration."""
    if path.suffix not in (".yaml", ".yml", ".json"):
        return False
    try:
        with path.open("rb") as file:
            return _POLICY.search(file.read(_BEGINNING)) is not None
    except OSError:
        return False


def _current_and_candidate(sets: list[Path]) -> tuple[Path | None, Path | None]:
    """Return baseline and candidate by name. A single set is the candidate."""
    current = next((each for name in _CURRENT for each in sets if each.name == name), None)
    others = [each for each in sets if each != current]
    candidate = next((each for name in _CANDIDATE for each in others if each.name == name), None)
    return current, candidate or (others[0] if len(others) == 1 else None)


def owner_label(cluster: Path) -> str | None:
    """Return the label with which most namespaces of a snapshot name their owner: `team`, `owner` and similar."""
    try:
        namespaces: list[Any] = [each for each in read_snapshot(cluster) if each.get("kind") == "Namespace"]
    except ReplayError:
        return None
    labels = Counter(label for each in namespaces for label in (each.get("metadata") or {}).get("labels") or {})
    ranked = [label for name in _OWNERS for label, _ in labels.most_common() if label.rpartition("/")[2] == name]
    return ranked[0] if ranked else None
