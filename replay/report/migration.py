"""What `replay check --migrate` prints: policies of CEL as manifests, with a comment for each rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.case.write.own import yaml_text
from replay.json import JSON
from replay.kyverno.migrate.rule import Migrated


def migration_lines(rules: Sequence[Migrated]) -> Iterator[str]:
    """Manifests that a set may hold; a rule without policies is a comment with the reason."""
    said = sum(bool(each.policies) for each in rules)
    yield f"# {said} of {len(rules)} rules are written as policies of CEL.\n"
    for each in rules:
        if not each.policies:
            yield _comment(f"{each.policy}, rule {each.rule}: not written, because {each.reason}")
        for policy in each.policies:
            yield "---\n" + _comment(f"{each.policy}, rule {each.rule}") + yaml_text(policy)


def migration_json(rules: Sequence[Migrated]) -> JSON:
    """The same as a document."""
    return {
        "rules": [
            {
                "policy": each.policy,
                "rule": each.rule,
                **({"policies": list(each.policies)} if each.policies else {"reason": each.reason}),
            }
            for each in rules
        ]
    }


def _comment(text: str) -> str:
    """A line that ends where it should, whatever names and messages hold."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return f"# {shown}\n"
