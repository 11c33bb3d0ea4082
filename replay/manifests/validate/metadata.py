"""Validation of `metadata` (`k8s.io/apimachinery/pkg/api/validation/objectmeta.go`), for cluster-scoped objects."""

from __future__ import annotations

from collections.abc import Iterator

from replay.json import JSON
from replay.kube.names import dns1123_subdomain, label_value, masked_prefix, qualified_name
from replay.manifests.field_error import FieldError, forbidden, invalid, not_supported, required, too_long

_MAX_ANNOTATION_BYTES = 256 * 1024
_MAX_MANAGER_BYTES, _MAX_SUBRESOURCE_BYTES = 128, 256
_EXCLUSIVE_FINALIZERS = ("foregroundDeletion", "orphan")


def validate_metadata(metadata: JSON) -> Iterator[FieldError]:
    """Yield the errors of `metadata`. Maps are read in the order of their keys. The server's order is random."""
    path = "metadata"
    if generate_name := metadata.get("generateName", ""):
        for problem in dns1123_subdomain(masked_prefix(generate_name)):
            yield invalid(f"{path}.generateName", generate_name, problem)
    name = metadata.get("name", "")
    if not name:
        yield required(f"{path}.name", "name or generateName is required")
    else:
        for problem in dns1123_subdomain(name):
            yield invalid(f"{path}.name", name, problem)
    if metadata.get("namespace"):
        yield forbidden(f"{path}.namespace", "not allowed on this type")
    if metadata.get("generation", 0) < 0:
        yield invalid(f"{path}.generation", metadata["generation"], "must be greater than or equal to 0")
    yield from validate_labels(metadata.get("labels"), f"{path}.labels")
    yield from _validate_annotations(metadata.get("annotations") or {}, f"{path}.annotations")
    yield from _validate_owner_references(metadata.get("ownerReferences") or [], f"{path}.ownerReferences")
    yield from _validate_finalizers(metadata.get("finalizers") or [], f"{path}.finalizers")
    for index, entry in enumerate(metadata.get("managedFields") or []):
        yield from _validate_managed_fields(entry, f"{path}.managedFields[{index}]")


def validate_labels(labels: JSON, path: str) -> Iterator[FieldError]:
    """Yield the errors of keys and values of labels, or of a selector's `matchLabels`."""
    for key in sorted(labels or {}):
        for problem in qualified_name(key):
            yield invalid(path, key, problem)
        for problem in label_value(labels[key]):
            yield invalid(path, labels[key], problem)


def _validate_annotations(annotations: dict[str, str], path: str) -> Iterator[FieldError]:
    for key in sorted(annotations):
        # Unlike labels, annotations may have upper case in the prefix of their keys (`ValidateAnnotations`).
        for problem in qualified_name(key.lower()):
            yield invalid(path, key, problem)
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MAX_ANNOTATION_BYTES:
        yield too_long(path, _MAX_ANNOTATION_BYTES)


def _validate_owner_references(references: list[JSON], path: str) -> Iterator[FieldError]:
    first_controller = ""
    for index, reference in enumerate(references):
        yield from _validate_owner_reference(reference, f"{path}[{index}]")
        if not reference.get("controller"):
            continue
        controller = f"{reference['kind']}/{reference['name']}"
        if first_controller:
            detail = f'Found "true" in references for {first_controller} and {controller}'
            yield invalid(path, references, f"Only one reference can have Controller set to true. {detail}")
        first_controller = first_controller or controller


def _validate_owner_reference(reference: JSON, path: str) -> Iterator[FieldError]:
    api_version = reference["apiVersion"]
    group, _, version = api_version.rpartition("/")
    if not api_version:
        yield required(f"{path}.apiVersion", "must not be empty")
    elif not version or "/" in group:
        yield invalid(f"{path}.apiVersion", api_version, "must be <group>/<version> or <version>")
    for name in ("kind", "name", "uid"):
        if not reference[name]:
            yield required(f"{path}.{name}", "must not be empty")
    if (group, version, reference["kind"]) == ("", "v1", "Event"):
        yield invalid(path, reference, "/v1, Kind=Event is disallowed from being an owner")


def _validate_finalizers(finalizers: list[str], path: str) -> Iterator[FieldError]:
    for finalizer in finalizers:
        for problem in qualified_name(finalizer):
            yield invalid(path, finalizer, problem)
    if all(finalizer in finalizers for finalizer in _EXCLUSIVE_FINALIZERS):
        yield invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")


def _validate_managed_fields(entry: JSON, path: str) -> Iterator[FieldError]:
    operation = entry.get("operation", "")
    if not operation:
        yield required(f"{path}.operation", "must not be empty")
    elif operation not in ("Apply", "Update"):
        yield not_supported(f"{path}.operation", operation, ("Apply", "Update"))
    if entry.get("fieldsType", "FieldsV1") != "FieldsV1":
        yield invalid(f"{path}.fieldsType", entry["fieldsType"], "must be `FieldsV1`")
    yield from _validate_manager(entry.get("manager", ""), f"{path}.manager")
    if len(entry.get("subresource", "").encode()) > _MAX_SUBRESOURCE_BYTES:
        yield too_long(f"{path}.subresource", _MAX_SUBRESOURCE_BYTES)


def _validate_manager(manager: str, path: str) -> Iterator[FieldError]:
    if len(manager.encode()) > _MAX_MANAGER_BYTES:
        yield too_long(path, _MAX_MANAGER_BYTES)
    for at, character in enumerate(manager):
        if not character.isprintable():
            offset = len(manager[:at].encode())
            yield invalid(path, manager, f"invalid character U+{ord(character):04X} (at position {offset})")
