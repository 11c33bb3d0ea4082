"""ResourceQuota (`k8s.io/apiserver/pkg/admission/plugin/resourcequota`): denies requests that exceed a quota."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from replay.admission.builtin.partial import UnknownInputError, replaced
from replay.admission.builtin.plugin import (
    CREATE_UPDATE,
    Plugin,
    PluginCluster,
    Refusal,
    Review,
    check_kind,
    known,
    plain_error,
)
from replay.admission.builtin.pod.resources import Amounts, add, amounts
from replay.admission.builtin.resource_quota.evaluator import (
    IGNORED,
    Evaluator,
    ScopeError,
    evaluator_of,
    printed,
    selectors_of,
)
from replay.admission.builtin.resource_quota.pod_usage import ENDED
from replay.errors import ManifestError
from replay.go.format import aggregate
from replay.json import JSON
from replay.kube.attributes import Attributes, Operation
from replay.kube.gvk import GroupResource, GroupVersionKind
from replay.kube.quantity import Quantity

RESOURCE_QUOTA: Final = GroupVersionKind("", "v1", "ResourceQuota")
_API_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "ResourceQuotaConfiguration": ("apiserver.config.k8s.io/v1",),
    "Configuration": ("resourcequota.admission.k8s.io/v1beta1", "resourcequota.admission.k8s.io/v1alpha1"),
}
"""API versions of the configuration, by kind (`pkg/admission/plugin/resourcequota/apis/resourcequota`)."""
_Used = dict[tuple[str, str], dict[str, Quantity]]


class Quota(NamedTuple):
    """A quota with its current usage."""

    name: str
    hard: Amounts
    used: Amounts
    selectors: list[JSON]


class ResourceQuota(Plugin):
    """Charges admitted usage until `follow` releases it. If several quotas refuse, the first by name is reported."""

    name = "ResourceQuota"
    operations = CREATE_UPDATE
    # The evaluators of pods and claims each handle one subresource. All others handle none.
    concerns = (("*", ("*",)), ("", ("pods/resize", "persistentvolumeclaims/status")))
    looks_up = (("", "ResourceQuota"),)
    is_stateful = True
    counts_requests = True
    is_last = True

    def __init__(self, limited: list[JSON]) -> None:
        """`limited` are the limitedResources of the configuration."""
        self._limited = limited
        self._used: _Used = {}
        self._refused: set[tuple[str, str, str]] = set()
        self._ended: set[tuple[str, str, str]] = set()

    @property
    def limits_without_quota(self) -> bool:
        """Return whether the configuration requires a quota for some resources."""
        return bool(self._limited)

    @classmethod
    def configured(cls, configuration: JSON | None, flags: Mapping[str, str]) -> ResourceQuota:
        """See `Plugin.configured`."""
        del flags
        kind = str((configuration or {}).get("kind") or "ResourceQuotaConfiguration")
        check_kind(configuration, kind if kind in _API_VERSIONS else "", _API_VERSIONS.get(kind, ()))
        limited = list((configuration or {}).get("limitedResources") or ())
        errors = [
            f"limitedResources[{i}].resource: Required value"
            for i, each in enumerate(limited)
            if not each.get("resource")
        ]
        if errors:
            raise ManifestError(aggregate(errors))
        return cls(limited)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse usage that exceeds a quota. Charge other usage, except in a dry run."""
        attributes = review.attributes
        # The namespace of such a request is the new one, which cannot have a quota yet (`isNamespaceCreation`).
        creates_namespace = attributes.operation is Operation.CREATE and (
            (attributes.kind.group, attributes.kind.kind) == ("", "Namespace")
        )
        resource = attributes.resource.group_resource
        if not attributes.namespace or creates_namespace or resource in IGNORED:
            return None
        quotas = self.quotas(review)
        evaluator = evaluator_of(resource)
        is_counted = any(evaluator.counts(name) for quota in quotas for name in quota.hard)
        if not (is_counted or self._limited) or not evaluator.handles(review):
            return None
        try:
            checked = _check(review, evaluator, quotas, self._limited)
        except ScopeError as error:
            return plain_error(str(error))
        if isinstance(checked, Refusal):
            return checked
        if not attributes.dry_run:
            for quota in sorted(quotas, key=lambda each: each.name):
                self._charge(review, quota, checked.get(quota.name, quota.used))
        return None

    def begin(self, namespace: str, name: str, quota: JSON, objects: Sequence[tuple[GroupResource, JSON]]) -> None:
        """Set a quota's initial usage to that of the existing objects."""
        hard = amounts((quota.get("status") or quota.get("spec") or {}).get("hard"))
        new_quota = Quota(name, hard, {}, selectors_of(quota))
        used: dict[str, Quantity] = {each: Quantity(0, text="0") for each in hard}
        for resource, obj in objects:
            evaluator = evaluator_of(resource)
            if resource not in IGNORED and matches(evaluator, new_quota, obj):
                add(used, {key: value for key, value in evaluator.usage(obj, 0).items() if key in hard})
        self._used[namespace, name] = used

    def follow(self, attributes: Attributes, cluster: PluginCluster, time: int, *, refused: bool) -> None:
        """Release usage after a request that succeeded.

        A final deletion releases everything, a finished pod its compute resources. A creation that this plugin refused
        was never charged.
        """
        review = Review(attributes, cluster, time)
        resource = attributes.resource.group_resource
        key = str(resource), attributes.namespace, attributes.name
        if attributes.operation is Operation.CREATE and not attributes.subresource:
            # A name may be used again, so each creation settles anew whether this object was charged.
            (self._refused.add if refused else self._refused.discard)(key)
            self._ended.discard(key)
        if attributes.dry_run or not attributes.namespace or resource in IGNORED:
            return
        try:
            if is_end_of_pod(review):
                if key not in self._refused | self._ended:
                    self._give_back(review, as_charged(review.old_object), rest=("count/pods",))
                    self._ended.add(key)
            elif is_removal(review):
                if key not in self._refused:
                    stored = as_charged(review.old_object) if key not in self._ended else _ENDED_POD
                    self._give_back(review, stored)
                self._refused.discard(key)
                self._ended.discard(key)
        except UnknownInputError:
            return

    def _give_back(self, review: Review, obj: JSON, rest: Sequence[str] = ()) -> None:
        """Subtract an object's usage, except `rest`, from every quota that counts it, but not below zero."""
        evaluator = evaluator_of(review.attributes.resource.group_resource)
        usage = {name: value for name, value in evaluator.usage(obj, review.time).items() if name not in rest}
        for quota in self.quotas(review):
            if matches(evaluator, quota, obj):
                freed = {name: difference(used, usage[name]) for name, used in quota.used.items() if name in usage}
                self._used[review.attributes.namespace, quota.name] = {**quota.used, **freed}

    def set_used(self, namespace: str, name: str, used: Amounts) -> None:
        """Set the usage of a quota."""
        self._used[namespace, name] = dict(used)

    def quotas(self, review: Review) -> list[Quota]:
        """Return the quotas of the request's namespace with their usage.

        Raise UnknownInputError if they are unknown.
        """
        namespace = review.attributes.namespace
        quotas = []
        for each in known(review.cluster.list(RESOURCE_QUOTA, namespace)):
            name, status = str(each["metadata"]["name"]), each.get("status") or {}
            used = self._used.get((namespace, name))
            used_amounts = amounts(status.get("used")) if used is None else used
            quotas.append(Quota(name, amounts(status.get("hard")), used_amounts, selectors_of(each)))
        return quotas

    def _charge(self, review: Review, quota: Quota, used: Amounts) -> None:
        is_same = used.keys() == quota.used.keys() and all(
            value.compare(quota.used[name]) == 0 for name, value in used.items()
        )
        if is_same:
            return
        namespace = review.attributes.namespace
        self._used[namespace, quota.name] = dict(used)
        said = {"name": quota.name, "used": {name: str(value) for name, value in sorted(used.items())}}
        effect = {"verb": "update", "resource": "resourcequotas", "subresource": "status"}
        review.effects.append({**effect, "namespace": namespace, "object": said})


def _check(
    review: Review, evaluator: Evaluator, quotas: list[Quota], limited: list[JSON]
) -> Refusal | dict[str, Amounts]:
    """Return the new usage of each quota that changes, or the refusal (`CheckRequest`)."""
    obj = review.object if evaluator.reads_objects else {}
    try:
        limited_scopes = _scopes(evaluator, obj, [s for each in limited for s in each.get("matchScopes") or ()])
    except ScopeError:
        # The server returns the quotas unchanged and no error, so the request passes.
        return {}
    in_scopes = [scope for quota in quotas for scope in _scopes(evaluator, obj, quota.selectors)]
    interesting = [quota for quota in quotas if matches(evaluator, quota, obj)]
    if message := next(filter(None, (_unready(evaluator, quota, obj) for quota in interesting)), ""):
        return review.forbidden(message)
    covered = {name for quota in interesting for name in _counted(evaluator, quota)}
    is_update = review.attributes.operation is Operation.UPDATE and _is_stored(review.old_object)
    if is_update and not limited and covered <= evaluator.fixed:
        return {}  # it uses as much as before, whatever the objects contain
    usage = evaluator.usage(obj, review.time)
    if negative := sorted(name for name, value in usage.items() if value.sign < 0):
        return review.forbidden(f"quota usage is negative for resource(s): {','.join(negative)}")
    deltas = _deltas(review, evaluator, interesting, usage)
    if not deltas:
        return {}
    refusal = _uncovered(review, _limited_names(review, usage, limited) - covered, limited_scopes, in_scopes)
    return refusal if refusal is not None else _used_afterwards(review, interesting, deltas)


def _counted(evaluator: Evaluator, quota: Quota) -> list[str]:
    """Return the limited resources of a quota that objects of this resource use."""
    return sorted(name for name in quota.hard if evaluator.counts(name))


def _unready(evaluator: Evaluator, quota: Quota, obj: JSON) -> str:
    """Return why a quota cannot be applied to an object."""
    names = _counted(evaluator, quota)
    if message := evaluator.constraints(obj, names):
        return f"failed quota: {quota.name}: {message}"
    if any(name not in quota.used for name in names):
        return f"status unknown for quota: {quota.name}, resources: {','.join(names)}"
    return ""


def _uncovered(review: Review, names: set[str], limited_scopes: list[JSON], in_scopes: list[JSON]) -> Refusal | None:
    """Refuse resources that are limited by default and that no quota covers."""
    if names:
        return review.forbidden(f"insufficient quota to consume: {','.join(sorted(names))}")
    covered = {selector.get("scopeName") for selector in in_scopes}
    missing_scopes = [each for each in limited_scopes if each.get("scopeName") not in covered]
    if not missing_scopes:
        return None
    return plain_error(f"insufficient quota to match these scopes: [{' '.join(map(printed, missing_scopes))}]")


_ENDED_POD: Final[JSON] = {"spec": {}, "status": {"phase": "Succeeded"}}
"""A pod that quotas count only as an object."""


def is_end_of_pod(review: Review) -> bool:
    """Return whether a request reports the end of a pod, which then uses no compute resources."""
    if review.attributes.operation is not Operation.UPDATE or not review.is_resource("", "pods", "", "status"):
        return False
    return ((review.object or {}).get("status") or {}).get("phase") in ENDED


def is_removal(review: Review) -> bool:
    """Return whether a request removes its object. A pod with a node is first deleted gracefully."""
    attributes = review.attributes
    if attributes.operation is not Operation.DELETE or attributes.subresource:
        return False
    return not review.is_resource("", "pods") or _is_final(review)


def _is_final(review: Review) -> bool:
    """Return whether a deletion removes a pod at once: without a grace period, or without a node to end it."""
    if not (review.old_object.get("spec") or {}).get("nodeName"):
        return True
    options = known(review.attributes.options)
    return (options or {}).get("gracePeriodSeconds") == 0


def as_charged(obj: JSON) -> JSON:
    """Return an object as quotas counted it before its deletion or end.

    Admission sees the old object of a deletion with this deletion's timestamp, with which a pod counts as nothing
    (`rest.BeforeDelete` sets it first). The deletion gives back the usage of the stored object.
    """
    metadata, status = (dict.get(obj, name) for name in ("metadata", "status"))
    changes = {}
    if isinstance(metadata, dict):
        changes["metadata"] = replaced(metadata, {}, ("deletionTimestamp", "deletionGracePeriodSeconds"))
    if isinstance(status, dict):
        changes["status"] = replaced(status, {}, ("phase",))
    return replaced(obj, changes, () if isinstance(status, dict) else ("status",))


def _scopes(evaluator: Evaluator, obj: JSON, selectors: list[JSON]) -> list[JSON]:
    return [each for each in selectors if evaluator.is_in(each, obj)] if evaluator.has_scopes else []


def matches(evaluator: Evaluator, quota: Quota, obj: JSON) -> bool:
    """Return whether a quota counts an object."""
    # All selectors are tested, as in `generic.Matches`: an invalid one is an error even if another does not match.
    in_scope = [evaluator.is_in(selector, obj) for selector in quota.selectors]
    return all(in_scope) and any(evaluator.counts(name) for name in quota.hard)


_NONE: Final = ""
"""Key for the usage of a request without a quota. No quota has this name."""


def _is_stored(old: JSON) -> bool:
    """Return whether an object has a resourceVersion, even an unknown one."""
    try:
        return bool((old.get("metadata") or {}).get("resourceVersion"))
    except UnknownInputError:
        return True


def _deltas(
    review: Review, evaluator: Evaluator, interesting: list[Quota], usage: Amounts
) -> dict[str, dict[str, Quantity]]:
    """Return the usage that the request adds to each affected quota. An update adds the difference."""
    attributes = review.attributes
    deltas: dict[str, Amounts] = {quota.name: usage for quota in interesting} or {_NONE: usage}
    old = review.old_object if attributes.operation is Operation.UPDATE else {}
    # An update that creates its object has an old object without resourceVersion, and is charged in full.
    if attributes.operation is Operation.UPDATE and _is_stored(old):
        old_usage = evaluator.usage(old, review.time)
        more = {name: difference(value, old_usage.get(name)) for name, value in usage.items()}
        known_before = {quota.name for quota in interesting if matches(evaluator, quota, old)} or {_NONE}
        deltas |= {name: more for name in known_before if name in deltas}
    # A resource whose usage stays the same is not checked, so that an exceeded quota does not refuse it.
    added = {name: {key: value for key, value in each.items() if value.sign} for name, each in deltas.items()}
    return {name: each for name, each in added.items() if each}


def difference(value: Quantity, other: Quantity | None) -> Quantity:
    """Return a quantity less another one, if there is one."""
    # Like `SubtractWithNonNegativeResult`, a difference is not below zero.
    difference = value if other is None else value.subtract(other)
    return difference if difference.sign > 0 else Quantity(0, text="0")


def _limited_names(review: Review, usage: Amounts, limited: list[JSON]) -> set[str]:
    """Return the used resources that a quota must cover."""
    resource = review.attributes.resource
    group_resource = resource.group, resource.resource
    own = [each for each in limited if (each.get("apiGroup") or "", each["resource"]) == group_resource]
    parts = [part for each in own for part in each.get("matchContains") or ()]
    return {name for name, value in usage.items() if value.sign > 0 and any(part in name for part in parts)}


def _used_afterwards(
    review: Review, interesting: list[Quota], deltas: Mapping[str, Amounts]
) -> Refusal | dict[str, Amounts]:
    """Return each quota's usage after the request, or the refusals of all exceeded quotas."""
    usage_by_quota: dict[str, Amounts] = {}
    refusals = []
    for quota in interesting:
        requested = {name: value for name, value in deltas.get(quota.name, {}).items() if name in quota.hard}
        used = dict(quota.used)
        add(used, requested)
        exceeded = sorted(name for name in requested if used[name].compare(quota.hard[name]) > 0)
        # A status reports resources that are already in use, so it is charged beyond the limit.
        if exceeded and review.attributes.subresource != "status":
            texts = [_printed(each, exceeded) for each in (requested, quota.used, quota.hard)]
            amounts_text = "requested: {}, used: {}, limited: {}".format(*texts)
            refusals.append(review.forbidden(f"exceeded quota: {quota.name}, {amounts_text}"))
        usage_by_quota[quota.name] = used
    if not refusals:
        return usage_by_quota
    first, variants = refusals[0], tuple(sorted({refusal.message for refusal in refusals}))
    return Refusal(first.code, first.reason, first.message, variants=variants if len(variants) > 1 else ())


def _printed(values: Amounts, names: list[str]) -> str:
    return ",".join(f"{name}={values[name]}" for name in names if name in values)
