"""PodNodeSelector (`plugin/pkg/admission/podnodeselector/admission.go`): node selectors by namespace."""

from __future__ import annotations

from collections.abc import Mapping

from replay.admission.builtin.plugin import CREATE, Plugin, Refusal, Review, internal_error, known, plain_error
from replay.admission.builtin.storage.default_class import annotations_of
from replay.json import JSON
from replay.kube.names import label_value, qualified_name

_ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
_DEFAULT = "clusterDefaultNodeSelector"
_CONFLICT = "pod node label selector conflicts with its namespace node label selector"
_NOT_ALLOWED = "pod node label selector labels conflict with its namespace whitelist"


class _SelectorError(ValueError):
    """A selector that cannot be parsed."""


class PodNodeSelector(Plugin):
    """The namespace's annotation, even if empty, overrides the cluster default. Then the allowed list applies."""

    name = "PodNodeSelector"
    operations = CREATE
    concerns = (("", ("pods",)),)
    looks_up = (("", "Namespace"),)

    def __init__(self, selectors: Mapping[str, str]) -> None:
        """`selectors` are those of each namespace, and the default under its own key."""
        self._selectors = selectors

    @classmethod
    def configured(cls, configuration: JSON | None, flags: Mapping[str, str]) -> PodNodeSelector:
        """See `Plugin.configured`. The server ignores invalid values."""
        del flags
        document = (configuration or {}).get("podNodeSelectorPluginConfig") or {}
        return cls({str(key): str(value or "") for key, value in document.items()})

    def admit(self, review: Review) -> Refusal | None:
        """Merge the namespace's selector into the pod's, then check the result like `validate`."""
        if not review.is_resource("", "pods"):
            return None
        try:
            selector = self._namespace_selector(review)
        except _SelectorError as error:
            return plain_error(str(error))
        if isinstance(selector, Refusal):
            return selector
        own = review.object["spec"].get("nodeSelector") or {}
        if _conflict(selector, own):
            return review.forbidden(_CONFLICT, review.own_name)
        if selector:
            # Without a conflict, the order does not matter.
            review.object["spec"]["nodeSelector"] = {**selector, **own}
        return self.validate(review)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse a selector that conflicts with the namespace's or has labels that the namespace may not use."""
        if not review.is_resource("", "pods"):
            return None
        try:
            selector = self._namespace_selector(review)
            if isinstance(selector, Refusal):
                return selector
            own = review.object["spec"].get("nodeSelector") or {}
            if _conflict(selector, own):
                return review.forbidden(_CONFLICT, review.own_name)
            allowed = _labels(self._selectors.get(review.attributes.namespace, ""))
        except _SelectorError as error:
            return plain_error(str(error))
        # An empty list allows every label.
        if allowed and not own.items() <= allowed.items():
            return review.forbidden(_NOT_ALLOWED, review.own_name)
        return None

    def _namespace_selector(self, review: Review) -> Mapping[str, str] | Refusal:
        name = review.attributes.namespace
        namespace = known(review.cluster.namespace(name))
        if namespace is None:
            return internal_error(f"namespace {name} does not exist")
        annotations = annotations_of(namespace)
        return _labels(annotations[_ANNOTATION] if _ANNOTATION in annotations else self._selectors.get(_DEFAULT, ""))


def _conflict(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return any(other.get(key, value) != value for key, value in one.items())


def _labels(selector: str) -> dict[str, str]:
    """Return the labels of a selector: `key=value` pairs, separated by commas (`labels.ConvertSelectorToLabelsMap`)."""
    labels: dict[str, str] = {}
    for pair in selector.split(",") if selector else ():
        parts = pair.split("=")
        if len(parts) != 2:
            raise _SelectorError(f"invalid selector: [{' '.join(parts)}]")
        key, value = (part.strip() for part in parts)
        if messages := qualified_name(key):
            raise _SelectorError(f'<nil>: Invalid value: "{key}": {"; ".join(messages)}')
        if messages := label_value(value):
            raise _SelectorError(f'[{key}]: Invalid value: "{value}": {"; ".join(messages)}')
        labels[key] = value
    return labels
