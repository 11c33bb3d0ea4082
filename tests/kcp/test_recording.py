"""A recording of a real shard: every denial, failure and annotation, what CEL saw included, and what webhooks were sent."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from replay.admission.webhook.answer import WebhookAnswer, WebhookReview
from replay.audit.store import Store
from replay.kcp.shard.chain import ShardChain
from replay.kcp.shard.layout import SHARD_VERSION
from replay.kube.attributes import Missing
from replay.pipeline.manifests import manifests_of
from replay.pipeline.options import Options
from replay.pipeline.replay.preparation import job_of
from replay.pipeline.replay.webhook import webhook_answers
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.pipeline.shard import prepare
from replay.pipeline.verify import verify
from replay.reconstruct.request import Reached, ReplayRequest

RECORDING = Path(__file__).parents[2].parent / "shared" / "recordings" / "kcp"
BEFORE = RECORDING / "before"
HOOKS = {
    "/validate-consumer": "all.consumer.example.org",
    "/validate-provider": "widgets.provider.example.org",
    "/mutate-provider": "mutate.provider.example.org",
}
SCENARIO = Scenario(
    (str(RECORDING / "audit.jsonl.zst"),), current=BEFORE, candidate=BEFORE, cluster=BEFORE, version=SHARD_VERSION
)
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not RECORDING.is_dir(), reason="the recording is not beside the checkout"),
]


def silent(what: str, done: int, total: int) -> None:
    del what, done, total


def lines_of(path: Path) -> list[dict[str, Any]]:
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        return [json.loads(line) for line in stream.read().decode().splitlines()]


@pytest.mark.slow
def test_all_that_the_log_shows_is_reproduced_and_nothing_more() -> None:
    result = verify(SCENARIO, Options(workers=1), silent)
    assert result.fidelity.disagreement_count == 0
    assert not result.unknown_policies
    parts = (result.fidelity.denials, result.fidelity.failures, result.fidelity.annotations)
    assert all(part.differs == part.extra == 0 for part in parts)
    assert sum(part.reproduced for part in parts) >= 520
    assert result.decided / result.total > 0.97


@pytest.mark.slow
def test_a_write_through_a_virtual_workspace_has_one_outcome(tmp_path: Path) -> None:
    run(SCENARIO, Options(outcomes=tmp_path / "lines", workers=1), silent)
    told = {json.loads(line)["auditID"] for line in (tmp_path / "lines").read_text().splitlines()}
    events = lines_of(RECORDING / "audit.jsonl.zst")
    sent_on = [each for each in events if ":" in (each.get("objectRef") or {}).get("resource", "")]
    writes = [each for each in sent_on if each["verb"] in ("create", "update", "delete")]
    assert writes
    assert told >= {each["auditID"] for each in writes}
    doubles = [
        each
        for each in events
        if each["user"]["username"] in ("alice", "bob", "kcp-admin")
        and each["annotations"].get("authorization.k8s.io/decision") == "allow"
        and "kcp.io/cluster" in each["annotations"]
        and not any(key.startswith("request.auth.kcp.io/") for key in each["annotations"])
    ]
    assert doubles
    assert told.isdisjoint(each["auditID"] for each in doubles)


def decided(tmp_path: Path, log: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """What the set in force decides about each request of a log, what CEL saw included."""
    hooks = tuple(f"{name}=recorded" for name in HOOKS.values())
    options = Options(outcomes=tmp_path / "lines", workers=1, webhooks=hooks)
    run(replace(SCENARIO, logs=(str(log),)), options, silent)
    lines = map(json.loads, (tmp_path / "lines").read_text().splitlines())
    return {(line["auditID"], line.get("item", 0)): line["current"] for line in lines}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], dict[str, Any]]:
    return decided(tmp_path_factory.mktemp("whole"), RECORDING / "audit.jsonl.zst")


def says(decision: dict[str, Any]) -> object:
    denials = [(denial["policy"], denial["message"]) for denial in decision["denials"]]
    return denials, {key: sorted(text) for key, text in decision["auditAnnotations"].items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "lost",
    [
        "root:consumer-a",
        "root:local",
        "root:provider",
        "root:provider2",
        "root:child",
        "every second line",
    ],
)
def test_a_thinner_log_says_nothing_else(
    tmp_path: Path, whole: dict[tuple[str, int], dict[str, Any]], lost: str
) -> None:
    chance = random.Random(lost)
    share = 0.5 if lost == "every second line" else 0.0
    left = [
        each
        for each in lines_of(RECORDING / "audit.jsonl.zst")
        if each["annotations"].get("kcp.io/path") != lost and chance.random() >= share
    ]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, left)))
    found = decided(tmp_path, tmp_path / "log")
    known = {key: each for key, each in found.items() if key in whole and each["verdict"] != "undetermined"}
    wrong = [
        key for key, each in known.items() if says(each) != says(whole[key]) and whole[key]["verdict"] != "undetermined"
    ]
    assert len(known) > len(left) / 8
    assert wrong == []


class Listener:
    """A webhook that answers as it did, and keeps what it is sent."""

    def __init__(self, name: str, backend: Any, heard: Counter[tuple[str, str]]) -> None:
        self._name, self._backend, self._heard = name, backend, heard

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        for each in reviews:
            self._heard[self._name, text_of(each.request)] += 1
        answers: Sequence[WebhookAnswer | Missing] = self._backend.review(reviews)
        return answers


def text_of(request: dict[str, Any]) -> str:
    """A request without what differs between two calls."""
    kept = {key: value for key, value in request.items() if key not in ("uid", "dryRun") and value is not None}
    return json.dumps(kept, sort_keys=True)


UNSENT: dict[tuple[str, str, str], tuple[str, str]] = {
    ("CREATE", "widgets", "webhook"): (
        "object.metadata.managedFields",
        "the log does not show managedFields for a request that stored nothing",
    ),
    ("CREATE", "configmaps", "c4"): (
        "object.metadata.managedFields",
        "the log does not show managedFields for a request that stored nothing",
    ),
    # A patch of what a deletion of a collection, which failed for another object, may have marked before.
    ("UPDATE", "widgets", "mut-webhook"): (
        "object.metadata.deletionTimestamp",
        "a deletecollection may have begun to delete the object",
    ),
}
"""What was sent to webhooks about requests that were refused, and is not rebuilt: what it lacks, and why."""


def about_of(request: Any) -> tuple[str, str, str, str]:
    """What a review is about: workspace, operation, resource and name."""
    annotations = request["object"]["metadata"]["annotations"]
    return annotations["kcp.io/cluster"], request["operation"], request["resource"]["resource"], request["name"]


@pytest.mark.slow
def test_webhooks_are_sent_what_they_were_sent() -> None:
    recorded = Counter(
        (HOOKS[each["path"].partition("?")[0]], text_of(each["review"]["request"]))
        for each in lines_of(RECORDING / "admissionreviews.jsonl.zst")
    )
    heard: Counter[tuple[str, str]] = Counter()
    left_open: dict[tuple[str, str, str, str], tuple[str, str]] = {}
    with Store.open() as store:
        store.ingest(SCENARIO.logs)
        manifests = manifests_of(SCENARIO)
        answers = webhook_answers([f"{name}=recorded" for name in HOOKS.values()], prepare(store, manifests).sets)
        job = job_of(store, manifests, Options(), Path(), answers)
        assert isinstance(job.server.chain, ShardChain)

        def ask(request: ReplayRequest) -> None:
            assert isinstance(job.server.chain, ShardChain)
            asked = job.server.chain.chains(request.attributes, job.cluster.at(request.record))
            if isinstance(asked, Missing) or request.reached is Reached.FAILED_BEFORE:
                return
            known = answers.backends(request)
            backends = {name: Listener(name, backend, heard) for name, backend in known.items()}
            last = asked[-1]
            decided = last.chain.decide(request.before_mutation, request.attributes, last.lister, backends)
            attributes = request.attributes
            about = attributes.workspace, attributes.operation, attributes.resource.resource, attributes.name
            for unknown in decided[0].undetermined[:1]:
                left_open[about] = unknown.path, unknown.reason.rpartition(": ")[2]

        for records in store.whole().objects(job.predicate):
            for request in job.reconstructor.requests(records):
                ask(request)
    assert heard.keys() <= recorded.keys()
    for _, text in recorded.keys() - heard.keys():
        about = about_of(json.loads(text))
        assert left_open[about] == UNSENT[about[1:]]
