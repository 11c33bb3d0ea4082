"""Output of conversions: `replay convert` (static manifests) and `replay check --migrate` (CEL policies)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from replay.case.exported import yaml_text
from replay.json import JSON
from replay.manifests.convert import Conversion
from replay.manifests.engine_object import Migrated
from replay.report.render.document import inert, plural


def conversion_lines(
    conversion: Conversion, paths: Sequence[Path], configuration: Path | None, server_directory: str
) -> Iterator[str]:
    """Yield lines for a terminal: each file with its objects, the objects left out with positions, then the next steps."""
    for path, file in zip(paths, conversion.files, strict=True):
        names = ", ".join(f"{each['kind']}/{each['metadata']['name']}" for each in file.objects)
        yield f"{path}: {inert(names)}"
    for left in conversion.not_converted:
        yield f"{inert(left.text)}"
    for hint in conversion.hints:
        yield f"note: {inert(hint)}"
    counts = f"{plural(len(paths), 'file')} written"
    yield f"{counts}, {plural(len(conversion.not_converted), 'object')} left" if conversion.not_converted else counts
    if configuration is None:
        return
    out = configuration.parent
    yield f"{configuration}: names the directories below {server_directory}; next:"
    yield f"  replay run LOG --current NOW --candidate {out}   requests that the API objects miss before they exist or while they are deleted"
    yield f"  copy {out} to {server_directory} of each API server, start it with"
    yield f"  --admission-control-config-file={server_directory}/{configuration.name}, then delete the objects in the API"


_MOST_REASONS = 12
"""Maximum number of reasons that are shown. With the other lines they fit on one screen."""


def migration_lines(rules: Sequence[Migrated]) -> Iterator[str]:
    """Yield manifests for a set. A rule without policies becomes a comment with the reason."""
    said = sum(bool(each.policies) for each in rules)
    yield f"# {said} of {len(rules)} rules are written as policies of CEL.\n"
    for each in rules:
        if not each.policies:
            yield _comment(f"{each.policy}, rule {each.rule}: not written, because {each.reason}")
        for policy in each.policies:
            yield "---\n" + _comment(f"{each.policy}, rule {each.rule}") + yaml_text(policy)


def migration_summary(rules: Sequence[Migrated], out: Path) -> Iterator[str]:
    """Yield a summary for a terminal if the policies are in a file.

    It has the number of policies, and the reasons for rules without policies, the most frequent first.
    """
    written = [each for each in rules if each.policies]
    policies = sum(len(each.policies) for each in written)
    yield f"{out}: {plural(policies, 'policy of CEL', 'policies of CEL')} for {len(written)} of {plural(len(rules), 'rule')}"
    left: dict[str, list[Migrated]] = {}
    for each in rules:
        if not each.policies:
            left.setdefault(each.reason, []).append(each)
    if left:
        yield f"{plural(len(rules) - len(written), 'rule')} not written, because:"
    by_number = sorted(left.items(), key=lambda item: -len(item[1]))
    for reason, those in by_number[:_MOST_REASONS]:
        yield inert(f"  {len(those):>3}  {reason}: {those[0].policy}, rule {those[0].rule}")
    if more := by_number[_MOST_REASONS:]:
        yield f"  {sum(len(those) for _, those in more):>3}  have {plural(len(more), 'other reason')}: see the comments in {out}"


def migration_json(rules: Sequence[Migrated]) -> JSON:
    """Return the migrated rules as a JSON document."""
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
    """Return a comment line. Characters of names and messages that could end it become spaces."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return f"# {shown}\n"
