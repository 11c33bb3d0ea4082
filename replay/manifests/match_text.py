"""Rules and selectors as one line of text."""

from __future__ import annotations

from replay.kube.admissionregistration import LabelSelector, Rule


def rule_text(rule: Rule) -> str:
    """Return a rule as in `CREATE, UPDATE pods, pods/status in apps/v1`. Wildcards stay."""
    groups = "/".join(("|".join(group or "core" for group in rule.api_groups), "|".join(rule.api_versions)))
    text = f"{', '.join(rule.operations)} {', '.join(rule.resources)} in {groups}"
    if rule.resource_names:
        text += f" named {', '.join(rule.resource_names)}"
    return text if rule.scope == "*" else f"{text}, {rule.scope.lower()} only"


def selector_text(selector: LabelSelector) -> str:
    """Return a selector in the form of kubectl, as in `a=b, c in (d, e), !f`. An empty one is `everything`."""
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
