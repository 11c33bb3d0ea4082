"""API-based policies, bindings and webhook configurations: objects of the cluster, not files of the server.

The objects of a set's `api/` are to be created. The REST API decodes them, sets the defaults of their version and
validates them as new objects (`k8s.io/kubernetes/pkg/registry/admissionregistration`, the `Validate` of each strategy).
The objects of a snapshot were validated before, maybe by another server. Their unknown fields are dropped and defaults
set, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct, field

from replay.cellib.version import KubernetesVersion
from replay.errors import ManifestError
from replay.go.format import aggregate, quote
from replay.json import JSON
from replay.kube.admissionregistration import GROUP
from replay.manifests.defaulting import set_defaults
from replay.manifests.engine_object import without_engine_objects
from replay.manifests.finding import FieldError, Finding, ManifestRefusal, invalid, required
from replay.manifests.go_type.decode import decode
from replay.manifests.loader import LoadedObject, Loading, field_finding, items_of, server_finding
from replay.manifests.plugin import PluginName
from replay.manifests.read.document_reader import DecodedObject, UndecodableError
from replay.manifests.read.documents import DirectoryDocuments, read_directory
from replay.manifests.read.node import Mapping, Node, Scalar, node_from_json, position_of
from replay.manifests.served import NO_GATES, Gates, decides, is_suffix_reserved, served_problem
from replay.manifests.static_rule import STATIC_SUFFIX
from replay.manifests.validation import validate

_KINDS = frozenset(kind for plugin in PluginName for kind in plugin.kinds)
_VERSIONS = ("v1", "v1beta1", "v1alpha1")
RESERVED = (
    f"names ending with {quote(STATIC_SUFFIX)} are reserved for static manifest-based configurations and cannot be "
    "managed via the API"
)


class LoadedApi(Struct, frozen=True):
    """The accepted and refused objects of a set's `api/`."""

    path: str
    objects: tuple[LoadedObject, ...]
    refusals: tuple[ManifestRefusal, ...] = ()
    is_suffix_free: bool = False
    """Whether the server knows no names that are reserved for static manifests."""

    @property
    def error(self) -> str | None:
        """Text of the first refusal, or None if all objects are accepted."""
        return self.refusals[0].text if self.refusals else None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All problems. Each object is refused by itself."""
        return tuple(finding for refusal in self.refusals for finding in refusal.findings)


def defaulted_api_objects(
    objects: Iterable[JSON], version: KubernetesVersion, gates: Gates = NO_GATES
) -> Iterator[JSON]:
    """Yield the objects that decide about requests, in the form that the server stores.

    Objects that decide nothing on a server of this version are left out. An object in several versions counts once.
    Raises ManifestError for an object that no server could have stored.
    """
    keys = set()
    for obj in objects:
        group, _, served = str(obj.get("apiVersion", "") if isinstance(obj, dict) else "").rpartition("/")
        if (
            group == GROUP
            and served in _VERSIONS
            and obj.get("kind") in _KINDS
            and decides(obj["kind"], version, gates)
        ):
            stored = _stored(obj["kind"], served, node_from_json(obj))
            key = (stored["kind"], stored["metadata"]["name"])
            if key not in keys:
                keys.add(key)
                yield stored


def refusals(objects: Iterable[JSON], version: KubernetesVersion, *, strict: bool = False) -> Iterator[str]:
    """Yield why the REST API would not create objects that decide about requests, in its words.

    With `strict`, a field that the type does not have is an error too, as `kubectl` requests (`fieldValidation`). Every
    version that the kind ever had is accepted.
    """
    for obj in objects:
        group, _, served = str(obj.get("apiVersion") if isinstance(obj, dict) else "").rpartition("/")
        if group != GROUP or served not in _VERSIONS or obj.get("kind") not in _KINDS:
            continue
        kind, name = obj["kind"], (obj.get("metadata") or {}).get("name") or ""
        decoded = decode(node_from_json(obj), f"v1.{kind}")
        problems = decoded.type_errors[:1] or (decoded.strict_errors if strict else [])
        if problems:
            texts = ", ".join(problem.message for problem in problems)
            yield f"{kind} in version {quote(served)} cannot be handled as a {kind}: {texts}"
            continue
        errors, _ = validate(kind, _defaulted(kind, served, decoded.value), version)
        if errors:
            yield f"{kind}.{GROUP} {quote(str(name))} is invalid: {aggregate(errors)}"


def _stored(kind: str, version: str, node: Node) -> JSON:
    decoded = decode(node, f"v1.{kind}")
    for problem in decoded.type_errors:
        raise ManifestError(problem.message, line=problem.position.line, column=problem.position.column)
    value = _defaulted(kind, version, decoded.value)
    if not value["metadata"].get("name"):
        raise ManifestError(f"{kind}: metadata.name: Required value", line=node.position.line)
    return value


def _defaulted(kind: str, version: str, decoded: JSON) -> JSON:
    value = {**decoded, "kind": kind, "apiVersion": f"{GROUP}/v1"}
    set_defaults(kind, value, version)
    return value


def load_api(path: Path, version: KubernetesVersion, *, mixed: bool = False, gates: Gates = NO_GATES) -> LoadedApi:
    """Load a set's `api/`. It never raises: what the REST API would refuse is in `refusals`.

    A `mixed` directory may contain objects of other kinds, which are left out.
    """
    return load_api_documents(path, without_engine_objects(read_directory(path)), version, mixed=mixed, gates=gates)


def load_api_documents(  # noqa: PLR0913 - as the two ways need them
    path: Path,
    directory: DirectoryDocuments,
    version: KubernetesVersion,
    *,
    mixed: bool = False,
    gates: Gates = NO_GATES,
    is_applied: bool = False,
) -> LoadedApi:
    """Load the documents of `api/` or of a bundle. See `load_api`.

    `is_applied`: the objects are applied in order and not created, so the last object of a name counts.
    """
    loading = _ApiLoading(version, mixed, gates=gates, is_applied=is_applied)
    loading.load(directory)
    is_free = is_suffix_reserved(version, gates) is None
    return LoadedApi(str(path), tuple(loading.objects), tuple(loading.refusals), is_suffix_free=is_free)


class _ApiLoading(Loading, kw_only=True):
    """Objects for the REST API during loading. `files` has the file of each kind and name."""

    gates: Gates = NO_GATES
    is_applied: bool = False
    files: dict[tuple[str, str], str] = field(default_factory=dict)

    def refusal_text(self, path: str, message: str) -> str:  # noqa: ARG002 - the REST API knows no files
        return message

    def accept(self, decoded: DecodedObject, path: str) -> None:
        """Accept an object, or the items of a list one by one."""
        kind = decoded.registered.kind
        if kind.removesuffix("List") not in _KINDS and kind != "List":
            if self.mixed:
                return
            message = f"kind `{kind}` decides about no requests"
            self.refuse(message, [server_finding(message, path, position_of(decoded.node, "kind"), "kind")])
        elif kind == "List":
            self.accept_items(decoded, path)
        elif kind.endswith("List"):
            for value, node in zip(decoded.value["items"], items_of(decoded.node), strict=True):
                self._create(kind.removesuffix("List"), decoded.registered.package, value, node, path)
        else:
            self._create(kind, decoded.registered.package, decoded.value, decoded.node, path)

    def _create(self, kind: str, version: str, decoded: JSON, node: Node, path: str) -> None:
        """Process one object of an API version as `create` does."""
        value = _defaulted(kind, version, decoded)
        name = value["metadata"].get("name", "")
        if version != "v1" and kind.endswith("WebhookConfiguration"):
            message = f"no server serves {kind} in {GROUP}/{version}: it is {GROUP}/v1 since 1.16, and alone since 1.22"
            self.refuse(message, [server_finding(message, path, position_of(node, "apiVersion"), "apiVersion")])
            return
        if problem := served_problem(f"{GROUP}/{version}", kind, self.version, self.gates):
            self.refuse(problem, [server_finding(problem, path, position_of(node, "apiVersion"), "apiVersion")])
            return
        errors, expressions = validate(kind, value, self.version)
        errors = [*([] if name else [required("metadata.name", "name or generateName is required")]), *errors]
        if name.endswith(STATIC_SUFFIX) and is_suffix_reserved(self.version, self.gates):
            errors.append(invalid("metadata.name", name, RESERVED))
        loaded = self.loaded(value, node, path, errors, expressions)
        if self.is_applied:
            # Applied again, an object is updated. Created again, it already exists.
            self.objects = [each for each in self.objects if (each.kind, each.name) != (kind, name)]
        self.objects.append(loaded)
        if errors:
            self._refuse_invalid(loaded, errors)
        elif self.is_applied:
            return
        elif (kind, name) in self.files:
            message = f"{_resource(kind)} {quote(name)} already exists (in {self.files[kind, name]})"
            self.refuse(message, [field_finding(loaded, "metadata.name", message)])
        else:
            self.files[kind, name] = path

    def _refuse_invalid(self, loaded: LoadedObject, errors: list[FieldError]) -> None:
        text = f"{loaded.kind}.{GROUP} {quote(loaded.name)} is invalid: {aggregate(errors)}"
        self.refuse(text, (field_finding(loaded, error.path, str(error)) for error in errors))

    def refuse_undecodable(self, error: UndecodableError, path: str, message: str) -> None:
        if not (self.mixed and error.untyped is not None and not _is_of_group(error.untyped)):
            super().refuse_undecodable(error, path, message)


def _is_of_group(untyped: Node) -> bool:
    """Return whether an object of an unknown kind belongs to our API group."""
    version = untyped.get("apiVersion") if isinstance(untyped, Mapping) else None
    return isinstance(version, Scalar) and str(version.value).rpartition("/")[0] == GROUP


def _resource(kind: str) -> str:
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    return f"{plural.lower()}.{GROUP}"
