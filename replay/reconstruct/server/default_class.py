"""The class that a plugin gives to what is created without one: DefaultIngressClass, DefaultStorageClass and Priority.

(`k8s.io/kubernetes/plugin/pkg/admission/network/defaultingressclass`, `.../storage/storageclass/setdefault`.) Of several
default classes the newest wins, of those as old the first by name. A snapshot tells them; else the log does, by what other
objects got: one without a class proves that there was no default.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from replay.json import JSON
from replay.kube.attributes import Missing, field_of
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.reconstruct.record.body import Shape
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, Path, get

ShownClass = tuple[str, int, int, str | None]
"""Resource, received and stage time (microseconds) of a creation without a class, and the class it got; or a class written."""


class _Plugin(NamedTuple):
    """What one of the plugins reads and writes."""

    kind: GroupVersionKind
    classes: str
    path: Path
    opt_out: Path
    marks: tuple[str, ...]


_PLUGINS = {
    ("networking.k8s.io", "ingresses"): _Plugin(
        GroupVersionKind("networking.k8s.io", "v1", "IngressClass"),
        "ingressclasses",
        ("spec", "ingressClassName"),
        ("metadata", "annotations", "kubernetes.io/ingress.class"),
        ("ingressclass.kubernetes.io/is-default-class",),
    ),
    ("", "persistentvolumeclaims"): _Plugin(
        GroupVersionKind("storage.k8s.io", "v1", "StorageClass"),
        "storageclasses",
        ("spec", "storageClassName"),
        ("metadata", "annotations", "volume.beta.kubernetes.io/storage-class"),
        ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"),
    ),
}


_PRIORITY_CLASS = ("spec", "priorityClassName")


class DefaultClasses:
    """What the log shows of default classes."""

    def __init__(self, shown: Iterable[ShownClass] = (), undone: frozenset[str] = frozenset()) -> None:
        """`shown` are the rows of the query `default_classes`; plugins that are `undone` are taken to do nothing."""
        self.undone = undone
        self._shown: dict[str, list[ShownClass]] = {}
        for row in sorted(shown, key=lambda row: row[1:3]):
            self._shown.setdefault(row[0], []).append(row)

    def filled(self, sent: Known, exchange: Exchange, lister: Lister, *, mutated: bool) -> Known:
        """An object that is created, with its default class; a `mutated` response does not tell who set the class."""
        if (exchange.record.api_group, exchange.record.resource) == ("", "pods"):
            is_left = exchange.record.subresource or "Priority" in self.undone
            return sent if is_left else self._with_default_priority(sent)
        plugin = _PLUGINS.get((exchange.record.api_group, exchange.record.resource))
        if plugin is None or exchange.record.subresource or f"Default{plugin.kind.kind}" in self.undone:
            return sent
        if get(sent.value, plugin.path) is not None or get(sent.value, plugin.opt_out) is not None:
            return sent
        if exchange.succeeded and exchange.shape is Shape.OBJECT:
            got = get(exchange.response.json, plugin.path)
            if got is None or not mutated:
                return sent if got is None else sent.with_value(plugin.path, got)
        default = self._default(plugin, exchange, lister, mutated=mutated)
        if isinstance(default, Missing):
            return sent.with_holes([Hole(plugin.path, default.reason, default.fix)])
        return sent if default is None else sent.with_value(plugin.path, default)

    def _with_default_priority(self, pod: Known) -> Known:
        """A pod of which the PriorityClass is not known: others that got none prove that there was no global default."""
        is_open = any(hole.path == _PRIORITY_CLASS for hole in pod.holes) and get(pod.value, _PRIORITY_CLASS) is None
        got = {name for _, _, _, name in self._shown.get("pods", ())}
        if not is_open or "priorityclasses" in self._shown or got != {None}:
            return pod
        pod = pod.without(_PRIORITY_CLASS).with_value(("spec", "priority"), 0)
        return pod.with_value(("spec", "preemptionPolicy"), "PreemptLowerPriority")

    def _default(self, plugin: _Plugin, exchange: Exchange, lister: Lister, *, mutated: bool) -> str | Missing | None:
        """The name of the default class at the time of a request."""
        unknown = Missing("", f"the default {plugin.kind.kind} is not known", "give a snapshot (--cluster) that has it")
        if plugin.classes in self._shown:
            return unknown  # which was the default when is not followed: without a write it was the same all the time
        classes = lister.list(plugin.kind, None)
        if not isinstance(classes, Missing):
            return _newest_default(classes, plugin)
        got = {name for _, _, _, name in self._shown.get(exchange.record.resource, ())}
        if None in got:
            return None
        return unknown if mutated or len(got) != 1 else got.pop()


def _newest_default(classes: Iterable[JSON], plugin: _Plugin) -> str | Missing | None:
    found: list[tuple[str, str]] = []
    for each in classes:
        marks = [field_of(each, "metadata", "annotations", mark) for mark in plugin.marks]
        if any(isinstance(mark, Missing) for mark in marks):
            return Missing("", f"a {plugin.kind.kind} was changing at the time of the request")
        if "true" in marks:
            found.append(
                (str(field_of(each, "metadata", "creationTimestamp")), str(field_of(each, "metadata", "name")))
            )
    newest = max((created for created, _ in found), default="")
    return min((name for created, name in found if created == newest), default=None)
