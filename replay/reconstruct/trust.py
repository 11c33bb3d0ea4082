"""Whether a log has gaps: the evidence that it gives about itself.

An update names the resourceVersion that it replaces. If the log holds an earlier write of the same object, but none that
stored this version, a write is missing. The rule: a resource with a single such break is not trusted, and where more
than one link in a thousand is broken nothing is. What is not trusted is still used where something proves it
(`replay.reconstruct.history.old_object`): only the conclusion "this was the last write, so that was the state" is given up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from replay.audit.event import RequestRecord
from replay.kube.gvk import GroupResource
from replay.reconstruct.record.exchange import NOT_THE_OBJECT

TOLERATED_SHARE = 0.001
_REVISION = re.compile(r'"resourceVersion":"(\d+)"')
_WRITES = frozenset({"create", "update", "patch", "delete"})


@dataclass(frozen=True)
class Trust:
    """Which histories can be taken to be complete; by default all."""

    distrusted: frozenset[GroupResource] = frozenset()
    whole: bool = True

    def holds(self, resource: GroupResource) -> bool:
        """Whether the histories of a resource's objects have no known gaps."""
        return self.whole and resource not in self.distrusted


ALL_TRUSTED = Trust()


@dataclass
class Continuity:
    """Counts links between writes of the same object, and breaks; counts of parts of a log can be added."""

    links: Counter[GroupResource] = field(default_factory=Counter)
    breaks: Counter[GroupResource] = field(default_factory=Counter)

    def add(self, records: Sequence[RequestRecord]) -> None:
        """Look at all records of one object, in order."""
        stored = {revision for record in records if (revision := _revision(record))}
        begun = open_write = False
        for record in records:
            if record.verb not in _WRITES or not 200 <= record.code < 300:
                continue
            named = record.object_resource_version
            if begun and record.verb == "update" and named and named != "0" and record.subresource != "scale":
                if named in stored:
                    self.links[GroupResource(record.api_group, record.resource)] += 1
                elif not open_write:
                    self.breaks[GroupResource(record.api_group, record.resource)] += 1
            known = _revision(record)
            begun = begun or known is not None
            if "dryRun" not in record.request_uri:
                open_write = known is None and record.subresource not in ("token", "log")

    def merge(self, other: Continuity) -> None:
        """Add the counts of another part."""
        self.links.update(other.links)
        self.breaks.update(other.breaks)

    def trust(self) -> Trust:
        """The rule of this module."""
        broken = self.breaks.total()
        whole = broken <= TOLERATED_SHARE * (broken + self.links.total())
        return Trust(frozenset(resource for resource, count in self.breaks.items() if count), whole)


def continuity(objects: Iterable[Sequence[RequestRecord]]) -> Continuity:
    """The evidence of the records of several objects."""
    found = Continuity()
    for records in objects:
        found.add(records)
    return found


def _revision(record: RequestRecord) -> str | None:
    """The revision in a response that shows the object or its Scale; read without decoding, for evidence only."""
    if not record.response_object or not 200 <= record.code < 300 or "dryRun" in record.request_uri:
        return None
    if record.subresource in NOT_THE_OBJECT - {"scale"}:
        return None
    found = _REVISION.search(record.response_object)
    return found[1] if found else None
