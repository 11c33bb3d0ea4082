"""API rules that an object under the candidate may break: immutable fields and required fields.

From `pkg/apis/*/validation` come the rules that compare two states of an object. The shape of an object is checked
against the schema of its kind. Other rules are not checked. The client's own object was valid in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import orjson

from replay.admission.inputs import Place
from replay.json import JSON, FieldPath
from replay.kube import names
from replay.kube.attributes import Missing
from replay.kube.gvk import GroupResource, GroupVersionKind
from replay.kube.immutable import (
    CLAIMS,
    FROZEN,
    IMMUTABLE,
    JOBS,
    MUTABLE_OF_PODS,
    POD_TEMPLATE,
    PODS,
    REQUIRED,
    REQUIRED_OF_UPDATES,
    SERVICES,
)
from replay.kube.schema import Schema, Schemas
from replay.reconstruct.patch.body import agrees
from replay.reconstruct.record.known import Known, get
from replay.world.pod_validation import (
    COMPARED,
    CONTAINERS,
    extends_deadline,
    is_invalid_container,
    is_invalid_pod,
    is_open,
)

MOST_OPERATIONS = 10_000
"""Number of patch operations whose result is cached."""
_SPEC = ("spec",)
_PORTS = ("spec", "ports")
_PHASE = ("status", "phase")
_LIMITS = ("minItems", "maxItems", "minProperties", "maxProperties", "uniqueItems")


def has_immutable(resource: GroupResource, verb: str, subresource: str) -> bool:
    """Return whether writes of a verb are compared with the old object. Patches of pods hardly touch their spec."""
    key = (resource.group, resource.resource)
    if subresource:
        return key == PODS and subresource in COMPARED
    return bool(IMMUTABLE.get(key)) or key in FROZEN or (key == PODS and verb == "update")


def touches_immutable(resource: GroupResource, verb: str, subresource: str, places: frozenset[Place]) -> bool:
    """Return whether a place in `object` is immutable for such a write, or is inside or above such a place."""
    key = (resource.group, resource.resource)
    fields = [*IMMUTABLE.get(key, ()), *((name,) for name in FROZEN.get(key, ()))]
    if key == PODS:
        fields += [(*_SPEC, name) for name in COMPARED.get(subresource, ())]
    if key == PODS and verb == "update" and not subresource:
        fields.append(_SPEC)
    return any(
        not any(one != other for one, other in zip(place[1:], field, strict=False))
        for place in places
        for field in fields
    )


def changes_immutable(resource: GroupResource, old: Known, new: Known) -> bool:
    """Return whether an update changes an immutable field."""
    key = (resource.group, resource.resource)
    if key == PODS:
        return extends_deadline(old, new) or not _is_same_at(_SPEC, old, new, _mutable_of_pod(old.value))
    paths: tuple[FieldPath, ...] = IMMUTABLE.get(key, ())
    # Only a bound claim may change its requests (`ValidatePersistentVolumeClaimUpdate`).
    if key == CLAIMS and not is_open(_PHASE, old) and get(old.value, _PHASE) != "Bound":
        paths += (("spec", "resources", "requests"),)
    if key in FROZEN and get(old.value, ("immutable",)) is True:
        paths += tuple((name,) for name in FROZEN[key])
    if key == JOBS and get(old.value, ("spec", "suspend")):  # parts of the template of a suspended Job may change
        paths = tuple(path for path in paths if path != POD_TEMPLATE)
    return any(not _is_same_at(path, old, new) for path in paths)


def _mutable_of_pod(pod: JSON) -> Iterator[FieldPath]:
    """Yield the paths in the spec of a pod that an update may change. A pod with scheduling gates has more of them."""
    names = ("nodeSelector", "affinity") if get(pod, ("spec", "schedulingGates")) else ()
    yield from ((name,) for name in (*MUTABLE_OF_PODS, *names))
    for name in ("containers", "initContainers"):
        yield from ((name, index, "image") for index in range(len(get(pod, ("spec", name)) or ())))


def _is_same_at(path: FieldPath, old: Known, new: Known, mutable: Iterable[FieldPath] = ()) -> bool:
    """Return whether two objects agree at a path, apart from unknown parts and what may change below."""
    holes = [hole.path for state in (old, new) for hole in state.holes]
    if any(path[: len(hole)] == hole for hole in holes):
        return True
    below = (hole[len(path) :] for hole in holes if hole[: len(path)] == path)
    return agrees(get(old.value, path), get(new.value, path), (*below, *mutable))


def lacks_fields(resource: GroupResource, new: Known, *, creates: bool) -> bool:
    """Return whether a built-in object lacks a required field, or its selector does not match its template."""
    key = (resource.group, resource.resource)
    paths = REQUIRED.get(key, ()) + (() if creates else REQUIRED_OF_UPDATES.get(key, ()))
    if any(not get(new.value, path) and not is_open(path, new) for path in paths) or is_invalid_pod(new.value):
        return True
    if key == SERVICES and has_unnamed_ports(new):
        return True
    selected, labels = get(new.value, ("spec", "selector", "matchLabels")), (*POD_TEMPLATE, "metadata", "labels")
    if key[0] != "apps" or not isinstance(selected, dict) or is_open(labels, new):
        return False
    return not selected.items() <= (get(new.value, labels) or {}).items()


def has_unnamed_ports(service: Known) -> bool:
    """Return whether a Service has several ports and one of them has no name (`ValidateService`)."""
    ports = get(service.value, _PORTS)
    if not isinstance(ports, list) or len(ports) < 2 or is_open(_PORTS, service):
        return False
    return any(isinstance(each, dict) and not each.get("name") for each in ports)


def breaks_rules(schema: Schema | None, value: Known, original: Known, patch: Sequence[JSON]) -> bool:
    """Return whether a mutation breaks a rule that the object kept before. Only what the patch touches is checked.

    The rules are those of labels and annotations (`ValidateObjectMeta`, `ValidateLabels`) and of the schema: required
    fields and types of all kinds, limits and patterns of custom ones.
    """
    touched = {_above_list(str(operation["path"])) for operation in patch}
    breaches = set(_broken(schema, value, touched))
    return bool(breaches) and not breaches <= set(_broken(schema, original, touched))


def breaks_schema(schema: Schema | None, new: Known | Missing, old: Known | Missing) -> bool:
    """Return whether the known parts of an object violate its schema.

    A value that an update leaves unchanged passes, even if it is invalid. A list counts as a whole
    (`ratcheting_validator.go` of apiextensions-apiserver).
    """
    if schema is None or isinstance(new, Missing):
        return False
    return any(not (is_open(path, new) or _is_kept(path, old, new)) for path in _against(schema, new.value, ()))


def _is_kept(path: FieldPath, old: Known | Missing, new: Known) -> bool:
    """Return whether the value at a path, or its list, is known to be equal in two states."""
    if isinstance(old, Missing):
        return False
    field = path[: next((depth for depth, part in enumerate(path) if isinstance(part, int)), len(path))]
    if get(new.value, field) is None:  # the enclosing object is missing, so compare there
        field = field[:-1]
    return get(old.value, field) == get(new.value, field) and not is_open(field, old)


def _above_list(pointer: str) -> FieldPath:
    """Return the path of a JSON pointer without its last key, and cut before its first list index.

    The last key may be a required field, which only the schema of its parent checks.
    """
    path: list[str] = []
    for part in pointer.split("/")[1:-1]:
        if part.isdecimal():
            break
        path.append(_unescaped(part))
    return tuple(path)


def _unescaped(part: str) -> str:
    """Return the text of a reference token of a JSON pointer (RFC 6901)."""
    # `~1` comes first, so that `~01` becomes `~1` and not a slash.
    return part.replace("~1", "/").replace("~0", "~")


def may_break(patch: Sequence[JSON]) -> bool:
    """Return whether a patch changes more than labels and annotations, or makes one of these invalid."""
    for operation in patch:
        field, _, key = str(operation["path"]).removeprefix("/metadata/").partition("/")
        if field not in ("labels", "annotations") or not str(operation["path"]).startswith("/metadata/"):
            return True
        value = operation.get("value")
        name = _unescaped(key)
        metadata = {field: {name: value} if key else value or {}}
        if operation["op"] != "remove" and any(names.broken_metadata(metadata, ())):
            return True
    return False


class PatchRules:
    """Decides by its operations alone whether a patch keeps every valid object valid.

    Results are cached, because policies repeat patches.
    """

    def __init__(self, schemas: Schemas) -> None:
        """`schemas` are those of the patched kinds."""
        self._schemas = schemas
        self._harmlessness: dict[tuple[GroupVersionKind, bytes], bool] = {}

    def leaves_valid(self, kind: GroupVersionKind, patch: Sequence[JSON]) -> bool:
        """Return whether a patch cannot break any rule that `breaks_rules` checks."""
        for operation in patch:
            key = (kind, orjson.dumps(operation))
            is_harmless = self._harmlessness.get(key)
            if is_harmless is None:
                if len(self._harmlessness) >= MOST_OPERATIONS:
                    self._harmlessness.clear()
                is_harmless = self._harmlessness[key] = _is_harmless(self._schemas.for_kind(kind), operation)
            if not is_harmless:
                return False
        return True


def breaks_metadata(patch: Sequence[JSON]) -> bool:
    """Return whether a patch adds an invalid label or annotation."""
    return any(
        any(names.broken_metadata(each, ()))
        for operation in patch
        if operation["op"] != "remove"
        for each in _metadata_in(_path(operation), operation.get("value"))
    )


def _path(operation: JSON) -> FieldPath:
    return tuple(_unescaped(part) for part in str(operation["path"]).split("/")[1:])


def _is_harmless(schema: Schema | None, operation: JSON) -> bool:
    path = _path(operation)
    if not path or operation["op"] not in ("add", "replace", "remove"):
        return False
    above = _schema_at(schema, path[:-1]) if schema is not None else None
    # Whether these limits still hold depends on the rest of the object.
    if above is not None and any(above.constraint(name) is not None for name in _LIMITS):
        return False
    if operation["op"] == "remove":
        # A container needs its image, although the schema does not require it.
        return path[-1] != "image" and (above is None or path[-1] not in above.required)
    value, own = operation.get("value"), _schema_at(schema, path) if schema is not None else None
    if not _keeps_pods_valid(path, value) or any(
        any(names.broken_metadata(each, ())) for each in _metadata_in(path, value)
    ):
        return False
    return own is None or not any(_against(own, value, path))


def _keeps_pods_valid(path: FieldPath, value: JSON) -> bool:
    """Return whether an added value consists of valid containers, or sets nothing that pod validation reads."""
    *_, above, last = ("", *path)
    if last in CONTAINERS or above in CONTAINERS:
        name, added = (last, value or ()) if last in CONTAINERS else (above, [value])
        return all(isinstance(each, dict) and not is_invalid_container(str(name), each) for each in added)
    encoded = orjson.dumps(value)
    if b'"containers"' in encoded or last == "image":
        return False
    return not any(name in path or f'"{name}"'.encode() in encoded for name in _OF_VALID_PODS)


def _metadata_in(path: FieldPath, value: JSON) -> Iterator[JSON]:
    """Yield the metadata of an object and of its pod template, as far as a value at a path holds them."""
    for at in _METADATA:
        if at[: len(path)] == path[: len(at)]:
            yield _nested(path[len(at) :], value) if len(path) >= len(at) else get(value, at[len(path) :])


def _nested(path: FieldPath, value: JSON) -> JSON:
    for part in reversed(path):
        value = {part: value}
    return value


def touches_metadata(patch: Sequence[JSON]) -> bool:
    """Return whether a patch may change more of `metadata` than labels and annotations."""
    harmless_paths = ("/metadata/labels", "/metadata/annotations")
    for operation in patch:
        path = str(operation["path"])
        if path in ("", "/metadata") or (path.startswith("/metadata/") and not path.startswith(harmless_paths)):
            return True
    return False


def _broken(schema: Schema | None, value: Known, touched: set[FieldPath]) -> Iterator[FieldPath]:
    for path in _METADATA:
        yield from names.broken_metadata(get(value.value, path), path)
    if is_invalid_pod(value.value):
        yield POD_TEMPLATE
    if schema is not None and value.value is not None:
        open_paths = {hole.path for hole in value.holes}
        for at in touched:
            below = _schema_at(schema, at)
            problems = _against(below, get(value.value, at), at) if below is not None else ()
            yield from (path for path in problems if path not in open_paths)


def _schema_at(schema: Schema, path: FieldPath) -> Schema | None:
    """Return the schema at a path."""
    node: Schema | None = schema
    for part in path:
        if node is not None:
            node = node.items if node.type == "array" else node.field(str(part))
    return node


def breaks_metadata_of(value: Known) -> bool:
    """Return whether an object or its pod template has an invalid label or annotation."""
    return any(any(names.broken_metadata(get(value.value, path), path)) for path in _METADATA)


def _against(schema: Schema, value: JSON, at: FieldPath) -> Iterator[FieldPath]:
    """Yield where a value violates its schema."""
    if value is None:
        return
    if isinstance(value, dict):
        yield from ((*at, name) for name in schema.required if name not in value)
        for name, inner in value.items():
            field = schema.field(name)
            if field is not None:
                yield from _against(field, inner, (*at, name))
    elif isinstance(value, list) and schema.items is not None:
        for index, inner in enumerate(value):
            yield from _against(schema.items, inner, (*at, index))
    if _breaks(schema, value):
        yield at


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def _breaks(schema: Schema, value: JSON) -> bool:
    types = _TYPES.get(schema.type)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if types is not None and not schema.int_or_string and not isinstance(value, types):
        return not (schema.format == "quantity" or is_number)
    enum, pattern = schema.constraint("enum"), schema.constraint("pattern")
    if isinstance(enum, list) and value not in enum:
        return True
    if is_number:
        return _is_outside(value, schema.constraint("minimum"), schema.constraint("maximum"))
    if isinstance(value, str):
        limits = (schema.constraint("minLength"), schema.constraint("maxLength"))
        return _is_outside(len(value), *limits) or (isinstance(pattern, str) and not _matches(pattern, value))
    if isinstance(value, list):
        return _is_outside(len(value), schema.constraint("minItems"), schema.constraint("maxItems"))
    return False


def _is_outside(number: float, lowest: JSON, highest: JSON) -> bool:
    return (lowest is not None and number < lowest) or (highest is not None and number > highest)


def _matches(pattern: str, text: str) -> bool:
    """Return whether a pattern matches. A pattern that Python cannot compile counts as matching."""
    try:
        # Patterns of a schema are not anchored.
        return re.search(pattern, text) is not None
    except re.error:
        return True


_OF_VALID_PODS = (
    "resources",
    "activeDeadlineSeconds",
    "allowPrivilegeEscalation",
    "privileged",
    "capabilities",
)
"""Fields besides images that pod validation reads (`is_invalid_pod`)."""
_METADATA: tuple[FieldPath, ...] = (("metadata",), ("spec", "template", "metadata"))
