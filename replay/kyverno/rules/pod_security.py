"""Rules that check pods against the Pod Security Standards (`pkg/engine/handlers/validation`, `pkg/pss`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from replay.admission.builtin.pod_security import baseline
from replay.admission.builtin.pod_security.pod import Pod
from replay.admission.builtin.pod_security.standard import BASELINE, CHECKS, LATEST, RESTRICTED, parse_version
from replay.json import JSON
from replay.kube.quantity import QuantityError, parse_quantity
from replay.kyverno.naming import key_of
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import FAIL, PASS, SKIP, RuleError, RuleResponse, rule_error
from replay.kyverno.rules.validate import allows_existing_violations, is_enforced, matches_old
from replay.kyverno.wildcard import matches_any

# Pod Security Standards checks with the violating fields (kyverno/pod-security-admission `policy/check_*.go`).
# They differ from the built-in plugin only in versions. The first version of a check also applies to older versions. Restricted
# checks do not replace baseline checks.

_REQUIRED: Any = object()
FORBIDDEN: Any = ""
_KINDS = ("initContainers", "containers", "ephemeralContainers")


class _FieldError(NamedTuple):
    """Violating field with its value, or REQUIRED if the field is not set."""

    field: str
    bad: Any

    def __str__(self) -> str:
        """Return the error as Kyverno prints it."""
        if self.bad is _REQUIRED:
            return f"{self.field}: Required value"
        if self.bad == "":
            return f"{self.field}: Forbidden"
        return f"{self.field} is forbidden, forbidden values found: {_shown(self.bad)}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"[{' '.join(value)}]" if isinstance(value, list) else str(value)


class _CheckResult(NamedTuple):
    """Violation of a check."""

    id: str
    reason: str
    errors: tuple[_FieldError, ...]


Errors = Callable[[Pod], Iterator[_FieldError]]


def _containers(pod: Pod) -> Iterator[tuple[str, JSON, Mapping[str, Any]]]:
    for kind in _KINDS:
        for index, container in enumerate(pod.spec.get(kind) or ()):
            yield f"spec.{kind}[{index}]", container, container.get("securityContext") or {}


def _contexts(pod: Pod) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "spec.securityContext", pod.security_context
    for path, _, context in _containers(pod):
        yield f"{path}.securityContext", context


def _escalation(pod: Pod) -> Iterator[_FieldError]:
    for path, container, context in _containers(pod):
        value = context.get("allowPrivilegeEscalation")
        if value is not False:
            unset = _REQUIRED if container.get("securityContext") is None else "nil"
            yield _FieldError(f"{path}.securityContext.allowPrivilegeEscalation", unset if value is None else True)


def _app_armor(pod: Pod) -> Iterator[_FieldError]:
    for path, context in _contexts(pod):
        profile = context.get("appArmorProfile")
        if profile is not None and profile.get("type") not in ("RuntimeDefault", "Localhost"):
            yield _FieldError(f"{path}.appArmorProfile.type", profile.get("type") or "")
    prefix = "container.apparmor.security.beta.kubernetes.io/"
    for key, value in sorted(pod.annotations.items()):
        if key.startswith(prefix) and value not in ("", "runtime/default") and not value.startswith("localhost/"):
            yield _FieldError(f"metadata.annotations[{key}]", value)


def _added(allowed: frozenset[str]) -> Errors:
    def errors(pod: Pod) -> Iterator[_FieldError]:
        for path, _, context in _containers(pod):
            bad = {str(each) for each in (context.get("capabilities") or {}).get("add") or ()} - allowed
            if bad:
                yield _FieldError(f"{path}.securityContext.capabilities.add", sorted(bad))

    return errors


def _capabilities(pod: Pod) -> Iterator[_FieldError]:
    for path, _, context in _containers(pod):
        dropped = [str(each) for each in (context.get("capabilities") or {}).get("drop") or ()]
        if "ALL" not in dropped:
            yield _FieldError(f"{path}.securityContext.capabilities.drop", sorted(set(dropped)) or _REQUIRED)
    yield from _added(frozenset({"NET_BIND_SERVICE"}))(pod)


def _host_namespaces(pod: Pod) -> Iterator[_FieldError]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(field):
            yield _FieldError(f"spec.{field}", True)


def _host_path(pod: Pod) -> Iterator[_FieldError]:
    for index, volume in enumerate(pod.spec.get("volumes") or ()):
        if volume.get("hostPath") is not None:
            yield _FieldError(f"spec.volumes[{index}].hostPath", volume["hostPath"].get("path") or "")


def _host_ports(pod: Pod) -> Iterator[_FieldError]:
    for path, container, _ in _containers(pod):
        for index, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                yield _FieldError(f"{path}.ports[{index}].hostPort", port["hostPort"])


def _hidden(_: Pod) -> Iterator[_FieldError]:
    """Yield nothing, because Kyverno's fork reports no fields for the hosts of probes and hooks."""
    yield from ()


def _privileged(pod: Pod) -> Iterator[_FieldError]:
    for path, _, context in _containers(pod):
        if context.get("privileged"):
            yield _FieldError(f"{path}.securityContext.privileged", True)


def _proc_mount(pod: Pod) -> Iterator[_FieldError]:
    for path, _, context in _containers(pod):
        if context.get("procMount") not in (None, "Default"):
            yield _FieldError(f"{path}.securityContext.procMount", context["procMount"])


def _volumes(pod: Pod) -> Iterator[_FieldError]:
    from replay.admission.builtin.pod_security.restricted import RESTRICTED_VOLUMES, VOLUMES  # noqa: PLC0415

    for index, volume in enumerate(pod.spec.get("volumes") or ()):
        if all(volume.get(source) is None for source in VOLUMES):
            source = next((each for each in RESTRICTED_VOLUMES if volume.get(each) is not None), "unknown")
            yield _FieldError(f"spec.volumes[{index}].{source}", FORBIDDEN)


def _non_root(pod: Pod) -> Iterator[_FieldError]:
    for path, context in _contexts(pod):
        if context.get("runAsNonRoot") is False:
            yield _FieldError(f"{path}.runAsNonRoot", False)
    if not pod.security_context.get("runAsNonRoot"):
        for path, _, context in _containers(pod):
            if context.get("runAsNonRoot") is None:
                yield _FieldError(f"{path}.securityContext.runAsNonRoot", _REQUIRED)


def _user(pod: Pod) -> Iterator[_FieldError]:
    for path, context in _contexts(pod):
        if context.get("runAsUser") == 0:
            yield _FieldError(f"{path}.runAsUser", 0)


def _seccomp(pod: Pod) -> Iterator[_FieldError]:
    for path, context in _contexts(pod):
        profile = context.get("seccompProfile")
        if profile is not None and profile.get("type") not in ("RuntimeDefault", "Localhost"):
            yield _FieldError(f"{path}.seccompProfile.type", profile.get("type") or "")


def _required_seccomp(pod: Pod) -> Iterator[_FieldError]:
    explicit = list(_seccomp(pod))
    yield from explicit
    if not explicit and pod.security_context.get("seccompProfile") is None:
        for path, _, context in _containers(pod):
            if context.get("seccompProfile") is None:
                yield _FieldError(f"{path}.securityContext.seccompProfile.type", _REQUIRED)


def _selinux(minor: int) -> Errors:
    types = {"", "container_t", "container_init_t", "container_kvm_t"} | (
        {"container_engine_t"} if minor >= 31 else set()
    )

    def errors(pod: Pod) -> Iterator[_FieldError]:
        for path, context in _contexts(pod):
            options = context.get("seLinuxOptions") or {}
            for key, allowed in (("type", types), ("user", {""}), ("role", {""})):
                if (options.get(key) or "") not in allowed:
                    yield _FieldError(f"{path}.seLinuxOptions.{key}", options[key])

    return errors


def _sysctls(minor: int) -> Errors:
    def errors(pod: Pod) -> Iterator[_FieldError]:
        for index, each in enumerate(pod.security_context.get("sysctls") or ()):
            alone = Pod({}, {"securityContext": {"sysctls": [each]}})
            if baseline.sysctls(min(minor, 36), alone) is not None:
                yield _FieldError(f"spec.securityContext.sysctls[{index}].name", each["name"])

    return errors


def _host_process(pod: Pod) -> Iterator[_FieldError]:
    for path, context in _contexts(pod):
        if (context.get("windowsOptions") or {}).get("hostProcess"):
            yield _FieldError(f"{path}.windowsOptions.hostProcess", True)


def _checks(minor: int) -> Sequence[tuple[str, str, Errors]]:
    """Return the checks in the order of the Go module's files, each with its level."""
    allowed = frozenset(baseline.CAPABILITIES)
    return (
        ("allowPrivilegeEscalation", RESTRICTED, _escalation),
        ("appArmorProfile", BASELINE, _app_armor),
        ("capabilities_baseline", BASELINE, _added(allowed)),
        ("capabilities_restricted", RESTRICTED, _capabilities),
        ("hostNamespaces", BASELINE, _host_namespaces),
        ("hostPathVolumes", BASELINE, _host_path),
        ("hostPorts", BASELINE, _host_ports),
        ("hostProbesAndHostLifecycle", BASELINE, _hidden),
        ("privileged", BASELINE, _privileged),
        ("procMount", BASELINE, _proc_mount),
        ("restrictedVolumes", RESTRICTED, _volumes),
        ("runAsNonRoot", RESTRICTED, _non_root),
        ("runAsUser", RESTRICTED, _user),
        ("seLinuxOptions", BASELINE, _selinux(minor)),
        ("seccompProfile_baseline", BASELINE, _seccomp),
        ("seccompProfile_restricted", RESTRICTED, _required_seccomp),
        ("sysctls", BASELINE, _sysctls(minor)),
        ("windowsHostProcess", BASELINE, _host_process),
    )


_REASONS = {check.id: check for check in CHECKS}
_NOT_ON_WINDOWS = frozenset({"allowPrivilegeEscalation", "capabilities_restricted", "seccompProfile_restricted"})


def _check_results(level: str, minor: int, pod: Pod) -> list[_CheckResult]:
    """Return the violations of a level, with their fields."""
    results = []
    for id_, check_level, errors in _checks(minor):
        if level == BASELINE and check_level != BASELINE:
            continue
        if id_ in _NOT_ON_WINDOWS and minor >= 25 and pod.is_windows:
            continue
        found = tuple(errors(pod))
        # This check has a violation without fields, see `_hidden`.
        if found or (errors is _hidden and baseline.host_probes_and_lifecycle(pod) is not None):
            results.append(_CheckResult(id_, _reason(id_, pod), found))
    return results


def _reason(id_: str, pod: Pod) -> str:
    for _, check in _REASONS[id_].revisions:
        violation = check(pod)
        if violation is not None:
            return violation.reason
    return id_


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
_CONTAINER_KINDS = ("containers", "initContainers", "ephemeralContainers")
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
            return RuleResponse(name, SKIP, f"rule is skipped due to policy exception {key_of(exception)}")
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
    results = _check_results(level, minor, pod)
    for exclude in standard.get("exclude") or ():
        results = _excluded(level, minor, results, exclude, pod)
    if not results:
        return RuleResponse(name, PASS, f"Validation rule '{name}' passed.")
    for exception in exceptions:
        for exclude in exception["spec"]["podSecurity"]:
            results = _excluded(level, minor, results, exclude, pod)
    if not results:
        keys = ", ".join(map(key_of, exceptions))
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
    with request.as_creation_of_old() as old:
        is_matched = matches_old(rule, policy, request, old)
        prior = validate_pod_security(request, policy, rule, old, exceptions) if is_matched else None
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


def _moved(error: _FieldError, kind: str) -> _FieldError:
    """Return the error with the field's path in a controller."""
    field = error.field
    if kind in _TEMPLATED:
        field = field.replace("spec", "spec.template.spec")
    elif kind == "CronJob":
        field = field.replace("spec", "spec.jobTemplate.spec.template.spec")
    return _FieldError(field.replace("metadata", "spec.template.metadata"), error.bad)


def _excluded(
    level: str, minor: int, results: list[_CheckResult], exclude: Mapping[str, Any], pod: Pod
) -> list[_CheckResult]:
    """Return the violations that an exclusion leaves (`exemptExclusions`).

    Each violating field of the excluded part removes one violation. Kyverno keeps the checks in a map, so the order in
    its message is random.
    """
    images = exclude.get("images") or ()
    if images:
        kept = {
            kind: [each for each in pod.spec.get(kind) or () if matches_any(images, str(each.get("image") or ""))]
            for kind in _CONTAINER_KINDS
        }
        part = Pod({}, kept)
    else:
        spec = {key: value for key, value in pod.spec.items() if key not in _CONTAINER_KINDS}
        # The exclusion is not about containers, so Kyverno checks the pod with an empty one.
        part = Pod(pod.metadata, {**spec, "containers": [{"name": "fake"}]})
    left = {each.id: each for each in results}
    restricted, values = exclude.get("restrictedField") or "", exclude.get("values") or ()
    for result in _check_results(level, minor, part):
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


def _values(error: _FieldError) -> list[str]:
    if error.bad is _REQUIRED or error.bad == "":
        return []
    if isinstance(error.bad, bool):
        return ["true" if error.bad else "false"]
    return error.bad if isinstance(error.bad, list) else [str(error.bad)]


def _without(
    errors: tuple[_FieldError, ...], excluded: _FieldError, part: Pod, pod: Pod, *, by_name: bool
) -> tuple[_FieldError, ...]:
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


def _container(error: _FieldError, pod: Pod) -> str:
    match = _CONTAINER.match(error.field)
    return str(pod.spec[match[1]][int(match[2])].get("name") or "") if match is not None else ""
