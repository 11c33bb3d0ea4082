"""Request for the engine: objects, user and context of variables (`pkg/engine/policycontext`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from replay.json import JSON
from replay.kube.gvk import GroupVersionKind, split_api_version
from replay.kyverno.rules.context import Context
from replay.kyverno.rules.go_value import as_map, with_floats, with_integers
from replay.kyverno.rules.image import ImageDefaults, ImageInfo, images_of
from replay.kyverno.rules.jmespath.library import Library
from replay.kyverno.rules.match import Requester, Subject, texts_of

_SERVICE_ACCOUNT = "system:serviceaccount:"
_NO_USER = Requester(
    "kyverno:kyverno-invalid-controller", ("kyverno:invalidgroup",), ("kyverno:invalidrole",), ("kyverno:invalidrole",)
)
"""User for matching an old object. Rules about users do not match it."""

FIELDS = (
    "uid",
    "kind",
    "resource",
    "subResource",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "object",
    "oldObject",
    "dryRun",
    "options",
)
"""Fields of an AdmissionRequest that variables can read."""


class Request:
    """Request under evaluation. Patches and old objects can replace its objects."""

    def __init__(
        self,
        request: Mapping[str, Any],
        kind: GroupVersionKind,
        requester: Requester,
        library: Library,
        images: ImageDefaults,
    ) -> None:
        """`kind` is the kind of the resource, even if the request is for a subresource."""
        self.request = request
        self.operation = str(request.get("operation") or "")
        self.requester = requester
        self.kind = kind
        self.subresource = str(request.get("subResource") or "")
        self.namespace_labels: Mapping[str, str] = {}
        self.is_admission = True
        self.tells_places = False
        """Whether results say which part of a rule they come from."""
        self.element: JSON = None
        self.new = _object(request.get("object"), request)
        self.old = _object(request.get("oldObject"), request)
        self.context = Context(library)
        self.image_defaults = images
        self.namespace_of: Callable[[str], JSON] = lambda _: None
        self._images = _ImageLoader(self.new, library, images)
        self._fill_context()

    def _fill_context(self) -> None:
        # Go omits empty texts, such as the name of an object with `generateName`.
        shown = {field: self.request[field] for field in FIELDS if self.request.get(field, "") != ""}
        shown = {**dict.fromkeys(("object", "oldObject", "options")), **shown}
        self.context.put(with_floats(shown), "request")
        self.context.operation = self.operation
        self._put_user()
        self.context.defer("images", self._images)

    def _put_user(self) -> None:
        """Add the user to the context."""
        user = {
            "roles": list(self.requester.roles),
            "clusterRoles": list(self.requester.cluster_roles),
        }
        self.context.put({key: value for key, value in user.items() if value}, "request")
        name = str(as_map(self.request.get("userInfo")).get("username") or "")
        # As in Kyverno, the prefix is cut off by its length, without a comparison.
        parts = name[len(_SERVICE_ACCOUNT) :].split(":") if len(name) > len(_SERVICE_ACCOUNT) else []
        namespace, account = (parts[0], parts[1]) if len(parts) >= 2 else ("", "")
        self.context.put({"serviceAccountName": account, "serviceAccountNamespace": namespace})

    @property
    def resource(self) -> JSON:
        """Object that responses are about: the new object, or the old one if there is no new one."""
        return self.new if self.new is not None else self.old

    @property
    def is_update(self) -> bool:
        """Whether there is an old and a new object."""
        return (self.old is not None and self.new is not None) or self.operation == "UPDATE"

    def subject(self) -> Subject:
        """Return the facts that rules match."""
        return Subject(self.kind, self.subresource, self.operation, self.requester, self.namespace_labels)

    def old_subject(self, obj: JSON) -> Subject:
        """Return the facts that rules match if the old object counts as created."""
        kind = GroupVersionKind(*split_api_version(str(obj.get("apiVersion") or "")), str(obj.get("kind") or ""))
        return replace(self.subject(), kind=kind, subresource="", operation="CREATE", requester=_NO_USER)

    def set_objects(self, old: JSON, new: JSON) -> None:
        """Replace the old and the new object."""
        self.new, self.old = new, old
        self.context.set_object({} if new is None else new, "request", "object")
        self.context.set_object({} if old is None else old, "request", "oldObject")

    @contextmanager
    def as_creation_of_old(self) -> Iterator[JSON]:
        """Yield the old object of an update, and meanwhile be the request that creates it."""
        new, old = self.new, self.old
        self.set_objects(None, old)
        self.set_operation("CREATE")
        try:
            yield old
        finally:
            self.set_objects(old, new)
            self.set_operation("UPDATE")

    def set_operation(self, operation: str) -> None:
        """Change the operation."""
        self.operation = operation
        self.context.set_operation(operation)

    def own_namespace_labels(self) -> Mapping[str, str]:
        """Return the labels of the object's namespace, as exceptions look them up."""
        namespace = str(as_map((self.resource or {}).get("metadata")).get("namespace") or "")
        found = self.namespace_of(namespace) if namespace else None
        return texts_of(found, "labels") if found is not None else self.namespace_labels

    def images(self) -> Mapping[str, Mapping[str, ImageInfo]]:
        """Return the images of the new object. Raises RuleError."""
        return self._images.images()


class BackgroundRequest(Request):
    """Request for an object that no user sent, as in Kyverno's CLI and background scan (`engine.NewPolicyContext`).

    Variables see the object, the operation, the namespace, and the user if one is given.
    """

    def _fill_context(self) -> None:
        self.is_admission = False
        shown: dict[str, Any] = {"operation": self.operation}
        for field, obj in (("object", self.new), ("oldObject", self.old)):
            if obj is not None:
                shown[field] = with_floats(obj)
        shown["namespace"] = str(self.request.get("namespace") or "")
        self.context.put(shown, "request")
        self.context.operation = self.operation
        if not self.requester.is_empty:
            self.context.put(with_floats(self.request.get("userInfo") or {}), "request", "userInfo")
            self._put_user()
        self.context.defer("images", self._images)


class _ImageLoader:
    """Loader that adds `images` to the context on each use."""

    has_loaded = False

    def __init__(self, obj: JSON, library: Library, defaults: ImageDefaults) -> None:
        self._object = obj
        self._library = library
        self._defaults = defaults

    def images(self) -> Mapping[str, Mapping[str, ImageInfo]]:
        return images_of(self._object, self._defaults, lambda query, value: self._library.query(query).search(value))

    def load(self, context: Context) -> None:
        found = self.images()
        if found:
            shown = {kind: {name: image.as_json() for name, image in images.items()} for kind, images in found.items()}
            context.put(shown, "images")


def _object(obj: JSON, request: Mapping[str, Any]) -> JSON:
    """Return an object as unstructured content, with kind and namespace from the request (`ConvertResource`)."""
    if obj is None:
        return None
    kind = as_map(request.get("kind"))
    group, version = str(kind.get("group") or ""), str(kind.get("version") or "")
    made: dict[str, Any] = with_integers(obj)
    made = {**made, "kind": str(kind.get("kind") or ""), "apiVersion": f"{group}/{version}" if group else version}
    namespace = str(request.get("namespace") or "")
    if namespace and made["kind"] != "Namespace":
        made["metadata"] = {**as_map(made.get("metadata")), "namespace": namespace}
    return made
