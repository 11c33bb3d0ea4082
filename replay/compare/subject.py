"""Those whom a decision affects: subject, workload and owner of a request, and the workloads that a policy hits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from msgspec import Struct, field

from replay.compare.outcome import OutcomeKind
from replay.compare.summary import Cell, CellKey, Example
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, ObjectRef
from replay.kube.lister import Lister

OWNER_LABEL = "team"
"""The label that is read by default."""
_NAMESPACE = GroupVersionKind("", "v1", "Namespace")


def owner(namespace: str, label: str, lister: Lister) -> str:
    """Return the value of a namespace's label at a lister's time. It is empty if the label is absent or unknown."""
    return owner_of(lister.get(_NAMESPACE, "", namespace), label) if namespace else ""


def owner_of(namespace_object: JSON | PartialObject | Missing | None, label: str) -> str:
    """Return the value of a namespace's label. It is empty if the label is absent or unknown."""
    metadata = namespace_object.get("metadata") if label and isinstance(namespace_object, dict) else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    value = labels.get(label) if isinstance(labels, dict) else None
    return value if isinstance(value, str) else ""


def subject(attributes: Attributes) -> ObjectRef:
    """Return the subject of a request from its attributes. A Namespace has no namespace."""
    body = attributes.object if isinstance(attributes.object, dict) else attributes.old_object
    metadata = body.get("metadata") if isinstance(body, dict) else None
    name = attributes.name or (metadata.get("name") if isinstance(metadata, dict) else None)
    group, _, resource = attributes.resource
    namespace = "" if resource == "namespaces" and not group else attributes.namespace
    return ObjectRef(group, resource, namespace, str(name or ""), attributes.workspace)


Owners = Mapping[tuple[str, str, str], tuple[str, str]]
"""Map from `(namespace, kind, name)` of an object to `(kind, name)` of its controller, for intermediate kinds."""

_CRON_JOB_TIME = re.compile(r"-\d{8}$")
_GENERATED = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
"""Suffix that the server adds to `generateName` (`apiserver/pkg/storage/names`).

Its letters are those of `apimachinery/pkg/util/rand`.
"""
_OF_PODS = ("ReplicaSet", "Job")
"""Kinds of `Owners` whose pods have generated names."""
MAX_DEPTH = 5


class RequestTarget(Struct, frozen=True):
    """The target of a request. `kind` and `kind_group` come from its body and are empty if unknown."""

    namespace: str
    kind: str
    resource: str
    subresource: str
    name: str
    group: str = ""
    kind_group: str = ""


def workload(attributes: Attributes, owners: Owners) -> str:
    """Return `Kind/name` of the topmost known controller of the request's object, as `workload_of_body` does.

    The object is `object`, or `oldObject` on DELETE.
    """
    body = _known(attributes.object)
    body = _known(attributes.old_object) if body is None else body
    resource, kind = attributes.resource, attributes.kind
    about = RequestTarget(
        attributes.namespace,
        kind.kind,
        resource.resource,
        attributes.subresource,
        attributes.name,
        resource.group,
        kind.group,
    )
    return workload_of_body(body, about, owners)


def _known(value: object) -> JSON | None:
    """Return the known part of an object."""
    value = value.value if isinstance(value, PartialObject) else value
    return value if isinstance(value, dict) else None


def workload_of_body(body: JSON | None, about: RequestTarget, owners: Owners) -> str:
    """Return `Kind/name` of the topmost known controller of an object, or its own name without one.

    A request to a subresource concerns its object. Of an unknown object the name counts, and a generated pod name
    contains its owner's. `owners` continues above the recorded owner. If the log lacks a ReplicaSet or Job, its name
    tells the controller (`<deployment>-<pod-template-hash>`, `<cronjob>-<minutes>`).
    """
    if body is None or body.get("kind") == "DeleteOptions":
        return _named(about, owners)
    if body.get("kind") == "Event":
        return _regarding(body, about)
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    owner = controller(metadata)
    if owner is None:
        return _named(about, owners) if about.subresource else _self(about, metadata)
    kind, name = _climb(about.namespace, owner, owners)
    if kind == "ReplicaSet":
        return _above_replica_set(name, metadata)
    if kind == "Job" and _CRON_JOB_TIME.search(name):
        return f"CronJob/{_CRON_JOB_TIME.sub('', name)}"
    return f"{kind}/{name}"


def controller(metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return `(kind, name)` of the owner reference with `controller: true`, or None."""
    references = metadata.get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, dict) and reference.get("controller") is True:
            return str(reference.get("kind")), str(reference.get("name"))
    return None


def _climb(namespace: str, owner: tuple[str, str], owners: Owners) -> tuple[str, str]:
    # A bound, because owner references can form a cycle.
    for _ in range(MAX_DEPTH):
        above = owners.get((namespace, *owner))
        if above is None:
            break
        owner = above
    return owner


def _above_replica_set(name: str, metadata: Mapping[str, Any]) -> str:
    labels = metadata.get("labels")
    template_hash = labels.get("pod-template-hash") if isinstance(labels, dict) else None
    if isinstance(template_hash, str) and template_hash and name.endswith(f"-{template_hash}"):
        return f"Deployment/{name.removesuffix(f'-{template_hash}')}"
    return f"ReplicaSet/{name}"


def _regarding(event: Mapping[str, JSON], request: RequestTarget) -> str:
    """Return the workload of an Event, which is the object it is about."""
    about = event.get("involvedObject") or event.get("regarding")
    if not isinstance(about, dict) or not about.get("name"):
        return _self(request, {})
    return f"{about.get('kind') or 'Event'}/{about['name']}"


def _named(about: RequestTarget, owners: Owners) -> str:
    """Return the owner of an object that is known only by name."""
    kind = _kind(about)
    above = _climb(about.namespace, (kind, about.name), owners)
    stem = _GENERATED.sub("", about.name) if kind == "Pod" else about.name
    if stem != about.name:
        owner_kind = next((each for each in _OF_PODS if (about.namespace, each, stem) in owners), "")
        above = _climb(about.namespace, (owner_kind, stem), owners) if owner_kind else above
    return "/".join(above) if above != (kind, about.name) else _self(about, {})


def _kind(about: RequestTarget) -> str:
    """Return the kind of an object, or its resource if no body has the kind, as for the scale of a custom resource."""
    if not about.subresource:
        return about.kind or about.resource
    kind = _builtin_kinds().get((about.group, about.resource))
    if kind is None and about.kind and about.kind_group == about.group:
        kind = about.kind
    return kind or about.resource


@cache
def _builtin_kinds() -> Mapping[tuple[str, str], str]:
    return {(each.resource.group, each.resource.resource): each.kind.kind for each in builtin_discovery()}


def _self(about: RequestTarget, metadata: Mapping[str, Any]) -> str:
    kind = _kind(about)
    generate_name = metadata.get("generateName")
    if isinstance(generate_name, str) and generate_name:
        return f"{kind}/{generate_name}*"
    return f"{kind}/{about.name}" if about.name else kind


class HitKey(NamedTuple):
    """Key of a row: a policy, and a workload with namespace and owner. For warnings, the text stands for the policy."""

    outcome: OutcomeKind
    policy: str
    owner: str
    namespace: str
    workload: str


class Hit(Struct):
    """Effect of a policy on the requests of a workload.

    `requests` counts direct findings, `alone` those among them that no other policy causes, `follows` the consequences.
    All other fields are about the direct findings, if there are any: users, resources, first and last time
    (microseconds since the epoch), the first request and its message.
    """

    key: HitKey
    requests: int = 0
    sole: int = 0
    follows: int = 0
    users: set[str] = field(default_factory=set)
    resources: set[str] = field(default_factory=set)
    first: int = 0
    last: int = 0
    example: Example | None = None
    message: str = ""

    def add(self, key: CellKey, cell: Cell, place: int) -> None:
        """Add the counts of a cell. Direct findings must come first. `place` is the index of the policy in the cell."""
        if key.follows:
            self.follows += cell.count
            if self.requests:
                return
        else:
            self.requests += cell.count
            self.sole += cell.count if len(key.policies) == 1 else 0
        self.users.add(key.user)
        self.resources.add(key.resource)
        self.first = min(self.first, cell.first) if self.example else cell.first
        self.last = max(self.last, cell.last)
        example = cell.examples[0]
        if self.example is None or (example.seq, example.item) < (self.example.seq, self.example.item):
            self.example, self.message = example, example.messages[place] if place < len(example.messages) else ""


def hits(cells: Mapping[CellKey, Cell]) -> list[Hit]:
    """Return all rows: by outcome, then by policies and workloads with most direct findings."""
    rows: dict[HitKey, Hit] = {}
    # Direct findings come first. `Hit.add` keeps the details of consequences only if there are none.
    for key in sorted(cells, key=lambda key: key.follows):
        for place, policy in enumerate(key.policies):
            row = HitKey(key.outcome, policy, key.owner, key.namespace, key.workload)
            if row not in rows:
                rows[row] = Hit(row)
            rows[row].add(key, cells[key], place)
    return _ordered(rows.values())


def _ordered(hit_rows: Iterable[Hit]) -> list[Hit]:
    listed = list(hit_rows)
    order = list(OutcomeKind)
    totals = Counter[tuple[OutcomeKind, str]]()
    for each in listed:
        totals[each.key.outcome, each.key.policy] += each.requests

    def place(each: Hit) -> tuple[int, int, str, int, int, HitKey]:
        outcome, policy = each.key.outcome, each.key.policy
        return order.index(outcome), -totals[outcome, policy], policy, -each.requests, -each.follows, each.key

    return sorted(listed, key=place)
