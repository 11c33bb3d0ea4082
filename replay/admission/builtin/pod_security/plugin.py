"""The PodSecurity plugin.

Source: `pod-security-admission/admission/admission.go`, `plugin/pkg/admission/security/podsecurity`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from replay.admission.builtin.partial import UnknownInputError
from replay.admission.builtin.plugin import CREATE_UPDATE, Plugin, Refusal, Review, internal_error, known
from replay.admission.builtin.pod_security.pod import Pod, Violation
from replay.admission.builtin.pod_security.standard import (
    LATEST,
    LEVELS,
    MODES,
    PREFIX,
    PRIVILEGED,
    LabelError,
    LevelVersion,
    NamespacePolicy,
    detail,
    parse_level,
    parse_version,
    policy_of,
    violations,
)
from replay.errors import ManifestError
from replay.go.format import aggregate
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupVersionKind
from replay.kube.names import dns1123_label, dns1123_subdomain

# `_PodSecurityConfiguration`, defaulted and validated as at the server's start.
# Source: `pod-security-admission/admission/api`.

_GROUP: Final = "pod-security.admission.config.k8s.io"
_VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
_KIND: Final = "PodSecurityConfiguration"


class _PodSecurityConfiguration(NamedTuple):
    """Default levels and exemptions."""

    defaults: NamespacePolicy = NamespacePolicy(*(LevelVersion(PRIVILEGED, LATEST),) * 3)
    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


def _read_configuration(document: JSON | None) -> _PodSecurityConfiguration:
    """Return the configuration of a document.

    Raise ManifestError with the server's message if the server would not start.
    """
    if not document:
        return _PodSecurityConfiguration()
    group, _, version = str(document.get("apiVersion") or "").partition("/")
    if group != _GROUP or version not in _VERSIONS or document.get("kind") != _KIND:
        kind, api_version = document.get("kind") or "", document.get("apiVersion") or ""
        raise ManifestError(f'no kind "{kind}" is registered for version "{api_version}"')
    defaults, exemptions = document.get("defaults") or {}, document.get("exemptions") or {}
    errors = [*_default_errors(defaults), *_exemption_errors(exemptions)]
    if errors:
        raise ManifestError(aggregate(errors))
    levels = [
        LevelVersion(
            parse_level(defaults.get(mode) or PRIVILEGED)[0],
            parse_version(defaults.get(f"{mode}-version") or "latest")[0],
        )
        for mode in MODES
    ]
    lists = (frozenset(exemptions.get(field) or ()) for field in ("usernames", "namespaces", "runtimeClasses"))
    return _PodSecurityConfiguration(NamespacePolicy(*levels), *lists)


def _default_errors(defaults: JSON) -> Iterator[str]:
    for mode in ("enforce", "warn", "audit"):
        level, version = defaults.get(mode) or PRIVILEGED, defaults.get(f"{mode}-version") or "latest"
        for field, value, (_, message) in (
            (mode, level, parse_level(level)),
            (f"{mode}-version", version, parse_version(version)),
        ):
            if message:
                yield f'defaults.{field}: Invalid value: "{value}": {message}'


def _exemption_errors(exemptions: JSON) -> Iterator[str]:
    yield from _list_errors("namespaces", exemptions.get("namespaces") or (), dns1123_label)
    yield from _list_errors("runtimeClasses", exemptions.get("runtimeClasses") or (), dns1123_subdomain)
    yield from _list_errors(
        "usernames", exemptions.get("usernames") or (), lambda name: [] if name else ["username must not be empty"]
    )


def _list_errors(field: str, values: Sequence[str], messages_of: Callable[[str], list[str]]) -> Iterator[str]:
    values_so_far: set[str] = set()
    for index, value in enumerate(values):
        messages = messages_of(value)
        if messages:
            yield f'exemptions.{field}[{index}]: Invalid value: "{value}": {", ".join(messages)}'
        elif value in values_so_far:
            yield f'exemptions.{field}[{index}]: Duplicate value: "{value}"'
        values_so_far.add(value)


_POD: Final = GroupVersionKind("", "v1", "Pod")
_IGNORED: Final = frozenset({"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"})
_TEMPLATES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "replicationcontrollers"): ("spec", "template"),
    ("", "podtemplates"): ("template",),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}
_OF_PODS: Final = ("pods", "pods/ephemeralcontainers", "pods/resize")
"""Pods, and those of their subresources that are not `_IGNORED`."""
_CONCERNS: Final = (
    ("", ("namespaces", *_OF_PODS, *(resource for group, resource in _TEMPLATES if not group))),
    *(
        (group, tuple(resource for template_group, resource in _TEMPLATES if template_group == group))
        for group in ("apps", "batch")
    ),
)
_MOST_PODS = 3000
NEWEST = 37
"""Minor version whose standards are the latest."""


class PodSecurity(Plugin):
    """Denies, warns about and audits pods. Warns about and audits workloads. Validates the labels of namespaces."""

    name = "PodSecurity"
    operations = CREATE_UPDATE
    concerns = _CONCERNS
    looks_up = (("", "Namespace"),)
    annotation_prefixes = (PREFIX.rstrip("/"),)

    def __init__(self, configuration: _PodSecurityConfiguration) -> None:
        """`configuration` has defaults and exemptions."""
        self._defaults = configuration.defaults
        self._exemptions = configuration

    @classmethod
    def configured(cls, configuration: JSON | None, flags: Mapping[str, str]) -> PodSecurity:
        """See `Plugin.configured`."""
        del flags
        return cls(_read_configuration(configuration))

    def validate(self, review: Review) -> Refusal | None:
        """Decide by the resource of the request."""
        resource = (review.attributes.resource.group, review.attributes.resource.resource)
        if resource == ("", "namespaces"):
            return None if review.attributes.subresource else self._namespace(review)
        if resource == ("", "pods"):
            return self._pod(review)
        if resource in _TEMPLATES and not review.attributes.subresource:
            with suppress(UnknownInputError):  # it never refuses a workload, whatever its template is
                self._controller(review, _TEMPLATES[resource])
        return None

    def _namespace(self, review: Review) -> Refusal | None:
        """Refuse invalid labels, unless they are unchanged.

        Warn about existing pods that a stricter level would deny.
        """
        labels = _labels(review.object)
        policy, errors = policy_of(labels, self._defaults)
        if review.attributes.operation is Operation.CREATE:
            if errors:
                return _invalid(review, errors)
            if review.attributes.namespace in self._exemptions.namespaces:
                self._warn_of_exemption(review, policy, labels)
            return None
        old, old_errors = policy_of(_labels(review.old_object), self._defaults)
        # Labels that were invalid before are tolerated, so that other updates of the namespace stay possible.
        if errors and errors != old_errors:
            return _invalid(review, errors)
        if not _is_stricter(policy.enforce, old.enforce):
            return None
        if review.attributes.namespace in self._exemptions.namespaces:
            self._warn_of_exemption(review, policy, labels)
        else:
            with suppress(UnknownInputError):  # it only warns of them
                review.warnings += self._warnings_of_pods(review, policy.enforce)
        return None

    def _warn_of_exemption(self, review: Review, policy: NamespacePolicy, labels: Mapping[str, str]) -> None:
        if policy.is_fully_privileged or policy.is_equivalent(self._defaults):
            return
        modes = zip(("enforce", "audit", "warn"), policy, strict=True)
        said = [
            f"{mode}={level}"
            for mode, level in modes
            if level.level != PRIVILEGED and (PREFIX + mode in labels or f"{PREFIX}{mode}-version" in labels)
        ]
        name = review.own_name
        text = f'namespace "{name}" is exempt from Pod Security, and the policy ({", ".join(said)}) will be ignored'
        review.warnings.append(text)

    def _warnings_of_pods(self, review: Review, enforce: LevelVersion) -> list[str]:
        """Return warnings for existing pods under a new level. Pods of one controller count after its first."""
        name = review.own_name
        pods = self._prioritized(known(review.cluster.list(_POD, name)))
        pods_by_reason: dict[str, list[str]] = {}
        for pod in pods[:_MOST_PODS]:
            if against := violations(enforce, NEWEST, Pod(pod["metadata"], pod["spec"])):
                reason = ", ".join(each.reason for each in against)
                pods_by_reason.setdefault(reason, []).append(str(pod["metadata"]["name"]))
        warnings = []
        if len(pods) > _MOST_PODS:
            warnings.append(
                f"new PodSecurity enforce level only checked against the first {_MOST_PODS} of {len(pods)} existing pods"
            )
        if pods_by_reason:
            warnings.append(
                f'existing pods in namespace "{name}" violate the new PodSecurity enforce level "{enforce}"'
            )
        return [*warnings, *sorted(f"{_named(names)}: {reason}" for reason, names in pods_by_reason.items())]

    def _prioritized(self, pods: Sequence[JSON]) -> list[JSON]:
        first: list[JSON] = []
        others: list[JSON] = []
        controllers: set[str] = set()
        for pod in pods:
            if pod["spec"].get("runtimeClassName") in self._exemptions.runtime_classes:
                continue
            owners = pod["metadata"].get("ownerReferences") or ()
            controller = next((each.get("uid") for each in owners if each.get("controller")), None)
            # Pods of one controller are alike, so the first of each controller come before the rest.
            (others if controller in controllers else first).append(pod)
            if controller is not None:
                controllers.add(controller)
        return [*first, *others]

    def _pod(self, review: Review) -> Refusal | None:
        attributes = review.attributes
        if attributes.subresource in _IGNORED or self._is_exempt(review):
            return None
        namespace = known(review.cluster.namespace(attributes.namespace))
        if namespace is None:
            refusal = internal_error(f'failed to lookup namespace "{attributes.namespace}"')
            cause = f'namespaces "{attributes.namespace}" not found'
            review.audit_annotations[f"{PREFIX}error"] = f"{refusal.message}: {cause}"
            return refusal
        policy, errors = policy_of(_labels(namespace), self._defaults)
        if not errors and policy.is_fully_privileged:
            review.audit_annotations[f"{PREFIX}enforce-policy"] = "privileged:latest"
            return None
        # Running pods must stay updatable under a stricter level, so only new images and containers are evaluated.
        if attributes.operation is Operation.UPDATE and not _is_significant(review.object, review.old_object):
            return None
        pod = Pod(review.object["metadata"], review.object["spec"])
        return self._evaluate(review, policy, errors, pod, enforce=True)

    def _controller(self, review: Review, path: Sequence[str]) -> None:
        attributes = review.attributes
        if self._is_exempt(review):
            return
        namespace = known(review.cluster.namespace(attributes.namespace))
        if namespace is None:
            cause = (
                f'failed to lookup namespace "{attributes.namespace}": namespaces "{attributes.namespace}" not found'
            )
            review.audit_annotations[f"{PREFIX}error"] = cause
            return
        policy, errors = policy_of(_labels(namespace), self._defaults)
        if not errors and policy.warn.level == policy.audit.level == PRIVILEGED:
            return
        template = review.object
        for key in path:
            template = (template or {}).get(key)
        if template is not None:
            pod = Pod(template.get("metadata") or {}, template.get("spec") or {})
            self._evaluate(review, policy, errors, pod, enforce=False)

    def _is_exempt(self, review: Review) -> bool:
        """Return whether the namespace or user is exempt, and record the exemption."""
        for reason, value, exempt in (
            ("namespace", review.attributes.namespace, self._exemptions.namespaces),
            ("user", review.attributes.user_info.username, self._exemptions.usernames),
        ):
            if value and value in exempt:
                review.audit_annotations[f"{PREFIX}exempt"] = reason
                return True
        return False

    def _evaluate(
        self, review: Review, policy: NamespacePolicy, errors: tuple[LabelError, ...], pod: Pod, *, enforce: bool
    ) -> Refusal | None:
        """Evaluate all three modes. A denied pod gets no warning."""
        if pod.spec.get("runtimeClassName") and pod.spec["runtimeClassName"] in self._exemptions.runtime_classes:
            review.audit_annotations[f"{PREFIX}exempt"] = "runtimeClass"
            return None
        annotations = review.audit_annotations
        if errors:
            annotations[f"{PREFIX}error"] = f"Failed to parse policy: {aggregate(errors)}"
        refusal = None
        if enforce:
            annotations[f"{PREFIX}enforce-policy"] = str(policy.enforce)
            if breaches := violations(policy.enforce, NEWEST, pod):
                text = f'violates PodSecurity "{policy.enforce}": {detail(breaches)}'
                refusal = review.forbidden(text, review.attributes.name)
        if breaches := violations(policy.audit, NEWEST, pod):
            annotations[f"{PREFIX}audit-violations"] = _would(policy.audit, breaches)
        if refusal is None and (breaches := violations(policy.warn, NEWEST, pod)):
            review.warnings.append(_would(policy.warn, breaches))
        return refusal


def _would(level: LevelVersion, violations_: list[Violation]) -> str:
    return f'would violate PodSecurity "{level}": {detail(violations_)}'


def _labels(obj: JSON) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _named(names: list[str]) -> str:
    first, others = min(names), len(names) - 1
    if not others:
        return first
    return f"{first} (and {others} other {'pod' if others == 1 else 'pods'})"


def _is_stricter(new: LevelVersion, old: LevelVersion) -> bool:
    """Return whether existing pods must be checked again."""
    if new == old or new.level == PRIVILEGED:
        return False
    return new.minor != old.minor or LEVELS.index(new.level) > LEVELS.index(old.level)


def _invalid(review: Review, errors: tuple[LabelError, ...]) -> Refusal:
    text = f'Namespace "{review.attributes.name}" is invalid: {aggregate(errors)}'
    return Refusal(422, "Invalid", text)


def _is_significant(pod: JSON, old: JSON) -> bool:
    """Return whether an update adds a container or changes an image."""
    new_spec, old_spec = pod["spec"], old["spec"]
    for field in ("containers", "initContainers"):
        if _images(new_spec, field) != _images(old_spec, field):
            return True
    # Reversed, so that the first of several equal names wins, as in the server's loop.
    there = {each.get("name"): each.get("image") for each in reversed(old_spec.get("ephemeralContainers") or [])}
    debugging = new_spec.get("ephemeralContainers") or ()
    return any(each.get("name") not in there or each.get("image") != there[each.get("name")] for each in debugging)


def _images(spec: JSON, field: str) -> list[str]:
    return [str(each.get("image") or "") for each in spec.get(field) or ()]
