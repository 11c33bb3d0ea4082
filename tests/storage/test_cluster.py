"""Several clusters in one store behave as as many stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from replay.cli.app import app
from replay.storage.location import cluster_names

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
LOG = SAMPLE / "audit.jsonl.zst"
COUNT = "select count(*) as requests, min(audit_id) as first from request"


def told(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


def filled(store: str, *arguments: str) -> None:
    done = told("ingest", "--store", store, *arguments)
    assert done.exit_code == 0, done.exception or done.output


def two_clusters(store: str, whole: Path, half: Path) -> tuple[str, Path, Path]:
    """A store of two clusters, and their logs, which have half of their requests in common."""
    lines = whole.read_bytes().splitlines(keepends=True)
    half.write_bytes(b"".join(lines[: len(lines) // 2]))
    filled(store, str(whole), "--cluster-name", "prod-eu")
    filled(store, str(half), "--cluster-name", "stage")
    return store, whole, half


@pytest.fixture(scope="module")
def of_directory(tmp_path_factory: pytest.TempPathFactory, short_sample: Path) -> tuple[str, Path, Path]:
    """The store that all ask: no question changes it."""
    directory = tmp_path_factory.mktemp("clusters")
    return two_clusters(str(directory / "store"), short_sample / "audit.jsonl", directory / "half.jsonl")


@pytest.fixture(params=["directory", pytest.param("bucket", marks=pytest.mark.slow)])
def fleet(request: pytest.FixtureRequest, tmp_path: Path, short_sample: Path) -> tuple[str, Path, Path]:
    if request.param == "directory":
        found: tuple[str, Path, Path] = request.getfixturevalue("of_directory")
        return found
    return two_clusters(request.getfixturevalue("bucket"), short_sample / "audit.jsonl", tmp_path / "half.jsonl")


@pytest.mark.slow
def test_two_clusters_in_one_store_are_two_stores(fleet: tuple[str, Path, Path], tmp_path: Path) -> None:
    store, whole, half = fleet
    assert cluster_names(store) == ("prod-eu", "stage")
    for name, log in (("prod-eu", whole), ("stage", half)):
        own = str(tmp_path / f"own-{name}")
        filled(own, str(log))
        for question in (["sql", COUNT, "--json"], ["lookup", "--json", "--action", "deny"]):
            shared = told(*question, "--store", store, "--cluster-name", name)
            assert shared.exit_code == 0, shared.exception
            alone = told(*question, "--store", own).stdout.replace(f"own-{name}", f"cluster={name}")
            assert shared.stdout == alone


def test_a_query_is_asked_of_each_cluster(fleet: tuple[str, Path, Path]) -> None:
    store, *_ = fleet
    both = json.loads(told("sql", COUNT, "--json", "--store", store, "--cluster-name", "*").stdout)
    alone = [
        {
            "cluster": name,
            **json.loads(told("sql", COUNT, "--json", "--store", store, "--cluster-name", name).stdout)[0],
        }
        for name in ("prod-eu", "stage")
    ]
    assert both == alone


@pytest.mark.slow
def test_what_was_done_is_told_cluster_by_cluster(fleet: tuple[str, Path, Path], tmp_path: Path) -> None:
    store, *_ = fleet
    lookup = ["lookup", "--store", store, "--json", "--action", "deny", "--cluster-name"]
    assert told(*lookup, "*").stdout == told(*lookup, "prod-eu").stdout + told(*lookup, "stage").stdout
    report = ["report", "--store", store, "--json", "--cluster-name"]
    every = told(*report, "*", "--out", str(tmp_path / "weekly"))
    assert every.stdout == told(*report, "prod-eu").stdout + told(*report, "stage").stdout
    assert sorted(path.name for path in (tmp_path / "weekly").iterdir()) == ["prod-eu", "stage"]
    assert json.loads((tmp_path / "weekly" / "stage" / "report.json").read_text())["log"] == "cluster=stage"


ERRORS = [
    ("no name", ["lookup"], "{store}: it has the clusters prod-eu, stage: give --cluster-name"),
    ("several", ["coverage", "--cluster-name", "*"], "--cluster-name: `*` means prod-eu, stage: name one; `replay sql`, `lookup` and `report` ask several"),
    ("none", ["sql", "select 1", "--cluster-name", "dev*"], "--cluster-name: the store has no cluster `dev*`: it has prod-eu, stage"),
    ("a path", ["lookup", "--cluster-name", "../a"], "--cluster-name: `../a` names no cluster: letters, digits, `.`, `_` and `-`, 63 at most"),
    ("logs of none", ["ingest", str(LOG)], "{store}: it has the clusters prod-eu, stage: say of which one with --cluster-name"),
]  # fmt: skip


def test_what_means_no_cluster_is_said_in_one_line(
    of_directory: tuple[str, Path, Path], short_sample: Path, tmp_path: Path
) -> None:
    store = of_directory[0]
    for what, arguments, message in ERRORS:
        done = told(*arguments, "--store", store)
        assert (what, str(done.exception)) == (what, message.format(store=store))
    looked = told("store", "info", store)
    assert str(looked.exception) == f"{store}: it has the clusters prod-eu, stage: name one, as {store}/cluster=prod-eu"
    plain = str(tmp_path / "plain")
    filled(plain, str(short_sample / "audit.jsonl"))
    refused = told("ingest", str(LOG), "--store", plain, "--cluster-name", "a")
    assert str(refused.exception) == f"{plain}: it was filled without --cluster-name: name another store"
