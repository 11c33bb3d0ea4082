"""Warnings about what policies, bindings and webhooks match."""

from __future__ import annotations

from collections.abc import Iterator

from replay.json import JSON
from replay.kube.admissionregistration import GROUP, RESOURCES, VIRTUAL_RESOURCES
from replay.kube.gvk import GroupResource
from replay.manifests.lint import catalogue
from replay.manifests.lint.reading import mentions
from replay.manifests.lint.warning import LintContext, SilenceableWarning, rules_of, warned
from replay.manifests.loader import LoadedObject
from replay.manifests.served import SKIPPED_REVIEWS, is_enabled

# Matching of selectors for warnings. Requests are matched by `replay.matching`.


def selects(selector: JSON, obj: JSON) -> bool:
    """Return whether a valid label selector matches an object by its labels."""
    labels = (obj.get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_fits(requirement, labels) for requirement in selector.get("matchExpressions") or ())


def _fits(requirement: JSON, labels: dict[str, str]) -> bool:
    key, values = requirement["key"], requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
    return key not in labels


_VITAL = (
    ("coordination.k8s.io", "leases"),
    ("", "nodes"),
    ("", "nodes/status"),
    ("", "pods/status"),
    ("", "serviceaccounts/token"),
    ("discovery.k8s.io", "endpointslices"),
)
"""Resources that nodes and controllers write all the time."""


def lint_match(loaded: LoadedObject, context: LintContext) -> Iterator[SilenceableWarning]:
    """Yield all warnings about one object's rules, and about a policy as a whole."""
    if loaded.kind.endswith("Binding"):
        yield from _lint_binding(loaded, context)
        return
    for path, rules in _rule_lists(loaded):
        for index, rule in enumerate(rules):
            yield from _lint_rule(loaded, rule, f"{path}[{index}]", context)
    if loaded.kind.endswith("AdmissionPolicy") and not context.bindings(loaded):
        yield warned(loaded, catalogue.NO_BINDING, "no binding names this policy", "metadata.name")
    if _can_deny(loaded, context):
        yield from _lint_lockout(loaded, context)


def _rule_lists(loaded: LoadedObject) -> Iterator[tuple[str, list[JSON]]]:
    if loaded.kind.endswith("WebhookConfiguration"):
        for index, webhook in enumerate(loaded.value.get("webhooks") or ()):
            yield f"webhooks[{index}].rules", webhook.get("rules") or []
        return
    constraints = loaded.value["spec"].get("matchConstraints") or {}
    yield "spec.matchConstraints.resourceRules", constraints.get("resourceRules") or []


def _lint_rule(loaded: LoadedObject, rule: JSON, path: str, context: LintContext) -> Iterator[SilenceableWarning]:
    groups, versions = rule.get("apiGroups") or [], rule.get("apiVersions") or []
    is_webhook = loaded.kind.endswith("WebhookConfiguration")
    never_sent = (
        VIRTUAL_RESOURCES if not is_webhook or is_enabled(SKIPPED_REVIEWS, context.version, context.gates) else ()
    )
    for index, entry in enumerate(rule.get("resources") or []):
        at = f"{path}.resources[{index}]"
        resource = entry.partition("/")[0]
        if groups and all(GroupResource(group, resource) in never_sent for group in groups):
            hooks = "webhooks" if is_webhook else "policies"
            yield warned(loaded, catalogue.NEVER_SENT, f"`{entry}` is never sent to {hooks}", at)
        elif not _is_known(entry, groups, versions, context):
            where = f"in {', '.join(f'`{group}`' for group in groups)}"
            message = f"no resource `{entry}` is known {where} in version {', '.join(versions)}"
            yield warned(loaded, catalogue.UNKNOWN_RESOURCE, message, at)


def _is_known(entry: str, groups: list[str], versions: list[str], context: LintContext) -> bool:
    """Return whether a rule's resource may exist.

    Without a snapshot, any API group that is not of Kubernetes may have it.
    """
    resource, _, subresource = entry.partition("/")
    # Without a snapshot, any custom resource may exist.
    if any(group == "*" or (context.namespaces is None and _is_custom(group)) for group in groups):
        return True
    for resource_known in context.discovery:
        if resource_known.resource.group not in groups or (
            "*" not in versions and resource_known.resource.version not in versions
        ):
            continue
        if resource in ("*", resource_known.resource.resource) and (
            subresource in ("", "*") or subresource in resource_known.subresources
        ):
            return True
    return False


def _is_custom(group: str) -> bool:
    return "." in group and not group.endswith(".k8s.io")


def _can_deny(loaded: LoadedObject, context: LintContext) -> bool:
    """Return whether an object can deny requests: by a binding that denies, or by failures of a webhook."""
    if loaded.kind == "ValidatingAdmissionPolicy":
        return any("Deny" in (each.value["spec"].get("validationActions") or ()) for each in context.bindings(loaded))
    if loaded.kind == "MutatingAdmissionPolicy":
        return False
    return any(webhook["failurePolicy"] == "Fail" for webhook in loaded.value.get("webhooks") or ())


def _lint_lockout(loaded: LoadedObject, context: LintContext) -> Iterator[SilenceableWarning]:
    if _looks_at_user(loaded):
        return
    first_rules = next((path for path, rules in _rule_lists(loaded) if rules), "metadata.name")
    if not _is_narrowed(loaded, context):
        vital = [f"{name}.{group}" if group else name for group, name in _VITAL if _matches(loaded, group, name)]
        if vital:
            message = f"can deny what the control plane writes ({', '.join(vital)}): nothing exempts system users or namespaces"
            yield warned(loaded, catalogue.CONTROL_PLANE_LOCKOUT, message, first_rules)
    if any(_matches(loaded, GROUP, kind) for kind in RESOURCES):
        message = "can deny changes of admission configuration, by whomever: nothing looks at the user"
        yield warned(loaded, catalogue.ADMISSION_LOCKOUT, message, first_rules)


def _looks_at_user(loaded: LoadedObject) -> bool:
    """Return whether an expression reads the user or asks an authorizer."""
    programs = [each.compiled.program for each in loaded.expressions if each.compiled.program is not None]
    return any(
        mentions(program.ast, ("request", "userInfo")) or mentions(program.ast, ("authorizer",)) for program in programs
    ) or any("authorizer" in each.compiled.expression for each in loaded.expressions)


def _is_narrowed(loaded: LoadedObject, context: LintContext) -> bool:
    """Return whether selectors exclude some objects: those of the object itself, or those of all its bindings."""
    if loaded.kind.endswith("WebhookConfiguration"):
        return all(_selects(webhook) for webhook in loaded.value.get("webhooks") or ())
    if _selects(loaded.value["spec"].get("matchConstraints") or {}):
        return True
    return all(_selects(each.value["spec"].get("matchResources") or {}) for each in context.bindings(loaded))


def _selects(match: JSON) -> bool:
    return bool(match.get("namespaceSelector") or match.get("objectSelector"))


def _matches(loaded: LoadedObject, group: str, resource: str) -> bool:
    """Return whether a rule matches a resource on CREATE or UPDATE."""
    return any(_rule_matches(rule, group, resource) for rule in rules_of(loaded))


def _rule_matches(rule: JSON, group: str, resource: str) -> bool:
    if not {"*", "CREATE", "UPDATE"} & set(rule.get("operations") or ()) or rule.get("resourceNames"):
        return False
    name, _, subresource = resource.partition("/")
    resources = {resource, f"*/{subresource}", f"{name}/*", "*/*"} if subresource else {name, "*", "*/*"}
    return bool({group, "*"} & set(rule.get("apiGroups") or ()) and resources & set(rule.get("resources") or ()))


def _lint_binding(loaded: LoadedObject, context: LintContext) -> Iterator[SilenceableWarning]:
    match = loaded.value["spec"].get("matchResources") or {}
    for index, rule in enumerate(match.get("resourceRules") or []):
        yield from _lint_rule(loaded, rule, f"spec.matchResources.resourceRules[{index}]", context)
    selector = match.get("namespaceSelector")
    if selector and context.namespaces is not None and not any(selects(selector, each) for each in context.namespaces):
        message = f"selects none of the {len(context.namespaces)} namespaces of the snapshot"
        yield warned(loaded, catalogue.NO_NAMESPACE, message, "spec.matchResources.namespaceSelector")
