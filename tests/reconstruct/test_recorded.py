"""What is rebuilt from `shop`, whole and thinned out, against what the webhooks of the real server received."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.audit.event import RequestRecord
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.history.clock import RevisionClock
from replay.reconstruct.reconstructor import Reconstructor
from replay.reconstruct.request import Reached, ReplayRequest
from tests.support.log_evidence import clock_samples, continuity

Records = list[RequestRecord]
Thin = Callable[[Path, Callable[..., Records]], Records]
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
OF_THE_CLUSTER = {"namespaces", "customresourcedefinitions", "serviceaccounts", "priorityclasses", "nodes"}
CANCELLED = "d9b05646-3010-47c1-84a2-16ff0a4fe9c8"
"""Its policies ran, but its context was cancelled before the recording webhook was called."""
RETRIED = "9da42742-d809-49f8-a9f3-d266c0355543"
"""Tried again after a conflict: the webhooks of the two phases saw different attempts."""


def whole(folder: Path, read: Callable[..., Records]) -> Records:
    return read(folder / "audit.jsonl.zst")


def second_half(folder: Path, read: Callable[..., Records]) -> Records:
    records = whole(folder, read)
    return records[len(records) // 2 :]


def nine_tenths(seed: int) -> Thin:
    def thin(folder: Path, read: Callable[..., Records]) -> Records:
        chance = random.Random(seed)
        return read(folder / "audit.jsonl.zst", lambda _: chance.random() > 0.1)

    return thin


def without_responses(folder: Path, read: Callable[..., Records]) -> Records:
    return [record._replace(response_object=None, level="Request") for record in whole(folder, read)]


def without_bodies(folder: Path, read: Callable[..., Records]) -> Records:
    return [r._replace(request_object=None, response_object=None, level="Metadata") for r in whole(folder, read)]


THIN: dict[str, Thin] = {
    "whole": whole,
    "second half": second_half,
    "a tenth of the lines removed, seed 1": nine_tenths(1),
    "a tenth of the lines removed, seed 2": nine_tenths(2),
    "level Request": without_responses,
    "level Metadata": without_bodies,
}


def rebuilt(records: Records, snapshot: list[Any]) -> dict[str, ReplayRequest]:
    """The requests by auditID; of a deletecollection the first."""
    objects: dict[tuple[str, ...], Records] = {}
    for record in records:
        if record.verb in WRITES or record.subresource in ("exec", "attach", "portforward"):
            namespace = "" if record.resource == "namespaces" else record.namespace
            name = record.name or generated_name(record) or record.audit_id
            objects.setdefault((record.api_group, record.resource, namespace, name), []).append(record)
    of_the_cluster = [record for record in records if record.resource in OF_THE_CLUSTER and record.verb in WRITES]
    cluster = Cluster(snapshot, of_the_cluster, RevisionClock(clock_samples(records)))
    reconstructor = Reconstructor(cluster, continuity(objects.values()).trust())
    found: dict[str, ReplayRequest] = {}
    for of_one in objects.values():
        for request in reconstructor.requests(of_one):
            found.setdefault(request.record.audit_id, request)
    return found


@cache
def rebuilt_once(
    thin: Thin, folder: Path, recording: Callable[..., Records], read_lines: Callable[[Path], Iterator[Any]]
) -> dict[str, ReplayRequest]:
    """The requests of a recording that is thinned out, for all who ask."""
    return rebuilt(thin(folder, recording), list(read_lines(folder / "cluster.jsonl.zst")))


def generated_name(record: RequestRecord) -> str:
    _, found, rest = (record.response_object or "").partition('"metadata":{"name":"')
    return rest.partition('"')[0] if found and record.verb == "create" else ""


def wrong(got: Any, want: Any, path: str = "") -> Iterator[str]:
    """Where a claim differs from the truth; managedFields and resourceVersion are not claimed, unknowns claim nothing."""
    if isinstance(got, Missing) or path in (".metadata.managedFields", ".metadata.resourceVersion"):
        return
    if isinstance(got, PartialObject):
        yield from wrong(got.value, want)
    elif isinstance(got, dict) and isinstance(want, dict):
        for key in got.keys() | want.keys():
            if key in got:
                yield from wrong(got[key], want.get(key), f"{path}.{key}")
            elif f"{path}.{key}" not in (".metadata.managedFields", ".metadata.resourceVersion"):
                yield f"{path}.{key}"
    elif isinstance(got, list) and isinstance(want, list) and len(got) == len(want):
        for left, right in zip(got, want, strict=True):
            yield from wrong(left, right, f"{path}[]")
    elif type(got) is not type(want) or got != want:
        yield path


def is_whole(got: Any) -> bool:
    """Whether nothing but managedFields and resourceVersion is unknown."""
    if isinstance(got, PartialObject):
        return all(of.path.endswith((".managedFields", ".resourceVersion")) for of in got.missing)
    return not isinstance(got, Missing)


def compared(attributes: Attributes, truth: dict[str, Any]) -> Iterator[str]:
    """The differing parts of one AdmissionRequest."""
    kind, resource, user = truth["kind"], truth["resource"], truth["userInfo"]
    pairs = {
        "operation": (str(attributes.operation), truth["operation"]),
        "kind": (tuple(attributes.kind), tuple(kind[name] for name in ("group", "version", "kind"))),
        "resource": (tuple(attributes.resource), tuple(resource[name] for name in ("group", "version", "resource"))),
        "subresource": (attributes.subresource, truth.get("subResource", "")),
        "namespace": (attributes.namespace, truth.get("namespace", "")),
        "dryRun": (attributes.dry_run, truth["dryRun"]),
        "username": (attributes.user_info.username, user.get("username", "")),
        "groups": (list(attributes.user_info.groups), user.get("groups", [])),
        "extra": ({key: list(values) for key, values in attributes.user_info.extra.items()}, user.get("extra", {})),
    }
    yield from (name for name, (got, want) in pairs.items() if got != want)
    if not attributes.missing and attributes.name != truth.get("name", ""):
        yield "name"
    if not isinstance(attributes.options, Missing) and attributes.options != truth["options"]:
        yield "options"
    yield from (f"object{path}" for path in wrong(attributes.object, truth["object"]))
    yield from (f"oldObject{path}" for path in wrong(attributes.old_object, truth["oldObject"]))


@pytest.mark.parametrize("thin", THIN.values(), ids=THIN.keys())
def test_no_claim_is_wrong(
    shop: Path, thin: Thin, recording: Callable[..., Records], read_lines: Callable[[Path], Iterator[Any]]
) -> None:
    requests = (rebuilt_once if thin is whole else rebuilt_once.__wrapped__)(thin, shop, recording, read_lines)
    differences = []
    for truth in read_lines(shop / "expected" / "attributes.jsonl.zst"):
        request = requests.get(truth["auditID"])
        if request is None or truth["auditID"] == RETRIED:
            continue
        if truth["validating"]:
            differences += [(truth["auditID"], part) for part in compared(request.attributes, truth["validating"])]
            if isinstance(request.before_mutation, Attributes):
                # The mutating webhook of a request that was tried again saw its last attempt, the validating one an earlier one.
                before = [
                    part for part in compared(request.before_mutation, truth["mutating"]) if not part.startswith("old")
                ]
                differences += [(truth["auditID"], f"before mutation: {part}") for part in before]
    assert differences == []
    claims = {Reached.VALIDATION: True, Reached.FAILED_BEFORE: False}
    misjudged = [
        (truth["auditID"], request.reached_reason)
        for truth in read_lines(shop / "expected" / "validating.jsonl.zst")
        if (request := requests.get(truth["auditID"])) is not None and truth["auditID"] != CANCELLED
        if claims.get(request.reached, truth["reached"]) != truth["reached"]
    ]
    assert misjudged == []


HELD = "the log holds it"
STATES = "which of two states is not recorded"


def cause(request: ReplayRequest) -> str:
    """Why the log may not hold an object of a request whole, by what the log itself says about the request."""
    record = request.record
    response = orjson.loads(record.response_object or "{}") or {}
    metadata = response.get("metadata") or {}
    if record.level == "Metadata":
        return "level Metadata: bodies are not recorded"
    if record.verb == "delete" and record.code == 200 and metadata.get("deletionTimestamp"):
        # The answer is what the deletion itself had written: another request removed the object before it could.
        return HELD if metadata.get("resourceVersion") else f"deletion that another one overtook: {STATES}"
    if record.code == 404 and record.verb in ("delete", "patch"):
        return f"removed while the request ran: {STATES}"
    if record.verb == "create" and record.code >= 400 and not record.subresource:
        return "refused creation: the uid was never recorded"
    return HELD


def leaves(got: Any, want: Any, path: str = "") -> Iterator[bool]:
    """For each leaf of what the server saw whether it is known."""
    if path in (".metadata.managedFields", ".metadata.resourceVersion"):
        return
    if isinstance(want, dict) and want:
        for key, value in want.items():
            below = got.get(key) if isinstance(got, dict) else got
            yield from leaves(below, value, f"{path}.{key}")
    elif isinstance(want, list) and want:
        for index, value in enumerate(want):
            yield from leaves(got[index] if isinstance(got, list) and index < len(got) else got, value, f"{path}[]")
    else:
        yield not isinstance(got, Missing)


def test_what_is_not_whole_has_a_cause(
    shop: Path,
    recording: Callable[..., Records],
    read_lines: Callable[[Path], Iterator[Any]],
) -> None:
    """Objects and old objects of the whole log are known whole, but for classes of requests that the log does not settle.

    `test_no_claim_is_wrong` shows that what is known is equal to what the server saw. Each class is a rule on the request,
    not a list. Measured on the whole recording, with the number of requests of which object and oldObject are whole
    (135,739 of 135,910 leaves of all objects are known):

        requests  object  oldObject
            1897    1897       1897  the log holds it
              40      40          0  deletion that another one overtook: which of two states is not recorded
              11       0         11  level Metadata: bodies are not recorded
               7       0          7  refused creation: the uid was never recorded
               6       5          0  removed while the request ran: which of two states is not recorded
    """
    requests = rebuilt_once(whole, shop, recording, read_lines)
    table: dict[str, Counter[str]] = {}
    known: Counter[bool] = Counter()
    for truth in read_lines(shop / "expected" / "attributes.jsonl.zst"):
        if not truth["validating"]:
            continue
        request = requests[truth["auditID"]]
        row = table.setdefault(cause(request), Counter())
        row["requests"] += 1
        for name, got in (("object", request.attributes.object), ("oldObject", request.attributes.old_object)):
            row[name] += is_whole(got)
            value = got.value if isinstance(got, PartialObject) else got
            known.update(leaves(value, truth["validating"][name]))
    lines = [f"{row['requests']:>10} {row['object']:>8} {row['oldObject']:>10}  {name}" for name, row in table.items()]
    sys.stdout.write("\n".join(["", *lines, f"{known[True]} of {known.total()} leaves are known", ""]))
    held = table[HELD]
    assert held["object"] >= 0.995 * held["requests"], table
    assert held["oldObject"] >= 0.995 * held["requests"], table
    assert known[True] >= 0.995 * known.total()
