"""Decisions that a store keeps change nothing but the time."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.pipeline.output import summary_json
from replay.pipeline.run import Options, run
from replay.pipeline.scenario import scenario
from replay.pipeline.store import prune

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"


def replayed(candidate: Path, lines: Path, store: Path | None) -> tuple[str, bytes]:
    found = scenario([str(SAMPLE)], candidate=candidate)
    result = run(found, Options(store, outcomes=lines, workers=1), lambda _what, _done, _total: None)
    return summary_json(result), lines.read_bytes()


def edited(name: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(candidate: Path) -> None:
        path = candidate / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    return edit


def removed(name: str) -> Callable[[Path], None]:
    return lambda candidate: (candidate / name).unlink()


CHANGES: list[tuple[str, Callable[[Path], None]]] = [
    ("nothing", lambda _candidate: None),
    ("a message", edited("vap/memory-limits.yaml", "all containers need", "every container needs")),
    ("what is matched", edited("vap/team-label.yaml", "- services", "- pods")),
    ("the action of a binding", edited("vap/no-exec.yaml", "- Deny", "- Warn")),
    ("a policy removed", removed("vap/image-registries.yaml")),
    ("a mutation", edited("map/pod-defaults.yaml", "''Always''", "''IfNotPresent''")),
    ("a mutating policy removed", removed("map/default-team.yaml")),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the decisions of the sample's own sets."""
    directory = tmp_path_factory.mktemp("kept")
    replayed(SAMPLE / "candidate", directory / "lines", directory / "store")
    return directory / "store"


@pytest.mark.parametrize("change", [row[1] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_a_kept_store_gives_what_a_run_without_one_gives(
    change: Callable[[Path], None], store: Path, tmp_path: Path
) -> None:
    candidate = tmp_path / "candidate"
    shutil.copytree(SAMPLE / "candidate", candidate)
    change(candidate)
    kept = tmp_path / "store"
    shutil.copytree(store, kept)
    assert replayed(candidate, tmp_path / "with", kept) == replayed(candidate, tmp_path / "without", None)
    assert len(list((kept / "verdicts").iterdir())) == (1 if change is CHANGES[0][1] else 2)


def test_pruning_a_store_forgets_its_decisions(store: Path, tmp_path: Path) -> None:
    kept = tmp_path / "store"
    shutil.copytree(store, kept)
    assert prune(kept, "2100-01-01T00:00:00Z", "").removed == 1
    assert not (kept / "verdicts").exists()
