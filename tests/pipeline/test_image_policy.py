"""ImagePolicyWebhook in a set: nobody is asked who is not named, and a backend, the log or recorded reviews may answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.errors import ReplayError
from tests.pipeline.test_plugin import event, pod
from tests.webhook.server import serving

Answer = Callable[[dict[str, Any]], tuple[int, bytes]]

CONFIGURATION = """apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ImagePolicyWebhook
  configuration: {imagePolicy: {defaultAllow: %s}}
"""
SPEC = {"containers": [{"image": "a"}], "namespace": "n"}
DENIED = 'pods "a" is forbidden: image policy webhook backend denied one or more images: not signed'


def review(*, allowed: bool) -> dict[str, Any]:
    return {
        "kind": "ImageReview",
        "spec": SPEC,
        "status": {"allowed": allowed, "reason": "" if allowed else "not signed"},
    }


def decided(
    tmp_path: Path, events: list[Any], *options: str, default_allow: bool = False
) -> list[tuple[str, list[str]]]:
    """The candidate's verdicts and what it says, by request."""
    (tmp_path / "audit.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    candidate = tmp_path / "candidate"
    candidate.mkdir(exist_ok=True)
    (candidate / "admission.yaml").write_text(CONFIGURATION % str(default_allow).lower())
    (candidate / "kube-apiserver.flags").write_text("--enable-admission-plugins=ImagePolicyWebhook")
    lines = tmp_path / "outcomes.jsonl"
    words = ["run", tmp_path / "audit.jsonl", "--candidate", candidate, "--outcomes", lines, "--workers", "1", *options]
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code in (0, 1), result.output
    found = [json.loads(line)["candidate"] for line in lines.read_text().splitlines()]
    return [
        (
            each["verdict"],
            [one.get("message") or one.get("reason") for one in each["denials"] or each.get("undetermined", ())],
        )
        for each in found
    ]


def test_without_an_answer_it_is_not_known(tmp_path: Path) -> None:
    reason = "`object.spec` is not known: replay has no answers of the backend of ImagePolicyWebhook"
    assert decided(tmp_path, [event(1, "create", pod("a"))]) == [("undetermined", [reason])]


@pytest.mark.parametrize(("allowed", "wanted"), [(True, ("admitted", [])), (False, ("denied", [DENIED]))])
def test_recorded_reviews_answer(tmp_path: Path, wanted: tuple[str, list[str]], *, allowed: bool) -> None:
    (tmp_path / "reviews.jsonl").write_text(json.dumps(review(allowed=allowed)))
    option = f"ImagePolicyWebhook={tmp_path / 'reviews.jsonl'}"
    assert decided(tmp_path, [event(1, "create", pod("a"))], "--webhook", option) == [wanted]


def test_images_that_nobody_reviewed_are_not_known(tmp_path: Path) -> None:
    other = {**review(allowed=True), "spec": {"containers": [{"image": "b"}]}}
    (tmp_path / "reviews.jsonl").write_text(json.dumps(other))
    option = f"ImagePolicyWebhook={tmp_path / 'reviews.jsonl'}"
    reason = "`object.spec` is not known: the recording has no ImageReview for `a`"
    assert decided(tmp_path, [event(1, "create", pod("a"))], "--webhook", option) == [("undetermined", [reason])]


def test_the_log_answers(tmp_path: Path) -> None:
    noted = event(2, "create", pod("b"), annotations={"imagepolicywebhook.image-policy.k8s.io/scanner": "v2"})
    silent = event(3, "create", pod("c"))
    reason = (
        "`object.spec` is not known: the log does not show whether the server called the backend of ImagePolicyWebhook"
    )
    assert decided(tmp_path, [noted, silent], "--webhook", "ImagePolicyWebhook=recorded") == [
        ("admitted", []),
        ("undetermined", [reason]),
    ]


def live(
    tmp_path: Path, events: list[Any], answer: Answer, *options: str, default_allow: bool = False
) -> tuple[list[Any], list[Any]]:
    """What is decided where a server answers, and what it was sent."""
    with serving(answer, scheme="http") as (url, got):
        found = decided(
            tmp_path, events, "--webhook", f"ImagePolicyWebhook={url}", *options, default_allow=default_allow
        )
    return found, [each["spec"] for each in got]


def says(code: int, **status: Any) -> Answer:
    return lambda _: (code, json.dumps({"status": status}).encode())


LIVE: list[tuple[str, Answer, tuple[str, list[str]]]] = [
    ("allowed", says(200, allowed=True), ("admitted", [])),
    ("denied", says(200, allowed=False, reason="not signed"), ("denied", [DENIED])),
    (
        "denied without a reason",
        says(200, allowed=False),
        ("denied", ['pods "a" is forbidden: one or more images rejected by webhook backend']),
    ),
    (
        "503",
        says(503),
        ("denied", ['pods "a" is forbidden: the server is currently unable to handle the request']),
    ),
    ("403", lambda _: (403, b"who are you"), ("denied", ["who are you"])),
]


@pytest.mark.parametrize(("answer", "wanted"), [row[1:] for row in LIVE], ids=[row[0] for row in LIVE])
def test_a_backend_answers(tmp_path: Path, answer: Answer, wanted: tuple[str, list[str]]) -> None:
    assert live(tmp_path, [event(1, "create", pod("a"))], answer) == ([wanted], [SPEC])


def test_a_backend_that_fails_counts_as_configured(tmp_path: Path) -> None:
    failing = live(tmp_path, [event(1, "create", pod("a"))], says(500), default_allow=True)
    assert failing == ([("admitted", [])], [SPEC])


def test_what_is_the_same_is_asked_once(tmp_path: Path) -> None:
    other = pod("c")
    other["spec"]["containers"].append({**other["spec"]["containers"][0], "name": "d", "image": "b"})
    other["spec"]["initContainers"] = [{**other["spec"]["containers"][0], "name": "i", "image": "c"}]
    other["metadata"]["annotations"] = {"team": "x", "break.image-policy.k8s.io/glass": "yes"}
    events = [event(number, "create", each) for number, each in enumerate((pod("a"), pod("b"), other), 1)]
    spec = {
        "containers": [{"image": "a"}, {"image": "b"}, {"image": "c"}],
        "annotations": {"break.image-policy.k8s.io/glass": "yes"},
        "namespace": "n",
    }
    assert live(tmp_path, events, says(200, allowed=True)) == ([("admitted", [])] * 3, [SPEC, spec])


def test_a_backend_of_both_sets_is_asked_where_it_is_named(tmp_path: Path) -> None:
    options = ("--current", str(tmp_path / "candidate"))
    found = live(tmp_path, [event(1, "create", pod("a"))], says(200, allowed=False, reason="not signed"), *options)
    assert found == ([("denied", [DENIED])], [SPEC])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("ftp://localhost/", "a webhook is called over https or http only, not at `ftp://localhost/`"),
        ("reviews.jsonl", "is no ImageReview with `spec` and `status.allowed`"),
    ],
)
def test_what_cannot_answer_is_refused(
    tmp_path: Path, target: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reviews.jsonl").write_text('{"spec": {}}')
    with pytest.raises(ReplayError) as refused:
        decided(tmp_path, [event(1, "create", pod("a"))], "--webhook", f"ImagePolicyWebhook={target}")
    assert refused.value.message == message
