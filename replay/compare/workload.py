"""Who owns an object: the workload a platform team would talk about, so that the pods of one Deployment are one finding."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from replay.json import JSON
from replay.kube.attributes import Attributes

Owners = Mapping[tuple[str, str, str], tuple[str, str]]
"""`(namespace, kind, name)` of an object to `(kind, name)` of its controller, for the kinds that stand between."""

_CRON_JOB_TIME = re.compile(r"-\d{8}$")
MAX_DEPTH = 5


def workload(attributes: Attributes, owners: Owners) -> str:
    """`Kind/name` of the topmost known controller of the request's object, the object's own where nothing controls it.

    The object is taken from `object`, on DELETE from `oldObject`; a request whose objects are not known stands for itself.
    Above the recorded owner, `owners` is followed; where the log does not hold a ReplicaSet or a Job, the names that their
    controllers give (`<deployment>-<pod-template-hash>`, `<cronjob>-<minutes>`) tell.
    """
    body = attributes.object if isinstance(attributes.object, dict) else attributes.old_object
    if not isinstance(body, dict) or body.get("kind") == "DeleteOptions":
        return _self(attributes, {})
    if body.get("kind") == "Event":
        return _regarding(body, attributes)
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    owner = controller(metadata)
    if owner is None:
        return _self(attributes, metadata)
    kind, name = _climb(attributes.namespace, owner, owners)
    if kind == "ReplicaSet":
        return _above_replica_set(name, metadata)
    if kind == "Job" and _CRON_JOB_TIME.search(name):
        return f"CronJob/{_CRON_JOB_TIME.sub('', name)}"
    return f"{kind}/{name}"


def controller(metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    """`(kind, name)` of the owner reference with `controller: true`."""
    references = metadata.get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, dict) and reference.get("controller") is True:
            return str(reference.get("kind")), str(reference.get("name"))
    return None


def _climb(namespace: str, owner: tuple[str, str], owners: Owners) -> tuple[str, str]:
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


def _regarding(event: Mapping[str, JSON], attributes: Attributes) -> str:
    """An Event belongs to what it is about."""
    about = event.get("involvedObject") or event.get("regarding")
    if not isinstance(about, dict) or not about.get("name"):
        return _self(attributes, {})
    return f"{about.get('kind') or 'Event'}/{about['name']}"


def _self(attributes: Attributes, metadata: Mapping[str, Any]) -> str:
    kind = attributes.kind.kind or attributes.resource.resource
    if attributes.subresource:
        kind = attributes.resource.resource
    generate_name = metadata.get("generateName")
    if isinstance(generate_name, str) and generate_name:
        return f"{kind}/{generate_name}*"
    return f"{kind}/{attributes.name}" if attributes.name else kind
