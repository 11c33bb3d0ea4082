"""The effect of applied bundles on the existing objects, and the objects that pruning deletes.

`k8s.io/kubectl/pkg/cmd/apply`: `prune.go` selects by labels among the objects that were not applied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from replay.cellib.version import KubernetesVersion
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.admissionregistration import GROUP
from replay.kube.schema import CRD
from replay.kube.selector import Requirement, SelectorError, parse_label_selector
from replay.manifests.engine_object import is_engine_object
from replay.manifests.set_loader import SetObjects, identity

_MOST_NAMES = 3
_KEPT = frozenset({("", "Namespace"), (CRD.group, CRD.kind)})
"""Kinds that pruning keeps. Deleting them would delete everything in them too."""


def parse_prune(text: str) -> tuple[Requirement, ...]:
    """Return the requirements of `--prune`. Raises ReplayError for an invalid or an empty selector."""
    try:
        requirements = parse_label_selector(text)
    except SelectorError as error:
        raise ReplayError(f"`{text}` is not a label selector: {error}", path="--prune") from error
    if not requirements:
        raise ReplayError(
            "give a selector of labels, such as `app.kubernetes.io/instance=cert-manager`", path="--prune"
        )
    return requirements


def with_bundles(
    there: SetObjects, bundles: Sequence[SetObjects], version: KubernetesVersion, api_objects: Sequence[JSON]
) -> SetObjects:
    """Return the existing objects with bundles on top, one after the other.

    An object of a bundle replaces the object with its identity. A webhook without `caBundle` keeps that of its
    predecessor: in a cluster another component writes it, and `kubectl apply` does not touch a field that no manifest
    has.
    """
    objects = there
    for bundle in bundles:
        held = objects.with_added(SetObjects(), version, api_objects)
        before = {identity(each): each for each in held.api or ()}
        api = tuple(_with_authorities(each, before.get(identity(each))) for each in bundle.api or ())
        objects = objects.with_added(replace(bundle, api=api), version, api_objects)
    return replace(objects, hints=(*objects.hints, *_unbound(objects, bundles)))


def _unbound(objects: SetObjects, bundles: Sequence[SetObjects]) -> Iterator[str]:
    """Yield a hint about policies of bundles that no binding names."""
    bound = {each["spec"].get("policyName") for each in objects.api or () if each["kind"].endswith("PolicyBinding")}
    idle = [
        each["metadata"]["name"]
        for bundle in bundles
        for each in bundle.api or ()
        if each["kind"].endswith("AdmissionPolicy") and each["metadata"]["name"] not in bound
    ]
    if idle:
        named = ", ".join(f"`{name}`" for name in idle[:_MOST_NAMES])
        more = f" and {len(idle) - _MOST_NAMES} more" if len(idle) > _MOST_NAMES else ""
        yield f"no binding names the policies {named}{more}: without one they decide nothing"


def _with_authorities(configuration: JSON, before: JSON) -> JSON:
    """Return a webhook configuration with the missing `caBundle` values of the configuration before it."""
    if before is None or not configuration.get("webhooks"):
        return configuration
    known = {each["name"]: each["clientConfig"].get("caBundle") for each in before.get("webhooks") or ()}

    def completed(webhook: dict[str, Any]) -> dict[str, Any]:
        client = webhook["clientConfig"]
        # `kubectl apply` leaves what others have set, such as a bundle that cert-manager has injected.
        bundle = None if client.get("caBundle") else known.get(webhook["name"])
        return {**webhook, "clientConfig": {**client, "caBundle": bundle}} if bundle else webhook

    return {**configuration, "webhooks": [completed(each) for each in configuration["webhooks"]]}


def pruned(
    objects: SetObjects, bundles: Iterable[SetObjects], selector: Sequence[Requirement], snapshot: Iterable[JSON]
) -> SetObjects:
    """Return a set without the objects that a selector matches and that no bundle has.

    `objects` already have the bundles, and the policies of the cluster. Static manifests are not API objects, so they
    stay.
    """
    applied = {
        identity(each)
        for bundle in bundles
        for each in (*(bundle.api or ()), *(bundle.engine or ()), *(bundle.rbac or ()), *bundle.others)
    }

    def is_gone(obj: JSON) -> bool:
        labels = (obj.get("metadata") or {}).get("labels") or {}
        group, kind, *_ = key = identity(obj)
        return key not in applied and (group, kind) not in _KEPT and all(each.matches(labels) for each in selector)

    def left(held: tuple[JSON, ...] | None) -> tuple[JSON, ...] | None:
        return None if held is None else tuple(each for each in held if not is_gone(each))

    held = (
        *(objects.api or ()),
        *(objects.engine or ()),
        *(objects.rbac or ()),
        *objects.others,
        *objects.server.objects,
    )
    there = [obj for obj in snapshot if not _is_policy(obj) and is_gone(obj)]
    gone = {identity(each): each for each in (*held, *there) if is_gone(each)}
    return replace(
        objects,
        api=left(objects.api),
        engine=left(objects.engine),
        rbac=left(objects.rbac),
        others=left(objects.others) or (),
        server=replace(objects.server, objects=left(objects.server.objects) or ()),
        removed=tuple(each for each in gone.values() if not _is_policy(each)),
        hints=(*objects.hints, _pruned_text(gone.values())),
    )


def _is_policy(obj: JSON) -> bool:
    return identity(obj)[0] == GROUP or is_engine_object(obj)


def _pruned_text(gone: Iterable[JSON]) -> str:
    """Return the hint about the objects that pruning deletes."""
    counts = Counter(str(each["kind"]) for each in gone)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items(), key=lambda each: (-each[1], each[0])))
    return f"--prune takes away {kinds}" if kinds else "--prune takes nothing away: no other object has these labels"
