"""What the records of a log say about its gaps and its revisions, one by one: what the queries of a store must come to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from replay.audit.event import CREATED, RequestRecord
from replay.kube.gvk import GroupResource
from replay.reconstruct.history.clock import BEFORE
from replay.reconstruct.record.body import revision_of
from replay.reconstruct.record.exchange import NOT_THE_OBJECT
from replay.reconstruct.trust import Continuity

_REVISION = re.compile(r'"resourceVersion":"(\d{1,18})"')
_WRITES = frozenset({"create", "update", "patch"})


def continuity(objects: Iterable[Sequence[RequestRecord]]) -> Continuity:
    """The links and breaks between the writes of each of some objects, whose records are in order."""
    evidence = Continuity()
    for records in objects:
        _add(evidence, records)
    return evidence


def _add(evidence: Continuity, records: Sequence[RequestRecord]) -> None:
    stored = {revision for record in records if (revision := _revision(record))}
    has_begun = has_open_write = False
    for record in records:
        if record.verb not in _WRITES | {"delete"} or not 200 <= record.code < 300:
            continue
        named = record.object_resource_version
        is_replacement = record.verb == "update" and record.code != CREATED and record.subresource != "scale"
        if has_begun and is_replacement and named and named != "0":
            if named in stored:
                evidence.links[GroupResource(record.api_group, record.resource)] += 1
            elif not has_open_write:
                evidence.breaks[GroupResource(record.api_group, record.resource)] += 1
        revision = _revision(record)
        has_begun = has_begun or revision is not None
        if "dryRun" not in record.request_uri:
            has_open_write = revision is None and record.subresource not in ("token", "log")


def _revision(record: RequestRecord) -> str | None:
    """The revision in a response that shows the object or its Scale."""
    if not record.response_object or not 200 <= record.code < 300 or "dryRun" in record.request_uri:
        return None
    if record.subresource in NOT_THE_OBJECT - {"scale"}:
        return None
    match = _REVISION.search(record.response_object)
    return match[1] if match else None


def clock_samples(records: Iterable[RequestRecord]) -> list[tuple[int, int, int]]:
    """Samples from the responses of writes, and from the versions that updates name: those were stored before.

    The first `resourceVersion` of a response is that of its metadata; where a write changed nothing it is an older one,
    and the sample would be wrong: a revision that several responses carry is bounded by the first of them.
    """
    times_by_revision: dict[int, tuple[int, int]] = {}
    for record in records:
        named = record.object_resource_version
        if record.verb == "update" and (at := revision_of(named)) is not None and at not in times_by_revision:
            times_by_revision[at] = (BEFORE, record.received)
        if record.verb not in _WRITES or not 200 <= record.code < 300 or not record.response_object:
            continue
        match = _REVISION.search(record.response_object)
        if match and "dryRun" not in record.request_uri:
            revision, times = int(match[1]), (record.received, record.stage_time)
            earlier = times_by_revision.get(revision)
            if earlier is None or earlier[0] == BEFORE or times[1] < earlier[1]:
                times_by_revision[revision] = times
    return [(revision, start, end) for revision, (start, end) in times_by_revision.items()]
