"""The effects of a webhook outage other than denials.

They are requests that pass unchecked, the steps that the webhooks need to come back, and the duration of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from replay.admission.webhook.webhooks import WebhookAdmission, match_resources
from replay.audit.store import Store
from replay.cellib.version import KubernetesVersion
from replay.errors import ReplayError
from replay.go.time import DurationError, parse_duration
from replay.json import JSON
from replay.kube.admissionregistration import FailurePolicy, ManifestSet, Phase, Webhook
from replay.kube.attributes import Attributes, Missing, Operation, UserInfo
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import Lister
from replay.matching.coarse import CoarseClass, may_select
from replay.matching.rules import EquivalentResourceMapper, excluded_from_all
from replay.reconstruct.cluster import Cluster, ClusterLister


class FailedCall(NamedTuple):
    """Key of calls that fail: one webhook, one kind of request, and one minute since the epoch."""

    webhook: str
    failure_policy: str
    operation: str
    resource: str
    minute: int


class DownWebhook(NamedTuple):
    """A webhook that does not answer. `namespace` is that of its Service, or empty for a URL."""

    name: str
    configuration: str
    phase: str
    failure_policy: str
    timeout_seconds: int
    namespace: str
    impatient: int = 0
    """Number of requests of the log whose own time limit ends before that of the webhook."""


class Return(StrEnum):
    """Possibility of a webhook's recovery step while the webhook is down."""

    POSSIBLE = "possible"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class RecoveryStep(NamedTuple):
    """A step that must happen before a webhook answers again, and how the server treats it until then."""

    what: str
    user: str
    operation: str
    resource: str
    namespace: str
    answer: Return
    webhooks: tuple[str, ...] = ()
    """The webhooks that are down and that the step asks, or may ask."""
    reason: str = ""


class Waits(NamedTuple):
    """Time that requests waited for the webhooks of a phase, in nanoseconds.

    Only requests that took more than half a second are known.
    """

    requests: int
    longest: int
    over: int
    """Number of requests that waited as long as the shortest time limit of a webhook that is down."""


class Outage(Struct, frozen=True):
    """The webhooks that are down in the candidate, and the effects."""

    webhooks: tuple[DownWebhook, ...]
    steps: tuple[RecoveryStep, ...] = ()
    """Empty in kcp, whose shards have no nodes."""
    waits: Mapping[str, Waits] = field(default_factory=dict)
    """Waiting times by phase."""


CURRENT_DOWN, DOWN = "--current-down", "--down"
PHASES: Final[tuple[Phase, ...]] = ("mutating", "validating")
_NAMESPACE = GroupVersionKind("", "v1", "Namespace")
_SYSTEM = "kube-system"
_LEASES = "kube-node-lease"
_NODE = "system:node:NODE"
_OWN = "{own}"
"""Placeholder for the namespace of the webhook's Service."""


class _Step(NamedTuple):
    what: str
    user: str
    operation: Operation
    resource: GroupVersionResource
    subresource: str = ""
    namespace: str = ""


def _controller(name: str) -> str:
    return f"system:serviceaccount:{_SYSTEM}:{name}"


_PODS = GroupVersionResource("", "v1", "pods")
_LEASE = GroupVersionResource("coordination.k8s.io", "v1", "leases")
_STEPS: Final = (
    _Step(
        "the Deployment controller makes its ReplicaSet",
        _controller("deployment-controller"),
        Operation.CREATE,
        GroupVersionResource("apps", "v1", "replicasets"),
        namespace=_OWN,
    ),
    _Step(
        "the ReplicaSet controller makes its pods",
        _controller("replicaset-controller"),
        Operation.CREATE,
        _PODS,
        namespace=_OWN,
    ),
    _Step("the scheduler binds its pods", "system:kube-scheduler", Operation.CREATE, _PODS, "binding", namespace=_OWN),
    _Step(
        "the kubelet gets a token for its pods",
        _NODE,
        Operation.CREATE,
        GroupVersionResource("", "v1", "serviceaccounts"),
        "token",
        _OWN,
    ),
    _Step("the kubelet reports that its pods are ready", _NODE, Operation.UPDATE, _PODS, "status", _OWN),
    _Step(
        "the EndpointSlice controller publishes its pods",
        _controller("endpointslice-controller"),
        Operation.UPDATE,
        GroupVersionResource("discovery.k8s.io", "v1", "endpointslices"),
        namespace=_OWN,
    ),
    _Step("a new node registers", _NODE, Operation.CREATE, GroupVersionResource("", "v1", "nodes")),
    _Step("a node reports its status", _NODE, Operation.UPDATE, GroupVersionResource("", "v1", "nodes"), "status"),
    _Step("a node renews its lease", _NODE, Operation.UPDATE, _LEASE, namespace=_LEASES),
    _Step(
        "the controller manager renews its lease",
        "system:kube-controller-manager",
        Operation.UPDATE,
        _LEASE,
        namespace=_SYSTEM,
    ),
    _Step("the scheduler renews its lease", "system:kube-scheduler", Operation.UPDATE, _LEASE, namespace=_SYSTEM),
)
"""Steps until the pods of a webhook serve again, after all of them and perhaps their nodes are gone."""


def with_outage(
    sets: tuple[ManifestSet | None, ManifestSet | None], current_down: Collection[str], down: Collection[str]
) -> tuple[ManifestSet | None, ManifestSet | None]:
    """Return both sets with their webhooks in an outage. Raise ReplayError for a name that a set lacks."""
    current, candidate = sets
    return _without_answers(current, current_down, CURRENT_DOWN), _without_answers(candidate, down, DOWN)


def _without_answers(manifests: ManifestSet | None, names: Collection[str], option: str) -> ManifestSet | None:
    if not names:
        return manifests
    manifests = ManifestSet() if manifests is None else manifests
    by_name: dict[str, set[str]] = {}
    for configuration in manifests.configurations():
        for webhook in configuration.webhooks:
            by_name.setdefault(configuration.name, set()).add(webhook.name)
            by_name.setdefault(webhook.name, set()).add(webhook.name)
    for name in names:
        if name not in by_name:
            there_are = ", ".join(f"`{each}`" for each in sorted(by_name)) or "none"
            raise ReplayError(f"the set has no webhook or configuration `{name}`; there are: {there_are}", path=option)
    return replace(manifests, down=frozenset[str]().union(*(by_name[name] for name in names)))


def outage_of(
    store: Store,
    manifests: ManifestSet,
    snapshot: Sequence[JSON],
    version: KubernetesVersion,
    *,
    is_shard: bool = False,
) -> Outage | None:
    """Return the facts about the webhooks of a set that are down, at the end of a log, or None if none is."""
    if not manifests.down:
        return None
    cluster = Cluster(tuple(snapshot), store.lookups({"namespaces"}))
    limits_of_clients = list(_client_limits(store))
    mapper = EquivalentResourceMapper(cluster.discovery)

    def impatient(webhook: Webhook) -> int:
        selects = may_select(match_resources(webhook), mapper, excluded_from_all([manifests]))
        limit = webhook.timeout_seconds * 10**9
        return sum(count for requests, own, count in limits_of_clients if own < limit and selects(requests))

    webhooks = tuple(_down_webhooks(manifests, impatient))
    ((_, last, *_),) = store.answer("log_facts")
    # The recovery begins when the log ends.
    lister = ClusterLister(cluster, int(last or 0), int(last or 0))
    admissions = [WebhookAdmission([_failing(manifests)], phase, version, cluster.discovery) for phase in PHASES]
    # A shard of kcp runs no pods and has no nodes.
    steps = [] if is_shard else _steps(webhooks)
    answers = tuple(_answered(step, admissions, cluster, lister) for step in steps)
    limits = {phase: [each.timeout_seconds for each in webhooks if each.phase == phase] for phase in PHASES}
    rows = list(store.query("webhook_waits").iter_rows()) if any(limits.values()) else []
    waits: dict[str, Waits] = {
        phase: _waits([row[index] for row in rows if row[index] is not None], min(limits[phase]))
        for index, phase in enumerate(PHASES)
        if limits[phase]
    }
    return Outage(webhooks, answers, waits)


def _steps(webhooks: Iterable[DownWebhook]) -> list[_Step]:
    """Return the recovery steps of each webhook that fails requests, and those of the nodes."""
    own = sorted({each.namespace for each in webhooks if each.namespace and each.failure_policy == FailurePolicy.FAIL})
    steps = [step._replace(namespace=name) for name in own for step in _STEPS if step.namespace == _OWN]
    return steps + [step for step in _STEPS if step.namespace != _OWN]


def _client_limits(store: Store) -> Iterator[tuple[CoarseClass, int, int]]:
    """Yield the time limits of clients for their own requests, in nanoseconds, with counts.

    Source: `filters.WithRequestDeadline`.
    """
    for *columns, text, count in store.answer("request_limits"):
        for limit in _durations([text]):
            yield CoarseClass(*columns), limit, count


def _down_webhooks(manifests: ManifestSet, impatient: Callable[[Webhook], int]) -> Iterator[DownWebhook]:
    for phase in PHASES:
        for configuration in manifests.configurations(phase):
            for webhook in configuration.webhooks:
                if webhook.name in manifests.down:
                    service = webhook.client_config.service
                    yield DownWebhook(
                        webhook.name,
                        configuration.name,
                        phase,
                        str(webhook.failure_policy),
                        webhook.timeout_seconds,
                        service.namespace if service is not None else "",
                        impatient(webhook),
                    )


def _failing(manifests: ManifestSet) -> ManifestSet:
    """Return a set with only the webhooks that are down and have the `failurePolicy` Fail."""
    kept = (
        replace(
            configuration,
            webhooks=tuple(
                webhook
                for webhook in configuration.webhooks
                if webhook.name in manifests.down and webhook.failure_policy is FailurePolicy.FAIL
            ),
        )
        for configuration in manifests.configurations()
    )
    return ManifestSet(tuple(kept))


def _answered(step: _Step, admissions: Sequence[WebhookAdmission], cluster: Cluster, lister: Lister) -> RecoveryStep:
    """Return how the server treats a request of a step. Only its kind is known, not its content."""
    kind = cluster.discovery.kind(step.resource, step.subresource) or GroupVersionKind("", "v1", "")
    what_is_in_it = Missing("object", "the object is not known")
    attributes = Attributes(
        operation=step.operation,
        kind=kind,
        resource=step.resource,
        subresource=step.subresource,
        namespace=step.namespace,
        name="",
        user_info=UserInfo(step.user, groups=_groups(step.user)),
        object=what_is_in_it,
        old_object=what_is_in_it if step.operation is Operation.UPDATE else None,
        namespace_object=_namespace(step.namespace, lister),
        missing=(Missing("request.name", "the name is not known"),),
    )
    refusing: list[str] = []
    asked: list[tuple[str, str]] = []
    for admission in admissions:
        for hook in admission.candidates(attributes)[0]:
            answer = admission.should_call(hook, attributes, lister)
            if isinstance(answer, Missing):
                asked.append((hook.webhook.name, f"it depends on `{answer.path}`: {answer.reason}"))
            elif answer is not None:
                refusing.append(hook.webhook.name)
    resource = f"{step.resource.group_resource}{f'/{step.subresource}' if step.subresource else ''}"
    known = (step.what, step.user, str(step.operation), resource, step.namespace)
    if refusing:
        return RecoveryStep(*known, Return.REFUSED, tuple(dict.fromkeys(refusing)))
    if asked:
        return RecoveryStep(*known, Return.UNKNOWN, tuple(dict.fromkeys(name for name, _ in asked)), asked[0][1])
    return RecoveryStep(*known, Return.POSSIBLE)


def _namespace(name: str, lister: Lister) -> JSON | Missing | None:
    if not name:
        return None
    namespace = lister.get(_NAMESPACE, "", name)
    return Missing("namespaceObject", f"Namespace `{name}` is not in the snapshot") if namespace is None else namespace


def _groups(user: str) -> tuple[str, ...]:
    if user.startswith("system:serviceaccount:"):
        return "system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}", "system:authenticated"
    return (*(("system:nodes",) if user == _NODE else ()), "system:authenticated")


def _waits(texts: Sequence[str], limit_seconds: int) -> Waits:
    waits = list(_durations(texts))
    return Waits(len(waits), max(waits, default=0), sum(each >= limit_seconds * 10**9 for each in waits))


def _durations(texts: Sequence[str]) -> Iterator[int]:
    for text in texts:
        try:
            yield parse_duration(text)
        except DurationError:  # a log may have any text here
            continue
