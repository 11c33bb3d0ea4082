"""Rules and selectors in a line, for people."""

from __future__ import annotations

from replay.kube.admissionregistration import LabelSelector, Rule


def rule_text(rule: Rule) -> str:
    """`CREATE, UPDATE pods, pods/status in apps/v1`; a wildcard stays one."""
    groups = "/".join(("|".join(group or "core" for group in rule.api_groups), "|".join(rule.api_versions)))
    text = f"{', '.join(rule.operations)} {', '.join(rule.resources)} in {groups}"
    if rule.resource_names:
        text += f" named {', '.join(rule.resource_names)}"
    return text if rule.scope == "*" else f"{text}, {rule.scope.lower()} only"


def selector_text(selector: LabelSelector) -> str:
    """`a=b, c in (d, e), !f`, as kubectl takes selectors; `everything` for an empty one."""
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    for requirement in selector.match_expressions:
        values = f"({', '.join(requirement.values)})"
        parts.append(
            {
                "In": f"{requirement.key} in {values}",
                "NotIn": f"{requirement.key} notin {values}",
                "Exists": requirement.key,
                "DoesNotExist": f"!{requirement.key}",
            }.get(requirement.operator, f"{requirement.key} {requirement.operator} {values}")
        )
    return ", ".join(parts) or "everything"
