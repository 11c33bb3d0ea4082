"""Usage of one set's quotas, object by object, in the order of a log.

The quota controller recounts a quota whenever an object of a limited resource is deleted, or a pod ends
(`replenishQuota` and `syncResourceQuota` of `pkg/controller/resourcequota`). The charge for a creation that fails after
admission stays until then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct, field

from replay.admission.builtin.partial import UnknownInputError
from replay.admission.builtin.plugin import Review
from replay.admission.builtin.pod.resources import Amounts, add
from replay.admission.builtin.resource_quota.evaluator import IGNORED, evaluator_of
from replay.admission.builtin.resource_quota.plugin import Quota, ResourceQuota, difference, matches
from replay.json import JSON
from replay.kube.gvk import GroupResource
from replay.kube.quantity import Quantity

ObjectName = tuple[str, str]
"""Resource (with its group) and name."""


class CountedObject(NamedTuple):
    """An object that quotas may count. If `is_certain` is false, it may not exist."""

    resource: GroupResource
    object: JSON
    is_certain: bool = True


class _Total(Struct):
    """Usage of one quota: certain, and at most. The usage of `unknown` objects is unknown.

    `leaked` are creations that failed after they were charged.
    """

    quota: Quota
    least: dict[str, Quantity] = field(default_factory=dict)
    most: dict[str, Quantity] = field(default_factory=dict)
    unknown: int = 0
    leaked: list[CountedObject] = field(default_factory=list)


class _Namespace(Struct):
    objects: dict[ObjectName, CountedObject] = field(default_factory=dict)
    names: set[ObjectName] = field(default_factory=set)
    totals: dict[str, _Total] = field(default_factory=dict)


class QuotaBook:
    """The objects of one set in namespaces with quotas, and their usage."""

    def __init__(self, plugin: ResourceQuota) -> None:
        """`plugin` reads the quotas of the set."""
        self.plugin = plugin
        self.absent: set[str] = set()
        """UIDs of objects of the log that this set lacks. Objects that they own are not created."""
        self._namespaces: dict[str, _Namespace] = {}

    def get(self, namespace: str, name: ObjectName) -> CountedObject | None:
        """Return an object, None if there is none."""
        return self._namespace_book(namespace).objects.get(name)

    def put(self, namespace: str, name: ObjectName, counted: CountedObject) -> None:
        """Add or replace an object."""
        # An object that is replaced must not count twice.
        self._take(namespace, name)
        self._namespace_book(namespace).objects[name] = counted
        self._namespace_book(namespace).names.add(name)
        self._count(namespace, counted, 1)

    def remove(self, namespace: str, name: ObjectName, *, is_certain: bool) -> None:
        """Remove an object and recount. An uncertain removal keeps it as an uncertain object."""
        counted = self._take(namespace, name)
        if counted is None:
            return
        if not is_certain:
            self.put(namespace, name, counted._replace(is_certain=False))
        self.recount(namespace, counted.resource)

    def note_absent(self, uid: str) -> None:
        """Note that the set lacks an object of the log. Objects that it owns are not created either."""
        if uid:
            self.absent.add(uid)

    def leak(self, namespace: str, counted: CountedObject) -> None:
        """Charge a creation that failed after admission."""
        for total in self._namespace_book(namespace).totals.values():
            total.leaked.append(counted)
            _add_to(total, counted, 1)

    def recount(self, namespace: str, resource: GroupResource) -> None:
        """Recount the quotas that limit a resource: drop charges without an object."""
        evaluator = evaluator_of(resource)
        for total in self._namespace_book(namespace).totals.values():
            if not any(evaluator.counts(name) for name in total.quota.hard):
                continue
            for counted in total.leaked:
                _add_to(total, counted, -1)
            total.leaked.clear()

    def used(self, namespace: str, quota: Quota) -> tuple[Amounts, Amounts] | None:
        """Return a quota's certain and largest usage, or None if the usage of an object is unknown."""
        of_namespace = self._namespace_book(namespace)
        total = of_namespace.totals.get(quota.name)
        # A quota with other limits or scopes counts other objects, so its usage is counted again.
        if total is None or (total.quota.hard, total.quota.selectors) != (quota.hard, quota.selectors):
            zero = {name: Quantity(0, text="0") for name in quota.hard}
            # Two copies, because both are changed in place.
            total = of_namespace.totals[quota.name] = _Total(quota, dict(zero), dict(zero))
            for counted in of_namespace.objects.values():
                _add_to(total, counted, 1)
        return None if total.unknown else (total.least, total.most)

    def known_names(self, namespace: str) -> set[ObjectName]:
        """Return the names of all objects that ever were in a namespace."""
        return self._namespace_book(namespace).names

    def usage(self, namespace: str, quota: str, counted: CountedObject) -> Amounts:
        """Return an object's usage of a quota, empty if it is unknown."""
        total = self._namespace_book(namespace).totals.get(quota)
        if total is None:
            return {}
        single = _Total(total.quota, {name: Quantity(0, text="0") for name in total.quota.hard}, {})
        single.most = dict(single.least)
        _add_to(single, counted, 1)
        return single.most

    def quotas(self, review: Review) -> list[Quota]:
        """Return the quotas of the request's namespace. Raise UnknownInputError if they are unknown."""
        return self.plugin.quotas(review)

    def _namespace_book(self, namespace: str) -> _Namespace:
        if namespace not in self._namespaces:
            self._namespaces[namespace] = _Namespace()
        return self._namespaces[namespace]

    def _take(self, namespace: str, name: ObjectName) -> CountedObject | None:
        counted = self._namespace_book(namespace).objects.pop(name, None)
        if counted is not None:
            self._count(namespace, counted, -1)
        return counted

    def _count(self, namespace: str, counted: CountedObject, sign: int) -> None:
        for total in self._namespace_book(namespace).totals.values():
            _add_to(total, counted, sign)


def _add_to(total: _Total, counted: CountedObject, sign: int) -> None:
    if counted.resource in IGNORED:
        return
    evaluator = evaluator_of(counted.resource)
    try:
        if not matches(evaluator, total.quota, counted.object):
            return
        usage = {name: each for name, each in evaluator.usage(counted.object, 0).items() if name in total.quota.hard}
    except UnknownInputError:
        total.unknown += sign
        return
    # An object that may not exist counts in the largest usage alone.
    for amounts in (total.least, total.most) if counted.is_certain else (total.most,):
        if sign > 0:
            add(amounts, usage)
        else:
            amounts.update({name: difference(amounts[name], each) for name, each in usage.items()})


def plus(amounts: Amounts, more: Amounts) -> dict[str, Quantity]:
    """Return the sum of amounts, none below zero."""
    total = dict(amounts)
    add(total, {name: value for name, value in more.items() if name in total})
    return {name: value if value.sign >= 0 else Quantity(0, text="0") for name, value in total.items()}


def minus(amounts: Amounts, less: Amounts) -> dict[str, Quantity]:
    """Return a difference of amounts, which may be below zero."""
    return {name: value.subtract(less[name]) if name in less else value for name, value in amounts.items()}


def owners_of(obj: JSON) -> Iterable[str]:
    """Return the UIDs of the controllers of an object."""
    references = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return [str(each.get("uid")) for each in references if each.get("controller")]
