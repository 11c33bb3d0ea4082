"""Built-in admission plugins and the results of their phases (`k8s.io/apiserver/pkg/admission/interfaces.go`).

A plugin has a name, the operations that it handles, and up to two phases. A phase gets a `Review` and returns nothing
or a refusal. It records other effects (a changed object, warnings, audit annotations, writes to the cluster) in the
review. Plugins read plain JSON. Reading an unknown value of the request or the cluster raises `UnknownInputError`.

Cluster facts (objects, permissions, kinds) come from a `PluginCluster`. Messages about invalid configurations are the server's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Protocol

import orjson
from msgspec import Struct, field

from replay.admission.builtin.partial import UnknownInputError, guarded
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject
from replay.kube.authorizer import Authorizer
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.rbac import RBAC_KINDS

NAMESPACE = GroupVersionKind("", "v1", "Namespace")


class PluginCluster(Struct, frozen=True):
    """The cluster at the time of a request.

    Partly known objects are guarded: a plugin that reads an unknown field raises UnknownInputError.
    """

    lister: Lister
    authorizer: Authorizer
    discovery: Discovery

    def namespace(self, name: str) -> JSON | Missing | None:
        """Return the namespace object, None if there is none."""
        return self.get(NAMESPACE, "", name)

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """Return an object, None if there is none. `namespace` is empty for cluster scope."""
        return _readable(self.lister.get(kind, namespace, name))

    def list(self, kind: GroupVersionKind, namespace: str | None = None) -> Sequence[JSON] | Missing:
        """Return all objects of a kind, in a namespace or in all."""
        objects = self.lister.list(kind, namespace)
        return objects if isinstance(objects, Missing) else [_readable(each) for each in objects]


def _readable(value: JSON | PartialObject | Missing | None) -> JSON | Missing | None:
    return guarded(value.value) if isinstance(value, PartialObject) else value


def plain_list(values: Iterable[str]) -> str:
    """Return supported values as a sorted list (`field.NotSupported`)."""
    return ", ".join(f'"{value}"' for value in sorted(values))


def check_kind(document: JSON | None, kind: str, api_versions: Collection[str]) -> None:
    """Raise ManifestError if a document names a kind that the plugin does not know (`runtime.Scheme`)."""
    type_meta = document or {}
    kind_named, version = (str(type_meta.get(name) or "") for name in ("kind", "apiVersion"))
    if (kind_named or version) and (kind_named != kind or version not in api_versions):
        raise ManifestError(f'no kind "{kind_named}" is registered for version "{version}"')


class Refusal(Struct, frozen=True):
    """The Status that the client gets: HTTP code, `reason` and `message`, with the server's wrapping.

    If the server iterates over a Go map, the parts of `message` have no fixed order. Here they are sorted. If the
    server may name another violation instead, `variants` are all possible messages, sorted.
    """

    code: int
    reason: str
    message: str
    is_in_any_order: bool = False
    variants: tuple[str, ...] = ()


class Review(Struct, dict=True):
    """One request before one phase of a plugin. The lists collect the effects of the phase.

    `object` is a copy that the mutating phase may change. Later plugins see the changed object. The validating phase
    (`is_read_only`) changes nothing and needs no copy. `time` is when the request was received, in microseconds since
    1970.
    """

    attributes: Attributes
    cluster: PluginCluster
    time: int = 0
    is_read_only: bool = False
    copied: JSON = None
    warnings: list[str] = field(default_factory=list)
    audit_annotations: dict[str, str] = field(default_factory=dict)
    effects: list[JSON] = field(default_factory=list)
    review_spec: JSON = None

    @property
    def object(self) -> JSON:
        """Return the object as plain JSON, None if there is none. Raise UnknownInputError.

        Only the parts that are read must be known.
        """
        if self.copied is None:
            value = self.attributes.object
            plain = known(value)
            is_shared = not (self.is_read_only or isinstance(value, PartialObject))
            # A JSON round trip is a fast deep copy. Guarded objects are copies already.
            self.copied = orjson.loads(orjson.dumps(plain)) if is_shared else plain
        return self.copied

    @cached_property
    def old_object(self) -> JSON:
        """Return the old object as plain JSON, or None if there is none. Raise UnknownInputError."""
        return known(self.attributes.old_object)

    @property
    def resource(self) -> str:
        """Return `resource`, or `resource.group`, without the subresource."""
        return str(self.attributes.resource.group_resource)

    def is_resource(self, group: str, resource: str, *subresources: str) -> bool:
        """Return whether the request is for a resource and one of its subresources.

        If none are given, it must be for the resource itself.
        """
        attributes = self.attributes
        named = attributes.resource.group == group and attributes.resource.resource == resource
        return named and attributes.subresource in (subresources or ("",))

    def forbidden(self, message: str, name: str | None = None) -> Refusal:
        """Return a 403 as `admission.NewForbidden` words it, with the request's name or generateName."""
        return forbidden(self.resource, self.name_or_generated() if name is None else name, message)

    @property
    def own_name(self) -> str:
        """Return the name in the object's metadata, empty until it is generated."""
        return str(((self.object or {}).get("metadata") or {}).get("name") or "")

    def name_or_generated(self) -> str:
        """Return the name of the request, otherwise the object's `generateName` (`admission.extractResourceName`)."""
        if self.attributes.name:
            return self.attributes.name
        metadata = (self.object or {}).get("metadata") or {}
        return str(metadata.get("name") or metadata.get("generateName") or "Unknown")


def forbidden(resource: str, name: str, message: str) -> Refusal:
    """Return a 403 Forbidden (`apierrors.NewForbidden`). Without a name it names only the resource."""
    subject = f'{resource} "{name}"' if name else resource
    return Refusal(403, "Forbidden", f"{subject} is forbidden: {message}")


def internal_error(message: str) -> Refusal:
    """Return a 500 InternalError (`apierrors.NewInternalError`)."""
    return Refusal(500, "InternalError", f"Internal error occurred: {message}")


def plain_error(message: str) -> Refusal:
    """Return the refusal for an error that is not an API status: the client sees 500 without a reason."""
    return Refusal(500, "", message)


def known(value: Any) -> Any:
    """Return a value, guarded if it is partly known. Raise UnknownInputError for an unknown one."""
    if isinstance(value, Missing):
        raise UnknownInputError(value)
    return guarded(value.value) if isinstance(value, PartialObject) else value


class PluginPhase(Protocol):
    """One phase of a plugin."""

    def __call__(self, review: Review, /) -> Refusal | None:
        """Return the refusal or None. Other effects of the phase are recorded in the review."""
        ...


class Plugin:
    """A built-in plugin with its configuration. A phase that it does not have is None."""

    name: ClassVar[str]
    operations: ClassVar[frozenset[Operation]]
    concerns: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (("*", ("*/*",)),)
    """Resources that the plugin acts on, by API group, in the form of policy rules.

    Too many are harmless, too few are not.
    """
    looks_up: ClassVar[tuple[tuple[str, str], ...]] = ()
    """The kinds of other objects that it reads, as group and kind."""
    ignores_metadata: ClassVar[bool] = False
    """A flag that the plugin looks up only whether objects exist, and not their labels and annotations."""
    annotation_prefixes: ClassVar[tuple[str, ...]] = ()
    """Prefixes of its audit annotation keys, up to the slash."""
    flags: ClassVar[tuple[str, ...]] = ()
    """Flags of the server that the plugin reads."""
    is_stateful: ClassVar[bool] = False
    """A flag that a decision depends on earlier requests."""
    counts_requests: ClassVar[bool] = False
    """A flag that the plugin's state follows from the requests of a log."""
    is_last: ClassVar[bool] = False
    """A flag that the plugin sees only requests that policies and webhooks allow."""
    is_timed: ClassVar[bool] = False
    """A flag that a decision depends on the times of requests."""
    refuses: ClassVar[bool] = True
    """A flag that it may refuse a request. Other plugins only change objects."""

    @classmethod
    def configured(cls, configuration: JSON | None, flags: Mapping[str, str]) -> Plugin:
        """Return the plugin for its configuration document and the server's flags.

        Raise ManifestError if they are invalid.
        """
        del configuration, flags
        return cls()

    def answered_by(self, backends: Mapping[str, object]) -> Plugin:
        """Return the plugin with a source of its backend's answers, by plugin name.

        A plugin without a backend returns itself.
        """
        del backends
        return self

    admit: PluginPhase | None = None
    validate: PluginPhase | None = None

    def handles(self, operation: Operation) -> bool:
        """Return whether the plugin handles an operation."""
        return operation in self.operations


RBAC = tuple((kind.group, kind.kind) for kind in RBAC_KINDS)
"""Objects that every authorizer decision looks up."""
CREATE = frozenset({Operation.CREATE})
CREATE_UPDATE = frozenset({Operation.CREATE, Operation.UPDATE})
WRITES = frozenset({Operation.CREATE, Operation.UPDATE, Operation.DELETE})
EVERY_OPERATION = frozenset(Operation)
