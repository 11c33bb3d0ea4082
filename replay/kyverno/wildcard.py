"""Names with wildcards, and selectors of kinds that may have them (github.com/IGLOU-EU/go-wildcard v1, `pkg/utils/kube/kind.go`).

`*` matches any text, `?` one character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from replay.kube.discovery import Discovery
from replay.kube.engine_policy import policy_name
from replay.kube.gvk import GroupVersionKind
from replay.kyverno.naming import rule_name
from replay.kyverno.rules.go_value import as_map


def matches_wildcard(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern."""
    if "*" not in pattern and "?" not in pattern:
        return pattern == name
    if pattern == "*":
        return True
    # Backtracking would be cubic in the worst case: the pieces between stars are looked for from left to right.
    first, *others = _pieces(pattern)
    start = first.match(name)
    if start is None:
        return False
    if not others:
        return start.end() == len(name)
    at = start.end()
    for piece in others[:-1]:
        found = piece.search(name, at)
        if found is None:
            return False
        at = found.end()
    end = len(name) - _width(pattern)
    return end >= at and others[-1].match(name, end) is not None


def matches_any(patterns: Iterable[str], name: str) -> bool:
    """Return whether a name matches one of several patterns."""
    return any(matches_wildcard(pattern, name) for pattern in patterns)


def has_wildcard(text: str) -> bool:
    """Return whether a text contains a wildcard."""
    return "*" in text or "?" in text


@lru_cache(maxsize=4096)
def _pieces(pattern: str) -> tuple[re.Pattern[str], ...]:
    return tuple(
        re.compile("".join("." if character == "?" else re.escape(character) for character in piece), re.DOTALL)
        for piece in pattern.split("*")
    )


def _width(pattern: str) -> int:
    """Return the number of characters after the last star."""
    return len(pattern) - pattern.rfind("*") - 1


_VERSION = re.compile(r"v\d((alpha|beta)\d)?|\*", re.ASCII)
_POD = GroupVersionKind("", "v1", "Pod")


def kinds_of(block: Any) -> list[str]:
    """Return the kind selectors in `match` or `exclude` of a rule. Malformed parts have none."""
    whole = block if isinstance(block, dict) else {}
    filters = [whole]
    for field in ("any", "all"):
        filters += whole[field] if isinstance(whole.get(field), list) else []
    found = []
    for each in filters:
        resources = each.get("resources") if isinstance(each, dict) else None
        kinds = resources.get("kinds") if isinstance(resources, dict) else None
        found += [str(kind) for kind in kinds] if isinstance(kinds, list) else []
    return found


class KindSelector(NamedTuple):
    """Group, version, kind and subresource, each possibly with wildcards."""

    group: str
    version: str
    kind: str
    subresource: str


@lru_cache(maxsize=4096)
def parse_kind_selector(text: str) -> KindSelector:
    """Parse a kind selector of a policy (`ParseKindSelector`)."""
    *before, last = text.split("/")
    parts = [*before, *last.split(".")]
    match parts:
        case [kind]:
            return KindSelector("*", "*", kind, "")
        case ["*", "*"]:
            return KindSelector("*", "*", "*", "*")
        case ["*", subresource] if subresource.lower() == subresource:
            return KindSelector("*", "*", "*", subresource)
        case [version, kind] if _VERSION.fullmatch(version):
            return KindSelector("*", version, kind, "")
        case [kind, subresource]:
            return KindSelector("*", "*", kind, subresource)
        case [version, kind, subresource] if _VERSION.fullmatch(version):
            return KindSelector("*", version, kind, subresource)
        case [group, version, kind]:
            return KindSelector(group, version, kind, "")
        case [group, version, kind, subresource]:
            return KindSelector(group, version, kind, subresource)
    # Kyverno returns empty parts for a text that it cannot parse, and these match no kind.
    return KindSelector("", "", "", "")


def matches_kind(selectors: Sequence[str], kind: GroupVersionKind, subresource: str) -> bool:
    """Return whether a selector matches the kind of a request. A selector of Pod also matches ephemeral containers."""
    for text in selectors:
        selector = parse_kind_selector(text)
        if (
            matches_wildcard(selector.group, kind.group)
            and matches_wildcard(selector.version, kind.version)
            and matches_wildcard(selector.kind, kind.kind)
            and (
                matches_wildcard(selector.subresource, subresource)
                or (kind == _POD and subresource == "ephemeralcontainers")
            )
        ):
            return True
    return False


def names_kind(selectors: Iterable[str], kind: str) -> bool:
    """Return whether a selector names a kind, in any group and version (`ContainsKind`)."""
    return any(_kind_of(text) == kind for text in selectors)


def _kind_of(text: str) -> str:
    parts = text.split("/")
    if len(parts) == 2 and not (parts[0] == parts[1] == "*") and not _VERSION.fullmatch(parts[0]):
        return parts[0]
    if len(parts) == 3 and _VERSION.fullmatch(parts[0]):
        return parts[1]
    if len(parts) == 4:
        return parts[2]
    return parts[-1].split(".")[0] if len(parts) <= 3 else ""


def selected_resources(discovery: Discovery, selectors: Iterable[str]) -> frozenset[tuple[str, str, str, str]]:
    """Return the group, version, resource and subresource of everything that the selectors match (`FindResources`)."""
    found: set[tuple[str, str, str, str]] = set()
    for text in selectors:
        found |= _resources(discovery, parse_kind_selector(text))
    return frozenset(found)


def _resources(discovery: Discovery, selector: KindSelector) -> set[tuple[str, str, str, str]]:
    found: set[tuple[str, str, str, str]] = set()
    for each in discovery:
        kind, resource = each.kind, each.resource
        if not (
            matches_wildcard(selector.group, kind.group)
            and matches_wildcard(selector.version, kind.version)
            and matches_wildcard(selector.kind, kind.kind)
        ):
            continue
        name = (resource.group, resource.version, resource.resource)
        if not selector.subresource or (selector.kind == selector.subresource == "*"):
            found.add((*name, ""))
        if selector.subresource:
            found |= {(*name, sub) for sub in each.subresources if matches_wildcard(selector.subresource, sub)}
    return found


def matched_resources(
    policy: Mapping[str, Any], discovery: Discovery
) -> Iterator[tuple[str, Sequence[tuple[Iterable[str], Iterable[str]]]]]:
    """Yield the name in decisions of a policy, or of each of its rules, with pairs of groups and resources that it matches."""
    spec = as_map(policy.get("spec"))
    if policy.get("kind") in ("ClusterPolicy", "Policy"):
        for rule in spec.get("rules") or ():
            selected = selected_resources(discovery, kinds_of(rule.get("match")))
            pairs = [((group,), (f"{name}/{sub}" if sub else name,)) for group, _, name, sub in selected]
            yield rule_name(policy, rule.get("name")), pairs
        return
    rules = as_map(spec.get("matchConstraints")).get("resourceRules") or ()
    yield policy_name(policy), [(each.get("apiGroups") or (), each.get("resources") or ()) for each in rules]
