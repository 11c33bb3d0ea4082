"""PodTolerationRestriction (`plugin/pkg/admission/podtolerationrestriction/admission.go`): tolerations by namespace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from replay.admission.builtin.configuration import check_kind
from replay.admission.builtin.namespace.exists import namespace_not_found
from replay.admission.builtin.plugin import CREATE_UPDATE, Plugin, Refusal, Review, known, plain_error
from replay.admission.builtin.pod.resources import is_best_effort
from replay.admission.builtin.pod.toleration import are_covered, merged_tolerations, toleration_problems
from replay.admission.builtin.storage.default_class import annotations_of
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.manifests.read.json_reader import JSONSyntaxError, read_json

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
