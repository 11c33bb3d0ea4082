from __future__ import annotations

from typing import Any

import orjson
import pytest

from replay.admission.chain import Chain
from replay.admission.decision import Decision, Denial, Verdict
from replay.audit.event import RequestRecord
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.admissionregistration import (
    ManifestSet,
    MutatingWebhookConfiguration,
    Rule,
    ValidatingWebhookConfiguration,
    Webhook,
    WebhookClientConfig,
)
from replay.kube.attributes import Missing, PartialObject
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectTracker
from replay.kube.schema import Schemas
from replay.webhook.recorded import RecordedBackend
from tests.support.creation import creation_of_config_map

OBJECT: JSON = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
MUTATED: JSON = {**OBJECT, "data": {"a": "1", "b": "2"}}
ADD = {"op": "add", "path": "/data/b", "value": "2"}
KEY = "webhook.admission.k8s.io/round_0_index_0"


def record(code: int, message: str, annotations: JSON) -> RequestRecord:
    empty: dict[str, Any] = dict.fromkeys(RequestRecord._fields, "")
    known = {
        "code": code,
        "status_message": message,
        "status_reason": "Forbidden" if message else "",
        "annotations": orjson.dumps(annotations).decode(),
    }
    return RequestRecord(**{**empty, **known})


def webhooks(name: str) -> tuple[Webhook]:
    rules = (Rule(("*",), ("*",), ("*",), ("*",)),)
    return (Webhook(name, WebhookClientConfig(url="https://x"), rules),)


BOTH = ManifestSet(
    (
        ValidatingWebhookConfiguration("config", True, webhooks("v")),
        MutatingWebhookConfiguration("config", True, webhooks("m")),
    )
)


def decide(observed: RequestRecord, seen: JSON = OBJECT, validated: JSON = MUTATED) -> Decision:
    before, after = creation_of_config_map(OBJECT), creation_of_config_map(validated)
    backend = RecordedBackend(observed, before, after)
    chain = Chain([BOTH], NEWEST, builtin_discovery(), Schemas())
    return chain.decide(creation_of_config_map(seen), after, ObjectTracker(), {"m": backend, "v": backend})[0]


def mutation_annotations(*, mutated: bool, patch: list[JSON] | None = None) -> JSON:
    names = {"configuration": "config", "webhook": "m"}
    found = {f"mutation.{KEY}": orjson.dumps({**names, "mutated": mutated}).decode()}
    if patch is not None:
        found[f"patch.{KEY}"] = orjson.dumps({**names, "patch": patch, "patchType": "JSONPatch"}).decode()
    return found


def test_recorded_patch_and_consent() -> None:
    decision = decide(record(201, "", mutation_annotations(mutated=True, patch=[ADD])))
    assert (decision.verdict, decision.patch) == (Verdict.ADMITTED, (ADD,))
    assert [call.answer for call in decision.webhooks] == ["patched", "allowed"]


def test_recorded_refusal() -> None:
    message = 'admission webhook "v" denied the request: no'
    decision = decide(record(403, message, mutation_annotations(mutated=True, patch=[ADD])))
    assert decision.denials == (Denial("config", "v", None, message, "Forbidden", 403, of_webhook=True),)


UNKNOWN: list[tuple[str, RequestRecord, JSON, str]] = [
    (
        "no patch recorded",
        record(201, "", mutation_annotations(mutated=True)),
        OBJECT,
        "it changed the object, and the log does not have the patch",
    ),
    ("not asked", record(201, "", {}), OBJECT, "the log does not show that the server called it"),
    (
        "another object",
        record(201, "", mutation_annotations(mutated=False)),
        MUTATED,
        "the log has its answer for a different object only",
    ),
]


@pytest.mark.parametrize(("name", "observed", "seen", "expected"), UNKNOWN, ids=[row[0] for row in UNKNOWN])
def test_unknown_answers(name: str, observed: RequestRecord, seen: JSON, expected: str) -> None:  # noqa: ARG001
    decision = decide(observed, seen)
    assert decision.verdict is Verdict.UNDETERMINED
    assert expected in decision.undetermined[0].reason


def partly_known() -> PartialObject:
    """An object of which the log does not tell `managedFields`."""
    missing = Missing("object.metadata.managedFields", "managedFields are not recorded")
    return PartialObject({**OBJECT, "metadata": {"name": "settings", "managedFields": missing}}, (missing,))


FAILED_OPEN = {**mutation_annotations(mutated=False), "failed-open.mutation." + KEY: "m"}
REFUSAL = 'admission webhook "m" denied the request: no'
OF_PARTS: list[tuple[str, RequestRecord, list[str]]] = [
    ("it changed nothing", record(201, "", mutation_annotations(mutated=False)), ["allowed", "allowed"]),
    ("it changed something", record(201, "", mutation_annotations(mutated=True, patch=[ADD])), ["unknown"]),
    ("it was not asked", record(201, "", {}), ["unknown"]),
    ("the call failed", record(201, "", FAILED_OPEN), ["unknown"]),
    ("it refused", record(403, REFUSAL, mutation_annotations(mutated=False)), ["unknown"]),
]


@pytest.mark.parametrize(("observed", "answers"), [row[1:] for row in OF_PARTS], ids=[row[0] for row in OF_PARTS])
def test_answers_about_an_object_that_is_partly_known(observed: RequestRecord, answers: list[str]) -> None:
    seen = creation_of_config_map(OBJECT).with_object(partly_known())
    backend = RecordedBackend(observed, seen, seen)
    chain = Chain([BOTH], NEWEST, builtin_discovery(), Schemas())
    (decision,) = chain.decide(seen, seen, ObjectTracker(), {"m": backend, "v": backend})
    assert [call.answer for call in decision.webhooks][: len(answers)] == answers
