"""Permissions of a PolicyRule, one at a time, and the rules that cover them.

Source: `k8s.io/component-helpers/auth/rbac/validation`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from replay.json import JSON
from replay.kube.authorizer import AuthorizationAttributes

ALL = "*"
PolicyRule = Mapping[str, Any]


class Permission(NamedTuple):
    """One verb on one resource, on one object, or on one URL. `name` is None for all objects."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str | None = None
    url: str | None = None

    @property
    def has_wildcard(self) -> bool:
        """Return whether it stands for any number of verbs, groups, resources or URLs."""
        return ALL in (self.verb, self.group, self.url) or self.resource == ALL or self.resource.startswith("*/")


def permissions_of(rule: PolicyRule) -> Iterator[Permission]:
    """Yield the single permissions of a rule (`BreakdownRule`)."""
    verbs = rule.get("verbs") or ()
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in verbs:
                for name in rule.get("resourceNames") or (None,):
                    yield Permission(verb, group, resource, name)
    for url in rule.get("nonResourceURLs") or ():
        for verb in verbs:
            yield Permission(verb, url=url)


def rule_of(permission: Permission) -> PolicyRule:
    """Return a rule that gives one permission and no other."""
    verb, group, resource, name, url = permission
    if url is not None:
        return {"verbs": [verb], "nonResourceURLs": [url]}
    names = {} if name is None else {"resourceNames": [name]}
    return {"verbs": [verb], "apiGroups": [group], "resources": [resource], **names}


def permission_asked(attributes: AuthorizationAttributes) -> Permission:
    """Return the least permission that a request needs, for any object name."""
    if not attributes.is_resource_request:
        return Permission(attributes.verb, url=attributes.path)
    subresource = f"/{attributes.subresource}" if attributes.subresource else ""
    return Permission(attributes.verb, attributes.api_group, f"{attributes.resource}{subresource}")


def covers(rule: PolicyRule, permission: Permission) -> bool:
    """Return whether one rule alone gives a permission (`ruleCovers`)."""
    if not _has(rule.get("verbs"), permission.verb):
        return False
    if permission.url is not None:
        return any(_url_covers(own, permission.url) for own in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    return (
        _has(rule.get("apiGroups"), permission.group)
        and _resources_cover(rule.get("resources") or (), permission.resource)
        and (not names or permission.name in names)
    )


def uncovered(rules: Iterable[PolicyRule], wanted: Iterable[Permission]) -> list[Permission]:
    """Return the permissions that no rule gives, each once (`Covers`)."""
    own = list(rules)
    return [each for each in dict.fromkeys(wanted) if not any(covers(rule, each) for rule in own)]


def _has(entries: Iterable[str] | None, value: str) -> bool:
    return entries is not None and (ALL in entries or value in entries)


def _resources_cover(own: Iterable[str], resource: str) -> bool:
    """Return whether some resources cover another. A star covers all, `*/subresource` that of all resources.

    Only a star covers the star.
    """
    _, slash, subresource = resource.partition("/")
    return ALL in own or resource in own or (bool(slash) and f"*/{subresource}" in own)


def _url_covers(own: str, url: str) -> bool:
    return own == url or (own.endswith(ALL) and url.startswith(own.rstrip(ALL)))


def compacted(permissions: Iterable[Permission]) -> list[JSON]:
    """Return permissions as few rules.

    Resources of one group with the same verbs and names share a rule, as do URLs with the same verbs.
    """
    verbs: dict[tuple[str, str, str | None], set[str]] = defaultdict(set)
    urls: dict[str, set[str]] = defaultdict(set)
    for each in permissions:
        (verbs[each.group, each.resource, each.name] if each.url is None else urls[each.url]).add(each.verb)
    names: dict[tuple[str, str, tuple[str, ...], bool], list[str]] = defaultdict(list)
    for (group, resource, name), own in verbs.items():
        names[group, resource, tuple(sorted(own)), name is not None].append(name or "")
    resources: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource, own_verbs, is_named), listed in names.items():
        resources[group, own_verbs, tuple(sorted(listed)) if is_named else ()].append(resource)
    rules: list[JSON] = [
        {
            "apiGroups": [group],
            "resources": sorted(own_resources),
            **({"resourceNames": list(named)} if named else {}),
            "verbs": list(own_verbs),
        }
        for (group, own_verbs, named), own_resources in sorted(resources.items())
    ]
    paths: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for url, own in sorted(urls.items()):
        paths[tuple(sorted(own))].append(url)
    return [*rules, *({"nonResourceURLs": listed, "verbs": list(own)} for own, listed in sorted(paths.items()))]


def rule_text(rule: PolicyRule) -> str:
    """Return a rule of `compacted` in words, such as `get, list: pods, deployments.apps`.

    The core group has no name.
    """
    group = next(iter(rule.get("apiGroups") or ()), "")
    targets = [f"{each}.{group}" if group else each for each in rule.get("resources") or ()]
    names = rule.get("resourceNames") or ()
    named = f" named {', '.join(names)}" if names else ""
    return f"{', '.join(rule['verbs'])}: {', '.join([*targets, *(rule.get('nonResourceURLs') or ())])}{named}"
