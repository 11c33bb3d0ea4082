"""Results that a store keeps change nothing but the time."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from enum import StrEnum, auto
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from replay.cellib.version import NEWEST, KubernetesVersion
from replay.compare.outcome import OutcomeKind
from replay.compare.summary import ChangeExample, ChangeExamples, Summary
from replay.pipeline.options import Options
from replay.pipeline.replay.difference import Difference
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.kept_input import KeptRequest
from replay.pipeline.replay.kept_result import RESULTS
from replay.pipeline.replay.merge import corrected
from replay.pipeline.replay.replayer import Replayer
from replay.pipeline.replay.spool import NOTHING, ClassResult, Totals
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.pipeline.store import Retention, prune
from replay.reconstruct.cluster import Cluster
from replay.report.run.json import summary_json

ONE_WORKER = Options(workers=1)
IMPORTS = (
    "import sys\nfrom replay.cli.app import main\ntry:\n    main()\nfinally:\n"
    "    sys.stderr.write(repr([each for each in ('duckdb', 'polars', 'pyarrow') if each in sys.modules]))"
)
"""A program that runs the command line, and tells on stderr which engines it has imported."""


def replayed(log: Path, sets: Path, store: Path | None, *, redact: bool = True, options: Options = ONE_WORKER) -> str:
    found = Scenario((str(log),), store=store, current=sets / "current", candidate=sets / "candidate").resolved()
    return summary_json(run(found, replace(options, redact=redact), lambda _what, _done, _total: None))


def results(store: Path) -> set[str]:
    """The results that a store keeps: the state of log, snapshot and code, the class of requests, and the policies on it."""
    return {str(path.relative_to(store)) for path in (store / RESULTS).glob("*/*.*") if "-met" not in path.name}


def edited(name: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(sets: Path) -> None:
        path = sets / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    return edit


def removed(name: str) -> Callable[[Path], None]:
    return lambda sets: (sets / name).unlink()


def added(name: str, text: str) -> Callable[[Path], None]:
    def add(sets: Path) -> None:
        (sets / name).write_text(text, encoding="utf-8")

    return add


ABSENT = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: absent.static.k8s.io}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [example.com], apiVersions: ['*'], operations: [CREATE], resources: [absentees]}]
  validations: [{expression: 'false'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: absent.static.k8s.io}
spec: {policyName: absent.static.k8s.io, validationActions: [Deny]}
"""
"""A policy on what no log has: no class is replayed, but the candidate's world is worked out anew."""


class Replayed(StrEnum):
    """Which classes of requests are replayed once more."""

    NONE = auto()
    SOME = auto()
    ALL = auto()


class Change(NamedTuple):
    name: str
    make: Callable[[Path], None]
    replayed: Replayed
    redact: bool = True


CHANGES = [
    Change("nothing", lambda _sets: None, Replayed.NONE),
    Change(
        "a message",
        edited("candidate/vap/memory-limits.yaml", "all containers need", "every container needs"),
        Replayed.SOME,
    ),
    Change("what is matched", edited("candidate/vap/team-label.yaml", "- services", "- pods"), Replayed.SOME),
    Change("a new resource", edited("candidate/vap/team-label.yaml", "- services", "- endpoints"), Replayed.SOME),
    Change("the action of a binding", edited("candidate/vap/no-exec.yaml", "- Deny", "- Warn"), Replayed.SOME),
    Change("a policy removed", removed("candidate/vap/image-registries.yaml"), Replayed.SOME),
    Change("a policy on what the log does not have", added("candidate/vap/absent.yaml", ABSENT), Replayed.SOME),
    Change("a mutation", edited("candidate/map/pod-defaults.yaml", "''Always''", "''IfNotPresent''"), Replayed.SOME),
    Change("a mutating policy removed", removed("candidate/map/default-team.yaml"), Replayed.SOME),
    Change("a webhook for everything removed", removed("candidate/vwc/rec.yaml"), Replayed.ALL),
    Change("the set in force", edited("current/vap/replica-cap.yaml", "<= 10", "<= 9"), Replayed.SOME),
    Change("a name in force", edited("current/vap/replica-cap.yaml", "replica-cap", "cap"), Replayed.ALL),
    Change("secrets are shown", lambda _sets: None, Replayed.ALL, redact=False),
]


@pytest.fixture(scope="module")
def store(short_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the results of the sample's own sets."""
    directory = tmp_path_factory.mktemp("kept") / "store"
    replayed(short_sample, short_sample, directory)
    return directory


@pytest.fixture(scope="module")
def plain(short_sample: Path) -> str:
    """What a run without a store gives for the sample's own sets."""
    return replayed(short_sample, short_sample, None)


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES, ids=[change.name for change in CHANGES])
def test_a_kept_store_gives_what_a_run_without_one_gives(
    change: Change, store: Path, short_sample: Path, tmp_path: Path
) -> None:
    sets, kept = tmp_path / "sets", tmp_path / "store"
    for name in ("current", "candidate"):
        shutil.copytree(short_sample / name, sets / name)
    change.make(sets)
    shutil.copytree(store, kept)
    assert replayed(short_sample, sets, kept, redact=change.redact) == replayed(
        short_sample, sets, None, redact=change.redact
    )
    before, added = results(store), len(results(kept) - results(store))
    found = Replayed.NONE if not added else Replayed.ALL if added == len(before) else Replayed.SOME
    assert found is change.replayed


SEQUENCES = [
    ("a message", "a policy removed", "a mutation", "a policy on what the log does not have"),
    ("the set in force", "the action of a binding", "a mutating policy removed", "what is matched"),
]
"""Changes that are made one after the other."""


@pytest.mark.slow
@pytest.mark.parametrize("names", SEQUENCES, ids=[row[0] for row in SEQUENCES])
def test_changes_in_a_row_give_what_runs_without_a_store_give(
    names: tuple[str, ...], store: Path, short_sample: Path, tmp_path: Path
) -> None:
    sets, kept = tmp_path / "sets", tmp_path / "store"
    for name in ("current", "candidate"):
        shutil.copytree(short_sample / name, sets / name)
    shutil.copytree(store, kept)
    changes = {change.name: change for change in CHANGES}
    for name in names:
        changes[name].make(sets)
        assert replayed(short_sample, sets, kept) == replayed(short_sample, sets, None), name


def test_a_change_that_is_taken_back_costs_nothing(
    store: Path, short_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets, kept = tmp_path / "sets", tmp_path / "store"
    for name in ("current", "candidate"):
        shutil.copytree(short_sample / name, sets / name)
    shutil.copytree(store, kept)
    before = replayed(short_sample, sets, kept)
    removed("candidate/vap/image-registries.yaml")(sets)
    changed = replayed(short_sample, sets, kept)
    shutil.copy(short_sample / "candidate/vap/image-registries.yaml", sets / "candidate/vap")
    monkeypatch.setattr("replay.pipeline.run._replay_parts", pytest.fail)
    monkeypatch.setattr("replay.pipeline.run.world_of", pytest.fail)
    assert replayed(short_sample, sets, kept) == before
    assert changed != before


def test_classes_make_the_outcome_that_is_gone(
    store: Path, plain: str, short_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "store"
    shutil.copytree(store, kept)
    (outcome,) = (kept / RESULTS).glob("*/outcome.*")
    outcome.unlink()
    monkeypatch.setattr("replay.pipeline.run._replay_parts", pytest.fail)
    monkeypatch.setattr("replay.pipeline.run.world_of", pytest.fail)
    assert replayed(short_sample, short_sample, kept) == plain
    assert outcome.exists()


def test_a_run_in_which_nothing_changed_imports_no_engine(store: Path, short_sample: Path) -> None:
    sets = ["--current", str(short_sample / "current"), "--candidate", str(short_sample / "candidate")]
    cluster = str(short_sample / "cluster.jsonl.zst")  # Polars decompressed it in the run before
    command = [sys.executable, "-c", IMPORTS, "run", "--store", str(store), *sets, "--cluster", cluster]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "[]")
    assert "would be denied directly" in done.stdout


FORKS = """
import os, sys
from replay.cli.app import main
from replay.pipeline import run
from replay.pipeline.replay import workers
run.PORTION_BYTES = 1  # several portions of kept requests
fork = workers._Reserve.fork
def told(reserve):
    if reserve.pool is None:
        sys.stderr.write(repr([each for each in ('duckdb', 'polars') if each in sys.modules]))
    fork(reserve)
workers._Reserve.fork = told
main()
"""
"""A program that runs the command line, and tells on stderr which engines it had imported when it forked its workers."""


@pytest.mark.skipif(sys.platform != "linux", reason="libraries of other systems do not bear a fork")
def test_workers_of_a_rerun_are_forked_before_an_engine_is_imported(
    store: Path, short_sample: Path, tmp_path: Path
) -> None:
    sets = tmp_path / "sets"
    for name in ("current", "candidate"):
        shutil.copytree(short_sample / name, sets / name)
    edited("candidate/vap/memory-limits.yaml", "all containers need", "every container needs")(sets)
    told = []
    for workers in ("1", "2"):
        kept = tmp_path / workers / "store"
        shutil.copytree(store, kept)
        given = ["--current", str(sets / "current"), "--candidate", str(sets / "candidate"), "--workers", workers]
        snapshot = ["--cluster", str(short_sample / "cluster.jsonl.zst"), "--format", "json"]
        command = [sys.executable, "-c", FORKS, "run", "--store", str(kept), *given, *snapshot]
        told.append(subprocess.run(command, capture_output=True, text=True, check=False))
    alone, forked = told
    assert (alone.stderr, forked.stderr, forked.stdout) == ("", "[]", alone.stdout)
    assert "every container needs" in forked.stdout


READS = """
from replay.cli.app import main
from replay.pipeline import log
log.ingested = None  # what reads the log if no other process has
main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="libraries of other systems do not bear a fork")
def test_a_new_store_is_read_ahead_and_is_there_only_for_valid_sets(
    plain: str, short_sample: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad.yaml").write_text("kind: ValidatingAdmissionPolicy\n", encoding="utf-8")
    kept, told = tmp_path / "store", []
    for candidate in (tmp_path / "bad.yaml", short_sample / "candidate"):
        sets = ["--current", str(short_sample / "current"), "--candidate", str(candidate)]
        command = [sys.executable, "-c", READS, "run", str(short_sample), "--store", str(kept), *sets]
        done = subprocess.run(
            [*command, "--workers", "2", "--format", "json"], capture_output=True, text=True, check=False
        )
        told.append((done.returncode, (kept / "store.json").exists(), len(list((kept / "segments").iterdir()))))
    assert (told, done.stdout) == ([(2, False, 0), (1, True, 1)], plain)


def test_accepted_findings_are_counted_apart(store: Path, plain: str, short_sample: Path, tmp_path: Path) -> None:
    kept, accepted = tmp_path / "store", tmp_path / "accepted.yaml"
    shutil.copytree(store, kept)
    text = "apiVersion: replay/v1\nkind: AcceptedFindings\naccepted: [{policy: '*', reason: so}]\n"
    accepted.write_text(text, encoding="utf-8")
    options = Options(workers=1, accepted=accepted)
    expected = replayed(short_sample, short_sample, None, options=options)
    assert replayed(short_sample, short_sample, kept, options=options) == expected != plain
    assert replayed(short_sample, short_sample, kept) == plain


def without_one(paths: list[Path]) -> None:
    paths[0].unlink()


def of_another_run(paths: list[Path]) -> None:
    """One of two files that were written as one, as a run leaves it that is killed in between."""
    content = b"".join(len(block).to_bytes(8, "big") + block for block in [b"of another run"])
    name = str(paths[0].relative_to(paths[0].parents[2]))
    paths[0].write_bytes(hashlib.sha256(name.encode() + b"\0" + content).digest() + content)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [list, without_one, of_another_run], ids=["whole", "one gone", "one of another run"])
def test_kept_requests_may_stand_in_several_files(
    damage: Callable[[list[Path]], object],
    store: Path,
    short_sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("replay.pipeline.replay.kept_result.REQUEST_FILE_BYTES", 1)
    sets, kept = tmp_path / "sets", tmp_path / "store"
    for name in ("current", "candidate"):
        shutil.copytree(short_sample / name, sets / name)
    shutil.copytree(store, kept, ignore=shutil.ignore_patterns(RESULTS))
    replayed(short_sample, sets, kept)
    files = sorted((kept / RESULTS).glob("*/*-met1.*"))
    assert files
    damage(files)
    edited("candidate/vap/memory-limits.yaml", "all containers need", "every container needs")(sets)
    removed("candidate/vap/finalizer-guard.yaml")(sets)
    assert replayed(short_sample, sets, kept) == replayed(short_sample, sets, None)


DAMAGES: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("empty", lambda _content: b""),
    ("cut short", lambda content: content[:-1]),
    ("one bit", lambda content: content[:50] + bytes([content[50] ^ 1]) + content[51:]),
]


@pytest.mark.slow
@pytest.mark.parametrize("damage", [row[1] for row in DAMAGES], ids=[row[0] for row in DAMAGES])
def test_what_is_damaged_is_replayed(
    damage: Callable[[bytes], bytes], store: Path, plain: str, short_sample: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "store"
    shutil.copytree(store, kept)
    for path in (kept / RESULTS).glob("*/*"):
        path.write_bytes(damage(path.read_bytes()))
    assert replayed(short_sample, short_sample, kept) == plain


def test_results_of_another_code_are_not_taken_over(
    store: Path, short_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "store"
    shutil.copytree(store, kept)
    monkeypatch.setattr("replay.pipeline.replay.kept_result.code_digest", lambda: "another")
    replayed(short_sample, short_sample, kept)
    assert len(results(kept)) == 2 * len(results(store))


def test_results_of_a_read_only_store_are_taken_over(
    store: Path, short_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    kept = tmp_path / "store"
    shutil.copytree(store, kept)
    monkeypatch.setattr("replay.storage.directory.os.utime", refuse)
    monkeypatch.setattr("replay.pipeline.run._replay_parts", refuse)
    monkeypatch.setattr("replay.pipeline.run.world_of", refuse)
    assert replayed(short_sample, short_sample, kept) == replayed(short_sample, short_sample, store)


def test_results_that_cannot_be_read_are_made_anew(store: Path, plain: str, short_sample: Path, tmp_path: Path) -> None:
    kept = tmp_path / "store"
    shutil.copytree(store, kept)
    for path in (kept / RESULTS).glob("*/*"):
        path.unlink()
        path.mkdir()
    assert replayed(short_sample, short_sample, kept) == plain


def test_a_store_that_cannot_be_written_keeps_nothing(
    store: Path, plain: str, short_sample: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "store"
    shutil.copytree(store, kept)
    shutil.rmtree(kept / RESULTS)
    (kept / RESULTS).write_bytes(b"in the way")
    assert replayed(short_sample, short_sample, kept) == plain


def test_only_what_an_earlier_candidate_decides_otherwise_is_replayed(
    store: Path, short_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, sets, differing = tmp_path / "store", tmp_path / "sets", list[bool]()
    shutil.copytree(store, kept)
    for name in ("current", "candidate"):
        shutil.copytree(short_sample / name, sets / name)
    edited("candidate/vap/memory-limits.yaml", "all containers need", "every container needs")(sets)
    is_alike = Difference.is_alike

    def noted(difference: Difference, kept: KeptRequest, cluster: Cluster) -> bool:
        differing.append(not is_alike(difference, kept, cluster))
        return not differing[-1]

    monkeypatch.setattr(Difference, "is_alike", noted)
    monkeypatch.setattr(Job, "run", None)
    monkeypatch.setattr(Replayer, "replay_again", None)
    report = replayed(short_sample, sets, kept)
    assert "every container needs" in report
    assert 0 < differing.count(True) < len(differing) / 2


@pytest.mark.slow
def test_an_upgrade_is_rehearsed_by_difference(
    short_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = tmp_path / "sets"
    for name in ("current", "candidate"):
        (sets / name / "api").mkdir(parents=True)
        for path in (short_sample / name / "vap").glob("*.yaml"):  # an older server reads no static manifests
            (sets / name / "api" / path.name).write_text(path.read_text().replace(".static.k8s.io", ""))

    def told(store: Path | None) -> str:
        scenario = Scenario((str(short_sample),), store=store, current=sets / "current", candidate=sets / "candidate")
        scenario = replace(scenario.resolved(), version=KubernetesVersion(1, 36), candidate_version=NEWEST)
        return summary_json(run(scenario, Options(workers=1), lambda _what, _done, _total: None))

    told(tmp_path / "store")
    edited("candidate/api/memory-limits.yaml", "all containers need", "every container needs")(sets)
    plain = told(None)
    monkeypatch.setattr(Replayer, "replay_again", None)
    assert told(tmp_path / "store") == plain


def result_of(*, count: int = 1, seq: int = 5, failures: int = 0) -> ClassResult:
    """A class of requests that are newly mutated, with the first of them as an example."""
    changes = ChangeExamples({EXAMPLE: ChangeExample(seq, 0, "", None, None)})
    outcomes = Counter({OutcomeKind.NEWLY_MUTATED: count})
    summary = Summary(count, outcomes, call_failures=Counter({("w", "e"): failures} if failures else {}))
    summary.changes = changes
    return NOTHING._replace(totals=Totals(summary))


EXAMPLE = (OutcomeKind.NEWLY_MUTATED, (), ())
CORRECTED = [
    ("an example stays", result_of(count=3), result_of(seq=6), True),
    ("an example is gone", result_of(count=3), result_of(seq=5), False),
    ("calls that fail are counted up to a limit", result_of(count=3, failures=1), result_of(seq=6), False),
]


@pytest.mark.parametrize(
    ("earlier", "gone", "is_certain"), [row[1:] for row in CORRECTED], ids=[row[0] for row in CORRECTED]
)
def test_a_result_without_some_requests_is_used_where_it_is_certain(
    earlier: ClassResult, gone: ClassResult, *, is_certain: bool
) -> None:
    result = corrected(earlier, gone, NOTHING)
    assert (result is not None) is is_certain
    if result is not None:
        assert result.totals.summary == result_of(count=2).totals.summary


def test_the_oldest_results_are_forgotten(
    store: Path, short_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.pipeline.replay.kept_result.LEAST_SECONDS", -1)
    monkeypatch.setattr("replay.pipeline.replay.kept_result.MOST_SETS", 1)
    kept, sets = tmp_path / "store", tmp_path / "sets"
    shutil.copytree(store, kept)
    for name in ("current", "candidate"):
        shutil.copytree(short_sample / name, sets / name)
    removed("candidate/vap/no-exec.yaml")(sets)
    replayed(short_sample, sets, kept)
    assert len(results(kept)) == len(results(store))
    assert results(kept) != results(store)


def test_pruning_a_store_forgets_its_results(store: Path, tmp_path: Path) -> None:
    kept = tmp_path / "store"
    shutil.copytree(store, kept)
    assert prune(kept, Retention("2100-01-01T00:00:00Z")).removed == 1
    assert not (kept / RESULTS).exists()
