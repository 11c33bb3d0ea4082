"""The objects of RBAC: their kinds, the permissions of rules, bindings by subject, and roles that collect rules of others.

Sources: `k8s.io/api/rbac/v1`, `k8s.io/component-helpers/auth/rbac/validation`,
`k8s.io/kubernetes/pkg/registry/rbac/validation`, `k8s.io/kubernetes/pkg/controller/clusterroleaggregation`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject, PossiblyAbsent, UserInfo
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.gvk import GroupResource, GroupVersionKind

RBAC_GROUP = "rbac.authorization.k8s.io"
ROLE = GroupVersionKind(RBAC_GROUP, "v1", "Role")
ROLE_BINDING = GroupVersionKind(RBAC_GROUP, "v1", "RoleBinding")
CLUSTER_ROLE = GroupVersionKind(RBAC_GROUP, "v1", "ClusterRole")
CLUSTER_ROLE_BINDING = GroupVersionKind(RBAC_GROUP, "v1", "ClusterRoleBinding")
RBAC_KINDS = (ROLE, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING)
RBAC_RESOURCES = {GroupResource(RBAC_GROUP, f"{kind.kind.lower()}s"): kind for kind in RBAC_KINDS}
"""The kinds by resource, in the order of `RBAC_KINDS`."""


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


SERVICE_ACCOUNT = "system:serviceaccount:"
"""The prefix of service accounts' user names. Namespace and name follow it."""


class BoundRole(NamedTuple):
    """A binding for a user.

    `subject` is the first subject that is the user. It is `Missing` if it is unknown whether the user is one, or
    whether the binding exists. `is_partial` marks a binding that is partly unknown.
    """

    kind: str
    binding: JSON
    subject: JSON | Missing
    is_partial: bool

    @property
    def name(self) -> str:
        """Return the name of the binding."""
        return str(self.binding["metadata"]["name"])


class RoleBindings:
    """The bindings of a namespace or of the cluster, indexed by subject.

    A binding with unknown subjects may be anybody's. `missing` says what bindings there may be besides.
    """

    def __init__(self, kind: str, listed: Iterable[JSON | PartialObject | Missing], namespace: str) -> None:
        """Index the bindings. All of `listed` have one kind, and RoleBindings are all in `namespace`."""
        self._kind = kind
        self.missing = tuple(
            each for each in listed if isinstance(each, Missing) and not isinstance(each, PossiblyAbsent)
        )
        bindings = [each for each in listed if isinstance(each, PossiblyAbsent) or not isinstance(each, Missing)]
        self._bindings = [_known_part(each) for each in bindings]
        self._doubts = {number: each for number, each in enumerate(bindings) if isinstance(each, PossiblyAbsent)}
        self._partial = {number for number, each in enumerate(bindings) if isinstance(each, PartialObject)}
        self._by_subject: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._anybodys: list[int] = []
        for number, binding in enumerate(self._bindings):
            subjects = binding.get("subjects") or ()
            if number in self._partial and missing_in(subjects) is not None:
                self._anybodys.append(number)
                continue
            for key in {subject_key(subject, namespace) for subject in subjects}:
                if key is not None:
                    self._by_subject[key].append(number)
        self._namespace = namespace

    def roles_for(self, user: UserInfo) -> Iterator[BoundRole]:
        """Yield the bindings for a user, in the order given."""
        if not self._bindings:
            return
        keys = [("User", user.username), *(("Group", group) for group in user.groups)]
        numbers = {number for key in keys for number in self._by_subject.get(key, ())}
        for number in sorted({*numbers, *self._anybodys}):
            binding = self._bindings[number]
            is_partial = number in self._partial
            if is_partial:
                subject = _subject(binding, user, self._namespace)
            else:
                subject = next(each for each in binding["subjects"] if _applies(each, user, self._namespace))
            if subject is not None:
                yield BoundRole(self._kind, binding, self._doubts.get(number, subject), is_partial)


def subject_key(subject: JSON, namespace: str) -> tuple[str, str] | None:
    """Return the name or group that a user must have to be this subject, or None if no user is."""
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind in ("User", "Group"):
        return kind, name
    home = subject.get("namespace") or namespace
    return ("User", f"{SERVICE_ACCOUNT}{home}:{name}") if kind == "ServiceAccount" and home else None


def _applies(subject: JSON, user: UserInfo, namespace: str) -> bool:
    key = subject_key(subject, namespace)
    return key is not None and (key[1] == user.username if key[0] == "User" else key[1] in user.groups)


def _subject(binding: JSON, user: UserInfo, namespace: str) -> JSON | Missing | None:
    """Return the first subject of a binding that is the user, None if there is none, `Missing` if unknown."""
    subjects = binding.get("subjects") or ()
    if isinstance(subjects, Missing):
        return subjects
    unknown: Missing | None = None
    for subject in subjects:
        missing = missing_in(subject)
        if missing is not None:
            unknown = unknown or missing
        elif _applies(subject, user, namespace):
            return subject
    return unknown


def _known_part(listed: JSON | PartialObject | PossiblyAbsent) -> JSON:
    """Return the known part of a binding, as if it exists."""
    if isinstance(listed, PartialObject):
        return listed.value
    return listed.object if isinstance(listed, PossiblyAbsent) else listed


def missing_in(value: JSON | Missing) -> Missing | None:
    """Return the first unknown part of a value of a `PartialObject`, or None."""
    if isinstance(value, Missing):
        return value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return next((missing for part in parts if (missing := missing_in(part)) is not None), None)


def subject_text(subject: JSON, namespace: str) -> str:
    """Return a subject as in reasons (`describeSubject`)."""
    name = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or namespace}"
    return f'{subject.get("kind")} "{name}"'


_MOST_ROUNDS = 32
"""The greatest number of rounds in which roles collect from roles that collect. No chain is that long."""


def aggregated(cluster_roles: Iterable[JSON]) -> list[JSON]:
    """Return the cluster roles, sorted by name, with the rules that the controller collects (`aggregationRule`).

    A role whose selectors match no known role keeps its own rules.
    """
    roles = {str(role["metadata"]["name"]): role for role in cluster_roles}
    for _ in range(_MOST_ROUNDS):
        changed = {
            name: {**role, "rules": rules}
            for name, role in roles.items()
            if role.get("aggregationRule")
            and (rules := _collected(role, roles)) is not None
            and rules != (role.get("rules") or [])
        }
        if not changed:
            break
        roles |= changed
    return [roles[name] for name in sorted(roles)]


def _collected(role: JSON, roles: Mapping[str, JSON]) -> list[JSON] | None:
    """Return the rules of all roles that a selector matches, each once, or None if no role matches."""
    own, rules, is_match = role["metadata"]["name"], [], False
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        for name in sorted(roles):
            labels = roles[name]["metadata"].get("labels") or {}
            if name == own or not _matches(selector, labels):
                continue
            is_match = True
            rules += [rule for rule in _rules(roles[name]) if rule not in rules]
    return rules if is_match else None


def is_collected(role: JSON, cluster_roles: Iterable[JSON]) -> bool:
    """Return whether a role with an `aggregationRule` collects the rules of a cluster role."""
    labels = role["metadata"].get("labels") or {}
    selectors = (
        selector
        for each in cluster_roles
        if each.get("aggregationRule") and each["metadata"]["name"] != role["metadata"]["name"]
        for selector in each["aggregationRule"].get("clusterRoleSelectors") or ()
    )
    return any(_matches(selector, labels) for selector in selectors)


def _rules(role: JSON) -> Sequence[JSON]:
    rules: Sequence[JSON] = role.get("rules") or ()
    return rules


def _matches(selector: JSON, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector matches (`metav1.LabelSelectorAsSelector`).

    An empty selector matches everything, an unknown operator nothing.
    """
    match_labels = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in match_labels.items()):
        return False
    return all(_meets(each, labels) for each in selector.get("matchExpressions") or ())


def _meets(expression: JSON, labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key"), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
