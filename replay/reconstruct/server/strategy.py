"""Changes of the REST strategy between the mutating and the validating phase.

Source: `pkg/registry/*/strategy.go` (PrepareForCreate, PrepareForUpdate) and `apiserver/pkg/registry/rest`
(BeforeCreate, BeforeUpdate). They are needed for requests that stored nothing; for others the response shows them.
"""

from __future__ import annotations

from collections.abc import Iterable

from replay.json import JSON, FieldPath
from replay.kube.attributes import Basis, Missing
from replay.kube.discovery import APIResource
from replay.reconstruct.history.derived import second
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, differences, get
from replay.reconstruct.server.generation import changed, created

_GENERATED = "the server generates it, and the response does not show the object"
_UID = ("metadata", "uid")
_CREATED = ("metadata", "creationTimestamp")
_NAME = ("metadata", "name")
_GENERATION = ("metadata", "generation")
_REVISION = ("metadata", "resourceVersion")
_MANAGED = ("metadata", "managedFields")
_SPEC = ("spec",)
_LABELS = ("metadata", "labels")
_POD_LABELS = ("spec", "template", "metadata", "labels")
_STATUS = ("status",)

_JOBS = ("batch", "jobs", "")
_UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
_GENERATED_LABELS = (*_UID_LABELS, *_NAME_LABELS)
"""Labels that the Job strategy adds to pods (`pkg/registry/batch/job/strategy.go`, `generateSelector`)."""
_MATCHED_LABELS = ("spec", "selector", "matchLabels")

_SET_ON_CREATE: dict[tuple[str, str], tuple[FieldPath, ...]] = {
    ("", "pods"): (("status", "qosClass"),),
    ("", "services"): tuple(("spec", name) for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")),
    ("apiregistration.k8s.io", "apiservices"): (("status",),),
    ("certificates.k8s.io", "certificatesigningrequests"): (("spec",), ("status",)),
    ("", "persistentvolumeclaims"): (),
}
"""Fields that strategies set on creation from data of the server."""
_PENDING: dict[tuple[str, str], tuple[FieldPath, JSON]] = {
    ("", "pods"): (("status", "phase"), "Pending"),
    ("", "persistentvolumeclaims"): (_STATUS, {"phase": "Pending"}),
}
"""Fields of the status that `PrepareForCreate` sets, whatever the client sent, and their values."""

_ALL_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
_KEPT_BY_STATUS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): ("ownerReferences",),
    ("apps", "deployments"): ("labels",),
    **dict.fromkeys(
        (
            ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
            ("certificates.k8s.io", "podcertificaterequests"),
            ("flowcontrol.apiserver.k8s.io", "flowschemas"),
            ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
            ("internal.apiserver.k8s.io", "storageversions"),
            ("networking.k8s.io", "servicecidrs"),
            ("resource.k8s.io", "devicetaintrules"),
            ("resource.k8s.io", "resourceclaims"),
            ("resource.k8s.io", "resourcepoolstatusrequests"),
            ("storage.k8s.io", "csinodes"),
            ("storage.k8s.io", "volumeattachments"),
            ("storagemigration.k8s.io", "storageversionmigrations"),
        ),
        _ALL_METADATA,
    ),
}
"""Metadata that an update of `status` cannot change. For other built-in kinds it can change all of it."""


def as_validated(stored: Known, exchange: Exchange) -> Known:
    """Return a created object without what decoding from storage adds (`SetDefaults_Job`).

    A Job without labels gets those of its pods. If the pods have labels of their own, both share one Go map. Then the
    Job also has the labels that the strategy generates for its pods, before validation. If the pods had none, the
    generated labels become the Job's only when it is read.
    """
    record = exchange.record
    if (record.api_group, record.resource, record.subresource) != _JOBS:
        return stored
    labels, uid = get(stored.value, _LABELS) or {}, get(stored.value, _UID)
    is_generated = uid is not None and labels.get(_UID_LABELS[0]) == uid
    own = set(get(stored.value, _POD_LABELS) or ()) - set(_GENERATED_LABELS)
    return stored.without(_LABELS) if is_generated and not own else stored


def _generated_job_labels(job: Known) -> list[Hole]:
    """Return holes for the labels that a new Job may share with its pods.

    Equal labels do not show whether the map is shared.
    """
    labels = get(job.value, _LABELS)
    if not labels or labels != get(job.value, _POD_LABELS):
        return []
    return [Hole((*_LABELS, name), _GENERATED) for name in _GENERATED_LABELS]


def _with_selector(job: Known) -> Known:
    """Return a new Job with the generated selector and pod labels; only its UID is unknown.

    A Job with `manualSelector` keeps its own, and so does a label that a client sets (`generateSelector`).
    """
    if get(job.value, ("spec", "manualSelector")):
        return job
    shared = _generated_job_labels(job)
    sent, selected = get(job.value, _POD_LABELS) or {}, get(job.value, _MATCHED_LABELS) or {}
    name = get(job.value, _NAME)
    named = {label: name for label in _NAME_LABELS if label not in sent} if name else {}
    unknown: list[FieldPath] = [
        (*_POD_LABELS, label) for label in _GENERATED_LABELS if label not in sent and label not in named
    ]
    unknown += [(*_MATCHED_LABELS, label) for label in _UID_LABELS[:1] if label not in selected]
    state = job.with_value(_POD_LABELS, {**sent, **named}).with_value(_MATCHED_LABELS, selected)
    return state.with_holes([*shared, *(Hole(path, _GENERATED) for path in unknown)])


def _node_ports(service: Known, group_resource: tuple[str, str]) -> list[Hole]:
    """Return holes for the node ports that a new Service gets.

    Source: `registry/core/service/storage/alloc.go`, `shouldAllocateNodePorts`.
    """
    spec = get(service.value, _SPEC) if group_resource == ("", "services") else None
    if not isinstance(spec, dict):
        return []
    is_balanced = spec.get("type") == "LoadBalancer"
    asks = spec.get("type") == "NodePort" or (is_balanced and spec.get("allocateLoadBalancerNodePorts") is not False)
    ports = spec.get("ports") if asks else None
    holes = [
        Hole(("spec", "ports", index, "nodePort"), _GENERATED)
        for index, port in enumerate(ports if isinstance(ports, list) else ())
        if isinstance(port, dict) and not port.get("nodePort")
    ]
    if is_balanced and spec.get("externalTrafficPolicy") == "Local" and not spec.get("healthCheckNodePort"):
        holes.append(Hole(("spec", "healthCheckNodePort"), _GENERATED))
    return holes


def after_create(original: Known, exchange: Exchange, api_resource: APIResource | None) -> Known:
    """Return a new object as the validating phase gets it.

    Its UID is a hole, and so is its creation time if the request lasted from one second into another.
    """
    record = exchange.record
    state = created(original.as_basis(Basis.RECONSTRUCTED), exchange.resource.group_resource, api_resource)
    holes = [Hole(_UID, _GENERATED)]
    if second(record.received) == second(record.stage_time):
        state = state.with_value(_CREATED, second(record.received))
    else:
        holes.append(Hole(_CREATED, _GENERATED))
    if not get(state.value, _NAME):
        named = _name_in_status(exchange)
        state, extra = (state.with_value(_NAME, named), []) if named else (state, [Hole(_NAME, _GENERATED)])
        holes += extra
    group_resource = (record.api_group, record.resource)
    holes += _node_ports(state, group_resource)
    paths = _SET_ON_CREATE.get(group_resource)
    if group_resource == _JOBS[:2]:
        state = _with_selector(state)
    elif paths is not None:
        holes += [Hole(path, _GENERATED) for path in paths]
    elif api_resource is not None and "status" in api_resource.subresources and api_resource.custom:
        # `customResourceStrategy.PrepareForCreate` drops the status of a kind with the status subresource.
        state = state.without(("status",))
    elif api_resource is not None and "status" in api_resource.subresources and get(state.value, ("status",)):
        holes.append(
            Hole(("status",), "the server resets the status on creation, and the log does not show the result")
        )
    if group_resource in _PENDING:
        state = state.with_value(*_PENDING[group_resource])
    if group_resource == ("", "namespaces"):
        # `namespaceStrategy.PrepareForCreate` adds the finalizer of the namespace controller.
        finalizers = get(state.value, ("spec", "finalizers")) or []
        if "kubernetes" not in finalizers:
            state = state.with_value(("spec", "finalizers"), [*finalizers, "kubernetes"])
    return state.with_holes(holes)


def _name_in_status(exchange: Exchange) -> str:
    """Return the generated name from the Status of a refusal, empty if it has none."""
    name = get(exchange.response.json, ("details", "name"))
    return name if isinstance(name, str) else ""


def after_update(original: Known, old: Known | Missing, exchange: Exchange) -> Known:
    """Return a changed object as the validating phase gets it, for a request whose response does not show it."""
    state = original.as_basis(Basis.RECONSTRUCTED)
    if isinstance(old, Missing) or old.value is None:
        return state.with_holes(_open_without_old(exchange))
    if exchange.record.subresource == "scale":
        # Validation gets the Scale of the changed workload, and only the replicas of the request are copied into it.
        return old.with_value(("spec", "replicas"), get(state.value, ("spec", "replicas")) or 0)
    for path in (
        _UID,
        _CREATED,
        _REVISION,
        ("metadata", "deletionTimestamp"),
        ("metadata", "deletionGracePeriodSeconds"),
    ):
        state = _taken_over(state, old, path)
    if exchange.record.subresource == "status":
        return _status_updated(state, old, exchange)
    if (exchange.resource.group_resource.resource, exchange.record.subresource) in _POD_SUBRESOURCES:
        state = _pod_updated(state, old, exchange.record.subresource)
    elif exchange.record.subresource:
        state = state.with_holes(
            [
                Hole(_SPEC, "a request to a subresource changes a part of it"),
                Hole(_STATUS, "a request to a subresource may change it"),
            ]
        )
    elif _keeps_status(exchange, old):
        state = _taken_over(state, old, _STATUS)
    return changed(state, old, exchange.resource.group_resource, exchange.api_resource)


_POD_SUBRESOURCES = frozenset({("pods", "ephemeralcontainers"), ("pods", "resize")})
_KEPT_BY_POD_SUBRESOURCES = ("generation", "labels", "annotations", "finalizers", "ownerReferences")
"""Fields of `metav1.ResetObjectMetaForStatus`."""


def _pod_updated(state: Known, old: Known, subresource: str) -> Known:
    """Return a pod after an update of a part of its spec; everything else stays.

    Source: `pkg/registry/core/pod/strategy.go`, `dropNonEphemeralContainerUpdates` and `dropNonResizeUpdates`.
    """
    sent = state
    state = _taken_over(_taken_over(state, old, _SPEC), old, _STATUS)
    for name in _KEPT_BY_POD_SUBRESOURCES:
        state = _taken_over(state, old, ("metadata", name))
    if subresource == "ephemeralcontainers":
        return _taken_over(state, sent, ("spec", "ephemeralContainers"))
    for field in ("containers", "initContainers"):
        path: FieldPath = ("spec", field)
        if get(sent.value, path) is not None:
            containers = _resized(get(sent.value, path), get(old.value, path) or ())
            state = state.with_value(path, containers).with_holes(
                [hole for hole in sent.holes if hole.path[:2] == path]
            )
    if get(sent.value, ("spec", "resources")) is not None:
        state = _taken_over(state, sent, ("spec", "resources"))
    return state


def _resized(sent: list[JSON], old: Iterable[JSON]) -> list[JSON]:
    """Return the old containers with the resources and resize policy that a request sends."""
    by_name = {each.get("name"): each for each in old}
    containers = []
    for container in sent:
        before = by_name.get(container.get("name"))
        if before is None:
            containers.append(container)
            continue
        kept = {key: value for key, value in before.items() if key not in ("resources", "resizePolicy")}
        changed_fields = {key: container[key] for key in ("resources", "resizePolicy") if key in container}
        containers.append({**kept, **changed_fields})
    return containers


def _keeps_status(exchange: Exchange, old: Known) -> bool:
    """Return whether the old status stays, as it does for a custom resource with the status subresource."""
    if exchange.api_resource is not None and exchange.api_resource.custom:
        return "status" in exchange.api_resource.subresources
    return get(old.value, _STATUS) is not None


def _taken_over(state: Known, old: Known, path: FieldPath) -> Known:
    """Return an object with a field that the strategy copies from the old object."""
    holes = [hole for hole in old.holes if hole.path[: len(path)] == path or path[: len(hole.path)] == hole.path]
    value = get(old.value, path)
    state = state.with_value(path, value) if value is not None else state.without(path)
    return state.with_holes(holes)


def _status_updated(state: Known, old: Known, exchange: Exchange) -> Known:
    """Return an object after an update of `status`: it keeps the old spec, and the metadata that its strategy keeps."""
    api_resource, resource = exchange.api_resource, exchange.resource.group_resource
    if api_resource is not None and api_resource.custom:
        # The old object with the new status and its field managers (`statusStrategy.PrepareForUpdate` of custom
        # resources).
        return _taken_over(_taken_over(old.as_basis(state.basis), state, _STATUS), state, _MANAGED)
    state = _taken_over(_taken_over(state, old, _SPEC), old, _GENERATION)
    if api_resource is None:
        return state.with_holes(_metadata_of_status(state, old))
    for name in _KEPT_BY_STATUS.get(resource, ()):
        state = _taken_over(state, old, ("metadata", name))
    return state


def _metadata_of_status(state: Known, old: Known) -> list[Hole]:
    """Return holes for the metadata that an unknown strategy may keep from the old object. Equal values need none."""
    one, other = get(state.value, ("metadata",)), get(old.value, ("metadata",))
    reason = "it is not known whether a status update changes it"
    return [
        Hole(("metadata", *path), reason) for path in differences(one, other) if path and path[0] != "managedFields"
    ]


def _open_without_old(exchange: Exchange) -> list[Hole]:
    """Return fields that are copied from an unknown old object."""
    reason = "the server copies it from the old object, which is not known"
    paths: list[FieldPath] = [
        _CREATED,
        _GENERATION,
        _REVISION,
        ("metadata", "deletionTimestamp"),
        ("metadata", "deletionGracePeriodSeconds"),
    ]
    # The server copies the UID only into a body without one (`rest.BeforeUpdate`).
    if not get(exchange.request.json, _UID):
        paths.append(_UID)
    if exchange.record.subresource != "status":
        paths.append(("status",))
    if exchange.record.subresource:
        paths += [
            ("spec",),
            ("metadata", "labels"),
            ("metadata", "annotations"),
            ("metadata", "finalizers"),
            ("metadata", "ownerReferences"),
        ]
    return [Hole(path, reason) for path in paths]
