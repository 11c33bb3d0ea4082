"""Rules that check pods against the Pod Security Standards (`pkg/engine/handlers/validation`, `pkg/pss`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from replay.admission.builtin.pod_security.pod import Pod
from replay.admission.builtin.pod_security.policy import LATEST, parse_version
from replay.json import JSON
from replay.kube.quantity import QuantityError, parse_quantity
from replay.kyverno.rules.errors import RuleError
from replay.kyverno.rules.exception import exception_key
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.pod_security_fields import REQUIRED, CheckResult, FieldError, check_results
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import FAIL, PASS, SKIP, RuleResponse, rule_error
from replay.kyverno.rules.validate import allows_existing_violations, is_enforced, matches_old
from replay.kyverno.wildcard import matches_any

_TEMPLATED = ("DaemonSet", "Deployment", "Job", "StatefulSet", "ReplicaSet", "ReplicationController")
_CONTROLS = {
    "Capabilities": ("capabilities_baseline", "capabilities_restricted"),
    "Seccomp": ("seccompProfile_baseline", "seccompProfile_restricted"),
    "Privileged Containers": ("privileged",),
    "Host Ports": ("hostPorts",),
    "/proc Mount Type": ("procMount",),
    "HostProcess": ("windowsHostProcess",),
    "SELinux": ("seLinuxOptions",),
    "Host Namespaces": ("hostNamespaces",),
    "HostPath Volumes": ("hostPathVolumes",),
    "Sysctls": ("sysctls",),
    "AppArmor": ("appArmorProfile",),
    "Privilege Escalation": ("allowPrivilegeEscalation",),
    "Running as Non-root": ("runAsNonRoot",),
    "Running as Non-root user": ("runAsUser",),
    "Volume Types": ("restrictedVolumes",),
}
_KINDS = ("containers", "initContainers", "ephemeralContainers")
_CONTAINER = re.compile(r"spec\.(containers|initContainers|ephemeralContainers)\[(\d+)\]")
_DIGITS = re.compile(r"\d+")


def validate_pod_security(
    request: Request,
    policy: Mapping[str, Any],
    rule: Mapping[str, Any],
    resource: JSON,
    exceptions: Sequence[Mapping[str, Any]],
) -> RuleResponse | None:
    """Return the result of a rule, or None for a DELETE."""
    name = str(rule.get("name") or "")
    if request.operation == "DELETE":
        return None
    for exception in exceptions:
        if not as_map(exception.get("spec")).get("podSecurity"):
            return RuleResponse(name, SKIP, f"rule is skipped due to policy exception {exception_key(exception)}")
    resource = request.old if resource is None else resource
    standard = rule["validate"]["podSecurity"]
    level, version = str(standard.get("level") or ""), str(standard.get("version") or "")
    try:
        pod = _pod(resource)
    except RuleError as error:
        return rule_error(name, "Error while getting new resource", error)
    minor, wrong = parse_version(version) if version else (LATEST, "")
    if wrong:
        return rule_error(name, "failed to parse pod security api version", RuleError(wrong))
    results = check_results(level, minor, pod)
    for exclude in standard.get("exclude") or ():
        results = _excluded(level, minor, results, exclude, pod)
    if not results:
        return RuleResponse(name, PASS, f"Validation rule '{name}' passed.")
    for exception in exceptions:
        for exclude in exception["spec"]["podSecurity"]:
            results = _excluded(level, minor, results, exclude, pod)
    if not results:
        keys = ", ".join(map(exception_key, exceptions))
        return RuleResponse(name, SKIP, f"rule is skipped due to policy exceptions {keys}")
    said = "".join(
        f"(Forbidden reason: {each.reason}, field error list: "
        f"[{', '.join(str(_moved(error, str(resource.get('kind') or ''))) for error in each.errors)}])"
        for each in results
    )
    text = f"Validation rule '{name}' failed. It violates PodSecurity \"{level}:{version}\": {said}"
    return _unless_existing(request, policy, rule, exceptions, RuleResponse(name, FAIL, text))


def _unless_existing(
    request: Request,
    policy: Mapping[str, Any],
    rule: Mapping[str, Any],
    exceptions: Sequence[Mapping[str, Any]],
    response: RuleResponse,
) -> RuleResponse:
    """Return the result of a rule, or a skip if the old object violated it too."""
    if not (is_enforced(rule, policy) and request.operation == "UPDATE" and allows_existing_violations(rule)):
        return response
    new, old = request.new, request.old
    request.set_objects(None, old)
    request.set_operation("CREATE")
    try:
        is_matched = matches_old(rule, policy, request, old)
        prior = validate_pod_security(request, policy, rule, old, exceptions) if is_matched else None
    finally:
        request.set_objects(old, new)
        request.set_operation("UPDATE")
    if prior is None or prior.status != response.status:
        return response
    text = "skipping the rule evaluation as pre-existing violations are allowed"
    return RuleResponse(response.name, SKIP, text)


def _pod(resource: JSON) -> Pod:
    """Return the metadata and spec of a pod, or of its controller's template.

    Raises RuleError for another kind, and for an invalid quantity in a container's resources.
    """
    pod = _pod_of_kind(resource)
    for container in pod.containers:
        for amounts in as_map(container.get("resources")).values():
            for amount in as_map(amounts).values():
                try:
                    parse_quantity(str(amount))
                except QuantityError as error:
                    raise RuleError(str(error)) from None
    return pod


def _pod_of_kind(resource: JSON) -> Pod:
    spec = as_map(as_map(resource).get("spec"))
    kind = as_map(resource).get("kind")
    if kind == "Pod":
        return Pod(as_map(resource.get("metadata")), spec)
    if kind in _TEMPLATED:
        template = as_map(spec.get("template"))
        return Pod(as_map(template.get("metadata")), as_map(template.get("spec")))
    if kind == "CronJob":
        job = as_map(spec.get("jobTemplate"))
        template = as_map(as_map(job.get("spec")).get("template"))
        # Kyverno reads the metadata of the job template here, not those of the pod template.
        return Pod(as_map(job.get("metadata")), as_map(template.get("spec")))
    raise RuleError("could not find correct resource type")


def _moved(error: FieldError, kind: str) -> FieldError:
    """Return the error with the field's path in a controller."""
    field = error.field
    if kind in _TEMPLATED:
        field = field.replace("spec", "spec.template.spec")
    elif kind == "CronJob":
        field = field.replace("spec", "spec.jobTemplate.spec.template.spec")
    return FieldError(field.replace("metadata", "spec.template.metadata"), error.bad)


def _excluded(
    level: str, minor: int, results: list[CheckResult], exclude: Mapping[str, Any], pod: Pod
) -> list[CheckResult]:
    """Return the violations that an exclusion leaves (`exemptExclusions`).

    Each violating field of the excluded part removes one violation. Kyverno keeps the checks in a map, so the order in
    its message is random.
    """
    images = exclude.get("images") or ()
    if images:
        kept = {
            kind: [each for each in pod.spec.get(kind) or () if matches_any(images, str(each.get("image") or ""))]
            for kind in _KINDS
        }
        part = Pod({}, kept)
    else:
        spec = {key: value for key, value in pod.spec.items() if key not in _KINDS}
        # The exclusion is not about containers, so Kyverno checks the pod with an empty one.
        part = Pod(pod.metadata, {**spec, "containers": [{"name": "fake"}]})
    left = {each.id: each for each in results}
    restricted, values = exclude.get("restrictedField") or "", exclude.get("values") or ()
    for result in check_results(level, minor, part):
        if result.id not in _CONTROLS.get(str(exclude.get("controlName") or ""), ()) or result.id not in left:
            continue
        for error in result.errors:
            if restricted and _DIGITS.sub("*", error.field) != restricted:
                continue
            if values and not all(matches_any(values, value) for value in _values(error)):
                continue
            if result.id in left:
                errors = _without(left[result.id].errors, error, part, pod, by_name=bool(images))
                if errors:
                    left[result.id] = left[result.id]._replace(errors=errors)
                else:
                    del left[result.id]
    return list(left.values())


def _values(error: FieldError) -> list[str]:
    if error.bad is REQUIRED or error.bad == "":
        return []
    if isinstance(error.bad, bool):
        return ["true" if error.bad else "false"]
    return error.bad if isinstance(error.bad, list) else [str(error.bad)]


def _without(
    errors: tuple[FieldError, ...], excluded: FieldError, part: Pod, pod: Pod, *, by_name: bool
) -> tuple[FieldError, ...]:
    """Return the errors without the first one about the same field. As in Kyverno, the last error takes its position."""
    for index, error in enumerate(errors):
        if _DIGITS.sub("*", error.field) != _DIGITS.sub("*", excluded.field):
            continue
        if by_name and _container(error, pod) != _container(excluded, part):
            continue
        kept = list(errors)
        kept[index] = kept[-1]
        return tuple(kept[:-1])
    return errors


def _container(error: FieldError, pod: Pod) -> str:
    match = _CONTAINER.match(error.field)
    return str(pod.spec[match[1]][int(match[2])].get("name") or "") if match is not None else ""
