"""Objects at rest: what is said of them is what a run says of their updates, as whom, and by owner."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, split_api_version
from tests.support.log_lines import event

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
CANDIDATE = str(SAMPLE / "candidate")
KINDS = {"Deployment", "Service", "ConfigMap", "Pod", "CronJob", "Job", "Ingress", "PodDisruptionBudget"}
ALICE = {"username": "alice", "groups": ["developers"]}
Key = tuple[str, str, str]


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with pa.input_stream(str(path), compression="zstd") as stream:
        yield from map(orjson.loads, stream.read().splitlines())


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The objects of the sample as its log shows them last, with the namespaces and RBAC of its snapshot."""
    found: dict[Key, dict[str, Any]] = {}
    for line in lines(SAMPLE / "audit.jsonl.zst"):
        body = line.get("responseObject") or {}
        if body.get("kind") in KINDS and line["verb"] in ("create", "update", "patch") and not is_sub(line):
            found[key_of(body)] = body
    path = tmp_path_factory.mktemp("scan") / "cluster.jsonl"
    objects = [*lines(SAMPLE / "cluster.jsonl.zst"), *found.values()]
    path.write_bytes(b"\n".join(map(orjson.dumps, objects)))
    return path


def is_sub(line: dict[str, Any]) -> bool:
    return bool(line["objectRef"].get("subresource")) or line["responseStatus"]["code"] >= 300


def key_of(obj: dict[str, Any]) -> Key:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def updates(snapshot: Path) -> Iterator[bytes]:
    """An update of each object that changes nothing, by alice."""
    for number, obj in enumerate(map(orjson.loads, snapshot.read_bytes().splitlines())):
        kind = GroupVersionKind(*split_api_version(obj["apiVersion"]), obj["kind"])
        served = builtin_discovery().of_kind(kind)
        if served is None:
            continue
        metadata = obj["metadata"]
        resource, namespace = served.resource, metadata.get("namespace", "")
        ref = {"resource": resource.resource, "apiGroup": resource.group, "apiVersion": resource.version}
        moment = f"2026-11-22T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}"
        yield event(
            number,
            verb="update",
            user=ALICE,
            objectRef={
                **ref,
                "namespace": namespace or metadata["name"] * (kind.kind == "Namespace"),
                "name": metadata["name"],
            },
            requestObject=obj,
            responseObject={**obj, "metadata": {**metadata, "resourceVersion": str(9_000_000 + number)}},
            responseStatus={"code": 200},
            requestReceivedTimestamp=f"{moment}.000001Z",
            stageTimestamp=f"{moment}.500000Z",
        )


def scanned(snapshot: Path, *arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["scan", str(snapshot), *arguments, "--candidate", CANDIDATE, "--json"])
    assert result.exit_code == 1
    document: dict[str, Any] = json.loads(result.output)
    return document


@pytest.mark.slow
def test_a_scan_says_what_a_run_says_of_updates(snapshot: Path, tmp_path: Path) -> None:
    log, outcomes = tmp_path / "audit.jsonl.gz", tmp_path / "outcomes.jsonl"
    log.write_bytes(gzip.compress(b"\n".join(updates(snapshot))))
    arguments = ["run", str(log), "--candidate", CANDIDATE, "--cluster", str(snapshot), "--outcomes", str(outcomes)]
    assert CliRunner().invoke(app, [*arguments, "--workers", "1"]).exit_code == 1
    of_run = {}
    for line in map(orjson.loads, outcomes.read_bytes().splitlines()):
        candidate = line["candidate"]
        if candidate["denials"] or candidate.get("patch") or candidate.get("undetermined"):
            told = [(each["policy"], each["message"]) for each in candidate["denials"]]
            of_run[line["resource"]["resource"], line["namespace"], line["name"]] = told
    document = scanned(snapshot, "--user", "alice", "--group", "developers")
    of_scan = {}
    for each in document["findings"]:
        if each["denials"] or each["patch"] or each["undetermined"]:
            told = [(denial["policy"], denial["message"]) for denial in each["denials"]]
            of_scan[each["resource"], each["namespace"], each["name"]] = told
    assert len(of_scan) > 20
    assert of_scan == of_run


def test_the_log_tells_who_writes_an_object(snapshot: Path) -> None:
    users = {each["user"] for each in scanned(snapshot, str(SAMPLE / "audit.jsonl.zst"))["findings"]}
    assert {"ci-deployer", "alice@example.com", "admin"} <= users


@pytest.mark.parametrize(
    ("user", "username"),
    [
        pytest.param("alice", "", id="a text"),
        pytest.param({"username": "alice", "extra": "all"}, "alice", id="extra is a text"),
        pytest.param({"username": "alice", "groups": "developers", "extra": {"a": 1}}, "alice", id="groups are a text"),
        pytest.param({"username": 7}, "", id="the name is a number"),
        pytest.param(None, "", id="null"),
    ],
)
def test_what_is_not_of_the_type_of_a_user_is_left_out(
    snapshot: Path, tmp_path: Path, user: Any, username: str
) -> None:
    log = tmp_path / "audit.jsonl"
    log.write_bytes(b"\n".join(orjson.dumps({**orjson.loads(line), "user": user}) for line in updates(snapshot)))
    assert {each["user"] for each in scanned(snapshot, str(log))["findings"]} == {username}


def test_anew_is_a_creation(snapshot: Path) -> None:
    update, create = (scanned(snapshot, "--as", each) for each in ("update", "create"))
    assert update["as"] == "update"
    assert create["mutated"] > update["mutated"]


def test_a_namespace_alone(snapshot: Path) -> None:
    whole, some = scanned(snapshot)["findings"], scanned(snapshot, "-n", "team-*")["findings"]
    assert some == [each for each in whole if (each["namespace"] or each["name"]).startswith("team-")]
    assert 0 < len(some) < len(whole)


def test_without_a_candidate_it_says_what_to_give(snapshot: Path) -> None:
    result = CliRunner().invoke(app, ["scan", str(snapshot)])
    assert "no candidate set: give --candidate, or --add" in str(result.exception)


@pytest.mark.slow
def test_a_weekly_report_tells_of_the_objects_at_rest_beside_the_log(snapshot: Path) -> None:
    found = scanned(snapshot, str(SAMPLE / "audit.jsonl.zst"))
    words = [
        "report",
        str(SAMPLE / "audit.jsonl.zst"),
        "--candidate",
        CANDIDATE,
        "--cluster",
        str(snapshot),
        "--workers",
        "1",
    ]
    result = CliRunner().invoke(app, [*words, "--json"])
    told = json.loads(result.output)["atRest"]
    assert told == {name: found[name] for name in ("snapshot", "objects", "denied", "undetermined", "owners")}
    text = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*words, "--full"]).output
    assert f"{found['denied']:,}  of {found['objects']:,} in the snapshot: their next update is denied" in text
    assert f"Existing objects\n{found['denied']:,} of {found['objects']:,} objects in" in text


def test_a_scenario_directory_stands_for_snapshot_log_and_sets() -> None:
    named = [str(SAMPLE / "cluster.jsonl.zst"), str(SAMPLE / "audit.jsonl.zst"), "--candidate", CANDIDATE]
    spelled, short = (
        CliRunner().invoke(app, ["scan", *arguments])
        for arguments in ([*named, "--current", str(SAMPLE / "current")], [str(SAMPLE)])
    )
    assert (short.exit_code, short.stdout) == (spelled.exit_code, spelled.stdout)
    assert "3 of 176 objects would be denied. They belong to 3 workloads." in " ".join(short.stdout.split())


def test_an_empty_snapshot_is_no_good_news(tmp_path: Path) -> None:
    snapshot = tmp_path / "cluster.jsonl"
    snapshot.write_text("")
    result = CliRunner().invoke(app, ["scan", str(snapshot), "--candidate", str(SAMPLE / "candidate")])
    assert "Nothing was checked: the snapshot has no objects" in result.output
    assert result.exit_code == 0
