"""`replay run --webhook`: from the command line to a real HTTPS server and back into the report."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from replay.admission.webhook.answer import WebhookAnswer, WebhookReview
from replay.cli.app import app
from replay.compare.outcome import OutcomeKind
from replay.compare.result import RunResult
from replay.errors import ReplayError
from replay.kube.attributes import Missing
from replay.pipeline.forensic.explain import explain
from replay.pipeline.options import Options
from replay.pipeline.replay.webhook import TimeLimitedBackend
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.webhook.client import PATIENCE
from replay.webhook.endpoint import EndpointBackend

DATA = Path(__file__).with_name("data")
BUNDLE = base64.b64encode((DATA / "server.crt").read_bytes()).decode()
NAME = "hook.example.com"
NAMES = ("first", "second", "third")
Answer = Callable[[dict[str, Any]], tuple[int, bytes]]
Served = Callable[[Answer], AbstractContextManager[tuple[str, list[dict[str, Any]]]]]


def event(name: str, annotations: dict[str, str] | None = None, **stored: Any) -> bytes:
    sent = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"a": "1"},
    }
    body = {**sent, **stored, "metadata": {**sent["metadata"], "uid": f"uid-{name}", "resourceVersion": "7"}}  # type: ignore[dict-item]
    return orjson.dumps(
        {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "RequestResponse",
            "auditID": f"id-{name}",
            "stage": "ResponseComplete",
            "requestURI": "/api/v1/namespaces/default/configmaps",
            "verb": "create",
            "user": {"username": "jane", "groups": ["system:authenticated"]},
            "objectRef": {"resource": "configmaps", "namespace": "default", "name": name, "apiVersion": "v1"},
            "responseStatus": {"metadata": {}, "code": 201},
            "requestObject": sent,
            "responseObject": body,
            "requestReceivedTimestamp": f"2026-11-21T03:00:0{NAMES.index(name)}.000000Z",
            "stageTimestamp": f"2026-11-21T03:00:0{NAMES.index(name)}.100000Z",
            "annotations": {"authorization.k8s.io/decision": "allow", **(annotations or {})},
        }
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"\n".join(event(name) for name in NAMES))
    return path


def manifests(directory: Path, phase: str = "Validating", **fields: Any) -> Path:
    """A set with one webhook, in JSON, which is YAML."""
    folder = directory / ("vwc" if phase == "Validating" else "mwc")
    folder.mkdir(parents=True)
    webhook = {
        "name": NAME,
        "clientConfig": {"url": "https://webhook.invalid/check", "caBundle": BUNDLE},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }
    value = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{phase}WebhookConfiguration",
        "metadata": {"name": "config.static.k8s.io"},
        "webhooks": [webhook],
    }
    (folder / "hook.json").write_bytes(orjson.dumps(value))
    return directory


def replayed(
    log: Path, candidate: Path, *webhooks: str, current: Path | None = None
) -> tuple[RunResult, list[dict[str, Any]]]:
    outcomes = log.with_name("outcomes.jsonl")
    options = Options(outcomes=outcomes, workers=1, webhooks=webhooks)
    result = run(
        Scenario((str(log),), current=current, candidate=candidate), options, lambda _what, _done, _total: None
    )
    return result, [orjson.loads(line)["candidate"] for line in outcomes.read_bytes().splitlines()]


def review(request: dict[str, Any], **response: Any) -> tuple[int, bytes]:
    content = {"uid": request["uid"], "allowed": True, **response}
    return 200, orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": content})


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(operations)).decode()}


def refuse_the_second(request: dict[str, Any]) -> tuple[int, bytes]:
    if request["name"] == "second":
        return review(request, allowed=False, status={"message": "not this one", "code": 403})
    return review(request)


def test_nothing_is_sent_unless_asked_for(log: Path, tmp_path: Path, served: Served) -> None:
    with served(refuse_the_second) as (url, got):
        candidate = manifests(tmp_path / "set", clientConfig={"url": url, "caBundle": BUNDLE}, timeoutSeconds=3)
        result, lines = replayed(log, candidate)
    assert got == []
    assert [line["webhooks"] for line in lines] == [
        [
            {
                "configuration": "config.static.k8s.io",
                "webhook": NAME,
                "phase": "validating",
                "failurePolicy": "Fail",
                "timeoutSeconds": 3,
                "sideEffects": "None",
                "answer": "",
            }
        ]
    ] * len(NAMES)
    (call, count), *others = result.summary.webhooks.items()
    assert (others, count, call.change, call.answer) == ([], len(NAMES), "newly called", "not asked")


def test_refusals_are_newly_denied(log: Path, tmp_path: Path, served: Served) -> None:
    candidate = manifests(tmp_path / "set")
    with served(refuse_the_second) as (url, got):
        result, lines = replayed(log, candidate, f"{NAME}={url}")
    assert len(got) == len(NAMES)
    assert all(each["request"]["dryRun"] for each in got)
    assert result.summary.outcomes == {OutcomeKind.UNCHANGED: 2, OutcomeKind.NEWLY_DENIED: 1}
    assert lines[1]["denials"] == [
        {
            "policy": "config.static.k8s.io",
            "binding": NAME,
            "expressionIndex": None,
            "message": f'admission webhook "{NAME}" denied the request: not this one',
            "reason": "",
            "code": 403,
        }
    ]


def test_a_webhook_of_both_sets_is_asked_once(log: Path, tmp_path: Path, served: Served) -> None:
    candidate = manifests(tmp_path / "set")
    without, _ = replayed(log, candidate, current=candidate)
    assert without.shared_webhooks == (NAME,)
    assert without.summary.webhooks == {}
    with served(refuse_the_second) as (url, got):
        result, _ = replayed(log, candidate, f"{NAME}={url}", current=candidate)
    assert len(got) == len(NAMES)
    assert result.shared_webhooks == ()
    assert result.summary.outcomes == {OutcomeKind.UNCHANGED: len(NAMES)}
    assert result.fidelity.disagreements == []


def test_a_patch_is_newly_mutated(log: Path, tmp_path: Path, served: Served) -> None:
    candidate = manifests(tmp_path / "set", "Mutating")
    add = {"op": "add", "path": "/data/b", "value": "2"}
    with served(lambda request: review(request, **patch(add))) as (url, _):
        result, lines = replayed(log, candidate, f"{NAME}={url}")
    assert result.summary.outcomes == {OutcomeKind.NEWLY_MUTATED: len(NAMES)}
    assert [line["patch"] for line in lines] == [[add]] * len(NAMES)
    ((_, policies, shapes), example), *others = result.summary.changes.groups.items()
    assert (policies, shapes, others) == (("config.static.k8s.io",), (("add /data/b",),), [])
    assert (example.current["data"], example.candidate["data"]) == ({"a": "1"}, {"a": "1", "b": "2"})


COPY = {"op": "copy", "from": "/data/a", "path": "/data/b"}
GROW = [{"op": "replace", "path": "/data/a", "value": "x" * 2_000_000}, COPY, {**COPY, "path": "/data/c"}]
FAILURES: list[tuple[str, str, dict[str, Any], str, str]] = [
    (
        "missing path",
        "Mutating",
        patch({"op": "remove", "path": "/data/x"}),
        "Fail",
        "Unable to remove nonexistent key",
    ),
    ("bad escape", "Mutating", patch({"op": "remove", "path": "/data/~2"}), "Fail", "Unable to remove nonexistent key"),
    ("over 3 MiB", "Mutating", patch(*GROW), "Fail", "exceeding the limit 3145728"),
    ("no operation", "Mutating", patch({"op": "jump", "path": "/"}), "Fail", "Unexpected kind: jump"),
    ("wrong uid", "Validating", {"uid": "x"}, "Fail", "received invalid webhook response: expected response.uid="),
    ("wrong uid, ignored", "Validating", {"uid": "x"}, "Ignore", ""),
    ("half a patch", "Mutating", {"patchType": "JSONPatch"}, "Ignore", ""),
]


@pytest.mark.parametrize("row", FAILURES, ids=[row[0] for row in FAILURES])
def test_bad_answers(log: Path, tmp_path: Path, served: Served, row: tuple[str, str, dict[str, Any], str, str]) -> None:
    _, phase, response, failure_policy, expected = row
    candidate = manifests(tmp_path / "set", phase, failurePolicy=failure_policy)
    with served(lambda request: review(request, **response)) as (url, _):
        result, lines = replayed(log, candidate, f"{NAME}={url}")
    if expected:
        assert result.summary.outcomes == {OutcomeKind.NEWLY_DENIED: len(NAMES)}
        assert expected in lines[0]["denials"][0]["message"]
    else:
        assert result.summary.outcomes == {OutcomeKind.NEWLY_AUDITED: len(NAMES)}
        assert result.summary.call_failures.total() == len(NAMES)


def test_garbage_is_counted_and_shown(log: Path, tmp_path: Path, served: Served) -> None:
    candidate = manifests(tmp_path / "set", failurePolicy="Ignore")
    with served(lambda _: (500, b"boom")) as (url, _):
        shown = CliRunner().invoke(
            app,
            ["run", str(log), "--candidate", str(candidate), "--webhook", f"{NAME}={url}", "--workers", "1", "--full"],
            env={"COLUMNS": "200"},
        )
    assert shown.exit_code == 0
    assert 'failed to call webhook: an error on the server ("boom")' in shown.output
    assert "Failed calls" in shown.output


def test_unknown_verdicts_are_said_to_be_unknown(log: Path, tmp_path: Path) -> None:
    candidate = manifests(tmp_path / "set")
    shown = CliRunner().invoke(app, ["run", str(log), "--candidate", str(candidate), "--full"], env={"COLUMNS": "200"})
    assert "3 new webhook calls could deny or mutate more: no webhook was called." in shown.output
    assert "unknown: not called" in shown.output


def test_late_and_never(log: Path, tmp_path: Path, served: Served) -> None:
    release = threading.Event()

    def late(request: dict[str, Any]) -> tuple[int, bytes]:
        if request["name"] == "first":
            release.wait(20)
        return review(request)

    candidate = manifests(tmp_path / "set", timeoutSeconds=1)
    with served(late) as (url, _):
        result, lines = replayed(log, candidate, f"{NAME}={url}")
        release.set()
    assert result.summary.outcomes == {OutcomeKind.NEWLY_DENIED: 1, OutcomeKind.UNCHANGED: 2}
    assert lines[0]["denials"][0]["message"].endswith("context deadline exceeded")
    never, _ = replayed(log, candidate, f"{NAME}={url}")
    assert never.summary.outcomes == {OutcomeKind.NEWLY_DENIED: len(NAMES)}


def test_recorded_answers(tmp_path: Path) -> None:
    """What the webhook did at the time; a request that it is not recorded for stays undetermined."""
    named = {"configuration": "config.static.k8s.io", "webhook": NAME}
    add = {"op": "add", "path": "/data/b", "value": "2"}
    at = "webhook.admission.k8s.io/round_0_index_0"
    told = {
        f"mutation.{at}": orjson.dumps({**named, "mutated": True}).decode(),
        f"patch.{at}": orjson.dumps({**named, "patch": [add], "patchType": "JSONPatch"}).decode(),
    }
    log = tmp_path / "audit.jsonl"
    log.write_bytes(b"\n".join([event("first", told, data={"a": "1", "b": "2"}), event("second")]))
    current, candidate = manifests(tmp_path / "current", "Mutating"), tmp_path / "candidate"
    (candidate / "mwc").mkdir(parents=True)
    result, lines = replayed(log, candidate, f"{NAME}=recorded", current=current)
    assert result.summary.outcomes == {OutcomeKind.NO_LONGER_MUTATED: 1, OutcomeKind.UNDETERMINED: 1}
    assert [line["patch"] for line in lines] == [[], []]
    assert {(call.change, call.answer): count for call, count in result.summary.webhooks.items()} == {
        ("no longer called", "patched"): 1,
        ("no longer called", "unknown"): 1,
    }


def test_what_a_removed_webhook_changed_is_no_longer_changed(tmp_path: Path) -> None:
    """Without any `--webhook`: what it did at the time is known, and the policies of the candidate see the object without."""
    named = {"configuration": "config.static.k8s.io", "webhook": NAME}
    at = "webhook.admission.k8s.io/round_0_index_0"
    add = {"op": "add", "path": "/data/b", "value": "2"}
    told = {
        f"mutation.{at}": orjson.dumps({**named, "mutated": True}).decode(),
        f"patch.{at}": orjson.dumps({**named, "patch": [add], "patchType": "JSONPatch"}).decode(),
    }
    silent = {f"mutation.{at}": orjson.dumps({**named, "mutated": True}).decode()}
    events = [event("first", told, data={"a": "1", "b": "2"}), event("second"), event("third", silent)]
    log = tmp_path / "audit.jsonl"
    log.write_bytes(b"\n".join(events))
    current, candidate = manifests(tmp_path / "current", "Mutating"), tmp_path / "candidate"
    (candidate / "mwc").mkdir(parents=True)
    result, _ = replayed(log, candidate, current=current)
    assert result.summary.outcomes == {
        OutcomeKind.NO_LONGER_MUTATED: 1,
        OutcomeKind.UNCHANGED: 1,
        OutcomeKind.UNDETERMINED: 1,
    }
    (example,) = result.summary.changes.groups.values()
    assert (example.current["data"], example.candidate["data"]) == ({"a": "1", "b": "2"}, {"a": "1"})
    first = orjson.loads(events[0])["auditID"]
    explained = explain(Scenario((str(log),), current=current, candidate=candidate), first, lambda *_: None)
    assert [each.decision.patch for each in explained.sets] == [(add,), ()]


WRONG = [
    ("no target", NAME, "is neither NAME=URL nor NAME=recorded"),
    ("no name", "=https://localhost", "is neither NAME=URL nor NAME=recorded"),
    ("unknown", "other=recorded", f"neither set has a webhook `other`; there are: `{NAME}`"),
    ("not https", f"{NAME}=http://localhost", "a webhook is called over https only"),
]


@pytest.mark.parametrize(("name", "option", "expected"), WRONG, ids=[row[0] for row in WRONG])
def test_wrong_options(log: Path, tmp_path: Path, name: str, option: str, expected: str) -> None:  # noqa: ARG001
    candidate = manifests(tmp_path / "set")
    with pytest.raises(ReplayError, match=r"webhook") as raised:
        replayed(log, candidate, option)
    assert expected in str(raised.value)
    with pytest.raises(ReplayError, match="twice"):
        replayed(log, candidate, f"{NAME}=recorded", f"{NAME}=recorded")


class Silent(EndpointBackend):
    """An endpoint that never answers in time."""

    def review(self, reviews: Sequence[WebhookReview]) -> Iterator[WebhookAnswer | Missing]:  # type: ignore[override]
        return iter(
            [WebhookAnswer(error="failed to call webhook: context deadline exceeded", is_late=True)] * len(reviews)
        )


def test_silence_is_not_waited_for_for_ever() -> None:
    backend = TimeLimitedBackend(Silent("https://localhost"))
    asked: list[Any] = [None]
    for _ in range(PATIENCE):
        assert all(isinstance(answer, WebhookAnswer) for answer in backend.review(asked))
    assert [type(answer) for answer in backend.review(asked)] == [Missing]
