"""What the strategy and the reading back of a created object add to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replay.audit.event import RequestRecord
from replay.kube.attributes import Basis
from replay.kube.discovery import builtin_discovery
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known, get
from replay.reconstruct.server.strategy import after_create, as_validated

JOBS = {"resource": "jobs", "apiGroup": "batch"}
GENERATED = {"batch.kubernetes.io/controller-uid": "u", "job-name": "web"}


def job(**metadata: Any) -> dict[str, Any]:
    return {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "web", **metadata}, "spec": {}}


@pytest.mark.parametrize(
    ("labels", "seen"), [(GENERATED, None), ({"app": "a"}, {"app": "a"})], ids=["of its pods", "its own"]
)
def test_a_job_without_labels_was_validated_without(
    labels: dict[str, str], seen: Any, pod_record: Callable[..., RequestRecord]
) -> None:
    stored = job(uid="u", labels=labels)
    exchange = Exchange(pod_record("create", code=201, ref=JOBS, response=stored), builtin_discovery())
    assert get(as_validated(Known(stored, Basis.RECORDED), exchange).value, ("metadata", "labels")) == seen


def test_the_labels_of_a_refused_job_are_its_own(pod_record: Callable[..., RequestRecord]) -> None:
    exchange = Exchange(pod_record("create", code=422, ref=JOBS, request=job()), builtin_discovery())
    found = after_create(Known(job(), Basis.RECORDED), exchange, exchange.api_resource)
    assert ("metadata", "labels") not in {hole.path for hole in found.holes}
    assert ("spec", "template", "metadata", "labels") in {hole.path for hole in found.holes}
