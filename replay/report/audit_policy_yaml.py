"""An audit policy as the YAML file that `kube-apiserver --audit-policy-file` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from replay.compare.audit_policy import AuditPolicy, AuditRule

_HEADER = "rules are tried from the top, and the first that matches counts"


def audit_policy_yaml(policy: AuditPolicy, about: Sequence[str] = ()) -> str:
    """The document, each rule with its reason; `about` are lines of comment at its head."""
    lines = [
        *(f"# {line}" for line in (*about, *policy.notes)),
        "apiVersion: audit.k8s.io/v1",
        "kind: Policy",
        f"omitStages: {_flow(policy.omit_stages)}",
        f"rules: # {_HEADER}",
    ]
    for rule in policy.rules:
        lines += _rule(rule)
    return "\n".join(lines) + "\n"


def _rule(rule: AuditRule) -> Iterator[str]:
    if rule.comment:
        yield f"  # {rule.comment}"
    yield f"  - level: {rule.level if rule.level != 'None' else _quoted('None')}"
    if rule.verbs:
        yield f"    verbs: {_flow(rule.verbs)}"
    if rule.non_resource_urls:
        yield f"    nonResourceURLs: {_flow(rule.non_resource_urls)}"
    if rule.resources:
        yield "    resources:"
    for group, names in rule.resources:
        yield f"      - group: {_quoted(group)}"
        if names:
            yield f"        resources: {_flow(names)}"


def _flow(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, values))}]"


def _quoted(text: str) -> str:
    """A double-quoted scalar: JSON's are YAML's too."""
    return json.dumps(text)
