"""The rejection of a write by the API with 422 under the candidate (`rest.BeforeCreate`, `rest.BeforeUpdate`).

There are three sources. The rules known here are checked against the object. The schema is checked if no server has
validated the object. Each cause of the log's own rejection is checked again, because another object may not have that
fault.
"""

from __future__ import annotations

import re

from replay.json import JSON, FieldPath
from replay.kube.attributes import Missing
from replay.kube.immutable import CONDITIONAL
from replay.reconstruct.history.old_object import sent_revision
from replay.reconstruct.patch.body import touched
from replay.reconstruct.record.known import Known, get
from replay.world.creation import is_apply
from replay.world.judge import Judge
from replay.world.pod_validation import COMPARED, changes_ephemeral, changes_quality, is_invalid_pod
from replay.world.result import INVALID, Cause
from replay.world.state import known_or_missing
from replay.world.step import WorldStep
from replay.world.validation import breaks_metadata_of, changes_immutable, has_unnamed_ports, lacks_fields

_FIELD = re.compile(r"\[\d+\]|[^.\[\]]+")
"""Parts of the text of a Go `field.Path`."""
_PORT_NAME = re.compile(r"spec\.ports\[\d+\]\.name")
_OF_THE_UPDATE = (
    "field is immutable",
    "pod updates may not",
    "Pod QOS Class may not change",
    "existing ephemeral containers",
)
"""Texts of rules that are known here and that compare two states of an object."""
_OF_THE_OBJECT = (
    "must be specified for an update",
    "`selector` does not match template `labels`",
    "a valid label must be",
    "name part must",
    "must be less than or equal to cpu limit",
    "must be less than or equal to memory limit",
    "cannot set `allowPrivilegeEscalation` to false",
)
"""Parts of messages of known rules that only read the written object."""
_BOUND = re.compile(r"should be (less|greater) than or equal to (-?\d+)$")
"""A limit of a schema (`kube-openapi/pkg/validation/errors`)."""


def is_refused(step: WorldStep, judge: Judge, here: Known | Missing, written: Known | Missing) -> bool | None:
    """Return whether the API refuses the result of a write to the existing object, None if that is unknown."""
    kind = step.exchange.kind
    creates = isinstance(here, Known) and here.value is None
    if not step.record.subresource and isinstance(written, Known) and breaks_metadata_of(written):
        return True
    if breaks_update(step, here, written) or _is_invalid_of_pod(step, here, written):
        return True
    is_new = creates or step.is_redefined or step.logged.cause in (Cause.ABSENT, Cause.INVALID)
    if is_new and judge.breaks_definition(kind, written, here, step.lister):
        return True
    return _is_invalid_anyway(step, here, written)


def _is_invalid_of_pod(step: WorldStep, here: Known | Missing, written: Known | Missing) -> bool:
    """Return whether a write to a pod's subresource breaks a rule of its containers, or changes an immutable field."""
    subresource = step.record.subresource
    if step.record.resource != "pods" or subresource not in COMPARED or isinstance(written, Missing):
        return False
    if not isinstance(here, Known) or is_invalid_pod(written.value):
        return is_invalid_pod(written.value)
    return changes_quality(here, written) if subresource == "resize" else changes_ephemeral(here, written)


def breaks_update(step: WorldStep, old: Known | Missing, new: Known | Missing) -> bool:
    """Return whether a write changes an immutable field, lacks a required one, or names no version where it must."""
    creates = isinstance(old, Known) and old.value is None
    if not creates and _must_name_version(step):
        return True
    if step.record.subresource or isinstance(new, Missing) or new.value is None:
        return False
    resource = step.exchange.resource.group_resource
    if lacks_fields(resource, new, creates=creates):
        return True
    return not (creates or isinstance(old, Missing)) and changes_immutable(resource, old, new)


def _must_name_version(step: WorldStep) -> bool:
    """Return whether a PUT needs a version and has none (`Store.Update`, `AllowUnconditionalUpdate`)."""
    if step.record.verb != "update" or step.record.subresource == "scale" or sent_revision(step.exchange) is not None:
        return False
    api_resource, resource = step.exchange.api_resource, step.exchange.resource.group_resource
    return (resource.group, resource.resource) in CONDITIONAL or (api_resource is not None and api_resource.custom)


def _is_invalid_anyway(step: WorldStep, here: Known | Missing, written: Known | Missing) -> bool | None:
    """Return whether the log's request was invalid for a reason other than its old object, None if that is unknown."""
    if step.record.code != INVALID.code or step.logged.cause == Cause.DENIED or step.failed_by_definition:
        return False
    causes = [each for each in get(step.exchange.response.json, ("details", "causes")) or () if isinstance(each, dict)]
    # An apply that was invalid because it created its object need not be invalid for an object that exists.
    if is_apply(step.exchange) and not step.existed_before and not (isinstance(here, Known) and here.value is None):
        is_open = isinstance(written, Missing) or any(
            _is_below_hole(str(each.get("field")), written) for each in causes
        )
        if is_open:
            return None
    if isinstance(written, Missing):
        return True
    # Without causes the log's patch did not fit its object. It fits another object if the result there is known.
    if not causes:
        return step.record.verb != "patch" or _meets(touched(step.exchange.request.json), written)
    # A rule that compares two states cannot be checked if the old one is unknown. The log's refusal then stands.
    if isinstance(here, Missing) and any(
        part in str(each.get("message")) for each in causes for part in _OF_THE_UPDATE
    ):
        return True
    validated = known_or_missing(step.request.attributes.object)
    return not all(_is_mended(cause, validated, written) for cause in causes)


def _is_below_hole(field: str, written: Known) -> bool:
    """Return whether a field that a cause names is not known in the result of a write."""
    path = _path(field)
    return any(path[: len(hole.path)] == hole.path for hole in written.holes)


def _meets(paths: list[FieldPath], written: Known) -> bool:
    """Return whether a patch touches unknown parts of its result."""
    return any(path == hole.path[: len(path)] for path in paths for hole in written.holes)


def _is_mended(cause: dict[str, JSON], validated: Known | Missing, written: Known) -> bool:
    """Return whether a cause of the log's refusal no longer applies.

    Either its rule is known here and kept, or the single value at its field differs.
    """
    field, message = str(cause.get("field")), str(cause.get("message"))
    if field.startswith("status."):  # the status that controllers report is not tracked
        return False
    # `is_refused` has already checked the rules that are known here.
    if any(part in message for part in (*_OF_THE_UPDATE, *_OF_THE_OBJECT)):
        return True
    if cause.get("reason") == "FieldValueRequired":
        return _is_filled(field, written.value) or _is_only_port(field, written)
    value = get(written.value, _path(field))
    if (bound := _BOUND.search(message)) and isinstance(value, int | float):
        return value <= int(bound[2]) if bound[1] == "less" else value >= int(bound[2])
    if isinstance(validated, Missing) or isinstance(value, dict | list):
        return False
    # The rule is unknown. The value that was invalid in the log is invalid in any list item.
    return get(validated.value, _path(field)) not in _values_at(written.value, _path(field))


def _values_at(value: JSON, path: FieldPath) -> list[JSON]:
    """Return the values at a path in any item of its lists. Under the candidate an item may have another index."""
    if not path:
        return [value]
    if isinstance(path[0], int):
        return [each for item in value or () for each in _values_at(item, path[1:])] if isinstance(value, list) else []
    return _values_at(value.get(path[0]), path[1:]) if isinstance(value, dict) else [None]


def _path(field: str) -> FieldPath:
    """Return the path of a field as a cause names it (`spec.containers[1].image`)."""
    return tuple(
        int(part[1:-1]) if part[1:-1].isdecimal() and part.startswith("[") else part for part in _FIELD.findall(field)
    )


def _is_only_port(field: str, written: Known) -> bool:
    """Return whether a Service port needs no name any more, because it is the only port (`ValidateService`)."""
    is_name = _PORT_NAME.fullmatch(field) is not None and get(written.value, ("kind",)) == "Service"
    return is_name and not has_unnamed_ports(written)


def _is_filled(field: str, value: JSON) -> bool:
    """Return whether a required field has a value, or its list item no longer exists."""
    path = _path(field)
    is_of_item = any(isinstance(part, int) for part in path) and get(value, path[:-1]) is None
    return is_of_item or get(value, path) not in (None, "", [], {})
