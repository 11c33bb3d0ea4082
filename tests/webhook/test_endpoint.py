"""Calls of a real HTTPS server on this machine."""

from __future__ import annotations

import base64
import pickle
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.admission.chain import Chain
from replay.admission.decision import Decision, Denial, Mutated, Verdict
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.admissionregistration import (
    FailurePolicy,
    ManifestSet,
    MutatingWebhookConfiguration,
    Rule,
    ServiceReference,
    ValidatingWebhookConfiguration,
    Webhook,
    WebhookClientConfig,
)
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectTracker
from replay.kube.schema import Schemas
from replay.webhook.endpoint import EndpointBackend
from tests.support.creation import creation_of_config_map

DATA = Path(__file__).with_name("data")
CERTIFICATE = (DATA / "server.crt").read_bytes()
NAME = "hook.example.com"
Answer = Callable[[dict[str, Any]], tuple[int, bytes]]
Served = Callable[[Answer], AbstractContextManager[tuple[str, list[dict[str, Any]]]]]


def review(request: dict[str, Any], **response: Any) -> tuple[int, bytes]:
    content = {"uid": request["uid"], "allowed": True, **response}
    return 200, orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": content})


def patch(*operations: JSON) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(operations)).decode()}


def decide(
    url: str,
    *,
    phase: str = "validating",
    failure_policy: FailurePolicy = FailurePolicy.FAIL,
    version: KubernetesVersion = NEWEST,
    **changes: Any,
) -> Decision:
    webhook = Webhook(
        name=NAME,
        client_config=changes.pop("client_config", WebhookClientConfig(url="https://x", ca_bundle=CERTIFICATE)),
        rules=(Rule(("*",), ("*",), ("*",), ("*",)),),
        failure_policy=failure_policy,
        **{"timeout_seconds": 10, **changes},
    )
    configured = MutatingWebhookConfiguration if phase == "mutating" else ValidatingWebhookConfiguration
    manifests = ManifestSet((configured("config", True, (webhook,)),))
    chain = Chain([manifests], version, builtin_discovery(), Schemas())
    attributes = creation_of_config_map(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}},
        options={"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    )
    backend = EndpointBackend(url)
    try:
        return chain.decide(attributes, attributes, ObjectTracker(), {NAME: backend})[0]
    finally:
        backend.close()


def denial(message: str, reason: str = "InternalError", code: int = 500) -> tuple[Denial, ...]:
    return (Denial("config", NAME, None, message, reason, code, of_webhook=True),)


def failed(text: str) -> tuple[Denial, ...]:
    return denial(f'Internal error occurred: failed calling webhook "{NAME}": {text}')


def test_what_is_sent(served: Served) -> None:
    with served(review) as (url, got):
        decision = decide(url)
    assert (decision.verdict, decision.denials, [call.answer for call in decision.webhooks]) == (
        Verdict.ADMITTED,
        (),
        ["allowed"],
    )
    request = got[0]["request"]
    assert len(request.pop("uid")) == 36
    assert got == [
        {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "path": "/check?timeout=10s",
            "request": {
                "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
                "resource": {"group": "", "version": "v1", "resource": "configmaps"},
                "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
                "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
                "name": "settings",
                "namespace": "shop",
                "operation": "CREATE",
                "userInfo": {"username": "jane"},
                "object": {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "settings"},
                    "data": {"a": "1"},
                },
                "oldObject": None,
                "dryRun": True,
                "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            },
        }
    ]


REFUSALS: list[tuple[str, Answer, tuple[Denial, ...]]] = [
    (
        "message",
        lambda request: review(request, allowed=False, status={"message": "no", "reason": "Conflict", "code": 409}),
        denial(f'admission webhook "{NAME}" denied the request: no', "Conflict", 409),
    ),
    (
        "reason alone",
        lambda request: review(request, allowed=False, status={"reason": "Because", "code": 200}),
        denial(f'admission webhook "{NAME}" denied the request: Because', "Because", 400),
    ),
    (
        "nothing",
        lambda request: review(request, allowed=False),
        denial(f'admission webhook "{NAME}" denied the request without explanation', "", 400),
    ),
    ("another uid", lambda request: review(request, uid="x"), failed("")),
    ("no review", lambda _: (200, b'{"apiVersion":"v1","kind":"Pod"}'), failed("")),
    ("no JSON", lambda _: (200, b"garbage"), failed("")),
    ("no object", lambda _: (200, b"[]"), failed("")),
    ("a patch", lambda request: review(request, **patch({"op": "remove", "path": "/data"})), failed("")),
    ("not found", lambda _: (404, b""), failed("")),
    ("an error", lambda _: (500, b"boom"), failed("")),
    ("forbidden", lambda _: (403, b"who are you"), failed("failed to call webhook: who are you")),
    (
        "a Status",
        lambda _: (409, b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"busy"}'),
        failed("failed to call webhook: busy"),
    ),
]
TEXTS = {
    "another uid": "received invalid webhook response: expected response.uid=",
    "no review": "received invalid webhook response: webhook response was absent",
    "no JSON": "failed to call webhook: couldn't get version/kind; json parse error: ",
    "no object": "failed to call webhook: couldn't get version/kind; json parse error: ",
    "a patch": "received invalid webhook response: validating webhook may not return response.patch",
    "not found": "failed to call webhook: the server could not find the requested resource",
    "an error": 'failed to call webhook: an error on the server ("boom") has prevented the request from succeeding',
}


@pytest.mark.parametrize(("name", "answer", "expected"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_refusals(served: Served, name: str, answer: Answer, expected: tuple[Denial, ...]) -> None:
    with served(answer) as (url, _):
        decision = decide(url)
    assert decision.verdict is Verdict.DENIED
    if name in TEXTS:
        assert decision.denials[0].message.startswith(expected[0].message + TEXTS[name])
        assert decision.webhooks[0].answer.startswith("failed: ")
    else:
        assert decision.denials == expected


def test_failure_policy_ignore(served: Served) -> None:
    with served(lambda _: (200, b"garbage")) as (url, _):
        decision = decide(url, failure_policy=FailurePolicy.IGNORE)
    assert (decision.verdict, decision.audit_annotations) == (
        Verdict.ADMITTED,
        {"failed-open.validating.webhook.admission.k8s.io/round_0_index_0": NAME},
    )


def test_late_answer(served: Served) -> None:
    release = threading.Event()

    def answer(request: dict[str, Any]) -> tuple[int, bytes]:
        release.wait(20)
        return review(request)

    with served(answer) as (url, _):
        started = time.monotonic()
        decision = decide(url, timeout_seconds=1)
        took = time.monotonic() - started
        release.set()
    assert decision.denials[0].message.endswith("context deadline exceeded")
    assert took < 10


def test_nobody_listens(served: Served) -> None:
    with served(review) as (url, _):
        pass
    assert "connection refused" in decide(url).denials[0].message


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (WebhookClientConfig(ca_bundle=(DATA / "other.crt").read_bytes()), "failed to verify certificate"),
        (WebhookClientConfig(service=ServiceReference("tools", "hook"), ca_bundle=CERTIFICATE), ""),
        (WebhookClientConfig(service=ServiceReference("x", "hook"), ca_bundle=CERTIFICATE), "failed to verify"),
        (WebhookClientConfig(ca_bundle=b"no certificate"), "unable to load root certificates"),
    ],
    ids=["another authority", "the service's name", "another name", "no certificate"],
)
def test_trust(served: Served, config: WebhookClientConfig, expected: str) -> None:
    with served(review) as (url, got):
        decision = decide(url, client_config=config)
    if expected:
        assert got == []
        assert expected in decision.denials[0].message
    else:
        assert decision.verdict is Verdict.ADMITTED


def test_patch(served: Served) -> None:
    add = {"op": "add", "path": "/data/b", "value": "2"}
    answer: Answer = lambda request: review(  # noqa: E731
        request, **patch(add), warnings=["careful"], auditAnnotations={"seen": "yes"}
    )
    with served(answer) as (url, _):
        decision = decide(url, phase="mutating")
    at = "webhook.admission.k8s.io/round_0_index_0"
    assert decision == Decision(
        Verdict.ADMITTED,
        warnings=("careful",),
        audit_annotations={
            f"{NAME}/seen": "yes",
            f"mutation.{at}": f'{{"configuration":"config","webhook":"{NAME}","mutated":true}}',
            f"patch.{at}": f'{{"configuration":"config","webhook":"{NAME}",'
            '"patch":[{"op":"add","path":"/data/b","value":"2"}],"patchType":"JSONPatch"}',
        },
        patch=(add,),
        mutated=(Mutated("config", NAME, (add,)),),
        webhooks=decision.webhooks,
    )
    assert [call.answer for call in decision.webhooks] == ["patched"]


BAD_PATCHES: list[tuple[str, dict[str, Any], str]] = [
    ("no type", {"patch": "W10="}, "webhook returned response.patch but not response.patchType"),
    ("no patch", {"patchType": "JSONPatch"}, "webhook returned response.patchType but not response.patch"),
    ("another type", {**patch({"op": "add"}), "patchType": "Merge"}, 'unsupported patch type "Merge"'),
    ("no base64", {"patch": "***", "patchType": "JSONPatch"}, "received undecodable patch in webhook response"),
    ("no list", {"patch": "e30=", "patchType": "JSONPatch"}, "received undecodable patch in webhook response"),
    ("missing path", patch({"op": "remove", "path": "/data/x"}), "Unable to remove nonexistent key: x: missing value"),
    ("no object left", patch({"op": "replace", "path": "", "value": []}), "Internal error occurred"),
    ("other kind", patch({"op": "replace", "path": "/kind", "value": "Pod"}), 'no kind "Pod" is registered'),
    ("wrong type", patch({"op": "add", "path": "/data/b", "value": 2}), "cannot unmarshal number into Go struct field"),
]


@pytest.mark.parametrize(("name", "response", "expected"), BAD_PATCHES, ids=[row[0] for row in BAD_PATCHES])
def test_bad_patch(served: Served, name: str, response: dict[str, Any], expected: str) -> None:  # noqa: ARG001
    with served(lambda request: review(request, **response)) as (url, _):
        decision = decide(url, phase="mutating")
    assert expected in decision.denials[0].message
    assert decision.patch == ()


@pytest.mark.parametrize(
    ("minor", "expected"),
    [(33, denial("Internal error occurred: not a list of operations")), (34, ())],
)
def test_a_patch_that_cannot_be_decoded_in_spite_of_ignore(
    served: Served, minor: int, expected: tuple[Denial, ...]
) -> None:
    with served(lambda request: review(request, patch="e30=", patchType="JSONPatch")) as (url, _):
        version = KubernetesVersion(1, minor)
        decision = decide(url, phase="mutating", failure_policy=FailurePolicy.IGNORE, version=version)
    assert decision.denials == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"side_effects": "Some"}, f"`{NAME}` has side effects, and replay sends only dry runs"),
        ({"admission_review_versions": ("v1beta1",)}, f"`{NAME}` does not support AdmissionReview v1"),
    ],
)
def test_not_called(served: Served, changes: dict[str, Any], expected: str) -> None:
    with served(review) as (url, got):
        decision = decide(url, **changes)
    assert got == []
    assert decision.verdict is Verdict.UNDETERMINED
    assert expected in decision.undetermined[0].reason


@pytest.mark.parametrize("url", ["http://localhost/", "https://", "https://u@localhost/", "https://localhost/?a=b"])
def test_urls_that_are_not_called(url: str) -> None:
    with pytest.raises(ReplayError):
        EndpointBackend(url)


def test_backend_goes_to_other_processes() -> None:
    backend = pickle.loads(pickle.dumps(EndpointBackend("https://localhost:1/x", concurrency=3)))
    assert vars(backend) == vars(EndpointBackend("https://localhost:1/x", concurrency=3))
