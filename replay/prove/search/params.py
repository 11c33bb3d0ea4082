"""The parameters that bindings look for, as objects that can be made."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from replay.json import JSON
from replay.kube.admissionregistration import ParamKind, ParamRef
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupVersionKind, split_api_version
from replay.prove.shape.admissible import is_admissible
from replay.prove.shape.skeleton import ValidSkeletons

NAMESPACE = "default"
"""Placeholder for parameters in the namespace of the request."""


class ParamSlot(Struct, frozen=True):
    """One parameter object: its kind and identity, and the labels that a selector needs."""

    kind: GroupVersionKind
    namespace: str
    name: str
    labels: tuple[tuple[str, str], ...] = ()

    def least(self) -> JSON:
        """The parameter without content."""
        metadata: dict[str, Any] = {"name": self.name}
        if self.namespace:
            metadata["namespace"] = self.namespace
        if self.labels:
            metadata["labels"] = dict(self.labels)
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata}

    def settled(self, param: JSON, skeletons: ValidSkeletons) -> JSON | None:
        """The parameter with its identity, as a server writes it; None where it refuses it."""
        identity = self.least()
        served = skeletons.as_served(self.kind, {**param, **identity})
        schema = skeletons.schemas.for_kind(self.kind)
        return served if served is not None and is_admissible(schema, self.kind, served) else None


def slot_of(kind: ParamKind, ref: ParamRef, discovery: Discovery, namespace: str) -> ParamSlot:
    """Return the parameter that a binding looks up; for a selector, from its `matchLabels` and required keys."""
    gvk = GroupVersionKind(*split_api_version(kind.api_version), kind.kind)
    api_resource = discovery.of_kind(gvk)
    is_namespaced = api_resource is None or api_resource.namespaced
    labels: dict[str, str] = {}
    if ref.selector is not None:
        labels.update(ref.selector.match_labels)
        for each in ref.selector.match_expressions:
            if each.operator in {"In", "Exists"}:
                labels[each.key] = each.values[0] if each.values else "x"
    return ParamSlot(
        gvk, (ref.namespace or namespace) if is_namespaced else "", ref.name or "example", tuple(labels.items())
    )
