"""The class that a plugin gives to an object without one: DefaultIngressClass, DefaultStorageClass and Priority.

The rules are in `replay.kube.plugin`. A snapshot shows the classes. Without one, the log shows them by what other
objects got: one without a class proves that there was no default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from replay.json import FieldPath
from replay.kube.attributes import Missing
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.plugin import INGRESS_CLASS, PREEMPT, PRIORITY_CLASS, STORAGE_CLASS, DefaultClass
from replay.reconstruct.record.body import BodyShape
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, get

ShownClass = tuple[str, int, int, str | None]
"""Creation without a class: resource, received and stage time (microseconds), and the class that it got.

Or a written class.
"""
_DEFAULTS = {("networking.k8s.io", "ingresses"): INGRESS_CLASS, ("", "persistentvolumeclaims"): STORAGE_CLASS}
"""The kinds of classes that objects get, by group and resource."""
_PRIORITY_CLASS = ("spec", "priorityClassName")


def kinds_without_default(shown: Iterable[ShownClass], plugins: Collection[str] = ()) -> frozenset[GroupVersionKind]:
    """Return the kinds of classes for which the log shows that no class is the default.

    An object that was created without a class, and got none, proves it, as long as the log has no write to a class.
    `plugins` are those that were on, empty if unknown.
    """
    got: dict[str, set[str | None]] = {}
    for resource, _, _, name in shown:
        got.setdefault(resource, set()).add(name)
    without = {
        default.kind: f"Default{default.kind.kind}"
        for (_, resource), default in _DEFAULTS.items()
        if None in got.get(resource, ()) and default.resource not in got
    }
    if _is_without_default_priority(got):
        without[PRIORITY_CLASS] = "Priority"
    return frozenset(kind for kind, plugin in without.items() if not plugins or plugin in plugins)


def _is_without_default_priority(got: Mapping[str, Collection[str | None]]) -> bool:
    """Return whether no pod without a class got one, and no class that may be the default was written."""
    return got.get("pods") == {None} and "priorityclasses" not in got


class DefaultClasses:
    """Default classes that the log shows."""

    def __init__(self, shown: Iterable[ShownClass] = (), undone: frozenset[str] = frozenset()) -> None:
        """`shown` are the rows of the queries `default_classes` and `default_priority`.

        Plugins in `undone` do nothing.
        """
        self.undone = undone
        self._shown: dict[str, list[ShownClass]] = {}
        for row in sorted(shown, key=lambda row: row[1:3]):
            self._shown.setdefault(row[0], []).append(row)

    def filled(self, obj: Known, exchange: Exchange, lister: Lister, *, mutated: bool) -> Known:
        """Return a created object with its default class.

        `mutated` says that a mutator may have set the class in the response.
        """
        if (exchange.record.api_group, exchange.record.resource) == ("", "pods"):
            is_left = exchange.record.subresource or "Priority" in self.undone
            return obj if is_left else self._with_default_priority(obj)
        default_of = _DEFAULTS.get((exchange.record.api_group, exchange.record.resource))
        if default_of is None or exchange.record.subresource or f"Default{default_of.kind.kind}" in self.undone:
            return obj
        if not default_of.is_needed(obj.value):
            return obj
        path: FieldPath = ("spec", default_of.field)
        if exchange.shape is BodyShape.OBJECT:
            got = get(exchange.response.json, path)
            # Without a mutator, the class in the response can only come from the plugin.
            if got is None or not mutated:
                return obj if got is None else obj.with_value(path, got)
        default = self._default(default_of, exchange, lister, mutated=mutated)
        if isinstance(default, Missing):
            return obj.with_holes([Hole(path, default.reason, default.fix)])
        return obj if default is None else obj.with_value(path, default)

    def _with_default_priority(self, pod: Known) -> Known:
        """Return a pod with its unknown PriorityClass completed.

        Pods that got none prove that there was no global default.
        """
        is_open = any(hole.path == _PRIORITY_CLASS for hole in pod.holes) and get(pod.value, _PRIORITY_CLASS) is None
        if not is_open:
            return pod
        got = {resource: {row[3] for row in rows} for resource, rows in self._shown.items()}
        if not _is_without_default_priority(got):
            return pod
        pod = pod.without(_PRIORITY_CLASS).with_value(("spec", "priority"), 0)
        return pod.with_value(("spec", "preemptionPolicy"), PREEMPT)

    def _default(
        self, default_of: DefaultClass, exchange: Exchange, lister: Lister, *, mutated: bool
    ) -> str | Missing | None:
        """Return the name of the default class at the time of a request, None if there is none."""
        unknown = Missing(
            "",
            f"the default {default_of.kind.kind} is not known",
            "give a snapshot of the cluster that has it (--cluster)",
        )
        if default_of.resource in self._shown:
            return unknown  # a write may have changed the default, and its history is not tracked
        classes = lister.list(default_of.kind, None)
        if not isinstance(classes, Missing):
            return default_of.chosen(classes)
        got = {name for _, _, _, name in self._shown.get(exchange.record.resource, ())}
        if None in got:
            return None
        return unknown if mutated or len(got) != 1 else got.pop()
