"""Generator of requests to policies: minimal requests and random changes of them, all acceptable to a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from replay.errors import UNFORESEEN
from replay.json import JSON
from replay.kube.attributes import Operation, UserInfo
from replay.kube.gvk import GroupResource, GroupVersionKind
from replay.kube.immutable import IMMUTABLE
from replay.kube.names import dns1123_label, dns1123_subdomain, label_value, qualified_name
from replay.kube.schema import Schema
from replay.prove.request import SymbolicRequest, Target
from replay.prove.search.admissible import is_admissible
from replay.prove.search.interest import InterestingValues, PathSteps
from replay.prove.search.skeleton import ValidSkeletons
from replay.prove.search.target import ParamSlot
from replay.prove.search.variation import Variation

_MOSTLY_IMMUTABLE: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("", "persistentvolumeclaims"): (("spec",),),
    ("", "persistentvolumes"): (("spec",),),
}
"""Fields that an update can change only in few ways, which are not tried."""

_NAME_PATH = ("metadata", "name")
_METADATA = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "generateName")


def _kept(target: Target) -> tuple[tuple[str, ...], ...]:
    key = (target.resource.group, target.resource.resource)
    return _MOSTLY_IMMUTABLE.get(key) or IMMUTABLE.get(key, ())


def _agreed(target: Target, new: JSON, old: JSON, least: JSON) -> tuple[JSON, JSON]:
    """Return the new and the old object of an update that a server accepts.

    Where the old object is still minimal, it follows the new one.
    """
    followed = old
    if _part(old, _NAME_PATH) == _part(least, _NAME_PATH) and isinstance(_part(new, _NAME_PATH), str):
        followed = _with_part(followed, _NAME_PATH, new)
    for path in _kept(target):
        if _part(old, path) == _part(least, path):
            followed = _with_part(followed, path, new)
    if _is_pod(target) and target.subresource != "status" and old.get("spec") == least.get("spec"):
        spec = dict(new.get("spec") or {})
        if target.subresource == "ephemeralcontainers":
            spec.pop("ephemeralContainers", None)
        followed = {**followed, "spec": spec}
    return with_immutable_parts(target, new, followed), followed


def _part(value: JSON, path: tuple[str, ...]) -> JSON:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _is_pod(target: Target) -> bool:
    return target.kind.kind == "Pod" and not target.kind.group


def with_immutable_parts(target: Target, new: JSON, old: JSON) -> JSON:
    """Return the new object with its immutable parts taken from the old one. Containers of pods keep all but images."""
    fixed: dict[str, Any] = dict(new)
    for path in _kept(target):
        fixed = _with_part(fixed, path, old)
    if isinstance(old.get("metadata"), dict) and isinstance(fixed.get("metadata"), dict):
        metadata = {key: value for key, value in fixed["metadata"].items() if key not in _METADATA}
        old_metadata = {key: value for key, value in old["metadata"].items() if key in _METADATA}
        fixed["metadata"] = {**old_metadata, **metadata}
    if _is_pod(target) and target.subresource != "status":
        fixed["spec"] = _pod_spec(target.subresource, fixed.get("spec") or {}, old.get("spec") or {})
    return fixed


def _with_part(value: JSON, path: tuple[str, ...], old: JSON) -> JSON:
    copy: dict[str, Any] = dict(value) if isinstance(value, dict) else {}
    old_part = old if isinstance(old, dict) else {}
    head, rest = path[0], path[1:]
    if rest:
        copy[head] = _with_part(copy.get(head), rest, old_part.get(head))
    elif head in old_part:
        copy[head] = old_part[head]
    else:
        copy.pop(head, None)
    return copy


def _pod_spec(subresource: str, new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod's spec after an update (`ValidatePodUpdate`).

    Only images change, and through `ephemeralcontainers` only these containers are added.
    """
    fixed = dict(old)
    if subresource == "ephemeralcontainers":
        if new.get("ephemeralContainers"):
            fixed["ephemeralContainers"] = new["ephemeralContainers"]
        return fixed
    for name in ("containers", "initContainers"):
        if name in old:
            # Empty containers fill up the new list, so that every old container stays.
            pairs = zip(old[name], [*(new.get(name) or ()), *[{}] * len(old[name])], strict=False)
            fixed[name] = [
                {**old_container, "image": after.get("image") or old_container.get("image")}
                for old_container, after in pairs
            ]
    return fixed


NAMESPACE_KIND = GroupVersionKind("", "v1", "Namespace")
_NAMESPACE = "default"
_NAME = "example"
_USERS = ("alice", "system:serviceaccount:default:builder", "system:node:node-1", "system:apiserver")
_OBJECT_ROOTS = ("object", "oldObject", "request", "namespaceObject", "params", "authorizer")


class Generator:
    """Generator of requests for some targets. The same seed gives the same requests."""

    def __init__(
        self,
        interest: InterestingValues,
        targets: Sequence[Target],
        skeletons: ValidSkeletons,
        chooser: Random,
        params: Sequence[ParamSlot] = (),
    ) -> None:
        """`params` are the parameters that policies look up."""
        self.targets = targets
        self._skeletons = skeletons
        self.chooser = self._chooser = chooser
        self._variation = Variation(interest, chooser)
        self._params = params
        self._paths = [
            (root, path)
            for root in _OBJECT_ROOTS
            # Sorted, because the order of a set differs between runs and the choice goes by position.
            for path in sorted(interest.paths.get(root, ()))
            if path or root == "authorizer"
        ]

    @property
    def places(self) -> Sequence[tuple[str, PathSteps]]:
        """Changeable places: each is a binding and a path in it."""
        return self._paths

    def least(self, target: Target) -> SymbolicRequest:
        """Return the minimal request to a target."""
        is_namespace = target.resource.resource == "namespaces" and not target.resource.group
        namespace = _NAMESPACE if target.namespaced else _NAME if is_namespace else ""
        body = self._skeletons.object(target.kind, _NAMESPACE if target.namespaced else "", _NAME)
        operation = target.operation
        return SymbolicRequest(
            target=target,
            name=_NAME,
            namespace=namespace,
            user=UserInfo(username="alice", uid="u-1", groups=("system:authenticated",)),
            object=None if operation is Operation.DELETE else body,
            old_object=body if operation in {Operation.UPDATE, Operation.DELETE} else None,
            namespace_object=namespace_of(_NAMESPACE, {}) if target.namespaced else None,
            params=tuple(slot.least() for slot in self._params),
            options=_options(operation),
        )

    def requests(self, count: int) -> Iterator[SymbolicRequest]:
        """Yield the minimal requests, then up to `count` random ones. Requests that a server refuses are skipped."""
        for target in self.targets:
            yield self.least(target)
        for _ in range(count):
            target = self._chooser.choice(self.targets)
            request = self.varied(self.least(target), 1 + self._chooser.randrange(6))
            if request is not None:
                yield request

    def varied(self, request: SymbolicRequest, changes: int) -> SymbolicRequest | None:
        """Return a request with some changes, or None if the server would refuse the result."""
        varied = request
        for _ in range(changes):
            if not self._paths or self._chooser.random() < 0.08:
                varied = self._vary_other(varied)
            else:
                varied = self.vary_at(varied, *self._chooser.choice(self._paths))
        return settled(varied, self._skeletons, self._params, request)

    def vary_at(self, request: SymbolicRequest, root: str, path: PathSteps) -> SymbolicRequest:  # noqa: PLR0911 - one case a kind
        """Return a request with a change at one place. It is not settled."""
        match root:
            case "object" if request.object is not None:
                value = self._variation.change(request.object, self._schema(request.target.kind), path)
                return request.with_parts({"object": value})
            case "oldObject" if request.old_object is not None:
                value = self._variation.change(request.old_object, self._schema(request.target.kind), path)
                return request.with_parts({"old_object": value})
            case "request":
                return self._vary_request(request, path)
            case "namespaceObject" if request.namespace_object is not None:
                value = self._variation.change(request.namespace_object, self._schema(NAMESPACE_KIND), path)
                return request.with_parts({"namespace_object": value})
            case "params" if request.params:
                at = self._chooser.randrange(len(request.params))
                slot, params = self._params[at], list(request.params)
                is_gone = self._chooser.random() < 0.08
                begun = slot.least() if params[at] is None else params[at]
                params[at] = None if is_gone else self._variation.change(begun, self._schema(slot.kind), path)
                return request.with_parts({"params": tuple(params)})
            case "authorizer":
                return request.with_parts({"allowed": not request.allowed})
        return request

    def _schema(self, kind: GroupVersionKind) -> Schema | None:
        return self._skeletons.schemas.for_kind(kind)

    def _vary_other(self, request: SymbolicRequest) -> SymbolicRequest:
        """Return a request with a change of something that any decision may depend on."""
        roll = self._chooser.random()
        if roll < 0.3:
            return self._vary_request(request, ("userInfo", "username"))
        if roll < 0.5:
            return self._vary_request(request, ("userInfo", "groups"))
        if roll < 0.7:
            return self._vary_request(request, ("namespace",))
        if roll < 0.75:
            return request.with_parts({"dry_run": not request.dry_run})
        return self.vary_at(request, "object", ("metadata", self._chooser.choice(("labels", "annotations")), "[]"))

    def _vary_request(self, request: SymbolicRequest, path: PathSteps) -> SymbolicRequest:  # noqa: PLR0911 - one case a kind
        user = request.user
        match path:
            case ("userInfo", "username", *_):
                name = (
                    self._variation.text("username") if self._chooser.random() < 0.7 else self._chooser.choice(_USERS)
                )
                return request.with_parts({"user": UserInfo(name or "alice", user.uid, user.groups, user.extra)})
            case ("userInfo", "groups", *_):
                return request.with_parts({"user": UserInfo(user.username, user.uid, self._groups(), user.extra)})
            case ("userInfo", "extra", *rest):
                key = rest[0] if rest and rest[0] != "[]" else self._variation.text("extra")
                extra = dict(user.extra)
                if extra.pop(key, None) is None or self._chooser.random() < 0.6:
                    extra[key] = tuple(self._variation.text(key) for _ in range(self._chooser.choice((1, 1, 2))))
                return request.with_parts({"user": UserInfo(user.username, user.uid, user.groups, extra)})
            case ("userInfo", "uid", *_):
                return request.with_parts(
                    {"user": UserInfo(user.username, self._variation.text("uid"), user.groups, user.extra)}
                )
            case ("dryRun", *_):
                return request.with_parts({"dry_run": not request.dry_run})
            case ("namespace", *_):
                return self._renamed_namespace(request, self._variation.text("namespace"))
            case ("name", *_):
                return self._renamed(request, self._variation.text("name"))
            case ("options", *rest) if isinstance(request.options, dict) and rest:
                return request.with_parts({"options": self._variation.change(request.options, None, tuple(rest))})
        return request

    def _groups(self) -> tuple[str, ...]:
        count = self._chooser.choice((0, 1, 1, 2))
        chosen = [self._variation.text("groups") for _ in range(count)]
        # The server adds this group to every authenticated user (`NewAuthenticatedGroupAdder`).
        return tuple(dict.fromkeys([each for each in chosen if each] + ["system:authenticated"]))

    def _renamed_namespace(self, request: SymbolicRequest, name: str) -> SymbolicRequest:
        if not request.target.namespaced or dns1123_label(name):
            return request
        labels = ((request.namespace_object or {}).get("metadata") or {}).get("labels") or {}
        parts = {"namespace": name, "namespace_object": namespace_of(name, labels)}
        return request.with_parts(parts | _with_metadata(request, "namespace", name))

    def _renamed(self, request: SymbolicRequest, name: str) -> SymbolicRequest:
        return request if dns1123_subdomain(name) else request.with_parts(_with_metadata(request, "name", name))

    def settled(self, request: SymbolicRequest) -> SymbolicRequest | None:
        """Return the request with consistent parts and objects as a server writes them, or None if it refuses them."""
        return settled(request, self._skeletons, self._params)


def settled(
    request: SymbolicRequest,
    skeletons: ValidSkeletons,
    params: Sequence[ParamSlot] = (),
    base: SymbolicRequest | None = None,
) -> SymbolicRequest | None:
    """Settle a request, see `Generator.settled`. A value of unexpected form is refused too.

    `base` is a settled request to the same target from which the request was made.
    """
    try:
        return _settled(request, skeletons, params, base)
    except UNFORESEEN:
        return None


def _settled(
    request: SymbolicRequest, skeletons: ValidSkeletons, params: Sequence[ParamSlot], base: SymbolicRequest | None
) -> SymbolicRequest | None:
    target, parts = request.target, dict[str, Any]()
    for side in ("object", "old_object"):
        body = getattr(request, side)
        if body is not None:
            parts[side] = _settled_object(body, request, skeletons, getattr(base, side, None))
            if parts[side] is None:
                return None
    if "object" in parts and "old_object" in parts:
        least = skeletons.object(target.kind, _NAMESPACE if target.namespaced else "", _NAME)
        parts["object"], parts["old_object"] = _agreed(target, parts["object"], parts["old_object"], least)
    elif _creates_debuggers(target, parts.get("object")):
        return None
    body = parts.get("object") or parts.get("old_object") or {}
    name = (body.get("metadata") or {}).get("name") or request.name
    parts["name"] = name
    if target.resource.group_resource == GroupResource("", "namespaces"):
        parts["namespace"] = name
    if request.namespace_object is not None:
        namespace = _as_namespace(request, skeletons)
        if namespace is None:
            return None
        parts["namespace_object"] = namespace
    settled_params = [
        None if param is None else slot.settled(param, skeletons)
        for slot, param in zip(params, request.params, strict=True)
    ]
    if any(each is None and param is not None for each, param in zip(settled_params, request.params, strict=True)):
        return None
    parts["params"] = tuple(settled_params)
    return request.with_parts(parts)


def _settled_object(body: JSON, request: SymbolicRequest, skeletons: ValidSkeletons, base: JSON) -> JSON | None:
    """Return an object as a server writes it, or None if it refuses it."""
    if (body is base or skeletons.is_own(body)) and _is_in_namespace(body, request):  # as it was: served and admissible
        return body
    kind = request.target.kind
    served = skeletons.as_served(kind, _identified(body, request), base) if isinstance(body, dict) else None
    is_good = served is not None and is_admissible(skeletons.schemas.for_kind(kind), kind, served, base)
    return served if is_good else None


def _is_in_namespace(body: JSON, request: SymbolicRequest) -> bool:
    """Return whether an object is in the namespace of the request, or the request has none."""
    return not request.target.namespaced or (body.get("metadata") or {}).get("namespace") == request.namespace


def _creates_debuggers(target: Target, body: JSON) -> bool:
    """Return whether a creation has ephemeral containers, which are refused (`validatePodEphemeralContainers`)."""
    is_created = target.operation is Operation.CREATE and target.kind.kind == "Pod" and isinstance(body, dict)
    return is_created and bool((body.get("spec") or {}).get("ephemeralContainers"))


def _identified(body: dict[str, JSON], request: SymbolicRequest) -> dict[str, JSON]:
    """Return an object with the kind, name and namespace of the request."""
    kind = request.target.kind
    identified = {**body, "apiVersion": kind.api_version, "kind": kind.kind}
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        # The options of a CONNECT have no metadata.
        if metadata is not None or "Options" not in kind.kind:
            identified["metadata"] = {"name": request.name}
            metadata = identified["metadata"]
        else:
            return identified
    if not metadata.get("name"):
        metadata = {**metadata, "name": request.name}
        identified["metadata"] = metadata
    if request.target.namespaced:
        identified["metadata"] = {**metadata, "namespace": request.namespace}
    elif "namespace" in metadata:
        identified["metadata"] = {key: value for key, value in metadata.items() if key != "namespace"}
    return identified


def _as_namespace(request: SymbolicRequest, skeletons: ValidSkeletons) -> JSON | None:
    metadata = dict(request.namespace_object.get("metadata") or {})
    label_map = metadata.get("labels")
    labels = {**(label_map if isinstance(label_map, dict) else {}), "kubernetes.io/metadata.name": request.namespace}
    if any(not isinstance(text, str) or qualified_name(key) or label_value(text) for key, text in labels.items()):
        return None
    body = {**request.namespace_object, "metadata": {**metadata, "name": request.namespace, "labels": labels}}
    served = skeletons.as_served(NAMESPACE_KIND, body)
    schema = skeletons.schemas.for_kind(NAMESPACE_KIND)
    return served if served is not None and is_admissible(schema, NAMESPACE_KIND, served) else None


def namespace_of(name: str, labels: dict[str, str]) -> JSON:
    """Return a namespace with its labels, including the one that the server sets."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {**labels, "kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _options(operation: Operation) -> JSON:
    if operation is Operation.CONNECT:
        return None
    return {"kind": f"{operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"}


def _with_metadata(request: SymbolicRequest, field: str, value: str) -> dict[str, Any]:
    """Return the objects of a request with another name or namespace."""
    sides = {side: getattr(request, side) for side in ("object", "old_object")}
    return {
        side: {**body, "metadata": {**body["metadata"], field: value}}
        for side, body in sides.items()
        if isinstance(body, dict) and isinstance(body.get("metadata"), dict)
    }
