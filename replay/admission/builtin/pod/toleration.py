"""Tolerations of pods, and the plugins about them.

PodTolerationRestriction limits them by namespace, ExtendedResourceToleration adds those for device taints,
DefaultTolerationSeconds those for unavailable nodes.

Sources: `pkg/apis/core/helper/helpers.go`, `staging/src/k8s.io/api/core/v1/toleration.go`,
`plugin/pkg/admission/{podtolerationrestriction,extendedresourcetoleration,defaulttolerationseconds}/admission.go`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from replay.admission.builtin.namespace import namespace_not_found
from replay.admission.builtin.plugin import (
    CREATE_UPDATE,
    Plugin,
    Refusal,
    Review,
    check_kind,
    known,
    plain_error,
)
from replay.admission.builtin.pod.resources import is_best_effort
from replay.admission.builtin.storage import annotations_of
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.names import label_value, qualified_name
from replay.kube.plugin import DEFAULT_SECONDS, NOT_READY, UNREACHABLE, with_tolerations
from replay.kube.pod import containers_of
from replay.manifests.finding import invalid, not_supported
from replay.manifests.read.json_reader import JSONSyntaxError, read_json

Toleration = Mapping[str, Any]
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MATCHED = ("key", "effect", "operator", "value")


def matches_toleration(one: Toleration, other: Toleration) -> bool:
    """Return whether two tolerations match the same taint.

    An empty field equals an absent one, and no operator means `Equal`.
    """
    return all(_field(one, name) == _field(other, name) for name in _MATCHED)


def _field(toleration: Toleration, name: str) -> str:
    value = toleration.get(name) or ""
    return "Equal" if name == "operator" and not value else str(value)


def add_or_update_toleration(spec: JSON, toleration: Toleration) -> None:
    """Replace the tolerations of the same taint, or append the new one."""
    old = spec.get("tolerations") or []
    if any(each == toleration for each in old):
        return
    is_there = [matches_toleration(toleration, each) for each in old]
    spec["tolerations"] = [dict(toleration) if same else each for same, each in zip(is_there, old, strict=True)]
    if not any(is_there):
        spec["tolerations"].append(dict(toleration))


def merged_tolerations(first: list[JSON], second: list[JSON]) -> list[JSON]:
    """Return both lists merged, without tolerations that another one covers.

    Of equal ones the first stays (`pkg/util/tolerations`).
    """
    every = [*first, *second]
    merged: list[JSON] = []
    for index, toleration in enumerate(every):
        is_covered = any(covers(each, toleration) for each in merged)
        later = every[index + 1 :]
        if not is_covered and not any(each != toleration and covers(each, toleration) for each in later):
            merged.append(toleration)
    return merged


def covers(wide: Toleration, narrow: Toleration) -> bool:
    """Return whether a toleration tolerates everything that another one does (`tolerations.isSuperset`)."""
    if wide == narrow:
        return True
    key, operator, effect = (wide.get(name) or "" for name in ("key", "operator", "effect"))
    if (narrow.get("key") or "") != key and (key or operator != "Exists"):
        return False
    if (narrow.get("effect") or "") != effect and effect:
        return False
    seconds = wide.get("tolerationSeconds")
    if effect == "NoExecute" and seconds is not None:
        narrow_seconds = narrow.get("tolerationSeconds")
        if narrow_seconds is None or narrow_seconds > seconds:
            return False
    if operator in ("", "Equal"):
        # As in Go, a toleration without an operator is not covered here, although it means `Equal`.
        return narrow.get("operator") == "Equal" and (narrow.get("value") or "") == (wide.get("value") or "")
    return bool(operator == "Exists")


def are_covered(tolerations: list[JSON], allowed: list[JSON]) -> bool:
    """Return whether an allowed toleration covers each toleration. An empty list allows all."""
    return not allowed or all(any(covers(wide, each) for wide in allowed) for each in tolerations)


def toleration_problems(tolerations: Iterable[Toleration], path: str) -> Iterator[str]:
    """Yield the problems of tolerations, without comparisons of numbers.

    Source: `ValidateTolerations` in `pkg/apis/core/validation`.
    """
    for index, toleration in enumerate(tolerations):
        yield from _problems_of(toleration, f"{path}[{index}]")


def _problems_of(toleration: Toleration, path: str) -> Iterator[str]:
    key, operator, effect, value = (str(toleration.get(name) or "") for name in ("key", "operator", "effect", "value"))
    yield from (str(invalid(f"{path}.key", key, problem)) for problem in (qualified_name(key) if key else ()))
    if not key and operator != "Exists":
        reason = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield str(invalid(f"{path}.operator", operator, reason))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield str(invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
    if operator in ("", "Equal"):
        if problems := label_value(value):
            yield str(invalid(f"{path}.operator", value, ";".join(problems)))
    elif operator == "Exists":
        if value:
            yield str(invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'"))
    else:
        operators = ("Equal", "Exists", *(("Lt", "Gt") if operator in ("Lt", "Gt") else ()))
        yield str(not_supported(f"{path}.operator", operator, operators))
    if effect and effect not in _EFFECTS:
        yield str(not_supported(f"{path}.effect", effect, _EFFECTS))


_DEFAULTS: Final = "scheduler.alpha.kubernetes.io/defaultTolerations"
_WHITELIST: Final = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
_MEMORY_PRESSURE: Final = {
    "key": "node.kubernetes.io/memory-pressure",
    "operator": "Exists",
    "effect": "NoSchedule",
}


class PodTolerationRestriction(Plugin):
    """Applies the list in a namespace's annotation, even an empty one, or the list of the cluster.

    Refusals are no API status.
    """

    name = "PodTolerationRestriction"
    operations = CREATE_UPDATE
    concerns = (("", ("pods",)),)
    looks_up = (("", "Namespace"),)

    def __init__(self, defaults: list[JSON], allowed: list[JSON]) -> None:
        """`defaults` and `allowed` are the lists of the cluster."""
        self._defaults = defaults
        self._allowed = allowed

    @classmethod
    def configured(cls, configuration: JSON | None, flags: Mapping[str, str]) -> PodTolerationRestriction:
        """See `Plugin.configured`."""
        del flags
        check_kind(configuration, "Configuration", {"podtolerationrestriction.admission.k8s.io/v1alpha1"})
        document = configuration or {}
        lists = [(name, document.get(name) or ()) for name in ("default", "whitelist")]
        errors = [
            error for name, each in lists for error in toleration_problems(each, f"podtolerationrestriction.{name}")
        ]
        if errors:
            raise ManifestError(f"invalid config: [{' '.join(errors)}]")
        return cls(list(document.get("default") or ()), list(document.get("whitelist") or ()))

    def admit(self, review: Review) -> Refusal | None:
        """Merge the defaults into a new pod, then check like `validate`.

        Pods that are not best effort also get a toleration.
        """
        if not review.is_resource("", "pods"):
            return None
        spec, extra = review.object["spec"], []
        if review.attributes.operation is Operation.CREATE:
            of_namespace = _namespace_tolerations(review, _DEFAULTS)
            if isinstance(of_namespace, Refusal):
                return of_namespace
            extra += self._defaults if of_namespace is None else of_namespace
        if not is_best_effort(review.object):
            extra.append(dict(_MEMORY_PRESSURE))
        if extra:
            spec["tolerations"] = merged_tolerations(spec.get("tolerations") or [], extra)
        return self.validate(review)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse a toleration that no allowed toleration covers."""
        if not review.is_resource("", "pods"):
            return None
        tolerations = review.object["spec"].get("tolerations") or []
        if not tolerations:
            return None
        of_namespace = _namespace_tolerations(review, _WHITELIST)
        if isinstance(of_namespace, Refusal):
            return of_namespace
        scope, allowed = ("cluster", self._allowed) if of_namespace is None else ("namespace", of_namespace)
        if are_covered(tolerations, allowed):
            return None
        return plain_error(
            f"pod tolerations (possibly merged with namespace default tolerations) conflict with its {scope} whitelist"
        )


def _namespace_tolerations(review: Review, annotation: str) -> list[JSON] | Refusal | None:
    """Return the tolerations of an annotation, None if there is none."""
    namespace = known(review.cluster.namespace(review.attributes.namespace))
    if namespace is None:
        return namespace_not_found(review.attributes.namespace)
    text = annotations_of(namespace).get(annotation)
    # An empty annotation is an empty list, which overrides the list of the cluster.
    if not text:
        return None if text is None else []
    try:
        read_json(text.encode())
    except JSONSyntaxError as error:
        return plain_error(str(error))
    return list(json.loads(text) or ())


_QUOTA_PREFIX = "requests."
_NATIVE = "kubernetes.io/"


class ExtendedResourceToleration(Plugin):
    """Adds, for each extended resource that a container requests (even 0), a toleration of the taint of that name."""

    name = "ExtendedResourceToleration"
    refuses = False
    operations = CREATE_UPDATE
    concerns = (("", ("pods",)),)

    def admit(self, review: Review) -> Refusal | None:
        """Add the tolerations in the order of the resources' names."""
        if not review.is_resource("", "pods"):
            return None
        spec = review.object["spec"]
        resources = {
            name
            for container in containers_of(spec, "containers", "initContainers")
            for name in ((container.get("resources") or {}).get("requests") or {})
            if is_extended_resource(name)
        }
        for resource in sorted(resources):
            add_or_update_toleration(spec, {"key": resource, "operator": "Exists", "effect": "NoSchedule"})
        return None


def is_extended_resource(name: str) -> bool:
    """Return whether a resource is not one of Kubernetes' own (`helper.IsExtendedResourceName`)."""
    if "/" not in name or _NATIVE in name or name.startswith(_QUOTA_PREFIX):
        return False
    return not qualified_name(f"{_QUOTA_PREFIX}{name}")


_TAINTS = {
    NOT_READY: "default-not-ready-toleration-seconds",
    UNREACHABLE: "default-unreachable-toleration-seconds",
}


class DefaultTolerationSeconds(Plugin):
    """Adds two tolerations of `NoExecute`, each unless the pod already tolerates that taint with any operator."""

    name = "DefaultTolerationSeconds"
    refuses = False
    operations = CREATE_UPDATE
    concerns = (("", ("pods",)),)
    flags = tuple(_TAINTS.values())

    def __init__(self, seconds: Mapping[str, int]) -> None:
        """`seconds` by taint."""
        self._seconds = seconds

    @classmethod
    def configured(cls, configuration: JSON | None, flags: Mapping[str, str]) -> DefaultTolerationSeconds:
        """See `Plugin.configured`. The plugin has flags, but no document."""
        del configuration
        return cls({taint: _seconds(flags, flag) for taint, flag in _TAINTS.items()})

    def admit(self, review: Review) -> Refusal | None:
        """Append the missing tolerations to the pod."""
        if review.is_resource("", "pods"):
            review.object["spec"].update(with_tolerations(review.object["spec"], self._seconds))
        return None


def _seconds(flags: Mapping[str, str], flag: str) -> int:
    text = str(flags.get(flag, DEFAULT_SECONDS))
    try:
        return int(text, 0)
    except ValueError:
        message = f'invalid argument "{text}" for "--{flag}" flag: strconv.ParseInt: parsing "{text}": invalid syntax'
        raise ManifestError(message) from None
